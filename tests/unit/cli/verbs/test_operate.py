"""The verbs of operators as people and scripts see them: what is asked, what is shown, how it ends."""

import json

import pytest
from typer.testing import CliRunner

from coordinator.cli import app
from coordinator.cli.parts import asking as cli_asking
from coordinator.cli.parts.reset_target import parse_datetime, parse_duration
from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.messages import (
    DescribeGroup,
    DescribeGroupResponse,
    ErrorResponse,
    ListGroups,
    ListGroupsResponse,
)
from coordinator.protocol.messages.operators import (
    CancelResets,
    CancelResetsResponse,
    ChangeDrain,
    ChangeDrainResponse,
    ChangePause,
    ChangePauseResponse,
    DeleteGroup,
    DeleteGroupResponse,
    DeleteOffsets,
    DeleteOffsetsResponse,
    DescribeControls,
    DescribeControlsResponse,
    ReleaseClaims,
    ReleaseClaimsResponse,
    ResetOffsets,
    ResetOffsetsResponse,
)
from coordinator.protocol.parts import (
    Claim,
    ClaimState,
    ControlDescription,
    GroupSummary,
    MemberDescription,
    PartitionDescription,
    PartitionResult,
    ResetResult,
    ResetTarget,
)
from tests.helpers.scripted_coordinator import ScriptedCoordinator

GROUP = DescribeGroupResponse(
    group_id="team",
    state="Stable",
    group_epoch=3,
    members=(MemberDescription("m1", None, "query-1", "10.0.0.1", 42, "Stable", 3, 8, True, 2, 2),),
    partitions=(
        PartitionDescription("t", 0, 60, 100, "m1", 41),
        PartitionDescription("t", 1, None, 7),
        PartitionDescription("u", 0, 1, 31),
    ),
)


def group_of(*member_ids):
    members = tuple(
        MemberDescription(member_id, None, "query-1", "10.0.0.1", 42, "Stable", 3, 8, True, 2, 2)
        for member_id in member_ids
    )
    return DescribeGroupResponse(group_id="team", members=members)


def asked_to_drain(result):
    return [request.member_id for request in result.asked if isinstance(request, ChangeDrain)]


DRY = "This was a dry run: nothing has been changed. Add --execute to do it.\n"
T0, T1, U0 = ("t", 0), ("t", 1), ("u", 0)


@pytest.fixture
def run(monkeypatch):
    """Run `kcoord group` with words against a coordinator that answers as given; what was asked is on the result."""
    monkeypatch.setattr("getpass.getuser", lambda: "ann")
    monkeypatch.setattr("socket.gethostname", lambda: "ops")

    def run(words, answers):
        with ScriptedCoordinator({DescribeGroup: GROUP, **answers}) as coordinator:
            host, port = coordinator.address
            monkeypatch.setenv("KCOORD_COORDINATOR", f"{host}:{port}")
            result = CliRunner().invoke(app, ["group", *words])
            result.asked = [request for request in coordinator.asked if not isinstance(request, DescribeGroup)]
            return result

    return run


class TestResetOffsets:
    RESULTS = ResetOffsetsResponse(
        results=(ResetResult("t", 0, old_offset=60, new_offset=20, is_pending=True), ResetResult("t", 1, new_offset=7))
    )

    @pytest.mark.parametrize(
        ("words", "kind", "value"),
        [
            (["--to-earliest"], "earliest", None),
            (["--to-latest"], "latest", None),
            (["--to-current"], "current", None),
            (["--to-offset", "20"], "offset", 20),
            (["--to-offset", "0"], "offset", 0),
            (["--to-datetime", "2023-11-14T22:13:20.000"], "timestamp", 1_700_000_000_000),
            (["--by-duration", "PT15M"], "duration", 900_000),
            (["--shift-by", "-5"], "shift", -5),
        ],
    )
    def test_kafkas_flags_are_asked_for_each_partition_and_nothing_is_done_by_default(self, run, words, kind, value):
        result = run(["reset-offsets", "team", "--topic", "t", *words], {ResetOffsets: self.RESULTS})
        targets = (ResetTarget("t", 0, kind, value), ResetTarget("t", 1, kind, value))
        assert result.asked == [ResetOffsets("team", targets, "ann@ops", "", False, True)]
        assert (result.exit_code, result.stderr) == (0, DRY)
        assert result.stdout == (
            "GROUP  TOPIC  PARTITION  CURRENT-OFFSET  NEW-OFFSET  DELTA  STATE       REMARK\n"
            "team   t      0          60              20          -40    would-wait  -\n"
            "team   t      1          -               7           -      would-set   -\n"
        )

    def test_execute_does_it_with_who_and_why_and_tells_what_is_pending(self, run):
        words = ["reset-offsets", "team", "--topic", "t:0,1", "--to-offset", "20", "--execute", "--why", "bad deploy"]
        result = run([*words, "--release-claims"], {ResetOffsets: self.RESULTS})
        targets = (ResetTarget("t", 0, "offset", 20), ResetTarget("t", 1, "offset", 20))
        assert result.asked == [ResetOffsets("team", targets, "ann@ops", "bad deploy", True, False)]
        assert [line.split()[6] for line in result.stdout.splitlines()[1:]] == ["pending", "set"]
        assert result.stderr == (
            "Pending resets are done when the owners have let go; `kcoord group describe` shows them.\n"
        )

    def test_results_come_as_json_and_csv(self, run):
        words = ["reset-offsets", "team", "--all-topics", "--to-earliest", "-o"]
        result = run([*words, "json"], {ResetOffsets: self.RESULTS})
        assert json.loads(result.stdout)[0] == {
            "group": "team",
            "topic": "t",
            "partition": 0,
            "current_offset": 60,
            "new_offset": 20,
            "delta": -40,
            "state": "would-wait",
            "remark": None,
        }
        assert [(target.topic, target.partition) for target in result.asked[0].targets] == [T0, T1, U0]
        result = run([*words, "csv"], {ResetOffsets: self.RESULTS})
        assert result.stdout.splitlines()[1] == "team,t,0,60,20,-40,would-wait,"

    def test_export_is_what_from_file_reads(self, run, tmp_path):
        words = ["reset-offsets", "team", "--topic", "t", "--to-current", "--export"]
        exported = run(words, {ResetOffsets: self.RESULTS}).stdout
        assert exported == "t,0,20\nt,1,7\n"
        path = tmp_path / "offsets.csv"
        path.write_text(exported)
        result = run(["reset-offsets", "team", "--from-file", str(path), "--execute"], {ResetOffsets: self.RESULTS})
        targets = (ResetTarget("t", 0, "offset", 20), ResetTarget("t", 1, "offset", 7))
        assert result.asked == [ResetOffsets("team", targets, "ann@ops", "", False, False)]

    def test_file_with_groups_in_front_is_read_for_the_group_alone(self, run, tmp_path):
        path = tmp_path / "offsets.csv"
        path.write_text('\ufeffteam,t,0,8\r\nother,t,0,5\r\n"team","t",1,9\r\n\r\n')  # as spreadsheets begin it
        result = run(["reset-offsets", "team", "--from-file", str(path)], {ResetOffsets: self.RESULTS})
        assert result.asked[0].targets == (ResetTarget("t", 0, "offset", 8), ResetTarget("t", 1, "offset", 9))

    @pytest.mark.parametrize(
        ("text", "said"),
        [
            ("t,0\n", "line 1"),
            ("t,0,5\nt,0,6\n", "line 2"),
            ("t,0,-5\n", "line 1"),
            ("t,x,5\n", "line 1"),
            ("", "has no"),
            ("other,t,0,5\n", "has no"),
            (None, "offsets.csv cannot be read: No such file or directory"),
        ],
    )
    def test_file_that_is_not_understood_is_a_usage_error(self, run, tmp_path, text, said):
        path = tmp_path / "offsets.csv"
        if text is not None:
            path.write_text(text)
        result = run(["reset-offsets", "team", "--from-file", str(path)], {})
        assert (result.exit_code, result.asked) == (2, [])
        # The frame around it breaks lines, also in the middle of a long path.
        assert "".join(said.split()) in "".join(result.stderr.replace("│", " ").split())

    @pytest.mark.parametrize(
        "words",
        [
            ["--topic", "t"],
            ["--to-earliest"],
            ["--topic", "t", "--all-topics", "--to-earliest"],
            ["--topic", "t", "--to-earliest", "--to-latest"],
            ["--topic", "t", "--to-earliest", "--cancel"],
            ["--topic", "t", "--to-earliest", "--execute", "--dry-run"],
            ["--topic", "t:x", "--to-earliest"],
            ["--topic", "t:x", "--cancel"],
            ["--match", "t*", "--topic", "t", "--to-earliest"],
            ["--all-groups", "--topic", "t", "--to-earliest"],
            ["--topic", "t", "--to-offset", "-1"],
            ["--topic", "t", "--to-offset", str(2**63)],
            ["--topic", "t", "--shift-by", str(2**63)],
            ["--topic", "t", "--shift-by", str(-(2**63))],
            ["--topic", "t", "--by-duration", "999999999999d"],
            ["--topic", "t", "--to-datetime", "yesterday"],
            ["--topic", "t", "--by-duration", "15 minutes"],
            ["--from-file", "no-such-file.csv"],
            ["--from-file", "no-such-file.csv", "--topic", "t"],
        ],
    )
    def test_what_makes_no_sense_is_a_usage_error_before_anything_is_asked(self, run, words):
        result = run(["reset-offsets", "team", *words], {})
        assert (result.exit_code, result.asked) == (2, [])

    def test_topic_the_group_does_not_know_is_exit_code_3(self, run):
        result = run(["reset-offsets", "team", "--topic", "nope", "--to-earliest"], {})
        assert (result.exit_code, result.asked) == (3, [])
        assert "knows no partition of topic 'nope'" in result.stderr

    def test_refused_partition_is_shown_and_ends_with_its_code(self, run):
        refused = ResetResult("t", 1, ErrorCode.PARTITION_OWNED, "m1 is gone", 5)
        answer = ResetOffsetsResponse(results=(ResetResult("t", 0, old_offset=1, new_offset=2), refused))
        result = run(["reset-offsets", "team", "--topic", "t", "--to-earliest", "--execute"], {ResetOffsets: answer})
        assert (result.exit_code, result.stderr) == (
            4,
            "error: t-1 of group 'team' was refused: m1 is gone (PARTITION_OWNED) [KC-1002]\n",
        )
        assert [line.split()[6] for line in result.stdout.splitlines()[1:]] == ["set", "refused"]

    def test_pending_resets_are_cancelled(self, run):
        answer = CancelResetsResponse(results=(PartitionResult("t", 0, committed=60),))
        result = run(["reset-offsets", "team", "--cancel", "--all-topics", "--execute"], {CancelResets: answer})
        assert result.asked == [CancelResets("team", None, "ann@ops", "", False)]
        assert result.stdout.splitlines()[1].split() == ["team", "t", "0", "60"]
        result = run(["reset-offsets", "team", "--cancel", "--topic", "t:1"], {CancelResets: answer})
        assert result.asked == [CancelResets("team", (T1,), "ann@ops", "", True)]

    def test_nothing_to_cancel_is_told(self, run):
        result = run(["reset-offsets", "team", "--cancel", "--all-topics"], {CancelResets: CancelResetsResponse()})
        assert (result.exit_code, result.stderr) == (0, "No reset of group 'team' is pending.\n")

    @pytest.mark.parametrize(
        ("words", "said"),
        [
            (["reset-offsets", "team", "--to-earliest"], "Consumer group 'team' knows no partitions.\n"),
            (["delete-offsets", "team"], "Group 'team' has no committed offset there.\n"),
            (["release-claim", "team"], "No claim of group 'team' is running there whose owner is gone.\n"),
        ],
    )
    def test_group_without_partitions_has_nothing_to_change(self, run, words, said):
        nothing = DescribeGroupResponse(group_id="team", state="Empty")
        answers = {
            DescribeGroup: nothing,
            DeleteOffsets: DeleteOffsetsResponse(),
            ReleaseClaims: ReleaseClaimsResponse(),
        }
        result = run([*words, "--all-topics"], answers)
        assert (result.exit_code, result.stderr) == (0, said)

    def test_partition_kafka_does_not_have_is_exit_code_3_and_nothing_is_left_to_execute(self, run):
        why = "Kafka has no partition 7 of topic t, which has 2; correct the name or the number"
        refused = ResetResult("t", 7, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, why)
        answers = {ResetOffsets: ResetOffsetsResponse(results=(refused,))}
        result = run(["reset-offsets", "team", "--topic", "t:7", "--to-earliest"], answers)
        assert (result.exit_code, result.stderr) == (
            3,
            f"error: t-7 of group 'team' was refused: {why} (UNKNOWN_TOPIC_OR_PARTITION) [KC-0003]\n",
        )


class TestResetOfSeveralGroups:
    """The script knows the groups team, tea and other; all are described alike."""

    KNOWN = ListGroupsResponse(tuple(GroupSummary(name, "Stable", 1, 1) for name in ("team", "tea", "other")))
    DONE = ResetOffsetsResponse(results=(ResetResult("t", 0, old_offset=60, new_offset=20),))

    def test_each_is_reset_and_shown_in_one_table(self, run):
        words = ["reset-offsets", "--match", "te*", "--topic", "t:0", "--to-offset", "20", "--execute"]
        result = run(words, {ListGroups: self.KNOWN, ResetOffsets: self.DONE})
        target = (ResetTarget("t", 0, "offset", 20),)
        assert [asked for asked in result.asked if isinstance(asked, ResetOffsets)] == [
            ResetOffsets(name, target, "ann@ops", "", False, False) for name in ("tea", "team")
        ]
        assert [line.split()[:2] for line in result.stdout.splitlines()] == [
            ["GROUP", "TOPIC"],
            ["tea", "t"],
            ["team", "t"],
        ]

    def test_one_that_is_refused_does_not_keep_the_others(self, run):
        def reset(request):
            if request.group_id == "tea":
                return ResetOffsetsResponse(ErrorCode.REBALANCE_IN_PROGRESS, "busy")
            return self.DONE

        words = ["reset-offsets", "--all-groups", "--all-topics", "--to-earliest", "-o", "json"]
        result = run(words, {ListGroups: self.KNOWN, ResetOffsets: reset})
        assert [found["group"] for found in json.loads(result.stdout)] == ["other", "team"]
        assert (result.exit_code, result.stderr) == (
            4,
            f"error: the coordinator refused: busy (REBALANCE_IN_PROGRESS) [KC-0027]\nThat was group 'tea'.\n{DRY}",
        )

    def test_export_has_the_group_in_front_and_from_file_reads_it(self, run, tmp_path):
        answers = {ListGroups: self.KNOWN, ResetOffsets: self.DONE}
        exported = run(["reset-offsets", "--match", "te*", "--topic", "t:0", "--to-latest", "--export"], answers).stdout
        assert exported == "tea,t,0,20\nteam,t,0,20\n"
        path = tmp_path / "offsets.csv"
        path.write_text(exported)
        result = run(["reset-offsets", "--match", "te*", "--from-file", str(path), "--execute"], answers)
        asked = [(request.group_id, request.targets) for request in result.asked if isinstance(request, ResetOffsets)]
        target = (ResetTarget("t", 0, "offset", 20),)
        assert asked == [("tea", target), ("team", target)]

    def test_file_without_one_of_the_groups_is_a_usage_error_and_none_is_reset(self, run, tmp_path):
        path = tmp_path / "offsets.csv"
        path.write_text("tea,t,0,20\n")
        result = run(
            ["reset-offsets", "--match", "te*", "--from-file", str(path), "--execute"], {ListGroups: self.KNOWN}
        )
        assert (result.exit_code, result.asked) == (2, [ListGroups()])

    def test_offsets_of_no_group_in_particular_are_not_set_for_several(self, run, tmp_path):
        path = tmp_path / "offsets.csv"
        path.write_text("tea,t,1,20\nt,0,20\n")
        result = run(
            ["reset-offsets", "--match", "te*", "--from-file", str(path), "--execute"], {ListGroups: self.KNOWN}
        )
        assert (result.exit_code, result.asked) == (2, [ListGroups()])
        assert "line 2: 't,0,20' is not group,topic,partition,offset" in " ".join(result.stderr.split())

    def test_pending_resets_of_each_are_cancelled(self, run):
        def cancel(request):
            return CancelResetsResponse(results=(PartitionResult("t", 0, committed=len(request.group_id)),))

        words = ["reset-offsets", "--match", "te*", "--cancel", "--all-topics", "-o", "csv"]
        result = run(words, {ListGroups: self.KNOWN, CancelResets: cancel})
        assert result.stdout == "GROUP,TOPIC,PARTITION,CURRENT-OFFSET\ntea,t,0,3\nteam,t,0,4\n"


class TestVerbs:
    @pytest.mark.parametrize(
        ("words", "asked", "answer"),
        [
            (["pause", "team"], ChangePause("team", None, True, "ann@ops"), ChangePauseResponse(partitions=(T0,))),
            (
                ["pause", "team", "--topic", "t:0", "--topic", "u"],
                ChangePause("team", (T0, U0), True, "ann@ops"),
                ChangePauseResponse(partitions=(T0,)),
            ),
            (["resume", "team"], ChangePause("team", None, False, "ann@ops"), ChangePauseResponse(partitions=(T0,))),
            (
                ["drain", "team", "m1"],
                ChangeDrain("team", "m1", True, "ann@ops"),
                ChangeDrainResponse(partitions=(T0,)),
            ),
            (
                ["delete-offsets", "team", "--topic", "t:0"],
                DeleteOffsets("team", (T0,), "ann@ops"),
                DeleteOffsetsResponse(results=(PartitionResult("t", 0, committed=60),)),
            ),
            (
                ["release-claim", "team", "--topic", "t:0"],
                ReleaseClaims("team", (T0,), "ann@ops"),
                ReleaseClaimsResponse(results=(PartitionResult("t", 0, committed=60),)),
            ),
        ],
        ids=lambda value: " ".join(value) if isinstance(value, list) else None,
    )
    def test_verb_is_a_dry_run_until_it_is_to_be_executed(self, run, words, asked, answer):
        result = run(words, {type(asked): answer})
        assert (result.asked, result.exit_code, result.stderr) == ([asked], 0, DRY)
        assert result.stdout.splitlines()[1].split()[:3] == ["team", "t", "0"]
        result = run([*words, "--execute", "--why", "upgrade"], {type(asked): answer})
        (request,) = result.asked
        assert (request.why, request.is_dry_run, result.stderr) == ("upgrade", False, "")

    @pytest.mark.parametrize("scope", [["--topic", "t", "--topic", "u"], ["--all-topics"]])
    def test_topic_alone_means_what_there_is_to_delete_or_to_release(self, run, scope):
        claim = Claim("t", "id", 1, 41, 60, 70)
        group = DescribeGroupResponse(
            group_id="team",
            members=GROUP.members,
            partitions=(
                PartitionDescription("t", 0, 60, 100),
                PartitionDescription("t", 1, None, 7, "gone", 41, False, claim, ClaimState.RUNNING),
                PartitionDescription("t", 3, None, 7, "m1", 43, False, claim, ClaimState.RUNNING),
                PartitionDescription("t", 2, None, 7, "m1", 42, False, claim, ClaimState.OFFERED),
                PartitionDescription("u", 0, None, 31),
            ),
        )
        answers = {
            DescribeGroup: group,
            DeleteOffsets: DeleteOffsetsResponse(results=(PartitionResult("t", 0, committed=60),)),
            ReleaseClaims: ReleaseClaimsResponse(results=(PartitionResult("t", 1),)),
        }
        result = run(["delete-offsets", "team", *scope], answers)
        assert (result.exit_code, result.asked) == (0, [DeleteOffsets("team", (T0,), "ann@ops")])
        result = run(["release-claim", "team", *scope], answers)
        assert (result.exit_code, result.asked) == (0, [ReleaseClaims("team", (T1,), "ann@ops")])
        named = run(["release-claim", "team", "--topic", "t:0,1"], answers)
        assert named.asked == [ReleaseClaims("team", (T0, T1), "ann@ops")]

    def test_a_beginning_that_one_member_has_stands_for_its_id(self, run):
        answers = {DescribeGroup: group_of("3f2a-1", "3f2a-2", "77b0"), ChangeDrain: ChangeDrainResponse()}
        result = run(["drain", "team", "77"], answers)
        assert asked_to_drain(result) == ["77b0"]
        assert "'77' is member '77b0'." in result.stderr

    def test_a_beginning_that_several_have_is_refused_with_their_ids(self, run):
        result = run(["undrain", "team", "3f2a"], {DescribeGroup: group_of("3f2a-1", "3f2a-2", "77b0")})
        assert (result.exit_code, asked_to_drain(result)) == (2, [])
        assert "3f2a-1, 3f2a-2" in "".join(result.stderr.split("\n"))

    @pytest.mark.parametrize("typed", ["m", "m1-2", "x"])
    def test_an_id_is_taken_as_it_is_also_when_it_is_a_beginning_or_none(self, run, typed):
        answers = {DescribeGroup: group_of("m", "m1"), ChangeDrain: ChangeDrainResponse()}
        assert asked_to_drain(run(["drain", "team", typed], answers)) == [typed]

    def test_undrain_says_that_the_member_has_nothing_yet(self, run):
        result = run(["undrain", "team", "m1", "--execute"], {ChangeDrain: ChangeDrainResponse()})
        assert result.asked == [ChangeDrain("team", "m1", False, "ann@ops", "", False)]
        assert (result.stdout, result.stderr) == ("", "Member 'm1' has no partitions now.\n")
        result = run(["undrain", "team", "m1", "--execute", "-o", "json"], {ChangeDrain: ChangeDrainResponse()})
        assert json.loads(result.stdout) == []

    @pytest.mark.parametrize(
        ("words", "said", "is_left_to_execute"),
        [
            (["pause", "team"], "No owner has to let go", True),
            (["resume", "team"], "what was paused with --topic is resumed with --topic", True),
            (["pause", "team", "--topic", "t:0"], "are paused already", False),
            (["resume", "team", "--topic", "t:0"], "`kcoord group resume team` ends a pause of the whole group", False),
        ],
    )
    def test_pause_that_moves_nothing_says_why(self, run, words, said, is_left_to_execute):
        result = run(words, {ChangePause: ChangePauseResponse()})
        assert (result.exit_code, said in result.stderr, DRY in result.stderr) == (0, True, is_left_to_execute)

    def test_several_groups_are_paused_with_one_table(self, run):
        def pause(request):
            return ChangePauseResponse(partitions=(T0,) if request.group_id == "team" else (T0, U0))

        known = ListGroupsResponse((GroupSummary("tea", "Empty", 1, 0), GroupSummary("team", "Stable", 1, 1)))
        result = run(["pause", "--all-groups", "-o", "csv", "--execute"], {ListGroups: known, ChangePause: pause})
        assert result.stdout == "GROUP,TOPIC,PARTITION\ntea,t,0\ntea,u,0\nteam,t,0\n"
        assert result.asked == [
            ListGroups(),
            *(ChangePause(g, None, True, "ann@ops", "", False) for g in ("tea", "team")),
        ]

    def test_group_is_deleted(self, run):
        result = run(["delete", "team", "--execute"], {DeleteGroup: DeleteGroupResponse()})
        assert (result.exit_code, result.stderr) == (0, "Consumer group 'team' has been deleted.\n")
        assert result.asked == [DeleteGroup("team", "ann@ops", "", False)]
        result = run(["delete", "team"], {DeleteGroup: DeleteGroupResponse()})
        assert result.stderr == f"Consumer group 'team' can be deleted.\n{DRY}"

    def test_deletion_of_a_group_with_members_is_exit_code_4(self, run):
        answer = DeleteGroupResponse(ErrorCode.NON_EMPTY_GROUP, "its state is Stable")
        result = run(["delete", "team", "--execute"], {DeleteGroup: answer})
        assert (result.exit_code, "its state is Stable (NON_EMPTY_GROUP)" in result.stderr) == (4, True)

    def test_dry_run_of_what_is_refused_does_not_ask_to_execute_it(self, run):
        refusal = DeleteGroupResponse(ErrorCode.GROUP_ID_NOT_FOUND, "there is no group 'team'")
        result = run(["delete", "team"], {DeleteGroup: refusal})
        assert (result.exit_code, result.stderr) == (3, "Consumer group 'team' does not exist.\n")

    @pytest.mark.parametrize(
        ("error", "exit_code"), [(ErrorCode.GROUP_ID_NOT_FOUND, 3), (ErrorCode.INVALID_REQUEST, 1)]
    )
    def test_refusal_of_the_whole_ends_with_its_code(self, run, error, exit_code):
        result = run(["pause", "team", "--execute", "-o", "json"], {ChangePause: ErrorResponse(error, "because")})
        assert (result.exit_code, result.stdout) == (exit_code, "")

    @pytest.mark.parametrize(
        "words", [["release-claim", "team"], ["delete-offsets", "team"], ["drain", "team"], ["pause"], ["resume"]]
    )
    def test_verb_without_its_object_is_a_usage_error(self, run, words):
        result = run(words, {})
        assert (result.exit_code, result.asked) == (2, [])

    def test_refused_partitions_are_told_and_the_others_shown(self, run):
        refused = PartitionResult("t", 1, ErrorCode.PARTITION_OWNED, "m1 owns it", 9)
        answer = DeleteOffsetsResponse(results=(PartitionResult("t", 0, committed=60), refused))
        result = run(["delete-offsets", "team", "--topic", "t", "--execute", "-o", "csv"], {DeleteOffsets: answer})
        assert (result.exit_code, result.stderr) == (
            4,
            "error: t-1 of group 'team' was refused: m1 owns it (PARTITION_OWNED) [KC-1002]\n",
        )
        assert result.stdout == "GROUP,TOPIC,PARTITION,CURRENT-OFFSET\nteam,t,0,60\n"


class TestLagAndMembers:
    def test_lag_is_shown_a_topic(self, run):
        result = run(["lag", "team"], {})
        assert result.stdout == (
            "GROUP  TOPIC  #PARTITIONS  LAG  MAX-LAG  UNKNOWN\n"
            "team   t      2            40   40       1\n"
            "team   u      1            30   30       0\n"
        )
        assert (result.exit_code, result.stderr) == (
            0,
            "1 partition is not counted: no committed offset or no known end.\n",
        )
        assert json.loads(run(["lag", "team", "-o", "json"], {}).stdout)["lag"] == 70

    @pytest.mark.parametrize(("above", "exit_code"), [("69", 7), ("70", 0)])
    def test_lag_over_the_limit_is_exit_code_7(self, run, above, exit_code):
        assert run(["lag", "team", "--fail-above", above], {}).exit_code == exit_code

    def test_members_are_shown_with_what_they_hold_and_whether_they_are_drained(self, run):
        drained = (ControlDescription("member-drained", "ann@ops", "", 5, member_id="m1"),)
        answers = {DescribeControls: DescribeControlsResponse(controls=drained)}
        assert run(["members", "team", "-o", "csv"], answers).stdout.splitlines()[1] == (
            "team,m1,,10.0.0.1,query-1,2,2,3,Stable,yes,yes,yes,read_uncommitted,,42"
        )
        assert json.loads(run(["members", "team", "-o", "json"], answers).stdout)[0]["consumer_id"] == "m1"


@pytest.mark.parametrize(
    ("text", "expected"),
    [("PT15M", 900_000), ("P1DT2H", 93_600_000), ("P2D", 172_800_000), ("PT0.5S", 500), ("PT1H1M1.005S", 3_661_005)],
)
def test_durations_are_read(text, expected):
    assert parse_duration(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1970-01-01T00:00:01", 1_000),
        ("1970-01-01T00:00:01.250Z", 1_250),
        ("1970-01-01T02:00:00+02:00", 0),
    ],
)
def test_times_are_read_in_utc_unless_they_name_a_zone(text, expected):
    assert parse_datetime(text) == expected


@pytest.mark.parametrize("text", ["P", "PT", "15 minutes", "P1Y", "PT-5M", ""])
def test_what_is_no_duration_is_refused(run, text):
    assert run(["reset-offsets", "team", "--topic", "t", "--by-duration", text], {}).exit_code == 2


HOSTILE = "t\x1b[2J\nerror: nothing is left\u202e"


def test_wild_names_stay_in_their_line_of_standard_error(run):
    found = ResetOffsetsResponse(results=(ResetResult(HOSTILE, 0, ErrorCode.PARTITION_OWNED, f"ask {HOSTILE}"),))
    refused = run(["reset-offsets", "team", "--topic", "t:0", "--to-latest"], {ResetOffsets: found})
    pending = (ControlDescription("reset-pending", "ann@ops", HOSTILE, 5, topic=HOSTILE, partition=0, offset=3),)
    described = run(["describe", "team"], {DescribeControls: DescribeControlsResponse(controls=pending)})
    denied = run(["describe", "team"], {DescribeGroup: ErrorResponse(ErrorCode.INVALID_REQUEST, HOSTILE)})
    for result, says in ((refused, "was refused"), (described, "is pending"), (denied, "the coordinator refused")):
        lines = result.stderr.splitlines()
        assert all(line.isprintable() for line in lines)
        assert sum(line.startswith("error: nothing") for line in lines) == 0
        assert any(says in line and r"t\x1b[2J\nerror: nothing is left\u202e" in line for line in lines)


class TestManyPartitions:
    """One request names a bounded number of partitions, so a verb about many sends several, and one may fail."""

    LARGE = DescribeGroupResponse(
        group_id="team", partitions=tuple(PartitionDescription("t", number, 60, 100) for number in range(4_500))
    )
    DONE = "The first 2000 of 4500 partitions of group 'team' are done all the same; `kcoord group describe` shows how"

    @pytest.mark.parametrize(
        ("kind", "done", "words"),
        [
            (DeleteOffsets, DeleteOffsetsResponse(), ("delete-offsets", "team", "--all-topics")),
            (ResetOffsets, ResetOffsetsResponse(), ("reset-offsets", "team", "--all-topics", "--shift-by", "-5")),
            (ChangePause, ChangePauseResponse(partitions=(T0,)), ("pause", "team", "--topic", "t")),
            (CancelResets, CancelResetsResponse(), ("reset-offsets", "team", "--topic", "t", "--cancel")),
        ],
    )
    def test_what_is_done_when_one_of_several_requests_is_refused_is_said(self, run, kind, done, words):
        refusal = ErrorResponse(ErrorCode.STATE_LIMIT_REACHED, "no room")
        result = run([*words, "--execute"], {DescribeGroup: self.LARGE, kind: [done, refusal]})
        assert result.exit_code == 1
        assert result.stderr.startswith(
            "error: the coordinator refused: no room (STATE_LIMIT_REACHED) [KC-1007]\n" + self.DONE
        )
        assert [type(request) for request in result.asked] == [kind, kind]

    def test_what_is_done_when_somebody_stops_it_is_said(self, run, monkeypatch):
        """A shift that is asked for again would shift these twice."""
        answers, asking = [ResetOffsetsResponse(), KeyboardInterrupt()], cli_asking.ask

        def ask(coordinators, request, timeout_s):
            if not isinstance(request, ResetOffsets):
                return asking(coordinators, request, timeout_s)
            answer = answers.pop(0)
            if isinstance(answer, KeyboardInterrupt):
                raise answer
            return answer

        monkeypatch.setattr(cli_asking, "ask", ask)
        words = ["reset-offsets", "team", "--all-topics", "--shift-by", "-5", "--execute"]
        result = run(words, {DescribeGroup: self.LARGE})
        assert result.exit_code == 130
        assert (
            "The first 2000 of 4500 partitions of group 'team' are done all the same, and whether the next 2000 are "
            "was not answered; `kcoord group describe` shows how they are."
        ) in result.stderr

    def test_nothing_is_done_by_a_dry_run(self, run):
        refusal = ErrorResponse(ErrorCode.STATE_LIMIT_REACHED, "no room")
        answers = {DescribeGroup: self.LARGE, DeleteOffsets: [DeleteOffsetsResponse(), refusal]}
        result = run(["delete-offsets", "team", "--all-topics"], answers)
        assert result.stderr == "error: the coordinator refused: no room (STATE_LIMIT_REACHED) [KC-1007]\n"
