"""Verbs about nodes, shards and the cluster, and verbs about groups that are spread over several nodes."""

import json

import msgspec.structs
import pytest
from typer.testing import CliRunner

from coordinator.cli import app
from coordinator.cli.parts.exits import ExitCode
from coordinator.cli.verbs.cluster import NODE_COLUMNS
from coordinator.client import every_node
from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.messages import (
    DescribeCluster,
    DescribeGroup,
    DescribeGroupResponse,
    ErrorResponse,
    FindCoordinator,
    FindCoordinatorResponse,
    ListGroups,
)
from coordinator.protocol.messages.operators import DescribeControls, DescribeControlsResponse
from coordinator.protocol.parts import NodeAddress
from coordinator.protocol.text.addresses import format_address
from tests.helpers.loopback_coordinator import unused_address
from tests.helpers.scripted_cluster import Script, bootstrap, scripted_cluster
from tests.helpers.scripted_coordinator import ScriptedCoordinator

GROUPS = {0: ("a",), 1: ("b", "d"), 2: ("c",)}


def script(**changes: object) -> Script:
    known: dict[str, object] = {"leaders": {0: 1, 1: 2, 2: 3}, "groups": dict(GROUPS)}
    return Script(**(known | changes))  # type: ignore[arg-type]


def run(coordinators: str, *arguments: str):
    return CliRunner().invoke(app, [*arguments, "--coordinator", coordinators, "--timeout", "5s"])


# ---- groups of all nodes --------------------------------------------------------------------------------------------


def test_groups_are_listed_over_all_nodes_whichever_is_asked() -> None:
    said = script()
    with scripted_cluster(said):
        for node in (1, 2, 3):
            result = run(bootstrap(said, node), "group", "list", "-o", "json")
            assert [group["group"] for group in json.loads(result.stdout)] == ["a", "b", "c", "d"]
            assert (result.exit_code, result.stderr) == (0, "")


def test_node_that_could_not_be_asked_is_named_and_the_others_groups_are_shown() -> None:
    said = script(leaders={0: 1, 1: 2, 2: 1})
    with scripted_cluster(said, dead=(3,)):
        result = run(bootstrap(said), "group", "list", "-o", "json")
        assert [group["group"] for group in json.loads(result.stdout)] == ["a", "b", "c", "d"]
        assert result.exit_code == 0
        where = format_address(said.addresses[3])
        assert f"Warning: the node at {where} could not be asked: it cannot be reached: Connection refused." in (
            result.stderr
        )


def test_shards_that_no_node_serves_are_said_and_the_list_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(every_node, "LIST_AGAIN_S", 0.0)
    said = script(gone=frozenset({3}), leaders={0: 1, 1: 2, 2: None})
    with scripted_cluster(said, dead=(3,)):
        result = run(bootstrap(said, 1, 2), "group", "list", "-o", "json")
        assert [group["group"] for group in json.loads(result.stdout)] == ["a", "b", "d"]
        assert "groups of shard 2 are not known: no node serves them now" in result.stderr
        assert result.exit_code == ExitCode.REFUSED_BY_STATE


def test_shard_that_moves_meanwhile_is_asked_for_again() -> None:
    said = script(leaders={0: 1, 1: 2, 2: None})
    asked = []

    def listed(request: object) -> object:
        asked.append(request)
        if len(asked) == 4:
            said.leaders[2] = 2
        return said.list_groups(2, request)  # type: ignore[arg-type]

    with scripted_cluster(said, node_2={ListGroups: listed}):
        result = run(bootstrap(said), "group", "list", "-o", "json")
    assert [group["group"] for group in json.loads(result.stdout)] == ["a", "b", "c", "d"]
    assert result.exit_code == 0


def test_what_changes_all_groups_does_nothing_while_some_are_not_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(every_node, "LIST_AGAIN_S", 0.0)
    said = script(leaders={0: 1, 1: 2, 2: None})
    with scripted_cluster(said) as nodes:
        result = run(bootstrap(said), "group", "delete", "--all-groups", "--execute")
        assert result.exit_code == ExitCode.REFUSED_BY_STATE
        assert {type(request) for node in nodes.values() for request in node.asked} == {DescribeCluster, ListGroups}


def test_groups_of_all_nodes_can_be_described_each_by_its_own_coordinator() -> None:
    said = script()

    def at(node: int) -> dict[object, object]:
        def described(request: DescribeGroup) -> object:
            shard = next(shard for shard, groups in GROUPS.items() if request.group_id in groups)
            if said.leaders[shard] != node:
                return ErrorResponse(ErrorCode.NOT_COORDINATOR, f"shard {shard} is not led by this node")
            return DescribeGroupResponse(group_id=request.group_id, state="Empty")

        def found(request: FindCoordinator) -> object:
            shard = next(shard for shard, groups in GROUPS.items() if request.group_id in groups)
            leader = said.leaders[shard]
            assert leader is not None
            return FindCoordinatorResponse(coordinator=NodeAddress(leader, *said.addresses[leader]), leader_epoch=5)

        return {DescribeGroup: described, FindCoordinator: found, DescribeControls: DescribeControlsResponse()}

    answers = {f"node_{node}": at(node) for node in (1, 2, 3)}
    with scripted_cluster(said, **answers):  # type: ignore[arg-type]
        result = run(bootstrap(said, 3), "group", "describe", "--state", "--all-groups", "-o", "json")
    assert [group["group"] for group in json.loads(result.stdout)] == ["a", "b", "c", "d"]
    assert [group["coordinator"]["node_id"] for group in json.loads(result.stdout)] == [1, 2, 3, 2]


def test_group_whose_shard_nobody_leads_is_refused_by_state() -> None:
    said = script()
    refused = ErrorResponse(ErrorCode.NOT_COORDINATOR, "shard 1 is not led by this node")
    nobody = FindCoordinatorResponse(ErrorCode.COORDINATOR_NOT_AVAILABLE, "no leader is known")
    answers = {f"node_{node}": {DescribeGroup: refused, FindCoordinator: nobody} for node in (1, 2, 3)}
    with scripted_cluster(said, **answers):  # type: ignore[arg-type]
        arguments = ["group", "describe", "b", "--coordinator", bootstrap(said), "--timeout", "0.5s"]
        result = CliRunner().invoke(app, arguments)
    assert result.exit_code == ExitCode.REFUSED_BY_STATE
    assert "error: the coordinator refused: shard 1 is not led by this node (NOT_COORDINATOR)" in result.stderr


# ---- nodes and shards -----------------------------------------------------------------------------------------------


def test_nodes_are_listed_with_what_they_lead_and_who_is_the_controller() -> None:
    said = script(isr={1: (1, 2)})
    with scripted_cluster(said):
        result = run(bootstrap(said, 2), "node", "list")
        rows = [line.split() for line in result.stdout.splitlines()]
        assert tuple(rows[0]) == NODE_COLUMNS
        assert rows[1][0:7] == ["1", format_address(said.addresses[1]), "ready", "yes", "1", "3", "3"]
        assert rows[3][0:7] == ["3", format_address(said.addresses[3]), "ready", "no", "1", "3", "2"]
        assert rows[3][7:] == ["4", "rack-3", "1.2.3"]


def test_node_that_does_not_answer_is_listed_as_silent_and_named_with_its_reason() -> None:
    said = script()
    with scripted_cluster(said, dead=(3,)):
        result = run(bootstrap(said, 1), "node", "list", "-o", "json")
        third = json.loads(result.stdout)[2]
        assert (third["state"], third["why_not_asked"]) == ("ready", "cannot be reached: Connection refused")
        where = format_address(said.addresses[3])
        assert f"Warning: node 3 at {where} could not be asked: it cannot be reached" in result.stderr
        assert "ready, silent" in run(bootstrap(said, 1), "node", "list").stdout


def test_node_is_described_by_the_shards_that_it_has() -> None:
    said = script(isr={1: (1, 2)})
    with scripted_cluster(said, dead=(1,)):
        told = json.loads(run(bootstrap(said, 2), "node", "describe", "3", "-o", "json").stdout)
        assert told["node_id"] == 3
        shards = [(shard["shard"], shard["state"], shard["is_in_sync"]) for shard in told["shards"]]
        assert shards == [(0, "following", False), (1, "following", False), (2, "serving", True)]
        missing = run(bootstrap(said, 2), "node", "describe", "7")
        assert (missing.exit_code, missing.stderr) == (
            ExitCode.NOT_FOUND,
            "error: no node has the id 7; there are 1, 2, 3 [KC-3006]\n",
        )
        silent = run(bootstrap(said, 2), "node", "describe", "1")
        assert silent.exit_code == ExitCode.ERROR
        assert "node 1 could not be asked: it cannot be reached" in silent.stderr


def test_shards_are_listed_with_leader_epoch_replicas_and_in_sync_set() -> None:
    said = script(leaders={0: 1, 1: 2, 2: None}, isr={1: (1, 2)})
    with scripted_cluster(said):
        rows = [line.split() for line in run(bootstrap(said, 3), "shard", "list").stdout.splitlines()[1:]]
        assert rows == [
            ["0", "1", "5", "serving", "1,2,3", "1,2,3", "100", "95"],
            ["1", "2", "5", "serving", "1,2,3", "1,2", "100", "95"],
            ["2", "-", "5", "offline", "1,2,3", "1,2,3", "-", "-"],
        ]
        out = json.loads(run(bootstrap(said, 3), "shard", "list", "--out-of-sync", "-o", "json").stdout)
        assert [shard["shard"] for shard in out] == [1, 2]


def test_shard_is_described_by_its_replicas_with_how_far_each_is_behind() -> None:
    said = script(isr={1: (1, 2)})
    with scripted_cluster(said, dead=(3,)):
        rows = [line.split() for line in run(bootstrap(said, 1), "shard", "describe", "1").stdout.splitlines()[1:]]
        assert rows == [
            ["1", "1", "follower", "following", "yes", "5", "90", "10"],
            ["1", "2", "leader", "serving", "yes", "5", "100", "0"],
            ["1", "3", "follower", "-", "no", "-", "-", "-"],
        ]
        missing = run(bootstrap(said, 1), "shard", "describe", "9")
        assert missing.exit_code == ExitCode.NOT_FOUND
        assert missing.stderr.startswith("error: there is no shard 9; shards are 0 to 2")


# ---- the whole ------------------------------------------------------------------------------------------------------


def test_cluster_in_which_all_is_well_says_so() -> None:
    said = script()
    with scripted_cluster(said):
        result = run(bootstrap(said, 1), "cluster", "status")
        assert (result.exit_code, result.stdout) == (0, "")
        assert result.stderr == "All is well: 3 nodes, 3 shards.\n"
        facts = run(bootstrap(said, 1), "cluster", "describe", "-o", "csv").stdout
        assert "cluster id,c1\n" in facts
        assert "controller,1\n" in facts


def test_cluster_says_what_is_wrong_in_words_what_costs_most_first() -> None:
    said = script(
        leaders={0: 1, 1: 2, 2: None, 3: 3},
        isr={0: (1, 2), 1: (2,), 2: (1, 2)},
        status={1: "loading"},
        gone=frozenset({3}),
    )
    said.changes[2] = {"is_up_to_date": False}
    with scripted_cluster(said, dead=(3,)):
        result = run(bootstrap(said, 1, 2), "cluster", "status", "-o", "json")
        told = json.loads(result.stdout)
        assert result.exit_code == ExitCode.REFUSED_BY_STATE
        assert told["is_well"] is False
        assert told["troubles"] == [
            "shard 2 has no leader: groups there are not served",
            "shard 1 has a leader that is loading: groups there wait",
            "shard 3 has a leader that could not be asked",
            "shards 0, 1, 2 have fewer replicas in sync than there are",
            "shard 1 has fewer replicas in sync than min_insync_replicas, which is 2: groups there wait until others "
            "have caught up",
            "shard 0 has no replica in sync to spare: if one more is lost, nothing is committed there",
            "node 3 is gone: it has no session with ZooKeeper",
            "node 2 does not hear ZooKeeper",
        ]


def test_a_node_that_members_do_not_reach_where_they_are_sent_is_named_with_the_setting() -> None:
    said = script()
    nowhere = unused_address()
    with scripted_cluster(said):
        asked = bootstrap(said)
        assert run(asked, "cluster", "status").exit_code == 0
        told = [each for each in said.describe(1).nodes if each.node_id != 3]
        told.append(msgspec.structs.replace(said.describe(1).nodes[2], host=nowhere[0], port=nowhere[1]))
        for node in (1, 2, 3):
            said.changes[node] = {"nodes": tuple(told)}
        result = run(asked, "cluster", "status", "-o", "json")
        assert json.loads(result.stdout)["troubles"] == [
            f"node 3 answers, but at {format_address(nowhere)}, where members are sent, it cannot be reached: "
            "Connection refused; look at its node.advertised"
        ]
        assert result.exit_code == ExitCode.REFUSED_BY_STATE


def test_nodes_of_two_clusters_are_not_taken_for_one() -> None:
    one, other = script(), script(cluster_id="c2")
    with scripted_cluster(one, nodes=(1,)), scripted_cluster(other, nodes=(2,)):
        result = run(f"{bootstrap(one)},{bootstrap(other)}", "node", "list")
        assert result.exit_code == ExitCode.ERROR
        assert "is a node of cluster c1 and" in result.stderr
        assert "is a node of cluster c2: name nodes of one cluster" in result.stderr


def test_no_node_that_answers_is_an_error_with_each_address() -> None:
    said = script()
    with scripted_cluster(said, dead=(1, 2, 3)):
        result = run(bootstrap(said), "shard", "list")
        assert result.exit_code == ExitCode.ERROR
        for address in said.addresses.values():
            assert (
                f"the coordinator at {format_address(address)} cannot be reached: Connection refused" in result.stderr
            )
        assert "--coordinator or KCOORD_COORDINATOR names another" in result.stderr


def test_coordinator_of_an_older_release_is_said_to_be_one() -> None:
    answer = ErrorResponse(ErrorCode.UNSUPPORTED_VERSION, "message 14 is not known")
    with ScriptedCoordinator({DescribeCluster: answer}) as old:
        result = run(format_address(old.address), "cluster", "status")
        assert result.exit_code == ExitCode.ERROR
        assert "does not describe itself: it is of an older release" in result.stderr
