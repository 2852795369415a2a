"""`kcoord top` where no terminal is: looks one after another, and what becomes of one that fails."""

import csv
import json
import subprocess
import sys
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from coordinator.cli import app
from coordinator.cli.parts.exits import ExitCode
from coordinator.cli.verbs.top import looking
from coordinator.cli.verbs.top.text import COLUMNS
from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.messages import (
    DescribeCluster,
    DescribeClusterResponse,
    DescribeGroup,
    DescribeGroupResponse,
    ErrorResponse,
    FetchOffsets,
    FetchOffsetsResponse,
    ListGroups,
    ListGroupsResponse,
)
from coordinator.protocol.parts import (
    CommittedOffset,
    GroupSummary,
    NodeDescription,
    PartitionDescription,
    ShardDescription,
)
from tests.helpers.scripted_cluster import Script, bootstrap, scripted_cluster
from tests.helpers.scripted_coordinator import ScriptedCoordinator
from tests.helpers.skipped_time import SkippedTime

ALONE = DescribeClusterResponse(1, (NodeDescription(1, "ready"),), (ShardDescription(0, "serving", 1, 1, (1,), (1,)),))
REFUSED = ErrorResponse(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "it loads")
NOT_ALLOWED = ErrorResponse(ErrorCode.GROUP_AUTHORIZATION_FAILED, "not you")


def listed(*groups: str) -> ListGroupsResponse:
    return ListGroupsResponse(tuple(GroupSummary(group, "Stable", 1, 2) for group in groups), shards=(0,))


def described(group: str, committed: int | None, end: int | None = 100) -> DescribeGroupResponse:
    partition = PartitionDescription("t", 0, committed, end)
    return DescribeGroupResponse(group_id=group, state="Stable", group_epoch=1, partitions=(partition,))


class Node:
    """A coordinator that is alone: by group its answers, of which the last one stays."""

    def __init__(self, **answers: Any) -> None:
        self.groups: dict[str, list[Any]] = {
            name: answer if isinstance(answer, list) else [answer] for name, answer in answers.items()
        }
        self.cluster: Any = ALONE
        self.asked: list[Any] = []

    def describe(self, request: DescribeGroup) -> Any:
        answers = self.groups[request.group_id]
        return answers.pop(0) if len(answers) > 1 else answers[0]

    def run(self, *arguments: str, exit_code: int = 0, every: str = "60s") -> Any:
        answers = {
            DescribeCluster: self.cluster,
            ListGroups: listed(*self.groups),
            DescribeGroup: self.describe,
            FetchOffsets: lambda request: FetchOffsetsResponse(
                offsets=(CommittedOffset("t", "id", 0, 1, None, "", 1),)
            ),
        }
        with ScriptedCoordinator(answers) as coordinator:  # type: ignore[arg-type]
            host, port = coordinator.address
            words = ["top", "--every", every, "--coordinator", f"{host}:{port}", *arguments]
            result = CliRunner().invoke(app, words)
            self.asked = coordinator.asked
        assert result.exit_code == exit_code, result.output
        return result

    def looks(self, *arguments: str) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.run(*arguments, "-o", "jsonl").stdout.splitlines()]


@pytest.fixture(autouse=True)
def no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("coordinator.cli.verbs.top.top.time", SimpleNamespace(sleep=lambda _: None))


def test_tables_follow_one_another_with_their_heads_and_without_escapes() -> None:
    result = Node(a=described("a", 90), b=described("b", None)).run("--times", "2")
    first, second = result.stdout.split("\n\n\n")
    head, table = first.split("\n\n")
    assert head.splitlines()[0].endswith("cluster none: the coordinator is alone  nodes 1 of 1 up")
    assert head.splitlines()[1:] == [
        "1 shard: all served and in sync",
        "2 groups: 2 Stable  lag 10 (of 1 group)  committed/s -",
    ]
    lines = table.splitlines()
    assert tuple(lines[0].split()) == COLUMNS
    assert lines[1].split() == ["a", "Stable", "0", "1", "10", "-", "-", "-", "-", "-"]
    assert lines[2].split() == ["b", "Stable", "0", "1", "-", "-", "-", "-", "no", "commit", "-"]
    assert second.split("\n\n")[1].splitlines()[1].split()[-2:] == ["still", "-"]
    assert "\x1b" not in result.output


def test_rates_and_the_way_come_with_the_second_look() -> None:
    node = Node(a=[described("a", 10, 100), described("a", 90, 101)])
    first, second = node.looks("--times", "2")
    assert (first["rows"][0]["committed_per_s"], first["committed_per_s"], first["rates_of_groups"]) == (None, None, 0)
    row = second["rows"][0]
    assert row["committed_per_s"] == pytest.approx(80 * row["arriving_per_s"])
    assert second["committed_per_s"] == row["committed_per_s"]
    assert (row["lag"], row["way"].startswith("catches up in about")) == (11, True)
    assert row["caught_up_in_s"] > 0


def test_groups_are_chosen_by_name_and_state_sorted_and_cut() -> None:
    groups = {name: described(name, 100 - lag) for name, lag in (("aa", 1), ("ab", 3), ("ac", 2), ("b", 9))}
    (look,) = Node(**groups).looks("--times", "1", "--match", "a*", "--limit", "2")
    assert [row["group"] for row in look["rows"]] == ["ab", "ac"]
    assert (look["groups"], look["lag"]) == (3, 6)
    (look,) = Node(**groups).looks("--times", "1", "--sort", "group", "--state", "empty")
    assert (look["groups"], look["rows"], look["lag"]) == (0, [], None)


def test_commits_are_asked_for_of_groups_that_are_shown_alone() -> None:
    node = Node(a=described("a", 10), b=described("b", 90))
    node.looks("--times", "3", "--limit", "1")
    assert {one.group_id for one in node.asked if isinstance(one, FetchOffsets)} == {"a"}
    assert sum(isinstance(one, DescribeGroup) for one in node.asked) == 6


def test_groups_for_which_there_is_no_time_have_their_turn_in_later_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter(range(10_000))
    monkeypatch.setattr(looking, "time", SimpleNamespace(monotonic=lambda: next(clock) * 24.0, time_ns=time.time_ns))
    names = [f"g{number}" for number in range(6)]
    told = Node(**{name: described(name, 10) for name in names}).looks("--times", "12", "--limit", "0")
    known = [look["lag_of_groups"] for look in told]
    assert known[0] < 6 == known[-1]
    assert known == sorted(known)


def test_first_look_that_fails_ends_with_its_exit_code() -> None:
    refused = CliRunner().invoke(app, ["top", "--coordinator", "127.0.0.1:1"])
    assert (refused.exit_code, "cannot be reached" in refused.stderr) == (ExitCode.ERROR, True)


def test_later_look_that_fails_is_told_with_since_when_and_what_was_known_is_marked_as_old(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("coordinator.client.request.time", SkippedTime(10))
    node = Node(a=described("a", 90))
    node.cluster = [*[ALONE] * 2, *[REFUSED] * 200]
    first, second, third = node.looks("--times", "3", "--timeout", "30s")
    assert (first["troubles"], first["rows"][0]["is_old"]) == ([], False)
    (trouble,) = second["troubles"]
    assert "it loads" in trouble["text"]
    assert third["troubles"][0]["since"] == trouble["since"]
    for later in (second, third):
        assert later["time"] == first["time"]
        assert (later["rows"][0]["lag"], later["rows"][0]["is_old"]) == (10, True)


def test_coordinator_that_is_back_is_shown_as_it_is() -> None:
    node = Node(a=described("a", 90))
    node.cluster = [
        ALONE,
        ALONE,
        ErrorResponse(ErrorCode.INVALID_REQUEST, "no"),
        ErrorResponse(ErrorCode.INVALID_REQUEST, "no"),
        ALONE,
    ]
    _, second, third = node.looks("--times", "3")
    assert (len(second["troubles"]), third["troubles"], third["rows"][0]["is_old"]) == (1, [], False)


def test_group_that_may_not_be_described_is_unknown_and_said() -> None:
    (look,) = Node(a=described("a", 90), b=NOT_ALLOWED).looks("--times", "1")
    assert [row["lag"] for row in look["rows"]] == [10, None]
    assert [one["text"] for one in look["troubles"]] == ["1 group could not be described: GROUP_AUTHORIZATION_FAILED"]


def test_groups_are_shown_to_who_may_not_describe_the_cluster() -> None:
    node = Node(a=described("a", 90))
    node.cluster = ErrorResponse(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "not you")
    (look,) = node.looks("--times", "1")
    assert (look["cluster"], look["rows"][0]["lag"]) == (None, 10)
    assert "may not describe the cluster" in look["troubles"][0]["text"]


def test_old_log_ends_are_said() -> None:
    answer = DescribeGroupResponse(group_id="a", state="Empty", kafka_failure="Kafka is away")
    (look,) = Node(a=answer).looks("--times", "1")
    assert look["troubles"][0]["text"] == "log ends are as they were last read. Kafka is away"


def test_all_nodes_are_asked_and_what_is_wrong_with_them_is_said() -> None:
    script = Script(leaders={0: 1, 1: 2, 2: None}, groups={0: ("a",), 1: ("b",), 2: ("c",)})
    answers: dict[Any, Any] = {
        DescribeGroup: lambda request: described(request.group_id, 90),
        FetchOffsets: FetchOffsetsResponse(),
    }
    with scripted_cluster(script, dead=(3,), node_1=answers, node_2=answers):
        words = ["top", "--times", "1", "-o", "json", "--coordinator", bootstrap(script, 1)]
        result = CliRunner().invoke(app, words)
    look = json.loads(result.stdout)
    assert [row["group"] for row in look["rows"]] == ["a", "b"]
    cluster = look["cluster"]
    assert (cluster["nodes"], cluster["nodes_up"], cluster["shards_without_leader"]) == (3, 2, 1)
    said = " / ".join(one["text"] for one in look["troubles"])
    assert "shard 2 has no leader" in said
    assert "could not be asked" in said
    assert "groups of shard 2 are not listed" in said


def test_names_are_escaped_in_tables_and_read_back_from_documents() -> None:
    name = "g\x1b[31m\u202egnp"
    table = Node(**{name: described(name, 90)}).run("--times", "1").stdout
    assert "g\\x1b[31m\\u202egnp" in table
    assert table.replace("\n", "").isprintable()
    document = Node(**{name: described(name, 90)}).run("--times", "1", "-o", "jsonl").stdout
    assert document.replace("\n", "").isprintable()
    assert json.loads(document)["rows"][0]["group"] == name


@pytest.mark.parametrize("form", ["json", "yaml"])
def test_one_document_needs_an_end(form: str) -> None:
    refused = CliRunner().invoke(app, ["top", "-o", form, "--coordinator", "127.0.0.1:1"])
    assert (refused.exit_code, "jsonl" in refused.stderr) == (ExitCode.USAGE, True)
    read: Callable[[str], Any] = json.loads if form == "json" else yaml.safe_load
    assert read(Node(a=described("a", 90)).run("--times", "1", "-o", form).stdout)["lag"] == 10


def test_csv_has_one_header_and_a_time_in_each_line() -> None:
    lines = list(csv.reader(Node(a=described("a", 90)).run("--times", "2", "-o", "csv").stdout.splitlines()))
    assert lines[0] == ["TIME", *COLUMNS]
    assert [line[1:6] for line in lines[1:]] == [["a", "Stable", "0", "1", "10"]] * 2
    assert lines[1][6] == ""


def test_reader_that_has_enough_ends_it_without_a_word() -> None:
    node = {DescribeCluster: ALONE, ListGroups: listed("a"), DescribeGroup: described("a", 90)}
    node[FetchOffsets] = FetchOffsetsResponse()
    with ScriptedCoordinator(node) as coordinator:  # type: ignore[arg-type]
        program = f"{sys.executable} -m coordinator top --every 50ms --coordinator 127.0.0.1:{coordinator.address[1]}"
        ended = subprocess.run(
            ["bash", "-c", f"{program} | head -2; echo ${{PIPESTATUS[0]}}"],
            capture_output=True,
            text=True,
            timeout=120,
            check=True,
        )
    assert (ended.stdout.splitlines()[-1], ended.stderr) == ("141", "")
