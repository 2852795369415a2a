"""Nodes of a cluster, asked what they know of it: by tools, and by members of a leader that is gone."""

from dataclasses import replace
from random import Random

import pytest

from coordinator.core import effects as e
from coordinator.core.cluster.znodes import CLUSTER
from coordinator.core.cluster.zookeeper import ZkApplied, ZkDelete
from coordinator.core.events import ConnectionOpened, RequestArrived, RulesChanged
from coordinator.core.requests.finding import DOUBT_MS
from coordinator.core.security.acl import Acl
from coordinator.core.security.acl_file import parse_rules
from coordinator.core.security.authorizer import Authorizer
from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.messages import (
    DescribeCluster,
    DescribeClusterResponse,
    DrainNode,
    ElectLeaders,
    ErrorResponse,
    FindCoordinator,
    FindCoordinatorResponse,
    ListGroups,
    ListGroupsResponse,
    ReassignShards,
    Request,
    Response,
)
from coordinator.protocol.vocabulary import NodeStatus, ShardStatus
from tests.sim.cluster.mix import ClusterMix, draw_cluster_mix
from tests.sim.cluster.process import ClusterProcess
from tests.sim.cluster.world import ClusterWorld

NODES = {1, 2, 3}


def mix(**changes: object) -> ClusterMix:
    """Return three nodes that nothing happens to."""
    drawn = draw_cluster_mix(Random(1), 3)
    cluster = replace_struct(drawn.cluster, shards=4, buckets=4, min_insync_replicas=2)
    return replace(drawn, cluster=cluster, faults={}, faulty_ms=2_000, **changes)  # type: ignore[arg-type]


def replace_struct(cluster: object, **changes: object) -> object:
    return type(cluster)(**{name: getattr(cluster, name) for name in cluster.__struct_fields__} | changes)  # type: ignore[attr-defined]


def test_cluster_verbs_are_refused_to_a_principal_that_may_not_and_nothing_is_done() -> None:
    world = ClusterWorld(1, mix(), Random(1))
    on_groups = "allow User:* all group literal *\nallow User:* all topic literal *\n"
    authorizer = Authorizer(Acl(parse_rules(on_groups)))
    for process in world.processes:
        process.authorizer = authorizer
    world.run()
    tool = Tool(world)
    for request in (
        DescribeCluster(),
        DrainNode(1, is_drained=True, who="ann", is_dry_run=False),
        ReassignShards((), "ann"),
        ElectLeaders((), "ann"),
    ):
        refused = tool.ask(1, request)
        assert isinstance(refused, ErrorResponse)
        assert refused.error is ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    world.processes[0].step(RulesChanged(Acl(parse_rules("allow User:ANONYMOUS describe cluster"))))
    described = tool.ask(1, DescribeCluster())
    assert isinstance(described, DescribeClusterResponse)
    assert {node.status for node in described.nodes} == {NodeStatus.READY}


@pytest.fixture
def world() -> ClusterWorld:
    world = ClusterWorld(1, mix(), Random(1))
    world.run()
    return world


class Tool:
    """Asks nodes, each over a connection of its own, and hears answers whenever they come."""

    def __init__(self, world: ClusterWorld) -> None:
        self.world = world
        self.answers: dict[int, Response] = {}
        self._asked = 10**6
        self._others = world.clients.respond
        world.clients.respond = self._hear  # type: ignore[method-assign]

    def _hear(self, process: ClusterProcess, effect: e.Respond) -> None:
        if effect.connection_id > 10**6:
            self.answers[effect.connection_id] = effect.response
        else:
            self._others(process, effect)

    def send(self, number: int, request: Request) -> int:
        self._asked += 1
        process = self.world.processes[number - 1]
        process.step(ConnectionOpened(self._asked, "h"))
        process.step(RequestArrived(self._asked, 1, request))
        return self._asked

    def ask(self, number: int, request: Request) -> Response:
        """Return what a node answers before long."""
        asked = self.send(number, request)
        self.pass_ms(500)
        return self.answers[asked]

    def pass_ms(self, ms: int) -> None:
        self.world.schedule.run_until(self.world.schedule.now_ms + ms)


def find(tool: Tool, number: int, leader_epoch: int | None = None) -> FindCoordinatorResponse:
    answer = tool.ask(number, FindCoordinator("g0", leader_epoch))
    assert isinstance(answer, FindCoordinatorResponse)
    return answer


def described(tool: Tool, number: int) -> DescribeClusterResponse:
    answer = tool.ask(number, DescribeCluster())
    assert isinstance(answer, DescribeClusterResponse)
    return answer


def test_every_node_names_the_cluster_its_nodes_and_the_controller(world: ClusterWorld) -> None:
    tool = Tool(world)
    told = {number: described(tool, number) for number in NODES}
    (controller,) = {each.controller for each in told.values()}
    assert [process.number for process in world.processes if process.node.has_office] == [controller]
    for number, each in told.items():
        assert (each.node_id, each.cluster_id) == (number, "c1")
        assert (each.replication_factor, each.min_insync_replicas, each.is_up_to_date) == (3, 2, True)
        assert {node.node_id for node in each.nodes} == NODES
        assert {(node.status, node.host, node.port, node.is_heard) for node in each.nodes} == {
            (NodeStatus.READY, f"n{node}", 7600, True) for node in NODES
        }


def test_leaders_controller_and_replicas_say_what_each_of_them_knows(world: ClusterWorld) -> None:
    tool = Tool(world)
    told = {number: described(tool, number) for number in NODES}
    for shard in range(4):
        seen = {number: each.shards[shard] for number, each in told.items()}
        (leader,) = {each.leader for each in seen.values()}
        assert leader is not None
        assert len({each.leader_epoch for each in seen.values()}) == 1
        assert seen[leader].status == ShardStatus.SERVING
        assert set(seen[leader].isr) == set(seen[leader].replicas) == NODES
        assert {each.status for number, each in seen.items() if number != leader} == {ShardStatus.FOLLOWING}
        assert all(each.log_end is not None and each.high_watermark is not None for each in seen.values())
        controller = told[1].controller
        assert controller is not None
        assert set(seen[controller].isr) == NODES


def test_node_that_is_gone_is_said_to_be_gone_and_its_shards_have_other_leaders(world: ClusterWorld) -> None:
    world.processes[2].end(loses_power=False, why="is killed")
    tool = Tool(world)
    tool.pass_ms(15_000)
    for number in (1, 2):
        each = described(tool, number)
        (gone,) = [node for node in each.nodes if node.node_id == 3]
        assert (gone.status, gone.is_heard) == (NodeStatus.GONE, False)
        assert {shard.leader for shard in each.shards} <= {1, 2}
        for shard in each.shards:
            if shard.leader == number:
                assert set(shard.isr) == {1, 2}
                assert set(shard.replicas) == NODES


def test_nodes_say_what_they_have_when_somebody_has_removed_the_cluster_and_what_to_do(world: ClusterWorld) -> None:
    tool = Tool(world)
    before = {number: described(tool, number) for number in NODES}
    owner = world.servers.begin_session(10**6, lambda: None)
    world.servers.heard(owner)
    version = world.servers.copy()[CLUSTER].version
    done = world.servers.multi(world.servers.servers[0], owner, (ZkDelete(CLUSTER, version),))
    assert isinstance(done, ZkApplied)
    tool.pass_ms(15_000)
    for number in NODES:
        each = described(tool, number)
        assert (each.cluster_id, each.replication_factor, each.min_insync_replicas) == ("c1", 3, 2)
        leaders = [(shard.leader, shard.leader_epoch) for shard in each.shards]
        assert leaders == [(shard.leader, shard.leader_epoch) for shard in before[number].shards]
        assert "put its data back" in " ".join(each.stuck)


def test_groups_of_all_nodes_together_are_those_of_every_shard_once(world: ClusterWorld) -> None:
    tool = Tool(world)
    shards: list[int] = []
    groups: list[str] = []
    for number in NODES:
        listed = tool.ask(number, ListGroups(of_served=True))
        assert isinstance(listed, ListGroupsResponse)
        led = [shard.shard for shard in described(tool, number).shards if shard.leader == number]
        assert list(listed.shards) == led
        shards += listed.shards
        groups += [group.group_id for group in listed.groups]
    assert sorted(shards) == [0, 1, 2, 3]
    assert sorted(groups) == sorted({client.group_id for client in world.clients.all})


def test_node_that_does_not_serve_every_shard_refuses_to_list_all_groups(world: ClusterWorld) -> None:
    refused = Tool(world).ask(1, ListGroups())
    assert isinstance(refused, ErrorResponse)
    assert refused.error is ErrorCode.NOT_COORDINATOR


def test_every_node_names_the_same_coordinator_and_all_nodes_itself_first(world: ClusterWorld) -> None:
    tool = Tool(world)
    found = {number: find(tool, number) for number in NODES}
    assert len({(each.coordinator, each.leader_epoch) for each in found.values()}) == 1
    for number, each in found.items():
        assert each.nodes[0].node_id == number
        assert {node.node_id for node in each.nodes} == NODES


def test_leader_that_did_not_answer_is_told_by_a_node_that_hears_it_within_a_ping(world: ClusterWorld) -> None:
    tool = Tool(world)
    first = find(tool, 1)
    assert first.coordinator is not None
    for number in NODES:
        assert find(tool, number, first.leader_epoch).coordinator == first.coordinator


def test_leader_that_stands_still_is_named_to_nobody_who_has_lost_it(world: ClusterWorld) -> None:
    tool = Tool(world)
    first = find(tool, 1)
    assert first.coordinator is not None
    world.processes[first.coordinator.node_id - 1].pause()
    tool.pass_ms(100)  # what it has said before has arrived
    successor = first.successors[0]
    asked = tool.send(successor, FindCoordinator("g0", first.leader_epoch))
    tool.pass_ms(DOUBT_MS)
    answer = tool.answers[asked]
    assert isinstance(answer, FindCoordinatorResponse)
    assert answer.coordinator != first.coordinator
    tool.pass_ms(15_000)
    following = find(tool, successor, first.leader_epoch)
    assert following.coordinator is not None
    assert following.coordinator.node_id == successor


def test_question_for_a_leader_that_was_killed_is_held_until_there_is_another_one(world: ClusterWorld) -> None:
    tool = Tool(world)
    first = find(tool, 1)
    assert first.coordinator is not None
    leader = first.coordinator.node_id
    other = next(number for number in NODES if number != leader)
    world.processes[leader - 1].end(loses_power=False, why="is killed")
    tool.pass_ms(10)
    asked, begin_ms = tool.send(other, FindCoordinator("g0", first.leader_epoch)), world.schedule.now_ms
    while asked not in tool.answers:
        tool.pass_ms(10)
        assert world.schedule.now_ms - begin_ms <= 1_100
    answer = tool.answers[asked]
    assert isinstance(answer, FindCoordinatorResponse)
    if answer.leader_epoch > first.leader_epoch:
        assert answer.coordinator != first.coordinator
    else:
        assert world.schedule.now_ms - begin_ms >= 1_000, "nothing was known before its time was over"
    tool.pass_ms(15_000)
    following = find(tool, other, first.leader_epoch)
    assert following.leader_epoch > first.leader_epoch
    assert following.coordinator not in {None, first.coordinator}


def test_every_node_names_first_who_is_elected_when_the_leader_is_killed(world: ClusterWorld) -> None:
    tool = Tool(world)
    (successors,) = {find(tool, number).successors for number in NODES}
    first = find(tool, 1)
    assert first.coordinator is not None
    leader = first.coordinator.node_id
    assert {leader, *successors} == NODES
    world.processes[leader - 1].end(loses_power=False, why="is killed")
    tool.pass_ms(15_000)
    following = find(tool, successors[0], first.leader_epoch)
    assert following.coordinator is not None
    assert following.coordinator.node_id == successors[0]
