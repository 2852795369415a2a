"""Operators are answered by the node that decides: a dry run says the same as the change, and begins nothing."""

from typing import Any

import pytest

from coordinator.core.cluster.events import ElectUnclean, GiveBackShard, ReassignShard, StateWanted
from coordinator.core.cluster.image import Image
from coordinator.core.cluster.znodes import Bucket, Cluster, NodeState, ShardEntry, Versioned
from coordinator.core.cluster_node.answers.draining import HandOver
from coordinator.core.cluster_node.answers.operators import Answer, answer_operator
from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.messages import (
    DrainNode,
    DrainNodeResponse,
    ElectLeaders,
    ElectLeadersResponse,
    ReassignShards,
    ReassignShardsResponse,
)
from coordinator.protocol.parts import ShardChange, ShardReplicas, UncleanLeader

CLUSTER = Cluster(cluster_id="c", shards=2, buckets=1, replication_factor=3, min_insync_replicas=2)
ENTRY = ShardEntry(leader=1, leader_node_epoch=0, leader_epoch=4, isr=(1, 2), replicas=(2, 1))
IMAGE = Image(cluster=Versioned(CLUSTER, 0), buckets={0: Versioned(Bucket(shards={0: ENTRY, 1: ENTRY}), 3)})


class Rooms:
    """The rooms of a node that knows all shards as the controller, or not, and refuses wishes about shard 1."""

    def __init__(self, *, knows_shards: bool = True, has_office: bool = False, is_stopping: bool = False) -> None:
        self.knows_shards = knows_shards
        self.has_office = knows_shards or has_office
        self.registration: Any = type("R", (), {"is_stopping": is_stopping})
        self.controller: Any = type("C", (), {"observer": type("O", (), {"image": IMAGE})})

    def why_not(self, now_ms: int, wish: ReassignShard | GiveBackShard) -> str:
        assert now_ms == 7
        return {0: "", 1: "not that one"}.get(wish.shard, "there is no such shard")


def answer(
    request: ReassignShards | ElectLeaders | DrainNode,
    *,
    knows_shards: bool = True,
    has_office: bool = False,
    is_stopping: bool = False,
) -> Answer:
    rooms: Any = Rooms(knows_shards=knows_shards, has_office=has_office, is_stopping=is_stopping)
    return answer_operator(request, 3, rooms, 5, HandOver((0, 1), (1,)), 7)


def reassign(*, is_dry_run: bool) -> ReassignShards:
    shards = (ShardReplicas(0, (3, 2)), ShardReplicas(1, (3, 2)), ShardReplicas(9, (3, 2)))
    return ReassignShards(shards, "ann", "node 1 goes", is_dry_run)


@pytest.mark.parametrize("is_dry_run", [True, False])
def test_each_shard_is_accepted_or_refused_by_itself(is_dry_run: bool) -> None:
    said = answer(reassign(is_dry_run=is_dry_run))
    assert said.response == ReassignShardsResponse(
        results=(
            ShardChange(0, ErrorCode.NONE, "", (2, 1), (3, 2), 1, 3),
            ShardChange(1, ErrorCode.INVALID_REPLICA_ASSIGNMENT, "not that one", (2, 1), (3, 2), 1, 3),
            ShardChange(9, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "there is no such shard"),
        )
    )
    assert said.begins == (() if is_dry_run else (ReassignShard(0, (3, 2)),))
    assert said.recorded == ("" if is_dry_run else "shard 0 is to have replicas 3, 2; says ann: node 1 goes")


def test_a_shard_that_one_request_gives_two_sets_of_replicas_gets_neither() -> None:
    shards = (ShardReplicas(0, (3, 2)), ShardReplicas(0, (2, 3)))
    said = answer(ReassignShards(shards, "ann", is_dry_run=False))
    assert isinstance(said.response, ReassignShardsResponse)
    assert [(each.error, each.message) for each in said.response.results] == [
        (ErrorCode.INVALID_REPLICA_ASSIGNMENT, "shard 0 is named more than once: say once which replicas it is to have")
    ] * 2
    assert said.begins == ()


def test_first_replicas_are_to_lead() -> None:
    said = answer(ElectLeaders((0, 1), "ann", is_dry_run=False))
    assert said.response == ElectLeadersResponse(
        results=(
            ShardChange(0, ErrorCode.NONE, "", (2, 1), (2, 1), 1, 2),
            ShardChange(1, ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE, "not that one", (2, 1), (2, 1), 1, 2),
        )
    )
    assert said.begins == (GiveBackShard(0),)


def test_a_replica_out_of_sync_is_to_lead_and_it_is_recorded_what_that_costs() -> None:
    unclean = (UncleanLeader(0, 2, 4), UncleanLeader(1, 2, 4))
    said = answer(ElectLeaders((), "ann", "both disks are gone", is_dry_run=False, unclean=unclean))
    assert [(each.shard, each.error, each.new_leader) for each in said.response.results] == [
        (0, ErrorCode.NONE, 2),
        (1, ErrorCode.ELECTION_NOT_NEEDED, 2),
    ]
    assert said.begins == (ElectUnclean(0, 2, 4),)
    assert said.recorded == (
        "shard 0 is to be led by node 2, which is not in sync: what that lacks is lost; says ann: both disks are gone"
    )
    assert answer(ElectLeaders((), "ann", "both", unclean=unclean)).begins == ()


@pytest.mark.parametrize("request_", [reassign(is_dry_run=False), ElectLeaders((0,), "ann", is_dry_run=False)])
def test_a_node_without_the_office_names_who_had_it(request_: ReassignShards | ElectLeaders) -> None:
    said = answer(request_, knows_shards=False)
    assert said.response.error is ErrorCode.NOT_CONTROLLER
    assert said.response.message == "node 3 is not the controller; node 5 was, when it heard"
    assert said.begins == ()


def test_a_controller_that_cannot_read_the_cluster_does_not_say_that_another_one_has_the_office() -> None:
    said = answer(reassign(is_dry_run=False), knows_shards=False, has_office=True)
    assert said.response.error is ErrorCode.NOT_CONTROLLER
    assert said.response.message == (
        "node 3 is the controller and does not know all shards now; ask again in a moment, or when /cluster in "
        "ZooKeeper is put right"
    )
    assert said.begins == ()


def test_a_node_is_drained_that_is_asked_itself() -> None:
    said = answer(DrainNode(3, True, "ann", "a disk", is_dry_run=False))
    assert said.response == DrainNodeResponse(led=(0, 1), kept=(1,))
    assert said.begins == (StateWanted(NodeState.DRAINING),)
    assert said.recorded == "this node is to be drained, says ann: a disk"
    assert answer(DrainNode(3, True, "ann")).begins == ()
    assert answer(DrainNode(3, False, "ann", is_dry_run=False)).begins == (StateWanted(NodeState.READY),)
    other = answer(DrainNode(4, True, "ann", is_dry_run=False))
    assert (other.response.error, other.begins) == (ErrorCode.INVALID_REQUEST, ())
    assert other.response.message == "this is node 3 and not node 4: ask that one itself"


@pytest.mark.parametrize("is_dry_run", [True, False])
def test_a_node_that_was_told_to_stop_is_not_filled_again(is_dry_run: bool) -> None:
    said = answer(DrainNode(3, False, "ann", is_dry_run=is_dry_run), is_stopping=True)
    assert (said.response.error, said.begins, said.recorded) == (ErrorCode.INVALID_REQUEST, (), "")
    assert said.response.message == (
        "node 3 was told to stop and hands on what it leads: it is filled again once it has started"
    )
    drained = answer(DrainNode(3, True, "ann", is_dry_run=is_dry_run), is_stopping=True)
    assert drained.response.error is ErrorCode.NONE
