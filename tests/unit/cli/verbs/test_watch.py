"""`kcoord group watch`: a line at once, one for each change, and none in between."""

import json

import pytest
import yaml
from typer.testing import CliRunner

from coordinator.cli import app
from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.messages import (
    DescribeGroup,
    DescribeGroupResponse,
    ListGroupEvents,
    ListGroupEventsResponse,
    ListGroups,
    ListGroupsResponse,
)
from coordinator.protocol.parts import GroupEvent, GroupSummary, PartitionDescription
from tests.helpers.scripted_coordinator import ScriptedCoordinator


def group(committed: int, epoch: int = 3) -> DescribeGroupResponse:
    partition = PartitionDescription("t", 0, committed, 100)
    return DescribeGroupResponse(group_id="g", state="Empty", group_epoch=epoch, partitions=(partition,))


def event(sequence: int, kind: str) -> GroupEvent:
    return GroupEvent(sequence, 1_000, kind, "m", "w", 3)


EVENTS = [
    ListGroupEventsResponse(last_sequence=1),
    ListGroupEventsResponse(last_sequence=1),
    ListGroupEventsResponse(events=(event(2, "member-left"), event(3, "rebalance\x1b[31m")), last_sequence=3),
    ListGroupEventsResponse(last_sequence=3),
]


@pytest.fixture
def watched(monkeypatch: pytest.MonkeyPatch):
    def watch(*arguments: str, looks, events=EVENTS) -> str:
        with ScriptedCoordinator({DescribeGroup: looks, ListGroupEvents: events}) as coordinator:
            host, port = coordinator.address
            monkeypatch.setenv("KCOORD_COORDINATOR", f"{host}:{port}")
            result = CliRunner().invoke(app, ["group", "watch", "g", "--every", "50ms", *arguments])
        assert result.exit_code == 0, result.output
        return result.stdout

    return watch


def test_each_change_is_a_line_with_the_events_since(watched) -> None:
    out = watched("--count", "2", "-o", "json", looks=[group(90), group(90), group(95)])
    first, second = map(json.loads, out.splitlines())
    assert (first["state"], first["lag"], first["events"]) == ("Empty", 10, None)
    assert (second["lag"], second["events"]) == (5, "member-left, rebalance\x1b[31m")
    assert "\x1b" not in out


def test_events_are_told_of_a_timeline_that_has_begun_anew_and_none_of_before_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    anew = ListGroupEventsResponse(events=(event(1, "granted"), event(2, "stable")), last_sequence=2)
    left = ListGroupEventsResponse(last_sequence=2)
    events = [ListGroupEventsResponse(last_sequence=40), left, anew, left]
    answers = {DescribeGroup: [group(90), group(90)], ListGroupEvents: events}
    with ScriptedCoordinator(answers) as coordinator:
        monkeypatch.setenv("KCOORD_COORDINATOR", "{}:{}".format(*coordinator.address))
        result = CliRunner().invoke(app, ["group", "watch", "g", "--every", "50ms", "--count", "2", "-o", "json"])
        asked = [one.after_sequence for one in coordinator.asked if isinstance(one, ListGroupEvents)]
    assert [json.loads(line)["events"] for line in result.stdout.splitlines()] == [None, "granted, stable"]
    assert asked[0] > 10_000, "what was before is not told, and not asked for"
    assert asked[1:] == [40, 0]


def test_a_table_has_its_header_once_and_nothing_that_a_terminal_obeys(watched) -> None:
    lines = watched("--count", "2", looks=[group(90), group(90), group(95)]).splitlines()
    assert lines[0].split() == ["TIME", "STATE", "#MEMBERS", "GROUP-EPOCH", "LAG", "EVENTS"]
    assert lines[1].split()[1:] == ["Empty", "0", "3", "10", "-"]
    assert lines[2].endswith("member-left, rebalance\\x1b[31m")
    assert len(lines) == 3


@pytest.mark.parametrize("verb", [("watch", "g"), ("wait", "g", "--stable")])
def test_a_pause_that_no_system_makes_is_refused(verb: tuple[str, ...]) -> None:
    asked = ["group", *verb, "--every", "99999999999d", "--coordinator", "127.0.0.1:1"]
    result = CliRunner().invoke(app, asked)
    assert (result.exit_code, "is longer than 365 d" in result.stderr) == (2, True)


def test_documents_of_yaml_follow_one_another(watched) -> None:
    out = watched("--count", "2", "-o", "yaml", looks=[group(90), group(95)])
    assert [each["lag"] for each in yaml.safe_load_all(out)] == [10, 5]


def test_a_group_that_is_not_there_is_said_until_it_is(watched) -> None:
    none = DescribeGroupResponse(error=ErrorCode.GROUP_ID_NOT_FOUND)
    out = watched("--count", "2", "-o", "csv", looks=[none, group(90)], events=[ListGroupEventsResponse()])
    assert [line.split(",")[1] for line in out.splitlines()] == ["STATE", "not there", "Empty"]


def test_data_is_written_as_yaml_that_reads_back(monkeypatch: pytest.MonkeyPatch) -> None:
    name = "g: [1]\n\u202e\u2028é" + "x" * 200
    listed = ListGroupsResponse((GroupSummary(name, "Empty", 4, 0, 300),))
    with ScriptedCoordinator({ListGroups: listed}) as coordinator:
        host, port = coordinator.address
        result = CliRunner().invoke(app, ["group", "list", "-o", "yaml", "--coordinator", f"{host}:{port}"])
    assert yaml.safe_load(result.stdout) == [
        {"group": name, "state": "Empty", "members": 0, "group_epoch": 4, "bytes": 300}
    ]
    assert result.stdout.isascii()
    assert result.stdout.replace("\n", "").isprintable()
