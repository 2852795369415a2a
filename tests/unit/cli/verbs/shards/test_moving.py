"""Verbs that change a cluster: what they ask of whom, what they show before they do it, and what they refuse."""

import json
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from typer.testing import CliRunner

from coordinator.cli import app
from coordinator.cli.parts.exits import ExitCode
from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.messages import (
    DescribeCluster,
    DrainNode,
    DrainNodeResponse,
    ElectLeaders,
    ElectLeadersResponse,
    ReassignShards,
    ReassignShardsResponse,
)
from coordinator.protocol.parts import ShardChange, ShardDescription, UncleanLeader
from tests.helpers.scripted_cluster import Script, bootstrap, scripted_cluster

DRY = "This was a dry run: nothing has been changed. Add --execute to do it."


def script(**changes: object) -> Script:
    known: dict[str, object] = {"leaders": {0: 1, 1: 2, 2: 3}}
    return Script(**(known | changes))  # type: ignore[arg-type]


def run(coordinators: str, *arguments: str, timeout: str = "5s") -> Any:
    return CliRunner().invoke(app, [*arguments, "--coordinator", coordinators, "--timeout", timeout])


def accepts(request: Any) -> ReassignShardsResponse:
    """Accept what is asked; each shard has replicas 1, 2 and 3."""
    return ReassignShardsResponse(
        results=tuple(ShardChange(s.shard, replicas=(1, 2, 3), new_replicas=tuple(s.replicas)) for s in request.shards)
    )


def asked_of(node: Any, kind: type) -> list[Any]:
    return [request for request in node.asked if isinstance(request, kind)]


def test_reassignment_is_shown_and_not_done_before_it_is_to_be() -> None:
    said = script(controller=2)
    with scripted_cluster(said, node_2={ReassignShards: accepts}) as nodes:
        result = run(bootstrap(said, 1), "shard", "reassign", "1", "--replicas", "3,1", "--why", "node 2 goes")
        (asked,) = asked_of(nodes[2], ReassignShards)
    assert [(shard.shard, tuple(shard.replicas)) for shard in asked.shards] == [(1, (3, 1))]
    assert (asked.why, asked.is_dry_run) == ("node 2 goes", True)
    assert result.stdout.split("\n")[1].split() == ["1", "1,2,3", "3,1", "-", "2", "-", "-"]
    assert DRY in result.stderr
    assert result.exit_code == 0


def test_reassignment_that_is_not_begun_is_said_with_the_shards() -> None:
    said = script()
    with scripted_cluster(said, node_1={ReassignShards: accepts}):
        result = run(bootstrap(said), "shard", "reassign", "0", "--replicas", "3,1", "--execute", timeout="1s")
    why = "somebody has asked for other replicas since, or the controller was replaced"
    assert f"not begun: {why}; ask again for: shards 0" in result.stderr
    assert result.exit_code == ExitCode.TIMEOUT


def test_reassignment_that_is_done_is_said_when_it_is_waited_for() -> None:
    said = script()

    def moves(request: Any) -> ReassignShardsResponse:
        shards = said.describe(1).shards
        moved = (msgspec.structs.replace(shards[0], replicas=(3, 1, 2), isr=(1, 2, 3)), *shards[1:])
        said.changes[1] = {"shards": moved}
        return accepts(request)

    with scripted_cluster(said, node_1={ReassignShards: moves}):
        result = run(bootstrap(said), "shard", "reassign", "0", "--replicas", "3,1,2", "--execute", "--wait")
    assert "Moved: 1 of 3 shards." in result.stderr
    assert result.exit_code == 0


def test_a_shard_that_is_refused_is_said_with_the_reason_and_the_others_are_shown() -> None:
    def refuses(request: Any) -> ReassignShardsResponse:
        first, *others = accepts(request).results
        why = "node 9 is not there"
        return ReassignShardsResponse(
            results=(ShardChange(first.shard, ErrorCode.INVALID_REPLICA_ASSIGNMENT, why, (1, 2, 3)), *others)
        )

    said = script()
    with scripted_cluster(said, node_1={ReassignShards: refuses}):
        result = run(bootstrap(said), "shard", "reassign", "0", "1", "--replicas", "1,2,9", "-o", "json")
    assert [(row["shard"], row["error"], row["added"]) for row in json.loads(result.stdout)] == [
        (0, "INVALID_REPLICA_ASSIGNMENT", []),
        (1, None, [9]),
    ]
    assert "error: shard 0 was refused: node 9 is not there (INVALID_REPLICA_ASSIGNMENT)" in result.stderr
    assert result.exit_code == ExitCode.REFUSED_BY_STATE


def test_shards_are_spread_over_nodes_and_only_what_changes_is_asked_for() -> None:
    said = script()
    with scripted_cluster(said, node_1={ReassignShards: accepts}) as nodes:
        assert run(bootstrap(said), "shard", "reassign", "--nodes", "1,2,3").exit_code == 0
        (asked,) = asked_of(nodes[1], ReassignShards)
        assert len({next(iter(shard.replicas)) for shard in asked.shards} | {1}) == 3, "each is first of one shard"
        assert all(set(shard.replicas) == {1, 2, 3} for shard in asked.shards)
        nodes[1].asked.clear()
        result = run(bootstrap(said), "shard", "reassign", "0", "--nodes", "3,2,1")
        assert asked_of(nodes[1], ReassignShards) == []
    assert "Nothing has to move: the shards are where they are to be." in result.stderr


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["shard", "reassign"], ExitCode.USAGE, "name either --replicas"),
        (["shard", "reassign", "--replicas", "1,2"], ExitCode.USAGE, "for shards that are named"),
        (["shard", "reassign", "0", "--replicas", "1,b"], ExitCode.USAGE, "no list of node ids"),
        (["shard", "reassign", "7", "--replicas", "1,2"], ExitCode.NOT_FOUND, "there is no shard 7; shards are 0 to 2"),
        (["shard", "reassign", "--nodes", "1,8"], ExitCode.NOT_FOUND, "no node has the id 8; there are 1, 2, 3"),
        (["node", "drain", "8"], ExitCode.ERROR, "no node has the id 8; there are 1, 2, 3"),
        (["node", "remove", "8"], ExitCode.NOT_FOUND, "no node has the id 8; there are 1, 2, 3"),
    ],
)
def test_what_cannot_be_meant_is_said(arguments: list[str], code: int, words: str) -> None:
    said = script()
    with scripted_cluster(said):
        result = run(bootstrap(said), *arguments)
    assert words in " ".join(result.stderr.replace("│", " ").split())
    assert result.exit_code == code


def test_whoever_is_controller_by_then_is_asked() -> None:
    said = script(controller=1)

    def not_any_more(_: object) -> ElectLeadersResponse:
        said.controller = 3
        return ElectLeadersResponse(ErrorCode.NOT_CONTROLLER, "node 1 is not the controller")

    def gives_back(request: Any) -> ElectLeadersResponse:
        return ElectLeadersResponse(results=tuple(ShardChange(shard, new_leader=1) for shard in request.shards))

    with scripted_cluster(said, node_1={ElectLeaders: not_any_more}, node_3={ElectLeaders: gives_back}) as nodes:
        result = run(bootstrap(said), "shard", "elect", "--execute")
        (asked,) = asked_of(nodes[3], ElectLeaders)
    assert tuple(asked.shards) == (1, 2), "those that others lead than the first of their replicas"
    assert result.exit_code == 0


def test_nobody_is_asked_for_elections_where_all_are_led_as_they_are_to_be() -> None:
    said = script(leaders={0: 1, 1: 1})
    with scripted_cluster(said) as nodes:
        result = run(bootstrap(said), "shard", "elect")
        assert asked_of(nodes[1], ElectLeaders) == []
    assert "Each shard that has a leader is led by the first of its replicas." in result.stderr


def test_without_a_controller_that_is_said_in_the_end() -> None:
    said = script(controller=None)
    with scripted_cluster(said):
        result = run(bootstrap(said), "shard", "reassign", "0", "--replicas", "1,2", timeout="1s")
    assert "no node decides about shards now: no node knows a controller" in result.stderr
    assert result.exit_code == ExitCode.TIMEOUT


def answers(kept: tuple[int, ...] = ()) -> Callable[[Any], DrainNodeResponse]:
    return lambda _: DrainNodeResponse(led=(1,), kept=kept)


def test_a_node_is_asked_itself_to_be_drained_and_says_what_stays() -> None:
    said = script()
    with scripted_cluster(said, node_2={DrainNode: answers(kept=(1,))}) as nodes:
        result = run(bootstrap(said, 1), "node", "drain", "2", "--why", "a new disk")
        (asked,) = asked_of(nodes[2], DrainNode)
    assert (asked.node_id, asked.is_drained, asked.is_dry_run, asked.why) == (2, True, True, "a new disk")
    assert "no other node may lead shards 1 now: none that is in sync is there and ready" in result.stderr
    assert DRY in result.stderr


def test_a_drain_is_waited_for_until_no_in_sync_set_has_the_node_that_can_do_without_it() -> None:
    said = script(leaders={0: 1, 1: 3, 2: None, 3: 1}, isr={2: (1, 2, 3), 3: (1, 2)})
    isrs = [{0: (1, 2, 3), 1: (1, 2, 3)}, {0: (1, 3), 1: (3, 2, 1)}, {0: (1, 3), 1: (3, 1)}]

    def describe(_: object) -> Any:
        said.isr |= isrs.pop(0) if len(isrs) > 1 else isrs[0]
        return said.describe(3)

    with scripted_cluster(said, node_2={DrainNode: answers()}, node_3={DescribeCluster: describe}):
        result = run(bootstrap(said, 1), "node", "drain", "2", "--execute", "--wait")
    assert result.exit_code == 0, result.stderr
    assert "Node 2 leads nothing, and is in no in-sync set that can do without it." in result.stderr
    assert len(isrs) == 1, "it has returned while the leader of shard 1 had still to take it out"


def test_shards_in_whose_in_sync_sets_a_drained_node_stays_are_named() -> None:
    said = script(leaders={0: 1, 1: 3}, isr={0: (1, 3)})
    with scripted_cluster(said, node_2={DrainNode: answers()}):
        result = run(bootstrap(said, 1), "node", "drain", "2", "--execute", "--wait", timeout="1s")
    assert "node 2 still leads, or is in in-sync sets that can do without it: shards 1" in result.stderr
    assert result.exit_code == ExitCode.TIMEOUT


def test_a_node_that_was_drained_is_filled_again() -> None:
    said = script()
    with scripted_cluster(said, node_2={DrainNode: answers()}) as nodes:
        result = run(bootstrap(said, 1), "node", "undrain", "2", "--execute", "-o", "json")
        (asked,) = asked_of(nodes[2], DrainNode)
    assert (asked.is_drained, asked.is_dry_run) == (False, False)
    assert json.loads(result.stdout) == {"node_id": 2, "leads": [1], "kept": []}


def test_a_node_that_does_not_run_has_nothing_to_hand_on() -> None:
    said = script(leaders={0: 1, 1: 2})
    with scripted_cluster(said, dead=(3,)):
        result = run(bootstrap(said, 1), "node", "drain", "3")
    assert (
        "error: node 3 could not be asked: it cannot be reached: Connection refused; a node that does not run has"
        in (result.stderr)
    )
    assert result.exit_code == ExitCode.ERROR


def test_what_a_node_has_is_planned_for_the_others_also_of_one_that_is_gone() -> None:
    said = script(leaders={0: 1, 1: 2}, gone=frozenset({3}))
    with scripted_cluster(said, dead=(3,), node_1={ReassignShards: accepts}) as nodes:
        result = run(bootstrap(said, 1, 2), "node", "remove", "3")
        (asked,) = asked_of(nodes[1], ReassignShards)
    assert {shard.shard: set(shard.replicas) for shard in asked.shards} == {0: {1, 2}, 1: {1, 2}}
    assert "Warning: 2 nodes are left and ready, so shards have 2 replicas and not 3." in result.stderr
    assert DRY in result.stderr


@pytest.mark.parametrize(
    "arguments",
    [("node", "remove", "3"), ("shard", "reassign", "--nodes", "1,2")],
    ids=["a node is removed", "shards are spread"],
)
@pytest.mark.parametrize(("known", "subject"), [(2, "shard 2 has"), (0, "shards 0, 1, 2 have")], ids=["some", "none"])
def test_while_nobody_says_who_has_a_shard_nothing_is_planned_and_no_node_may_go(
    known: int, subject: str, arguments: tuple[str, ...]
) -> None:
    said = script()
    with scripted_cluster(said, node_1={ReassignShards: accepts}) as nodes:
        for node in nodes:
            told = said.describe(node).shards
            unknown = tuple(msgspec.structs.replace(shard, replicas=(), isr=()) for shard in told[known:])
            said.changes[node] = {"shards": (*told[:known], *unknown)}
        result = run(bootstrap(said), *arguments, "--execute", timeout="1s")
        assert asked_of(nodes[1], ReassignShards) == []
    assert f"error: {subject} replicas on nodes that are not known now" in result.stderr
    assert "stop it" not in result.stderr
    assert result.exit_code == ExitCode.REFUSED_BY_STATE


NODE_4_GOES = (
    ShardDescription(0, "serving", 6, 4, (1, 2, 3, 4), (1, 2, 4), 90, 90, adding=(3,), removing=(4,)),
    ShardDescription(1, "serving", 5, 1, (2, 1, 3), (1, 2, 3), 100, 95),
)
NODE_4_IS_OUT = (
    ShardDescription(0, "serving", 7, 1, (1, 2, 3), (1, 2, 3), 95, 95),
    ShardDescription(1, "serving", 5, 1, (2, 1, 3), (1, 2, 3), 100, 95),
)
AGAIN = pytest.mark.parametrize(
    "arguments",
    [
        ("node", "remove", "4"),
        ("shard", "reassign", "0", "--replicas", "1,2,3"),
        ("shard", "reassign", "--nodes", "1,2,3"),
    ],
    ids=["node removed", "replicas named", "shards spread"],
)
STOP_IT = "Node 4 has no replica of any shard: stop it, and leave it stopped."


def four_nodes(*, until_asked: int) -> tuple[Script, dict[Any, Any]]:
    """Return nodes of which the fourth leads a shard that is being moved away, until they were asked so often."""
    said, asked = script(leaders={0: 4, 1: 1}), 0

    def describe(_: object) -> Any:
        nonlocal asked
        asked += 1
        told = NODE_4_GOES if asked <= until_asked else NODE_4_IS_OUT
        said.changes[1] = {"replication_factor": 3, "shards": told}
        here = (msgspec.structs.replace(shard, status="following", adding=(), removing=()) for shard in told)
        said.changes[2] = said.changes[3] = said.changes[4] = {"shards": tuple(here)}
        if told is NODE_4_GOES:
            said.changes[4] = {"shards": (msgspec.structs.replace(told[0], adding=(), removing=()),)}
            said.changes[1]["shards"] = (msgspec.structs.replace(told[0], status="following"), told[1])
        return said.describe(1)

    return said, {DescribeCluster: describe, ReassignShards: accepts}


@AGAIN
def test_a_move_that_is_asked_for_again_is_waited_for_and_not_asked_for(arguments: tuple[str, ...]) -> None:
    said, of_1 = four_nodes(until_asked=3)
    with scripted_cluster(said, nodes=(1, 2, 3, 4), node_1=of_1) as nodes:
        result = run(bootstrap(said, 1), *arguments, "--execute", "--wait")
        assert asked_of(nodes[1], ReassignShards) == []
        asked = len(asked_of(nodes[1], DescribeCluster))
    assert "Being moved there already: shards 0;" in result.stderr
    assert "Moved: 1 of 2 shards." in result.stderr
    assert (STOP_IT in result.stderr) == (arguments[1] == "remove")
    assert asked > 3
    assert result.exit_code == 0


@AGAIN
def test_no_node_is_to_be_stopped_while_what_it_has_is_moved(arguments: tuple[str, ...]) -> None:
    said, of_1 = four_nodes(until_asked=1_000)
    with scripted_cluster(said, nodes=(1, 2, 3, 4), node_1=of_1):
        late = run(bootstrap(said, 1), *arguments, "--execute", "--wait", timeout="1s")
        at_once = run(bootstrap(said, 1), *arguments, "--execute")
    assert "not moved yet, and going on: shards 0" in late.stderr
    assert late.exit_code == ExitCode.TIMEOUT
    assert at_once.exit_code == 0
    for result in (late, at_once):
        assert "stop it" not in result.stderr
        assert "Nothing has to move" not in result.stderr


def elected(request: Any) -> ElectLeadersResponse:
    return ElectLeadersResponse(results=tuple(ShardChange(s.shard, new_leader=s.node_id) for s in request.unclean))


def replica(status: str, log_end: int, last_epoch: int) -> tuple[ShardDescription, ...]:
    return (ShardDescription(1, status, 5, None, (1, 2, 3), (3,), log_end, 90, last_epoch=last_epoch),)


def test_whoever_reaches_furthest_is_elected_uncleanly_and_what_is_lost_is_said_before() -> None:
    said = script(leaders={1: None}, changes={1: {"shards": replica("offline", 120, 3)}})
    said.changes[2] = {"shards": replica("offline", 110, 4)}
    with scripted_cluster(said, dead=(3,), node_1={ElectLeaders: elected}) as nodes:
        result = run(bootstrap(said, 1), "shard", "elect", "1", "--unclean", "--why", "node 3 burnt")
        (asked,) = asked_of(nodes[1], ElectLeaders)
    assert (tuple(asked.shards), asked.unclean, asked.is_dry_run) == ((), (UncleanLeader(1, 2, 5),), True)
    assert asked.why == "node 3 burnt"
    assert "Shard 1 on node 1: 120 records, the last of leader epoch 3; it knows that 90 are committed." in (
        " ".join(result.stderr.split())
    )
    assert "replicas that do not answer: 3; in sync: 3." in " ".join(result.stderr.split())
    assert "whatever was acknowledged from record 110 of shard 1 on" in " ".join(result.stderr.split())
    assert DRY in result.stderr
    assert result.exit_code == 0


@pytest.mark.parametrize("arguments", [("1",), ("--why", "gone")])
def test_an_unclean_election_wants_a_shard_and_a_reason(arguments: tuple[str, ...]) -> None:
    said = script()
    with scripted_cluster(said):
        result = run(bootstrap(said), "shard", "elect", "--unclean", *arguments)
    assert result.exit_code == ExitCode.USAGE
    assert "name the shards, and the reason with --why" in " ".join(result.stderr.replace("│", " ").split())
