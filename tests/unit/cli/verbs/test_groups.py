"""`kcoord group …` as people and scripts see it: output, notes and exit codes."""

import json
import os
import re
import signal
import socket
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from coordinator.cli import app
from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.messages import (
    DescribeGroup,
    DescribeGroupResponse,
    ErrorResponse,
    FindCoordinator,
    FindCoordinatorResponse,
    ListGroupEvents,
    ListGroupEventsResponse,
    ListGroups,
    ListGroupsResponse,
)
from coordinator.protocol.messages.operators import DescribeControls, DescribeControlsResponse
from coordinator.protocol.parts import (
    Claim,
    ClaimState,
    ControlDescription,
    GroupSummary,
    MemberDescription,
    NodeAddress,
    PartitionDescription,
    ResetPolicy,
)
from coordinator.protocol.text.addresses import format_address
from tests.helpers.loopback_coordinator import unused_address
from tests.helpers.scripted_coordinator import ScriptedCoordinator

CLAIM = Claim("flights", "0tQ", 0, 41, 100, 250)
M1 = MemberDescription("m1", None, "query-1", "10.0.0.1", 4242, "STABLE", 3, 8, True, 2, 2)
M2 = MemberDescription("m2", "static-2", "query-2", "10.0.0.2", 4243, "STABLE", 3, 8, True, 0, 0)
GROUP = DescribeGroupResponse(
    group_id="team",
    state="Stable",
    group_epoch=3,
    assignor="sticky",
    reset_policy=ResetPolicy("latest"),
    handover="takeover",
    members=(M1, M2),
    partitions=(
        PartitionDescription("flights", 0, 100, 1000, "m1", 41, False, CLAIM, ClaimState.RUNNING),
        PartitionDescription("flights", 1, None, 7, "m1", 42),
        PartitionDescription("flights", 2, 9, 7),
        PartitionDescription("flights", 3, 5, None, "gone", 40),
    ),
)


@pytest.fixture
def run(monkeypatch):
    """Run `kcoord` with arguments against a coordinator that answers as given, named by the environment."""

    def run(arguments, answers):
        with ScriptedCoordinator({DescribeControls: DescribeControlsResponse(), **answers}) as coordinator:
            host, port = coordinator.address
            monkeypatch.setenv("KCOORD_COORDINATOR", f"{host}:{port}")
            return CliRunner().invoke(app, arguments)

    return run


class TestList:
    GROUPS = ListGroupsResponse((GroupSummary("a", "Empty", 4, 0, 300), GroupSummary("team-b", "Stable", 12, 2, 81234)))

    def test_groups_come_as_a_table(self, run):
        result = run(["group", "list"], {ListGroups: self.GROUPS})
        assert result.stdout == (
            "GROUP   STATE   #MEMBERS  GROUP-EPOCH  BYTES\n"
            "a       Empty   0         4            300\n"
            "team-b  Stable  2         12           81234\n"
        )  # fmt: skip
        assert (result.exit_code, result.stderr) == (0, "")

    def test_groups_come_as_json(self, run):
        result = run(["group", "list", "-o", "json"], {ListGroups: self.GROUPS})
        assert json.loads(result.stdout) == [
            {"group": "a", "state": "Empty", "members": 0, "group_epoch": 4, "bytes": 300},
            {"group": "team-b", "state": "Stable", "members": 2, "group_epoch": 12, "bytes": 81234},
        ]

    def test_no_groups_is_a_note_and_no_data(self, run):
        result = run(["group", "list"], {ListGroups: ListGroupsResponse()})
        assert (result.exit_code, result.stdout, result.stderr) == (0, "", "There are no groups.\n")


class TestDescribe:
    def test_partitions_come_in_the_columns_of_kafka(self, run):
        result = run(["group", "describe", "team"], {DescribeGroup: GROUP})
        assert result.stdout == (
            "GROUP  TOPIC    PARTITION  CURRENT-OFFSET  LOG-END-OFFSET  LAG  CONSUMER-ID  HOST      CLIENT-ID  PID\n"
            "team   flights  0          100             1000            900  m1           10.0.0.1  query-1    4242\n"
            "team   flights  1          -               7               -    m1           10.0.0.1  query-1    4242\n"
            "team   flights  2          9               7               0    -            -         -          -\n"
            "team   flights  3          5               -               -    gone         -         -          -\n"
            "team   -        -          -               -               -    m2           10.0.0.2  query-2    4243\n"
        )
        assert (result.exit_code, result.stderr) == (0, "")

    def test_kafkas_word_for_the_partitions_is_understood(self, run):
        answers = {DescribeGroup: GROUP}
        shown = run(["group", "describe", "team"], answers).stdout
        assert run(["group", "describe", "team", "--offsets"], answers).stdout == shown != ""

    def test_partitions_come_as_json_with_what_is_unknown_as_null(self, run):
        document = json.loads(run(["group", "describe", "team", "-o", "json"], {DescribeGroup: GROUP}).stdout)
        assert (document["group"], document["state"], document["group_epoch"]) == ("team", "Stable", 3)
        assert document["partitions"][0] == {
            "topic": "flights",
            "partition": 0,
            "current_offset": 100,
            "log_end_offset": 1000,
            "lag": 900,
            "consumer_id": "m1",
            "host": "10.0.0.1",
            "client_id": "query-1",
            "pid": 4242,
            "owner_epoch": 41,
            "stream": None,
            "is_stopping": False,
            "claim": {"from_offset": 100, "until_offset": 250, "owner_epoch": 41, "state": "RUNNING"},
        }
        assert document["partitions"][1]["current_offset"] is None
        assert document["partitions"][1]["lag"] is None
        assert len(document["partitions"]) == 4

    def test_members_come_in_the_columns_of_kafka(self, run):
        result = run(["group", "describe", "team", "--members"], {DescribeGroup: GROUP})
        assert result.stdout == (
            "GROUP  CONSUMER-ID  GROUP-INSTANCE-ID  HOST      CLIENT-ID  #PARTITIONS  PID\n"
            "team   m1           -                  10.0.0.1  query-1    2            4242\n"
            "team   m2           static-2           10.0.0.2  query-2    0            4243\n"
        )

    def test_without_static_members_there_is_no_column_for_them(self, run):
        answer = DescribeGroupResponse(state="Stable", members=(M1,))
        result = run(["group", "describe", "team", "--members"], {DescribeGroup: answer})
        assert result.stdout.splitlines()[0] == "GROUP  CONSUMER-ID  HOST      CLIENT-ID  #PARTITIONS  PID"

    def test_members_come_as_json(self, run):
        document = json.loads(
            run(["group", "describe", "team", "--members", "-o", "json"], {DescribeGroup: GROUP}).stdout
        )
        assert [member["consumer_id"] for member in document["members"]] == ["m1", "m2"]
        assert document["members"][0]["streams"] == 8

    def test_the_state_comes_in_the_columns_of_kafka(self, run):
        found = FindCoordinatorResponse(coordinator=NodeAddress(1, "10.0.0.9", 9000))
        answers = {DescribeGroup: GROUP, FindCoordinator: found}
        assert run(["group", "describe", "team", "--state"], answers).stdout == (
            "GROUP  COORDINATOR (ID)   ASSIGNMENT-STRATEGY  STATE   #MEMBERS\n"
            "team   10.0.0.9:9000 (1)  sticky               Stable  2\n"
        )
        document = json.loads(run(["group", "describe", "team", "--state", "-o", "json"], answers).stdout)
        assert document["coordinator"] == {"host": "10.0.0.9", "port": 9000, "node_id": 1}
        assert document["reset_policy"] == {"kind": "latest", "timestamp_ms": None}

    def test_partitions_come_as_csv(self, run):
        result = run(["group", "describe", "team", "-o", "csv"], {DescribeGroup: GROUP})
        assert result.stdout.splitlines()[:2] == [
            "GROUP,TOPIC,PARTITION,CURRENT-OFFSET,LOG-END-OFFSET,LAG,CONSUMER-ID,HOST,CLIENT-ID,PID",
            "team,flights,0,100,1000,900,m1,10.0.0.1,query-1,4242",
        ]
        assert result.stdout.splitlines()[2] == "team,flights,1,,7,,m1,10.0.0.1,query-1,4242"

    def test_what_operators_decided_is_noted_and_in_the_json(self, run):
        at_ms = 1_700_000_000_000
        controls = (
            ControlDescription("group-paused", "ann@ops", "", at_ms),
            ControlDescription("partition-paused", "ann@ops", "upgrade", at_ms, "flights", 1),
            ControlDescription("member-drained", "ann@ops", "", at_ms, member_id="m1"),
            ControlDescription("reset-pending", "ann@ops", "bad deploy", at_ms, "flights", 0, offset=50),
        )
        answers = {DescribeGroup: GROUP, DescribeControls: DescribeControlsResponse(controls=controls)}
        assert run(["group", "describe", "team"], answers).stderr.splitlines() == [
            "The group is paused, by ann@ops at 2023-11-14T22:13:20.000Z.",
            "flights-1 is paused, by ann@ops at 2023-11-14T22:13:20.000Z: upgrade",
            "Member 'm1' is drained, by ann@ops at 2023-11-14T22:13:20.000Z.",
            "A reset of flights-0 to 50 is pending, by ann@ops at 2023-11-14T22:13:20.000Z: bad deploy",
        ]
        document = json.loads(run(["group", "describe", "team", "-o", "json"], answers).stdout)
        assert document["controls"][3] == {
            "kind": "reset-pending",
            "topic": "flights",
            "partition": 0,
            "consumer_id": None,
            "new_offset": 50,
            "who": "ann@ops",
            "why": "bad deploy",
            "time": "2023-11-14T22:13:20.000Z",
        }

    def test_a_group_without_members_is_a_note_and_its_offsets(self, run):
        empty = DescribeGroupResponse(state="Empty", partitions=(PartitionDescription("flights", 0, 5, 9),))
        result = run(["group", "describe", "team"], {DescribeGroup: empty})
        assert result.stderr == "Consumer group 'team' has no active members.\n"
        assert result.stdout.splitlines()[1].split() == ["team", "flights", "0", "5", "9", "4", "-", "-", "-", "-"]
        assert result.exit_code == 0

    def test_a_group_that_will_be_forgotten_says_when_and_how_to_keep_it(self, run):
        empty = DescribeGroupResponse(state="Empty", forgotten_in_ms=604_799_900)
        result = run(["group", "describe", "team"], {DescribeGroup: empty})
        assert result.stderr == (
            "Consumer group 'team' has no active members. It is forgotten with its offsets when the coordinator has "
            "run for 6 days, 23:59:59, unless a member joins or offsets are set before.\n"
        )

    def test_running_claims_of_owners_that_are_gone_are_noted_with_the_verb_that_closes_them(self, run):
        def left(partition, state=ClaimState.RUNNING, member_id="gone"):
            return PartitionDescription("flights", partition, 5, 9, member_id, 41, False, CLAIM, state)

        answer = DescribeGroupResponse(
            state="Stable", members=(M1,), partitions=(left(0), left(1, ClaimState.OFFERED), left(2, member_id="m1"))
        )
        result = run(["group", "describe", "team"], {DescribeGroup: answer})
        assert result.stderr == (
            "Running claims on flights:0 were left by owners that are gone; wait for them to come back, or close the "
            "claims with `kcoord group release-claim team --all-topics`.\n"
        )
        quiet = DescribeGroupResponse(state="Stable", members=(M1,), partitions=(left(2, member_id="m1"),))
        assert run(["group", "describe", "team"], {DescribeGroup: quiet}).stderr == ""

    @pytest.mark.parametrize("state", ["Assigning", "Reconciling"])
    def test_a_rebalance_is_a_note(self, run, state):
        answer = DescribeGroupResponse(state=state, members=(M1,))
        result = run(["group", "describe", "team"], {DescribeGroup: answer})
        assert result.stderr == "Warning: Consumer group 'team' is rebalancing.\n"
        assert result.exit_code == 0

    @pytest.mark.parametrize("verb", [["describe", "team"], ["describe", "team", "-o", "json"], ["events", "team"]])
    def test_a_group_that_does_not_exist_is_exit_code_3(self, run, verb):
        answers = {
            DescribeGroup: DescribeGroupResponse(ErrorCode.GROUP_ID_NOT_FOUND, "unknown"),
            ListGroupEvents: ListGroupEventsResponse(ErrorCode.GROUP_ID_NOT_FOUND, "unknown"),
        }
        result = run(["group", *verb], answers)
        assert (result.exit_code, result.stdout) == (3, "")
        assert result.stderr == "Consumer group 'team' does not exist.\n"

    @pytest.mark.parametrize(
        ("code", "exit_code"),
        [
            (ErrorCode.INVALID_GROUP_ID, 1),
            (ErrorCode.UNSUPPORTED_VERSION, 1),
            (ErrorCode.REBALANCE_IN_PROGRESS, 4),
            (ErrorCode.REQUEST_TIMED_OUT, 6),
        ],
    )
    def test_a_refusal_is_told_with_its_code(self, run, code, exit_code):
        result = run(["group", "describe", "team"], {DescribeGroup: ErrorResponse(code, "because")})
        assert (result.exit_code, result.stdout) == (exit_code, "")
        assert result.stderr == f"error: the coordinator refused: because ({code.name}) [{code.doc_code}]\n"

    def test_what_members_call_themselves_cannot_move_the_cursor(self, run):
        hostile = MemberDescription("m1", None, "\x1b[2J\nteam", "h", 1, "STABLE", 1, 1, True, 0, 0)
        answer = DescribeGroupResponse(state="Stable", members=(hostile,))
        result = run(["group", "describe", "team", "--members"], {DescribeGroup: answer})
        assert result.stdout.splitlines()[1:] == ["team   m1           h     \\x1b[2J\\nteam  0            1"]


class TestWithoutACoordinator:
    def test_an_unreachable_coordinator_is_exit_code_1_with_what_to_do(self):
        with socket.create_server(("127.0.0.1", 0)) as listener:
            port = listener.getsockname()[1]
        result = CliRunner().invoke(app, ["group", "list", "--coordinator", f"127.0.0.1:{port}"])
        assert (result.exit_code, result.stdout) == (1, "")
        assert result.stderr == (
            f"error: the coordinator at 127.0.0.1:{port} cannot be reached: Connection refused; check the address and "
            "that a coordinator is running there; --coordinator or KCOORD_COORDINATOR names another [KC-3001]\n"
        )

    def test_of_several_coordinators_one_that_answers_is_enough(self):
        with ScriptedCoordinator({ListGroups: ListGroupsResponse()}) as coordinator:
            addresses = f"{format_address(unused_address())},{format_address(coordinator.address)}"
            result = CliRunner().invoke(app, ["group", "list", "-o", "json"], env={"KCOORD_COORDINATOR": addresses})
        assert (result.exit_code, result.stdout) == (0, "[]\n")

    def test_of_several_coordinators_that_do_not_answer_each_is_named(self):
        one, other = format_address(unused_address()), format_address(unused_address())
        result = CliRunner().invoke(app, ["group", "list", "--coordinator", f"{one}, {other}"])
        assert (result.exit_code, result.stdout) == (1, "")
        refused = "cannot be reached: Connection refused"
        assert f"none of 2 coordinators answered: {one}: {refused}; {other}: {refused}; check" in result.stderr

    def test_a_silent_coordinator_is_exit_code_6(self):
        with socket.create_server(("127.0.0.1", 0)) as listener:
            address = f"127.0.0.1:{listener.getsockname()[1]}"
            result = CliRunner().invoke(app, ["group", "list", "--coordinator", address, "--timeout", "0.1"])
        assert (result.exit_code, result.stdout) == (6, "")
        assert re.search(r"did not answer within 0\.\d+ s", result.stderr)

    @pytest.mark.parametrize(
        "arguments",
        [
            ["group", "list"],
            ["group", "list", "--coordinator", "nowhere"],
            ["group", "list", "--coordinator", "host:99999"],
            ["group", "list", "--coordinator", "host:1,nowhere"],
            ["group", "list", "--coordinator", "host:1", "-o", "xml"],
            ["group", "list", "--coordinator", "host:1", "--timeout", "0"],
            ["group", "describe", "--coordinator", "host:1"],
            ["group", "describe", "team", "--coordinator", "host:1", "--members", "--state"],
            ["group", "describe", "team", "--coordinator", "host:1", "--offsets", "--members"],
        ],
    )
    def test_wrong_usage_is_exit_code_2(self, monkeypatch, arguments):
        monkeypatch.delenv("KCOORD_COORDINATOR", raising=False)
        result = CliRunner().invoke(app, arguments)
        assert (result.exit_code, result.stdout) == (2, "")


def test_the_console_script_writes_data_without_colour():
    answers = {ListGroups: ListGroupsResponse((GroupSummary("team", "Stable", 1, 1),))}
    with ScriptedCoordinator(answers) as coordinator:
        address = "{}:{}".format(*coordinator.address)
        done = subprocess.run(
            [
                sys.executable,
                "-c",
                "from coordinator.cli import main; main()",
                "group",
                "list",
                "--coordinator",
                address,
            ],
            capture_output=True,
            text=True,
            timeout=120,
        )
    assert done.stdout == "GROUP  STATE   #MEMBERS  GROUP-EPOCH  BYTES\nteam   Stable  1         1            0\n"
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    ("prepare", "code", "said"),
    [
        ("sys.stdout = open('/dev/full', 'w')", 1, "error: standard output cannot be written: No space left"),
        ("r, w = os.pipe(); os.close(r); sys.stdout = open(w, 'w')", -signal.SIGPIPE, ""),
        ("r, w = os.pipe(); os.close(r); sys.stdout = open(w, 'w', buffering=1)", -signal.SIGPIPE, ""),
        ("os.close(1); sys.stdout = None", 0, ""),
    ],
)
def test_an_output_that_takes_no_data_is_told_in_a_line(prepare, code, said):
    script = f"import os, sys; {prepare}; from coordinator.cli import main; main()"
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    done = subprocess.run(
        [sys.executable, "-c", script, "completion", "bash"], stderr=subprocess.PIPE, timeout=120, env=environment
    )
    lines = done.stderr.decode().splitlines()
    assert (done.returncode, len(lines)) == (code, 1 if said else 0)
    assert "".join(lines).startswith(said)


def test_names_that_an_output_cannot_have_are_escaped_and_the_rest_is_written(tmp_path):
    (tmp_path / "kcoord").mkdir()
    document = '[contexts."имя"]\ncoordinator = "h:1"\n[contexts.b]\ncoordinator = "h:2"\n'
    (tmp_path / "kcoord" / "config.toml").write_text(document, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "coordinator", "context", "list", "-o", "csv"],
        capture_output=True,
        timeout=120,
        check=True,
        env={**os.environ, "XDG_CONFIG_HOME": str(tmp_path), "PYTHONIOENCODING": "latin-1"},
    )
    assert [line.split(b",")[1] for line in done.stdout.splitlines()[1:]] == [rb"\u0438\u043c\u044f", b"b"]


class TestMembers:
    def test_how_long_a_program_has_not_polled_is_a_column(self, run):
        member = MemberDescription("m1", None, "c", "h", 1, "Stable", 1, 1, True, 0, 0, unpolled_ms=12_300)
        answers = {DescribeGroup: DescribeGroupResponse(group_id="team", members=(member, M2))}
        header, first, second = run(["group", "members", "team"], answers).stdout.splitlines()
        place = header.split().index("UNPOLLED-MS")
        assert [line.split()[place] for line in (first, second)] == ["12300", "-"]
        rows = json.loads(run(["group", "members", "team", "-o", "json"], answers).stdout)
        assert [row["unpolled_ms"] for row in rows] == [12_300, None]
