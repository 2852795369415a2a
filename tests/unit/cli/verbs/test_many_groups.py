"""Verbs about several groups at once, and waiting for a group."""

import json

import pytest
import typer
from typer.testing import CliRunner

from coordinator.cli import app
from coordinator.cli.parts.exits import ExitCode
from coordinator.cli.parts.which_groups import ask_each
from coordinator.cli.verbs.waiting.wait import parse_seconds
from coordinator.client.request import LogInFailedError, RequestError
from coordinator.protocol.errors import ErrorCode, LocalProtocolError
from coordinator.protocol.messages import (
    DescribeGroup,
    DescribeGroupResponse,
    ErrorResponse,
    FindCoordinator,
    FindCoordinatorResponse,
    ListGroups,
    ListGroupsResponse,
)
from coordinator.protocol.messages.operators import (
    DeleteGroup,
    DeleteGroupResponse,
    DescribeControls,
    DescribeControlsResponse,
)
from coordinator.protocol.parts import GroupSummary, MemberDescription, PartitionDescription
from tests.helpers.scripted_coordinator import Misdeed, ScriptedCoordinator

M1 = MemberDescription("m1", None, "c1", "h1", 1, "Stable", 3, 1, True, 1, 1)
KNOWN = ListGroupsResponse(
    (
        GroupSummary("orders-a", "Stable", 1, 1),
        GroupSummary("orders-b", "Empty", 1, 0),
        GroupSummary("other", "Stable", 1, 1),
    )
)


def described(request):
    if request.group_id == "orders-b":
        return DescribeGroupResponse(
            group_id="orders-b", state="Empty", partitions=(PartitionDescription("t", 0, 7, 7),)
        )
    partition = PartitionDescription("t", 0, 5, 9, "m1", 41)
    return DescribeGroupResponse(group_id=request.group_id, state="Stable", members=(M1,), partitions=(partition,))


@pytest.fixture
def run(monkeypatch):
    def run(*arguments, **answers):
        known = {
            ListGroups: KNOWN,
            DescribeGroup: described,
            DescribeControls: DescribeControlsResponse(),
            FindCoordinator: FindCoordinatorResponse(),
        }
        more = {"describe": DescribeGroup, "delete": DeleteGroup, "listed": ListGroups}
        with ScriptedCoordinator(known | {more[name]: answer for name, answer in answers.items()}) as coordinator:
            host, port = coordinator.address
            monkeypatch.setenv("KCOORD_COORDINATOR", f"{host}:{port}")
            result = CliRunner().invoke(app, ["group", *arguments])
            result.asked = coordinator.asked
            return result

    return run


def test_groups_can_be_listed_by_glob_and_state(run):
    listed = json.loads(run("list", "--match", "orders-*", "-o", "json").stdout)
    assert [group["group"] for group in listed] == ["orders-a", "orders-b"]
    listed = json.loads(run("list", "--state", "stable", "-o", "json").stdout)
    assert [group["group"] for group in listed] == ["orders-a", "other"]
    assert run("list", "--match", "x*").stderr == "No group matches.\n"


def test_state_that_is_none_is_a_usage_error(run):
    result = run("list", "--state", "Stabel")
    assert (result.exit_code, result.asked) == (2, [])
    assert "'Stabel' is not one of 'empty'" in " ".join(result.stderr.replace("│", " ").split())


TOO_LARGE = RequestError("the request cannot be sent")
TOO_LARGE.__cause__ = LocalProtocolError(ErrorCode.FRAME_TOO_LARGE, "it is too large")


@pytest.mark.parametrize(
    ("how", "cause", "asked"),
    [
        (ExitCode.NOT_FOUND, None, ["a", "b", "c"]),
        (ExitCode.ERROR, TOO_LARGE, ["a", "b", "c"]),
        (ExitCode.TIMEOUT, None, ["a", "b"]),
        (ExitCode.ERROR, RequestError("connection refused"), ["a", "b"]),
        (ExitCode.UNAUTHORISED, LogInFailedError("who is that"), ["a", "b"]),
    ],
)
def test_a_group_that_is_refused_keeps_no_other_from_it_and_a_coordinator_without_an_answer_does(
    how, cause, asked, capsys
):
    seen = []

    def ask(group):
        seen.append(group)
        if group == "b":
            raise typer.Exit(how) from cause
        return group.upper()

    answers, code = ask_each(["a", "b", "c"], ask)
    assert (seen, list(answers.values()), code) == (asked, [one.upper() for one in asked if one != "b"], how)
    left = "1 group after it has not been asked about.\n" if len(asked) == 2 else ""
    assert capsys.readouterr().err == f"That was group 'b'.\n{left}"


def test_groups_are_not_asked_about_one_by_one_at_a_coordinator_that_went_away(run):
    result = run("delete", "--all-groups", "--execute", delete=Misdeed(lambda connection, _: connection.close()))
    assert (result.exit_code, [type(request) for request in result.asked].count(DeleteGroup)) == (1, 1)
    assert result.stderr.endswith("That was group 'orders-a'.\n2 groups after it have not been asked about.\n")


def test_matching_groups_are_described_one_after_the_other(run):
    result = run("describe", "--match", "orders-*", "--state")
    assert [line.split()[0] for line in result.stdout.splitlines() if line] == [
        "GROUP",
        "orders-a",
        "GROUP",
        "orders-b",
    ]
    assert "Consumer group 'orders-b' has no active members." in result.stderr


def test_several_groups_are_one_csv(run):
    lines = run("describe", "--all-groups", "-o", "csv").stdout.splitlines()
    assert [line.split(",")[0] for line in lines] == ["GROUP", "orders-a", "orders-b", "other"]


def test_several_groups_are_a_list_of_documents_and_one_group_is_one(run):
    documents = json.loads(run("describe", "--all-groups", "-o", "json").stdout)
    assert [document["group"] for document in documents] == ["orders-a", "orders-b", "other"]
    assert json.loads(run("describe", "other", "-o", "json").stdout)["group"] == "other"


def test_members_and_lag_of_several_groups(run):
    lines = run("members", "--all-groups", "-o", "csv").stdout.splitlines()
    assert [line.split(",")[:2] for line in lines[1:]] == [["orders-a", "m1"], ["other", "m1"]]
    lags = json.loads(run("lag", "--match", "o*", "-o", "json").stdout)
    assert [(one["group"], one["lag"]) for one in lags] == [("orders-a", 4), ("orders-b", 0), ("other", 4)]


def test_every_group_that_is_too_far_behind_is_named(run):
    result = run("lag", "--all-groups", "--fail-above", "3")
    assert result.exit_code == 7
    assert [line for line in result.stderr.splitlines() if "error" in line] == [
        "error: the lag of group 'orders-a' is 4, over 3 [KC-3013]",
        "error: the lag of group 'other' is 4, over 3 [KC-3013]",
    ]


def test_a_lag_of_which_kafka_has_not_said_the_end_is_not_low(run):
    partitions = (PartitionDescription("t", 0, 9, None), PartitionDescription("t", 1, None, None))
    unknown = DescribeGroupResponse(group_id="g", partitions=partitions, kafka_failure="Kafka at k:1 is away")
    result = run("lag", "g", "--fail-above", "3", describe=unknown)
    assert result.exit_code == 7
    assert "Warning: log ends are as they were last read. Kafka at k:1 is away." in result.stderr
    assert "error: the lag of group 'g' is not known: Kafka has not said where 1 partition ends" in result.stderr
    new = DescribeGroupResponse(group_id="g", partitions=partitions[1:])
    assert run("lag", "g", "--fail-above", "3", describe=new).exit_code == 0


@pytest.mark.parametrize("scope", [(), ("g", "--all-groups"), ("g", "--match", "*"), ("--match", "*", "--all-groups")])
@pytest.mark.parametrize("verb", ["describe", "lag", "members", "delete", "pause", "resume"])
def test_exactly_one_scope_is_named(run, verb, scope):
    assert run(verb, *scope).exit_code == 2


def test_no_match_is_not_found(run):
    result = run("describe", "--match", "nothing*")
    assert (result.exit_code, result.stderr) == (3, "No group matches 'nothing*'.\n")


def test_a_coordinator_without_groups_has_nothing_to_show(run):
    result = run("describe", "--all-groups", listed=ListGroupsResponse())
    assert (result.exit_code, result.stdout, result.stderr) == (0, "", "There are no groups.\n")


def test_deleting_several_groups_is_a_dry_run_and_tells_of_each_that_is_refused(run):
    def delete(request):
        if request.group_id == "orders-a":
            return DeleteGroupResponse(ErrorCode.NON_EMPTY_GROUP, "it has members")
        return DeleteGroupResponse()

    result = run("delete", "--match", "orders-*", delete=delete)
    asked = [request for request in result.asked if isinstance(request, DeleteGroup)]
    assert [(request.group_id, request.is_dry_run) for request in asked] == [("orders-a", True), ("orders-b", True)]
    assert result.exit_code == 4
    assert "Consumer group 'orders-b' can be deleted." in result.stderr
    assert "it has members (NON_EMPTY_GROUP)" in result.stderr
    result = run("delete", "orders-b", "--execute", delete=delete)
    assert (result.exit_code, result.asked[-1].is_dry_run) == (0, False)


class TestWait:
    def test_what_holds_is_not_waited_for(self, run):
        result = run("wait", "orders-a", "--stable", "--members", "1", "--lag-below", "5")
        assert (result.exit_code, result.stderr) == (0, "Consumer group 'orders-a' is as wanted.\n")

    @pytest.mark.parametrize(
        ("condition", "why"),
        [
            (("--empty",), "it has 1 member"),
            (("--members", "2"), "it has 1 member"),
            (("--lag-below", "4"), "its lag is 4"),
        ],
    )
    def test_what_does_not_hold_in_time_ends_with_6_and_says_why(self, run, condition, why):
        result = run("wait", "orders-a", *condition, "--timeout", "30ms", "--every", "10ms")
        assert result.exit_code == 6
        assert result.stderr == f"error: group 'orders-a' is not as wanted after 0.03 s: {why} [KC-3002]\n"

    def test_a_group_is_looked_at_until_it_is_as_wanted(self, run):
        states = [DescribeGroupResponse(group_id="g", state=state) for state in ("Assigning", "Reconciling", "Stable")]
        result = run("wait", "g", "--stable", "--every", "10ms", describe=states)
        assert (result.exit_code, len(result.asked)) == (0, 3)

    def test_a_group_that_does_not_exist_is_empty_and_not_stable(self, run):
        missing = DescribeGroupResponse(ErrorCode.GROUP_ID_NOT_FOUND)
        assert run("wait", "g", "--empty", describe=missing).exit_code == 0
        result = run("wait", "g", "--stable", "--timeout", "20ms", describe=missing)
        assert (result.exit_code, result.stderr.endswith("it is not there [KC-3002]\n")) == (6, True)

    def test_a_lag_that_is_not_known_is_not_small(self, run):
        unknown = DescribeGroupResponse(group_id="g", partitions=(PartitionDescription("t", 0, None, 9),))
        result = run("wait", "g", "--lag-below", "5", "--timeout", "0", describe=unknown)
        assert "the lag of 1 of its 1 partition is not known" in result.stderr

    def test_ends_that_kafka_does_not_confirm_are_no_lag(self, run):
        ends = DescribeGroupResponse(
            group_id="g", partitions=(PartitionDescription("t", 0, 9, 9),), kafka_failure="Kafka at k:1 is away"
        )
        result = run("wait", "g", "--lag-below", "5", "--timeout", "0", describe=ends)
        assert (result.exit_code, "its lag is not known now: Kafka at k:1 is away" in result.stderr) == (6, True)

    def test_a_watch_whose_log_in_is_refused_does_not_try_again(self, monkeypatch):
        tried = []

        def refused(*asked):
            tried.append(asked)
            raise LogInFailedError("the coordinator at c:1 does not let 'ann' log in")

        monkeypatch.setattr("coordinator.cli.verbs.waiting.watch.ask", refused)
        words = ["group", "watch", "g", "--every", "10ms", "--coordinator", "127.0.0.1:1"]
        result = CliRunner().invoke(app, words)
        assert (result.exit_code, len(tried)) == (5, 1)
        assert result.stderr.startswith("error: the coordinator at c:1 does not let 'ann' log in")

    def test_a_coordinator_that_is_away_is_asked_until_time_is_over(self):
        arguments = ["group", "wait", "g", "--empty", "--timeout", "20ms", "--coordinator", "127.0.0.1:1"]
        result = CliRunner().invoke(app, arguments)
        assert result.exit_code == 6
        assert "cannot be reached" in result.stderr

    def test_a_shard_that_is_loaded_for_longer_than_a_look_is_waited_for(self, run, monkeypatch):
        monkeypatch.setattr("coordinator.client.operating.waiting.LOOK_TIMEOUT_S", 0.2)
        loading = ErrorResponse(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "shard 0 is being loaded; try again")
        stable = DescribeGroupResponse(group_id="g", state="Stable")
        assert run("wait", "g", "--stable", "--every", "10ms", describe=[*[loading] * 6, stable]).exit_code == 0
        result = run("wait", "g", "--stable", "--timeout", "20ms", describe=loading)
        assert result.exit_code == 6
        assert result.stderr.endswith(": shard 0 is being loaded; try again (COORDINATOR_LOAD_IN_PROGRESS) [KC-3002]\n")

    def test_a_coordinator_that_does_not_let_it_log_in_ends_it_at_once(self, run, monkeypatch):
        """A wrong password is not tried twice a second for five minutes."""
        looks = []

        def refused(*_):
            looks.append(1)
            raise LogInFailedError("the coordinator at c:1 does not let 'ann' log in")

        monkeypatch.setattr("coordinator.client.operating.waiting.ask", refused)
        result = run("wait", "g", "--stable", "--every", "10ms", "--timeout", "1s")
        assert (result.exit_code, len(looks)) == (5, 1)

    def test_two_states_at_once_are_not_waited_for(self, run):
        assert run("wait", "g", "--stable", "--empty").exit_code == 2

    def test_something_has_to_be_waited_for(self, run):
        assert run("wait", "g").exit_code == 2

    @pytest.mark.parametrize(
        ("text", "seconds"), [("30", 30), ("1.5s", 1.5), ("500ms", 0.5), ("5m", 300), ("1h", 3600)]
    )
    def test_durations(self, text, seconds):
        assert parse_seconds(text) == seconds

    def test_a_duration_that_is_none_is_a_usage_error(self, run):
        assert run("wait", "g", "--empty", "--timeout", "soon").exit_code == 2
