"""A node that is alone answers as a cluster of one, and lists groups of what it serves where all is not served."""

from coordinator.core.events import LeadershipTaken
from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.messages import (
    CommitOffsets,
    DescribeCluster,
    DescribeClusterResponse,
    DrainNode,
    DrainNodeResponse,
    ElectLeaders,
    ElectLeadersResponse,
    ErrorResponse,
    ListGroups,
    ListGroupsResponse,
    ReassignShards,
    ReassignShardsResponse,
)
from coordinator.protocol.messages.pages import join_pages
from coordinator.protocol.parts import GroupSummary, NodeDescription, ShardReplicas, TopicOffsets
from coordinator.protocol.vocabulary import NodeStatus, ShardStatus
from tests.helpers.node_world import NodeWorld


def test_node_that_is_alone_is_a_cluster_of_one() -> None:
    world = NodeWorld({"t": 2}, shards=2)
    world.join("m1")
    told = world.connect().ask(DescribeCluster(), DescribeClusterResponse)
    (node,) = told.nodes
    assert node == NodeDescription(told.node_id, NodeStatus.READY, node.host, node.port, is_heard=True)
    assert (told.cluster_id, told.controller, told.is_up_to_date) == (None, None, None)
    assert (told.replication_factor, told.min_insync_replicas) == (1, 1)
    assert [shard.shard for shard in told.shards] == [0, 1]
    for shard in told.shards:
        assert (shard.status, shard.leader, shard.leader_epoch) == (ShardStatus.SERVING, told.node_id, 1)
        assert shard.replicas == shard.isr == (told.node_id,)
        assert shard.log_end == shard.high_watermark == len(world.written[shard.shard])


def test_node_tells_its_clock_and_the_kafka_that_it_reads() -> None:
    world = NodeWorld({"t": 2}, shards=1)
    world.join("m1")
    told = world.connect().ask(DescribeCluster(), DescribeClusterResponse)
    assert told.wall_ms == world.now_ms + world.wall_offset_ms
    assert (told.kafka_cluster_id, told.kafka_failure) == (world.node.catalog.cluster_id, "")
    world.node.catalog.failure = "Kafka at k:9092 cannot be reached"
    told = world.connect().ask(DescribeCluster(), DescribeClusterResponse)
    assert told.kafka_failure == "Kafka at k:9092 cannot be reached"


def test_shard_whose_log_is_ahead_of_the_disk_shows_it() -> None:
    world = NodeWorld({"t": 2}, shards=1)
    world.is_durable_at_once = False
    world.connect().send(CommitOffsets("g", (TopicOffsets("gone", (0,), (5,)),)))
    (shard,) = world.connect().ask(DescribeCluster(), DescribeClusterResponse).shards
    assert shard.log_end is not None
    assert shard.high_watermark is not None
    assert shard.high_watermark < shard.log_end


def test_list_of_what_is_served_names_the_shards_that_it_is_of() -> None:
    world = NodeWorld({"t": 2}, shards=2)
    world.join("m1")
    assert world.connect().ask(ListGroups(), ListGroupsResponse).shards == ()
    assert world.connect().ask(ListGroups(of_served=True), ListGroupsResponse).shards == (0, 1)


def test_groups_of_what_is_served_are_listed_where_a_shard_is_led_elsewhere() -> None:
    world = NodeWorld({"t": 2}, shards=2)
    world.join("m1")
    shard = world.node.shard_of("g")
    world.happen(LeadershipTaken(1 - shard, "node 2 leads it"))
    assert world.connect().ask(ListGroups(), ErrorResponse).error is ErrorCode.NOT_COORDINATOR
    listed = world.connect().ask(ListGroups(of_served=True), ListGroupsResponse)
    assert ([group.group_id for group in listed.groups], listed.shards) == (["g"], (shard,))
    world.happen(LeadershipTaken(shard, "node 2 leads it"))
    assert world.connect().ask(ListGroups(of_served=True), ListGroupsResponse) == ListGroupsResponse()


def test_pages_together_are_of_the_shards_that_were_served_for_all_of_them() -> None:
    first = ListGroupsResponse((GroupSummary("a", "Stable", 1, 1),), None, (0, 1, 3))
    second = ListGroupsResponse((GroupSummary("b", "Stable", 1, 1),), None, (1, 2, 3))
    joined = join_pages([first, second])
    assert isinstance(joined, ListGroupsResponse)
    assert ([group.group_id for group in joined.groups], joined.shards) == (["a", "b"], (1, 3))


def test_whatever_is_to_be_changed_in_a_cluster_is_refused_by_a_node_that_is_alone() -> None:
    tool = NodeWorld({"t": 2}, shards=1).connect()
    asked = (
        (ReassignShards((ShardReplicas(0, (1, 2)),), "ann"), ReassignShardsResponse),
        (ElectLeaders((0,), "ann"), ElectLeadersResponse),
        (DrainNode(1, True, "ann"), DrainNodeResponse),
    )
    for request, kind in asked:
        response = tool.ask(request, kind)
        assert response.error is ErrorCode.INVALID_REQUEST
        assert response.message == "this coordinator is alone: its shards cannot be moved, and it cannot be drained"
