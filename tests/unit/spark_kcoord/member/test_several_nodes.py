"""The blocking member on real sockets, with several scripted nodes that die, redirect, are silent or point around."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest

from coordinator.protocol.columns import OffsetToCommit
from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.messages import (
    CommitOffsets,
    CommitOffsetsResponse,
    DescribeGroup,
    DescribeGroupResponse,
    ErrorResponse,
    FindCoordinator,
    FindCoordinatorResponse,
    Ping,
    RegisterConsumer,
    Request,
)
from coordinator.protocol.messages.operators import DescribeControls, DescribeControlsResponse
from coordinator.protocol.parts import NodeAddress, PartitionDescription
from coordinator.protocol.text.addresses import Address
from spark_kcoord.errors import KcoordError
from spark_kcoord.member.client import MemberClient
from spark_kcoord.member.holders import Holder
from tests.helpers.loopback_coordinator import LoopbackCoordinator, unused_address
from tests.helpers.member_pair import registered, settings


class Cluster:
    """Nodes that all know the leader and its epoch, unless a test says otherwise."""

    def __init__(self, nodes: list[LoopbackCoordinator]) -> None:
        self.nodes = nodes
        self.leader = 0
        self.leader_epoch = 4
        for number, node in enumerate(nodes):
            node.script[FindCoordinator] = lambda _, number=number: self.found(number)
            node.script[RegisterConsumer] = lambda request, number=number: self.register(number, request)
            node.script[CommitOffsets] = lambda request: CommitOffsetsResponse(accepted=1)

    def found(self, asked: int) -> FindCoordinatorResponse:
        order = [asked, *(number for number in range(len(self.nodes)) if number != asked)]
        addresses = [NodeAddress(number, *self.nodes[number].address) for number in order]
        return FindCoordinatorResponse(
            coordinator=NodeAddress(self.leader, *self.nodes[self.leader].address),
            leader_epoch=self.leader_epoch,
            nodes=tuple(addresses),
        )

    def register(self, number: int, request: RegisterConsumer) -> Any:
        if number != self.leader:
            return ErrorResponse(ErrorCode.NOT_COORDINATOR, "it is led by another node")
        return registered(request, held=2)

    def lead(self, number: int) -> None:
        self.leader, self.leader_epoch = number, self.leader_epoch + 1

    @property
    def bootstrap(self) -> tuple[Address, ...]:
        return tuple(node.address for node in self.nodes)


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with ExitStack() as stack:
        yield Cluster([stack.enter_context(LoopbackCoordinator()) for _ in range(3)])


@contextmanager
def member(coordinators: tuple[Address, ...], **changes: Any) -> Iterator[MemberClient]:
    client = MemberClient(settings(coordinators=coordinators, **changes))
    client.start()
    try:
        yield client
    finally:
        client.close()


def wait_until(condition: Callable[[], bool], what: str, timeout_s: float = 30) -> None:
    pause = threading.Event()
    deadline_s = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline_s, f"not within {timeout_s} s: {what}"
        pause.wait(0.002)


def owned(client: MemberClient) -> list[int]:
    return [part.partition for part in client.assignment().partitions]


def commit(client: MemberClient, offset: int) -> ErrorCode:
    (result,) = client.commit([OffsetToCommit("t", 0, offset, 10)])
    return result.error


def asked_of(node: LoopbackCoordinator, kind: type[Request]) -> int:
    return len(node.received(kind))


def test_any_of_the_addresses_leads_to_the_coordinator(cluster: Cluster) -> None:
    for node in range(3):
        with member((cluster.nodes[node].address,)) as client:
            assert client.join().member_id == "m1"
            client.wait_for_assignment(complete=True, timeout_s=30)
    assert asked_of(cluster.nodes[0], RegisterConsumer) == 3
    assert asked_of(cluster.nodes[1], RegisterConsumer) == asked_of(cluster.nodes[2], RegisterConsumer) == 0


def test_dead_addresses_before_a_living_one_cost_little(cluster: Cluster) -> None:
    with member((unused_address(), unused_address(), cluster.nodes[2].address)) as client:
        client.join()
        assert asked_of(cluster.nodes[0], RegisterConsumer) == 1


def test_leader_that_dies_is_followed_to_the_next_and_nothing_is_lost_on_the_way(cluster: Cluster) -> None:
    with member(cluster.bootstrap) as client:
        client.join()
        assert owned(client) == [0, 1] or client.wait_for_assignment(complete=True, timeout_s=30)
        assert commit(client, 5) is ErrorCode.NONE
        seen: list[list[int]] = []
        cluster.lead(1)
        cluster.nodes[0].kill()
        wait_until(lambda: seen.append(owned(client)) or asked_of(cluster.nodes[1], RegisterConsumer) == 1, "moved")  # type: ignore[func-returns-value]
        assert commit(client, 6) is ErrorCode.NONE
        assert {tuple(each) for each in seen} == {(0, 1)}
        assert client.wait_for_assignment(complete=True, timeout_s=30).is_complete
        assert cluster.nodes[1].received(FindCoordinator)[0] in (FindCoordinator("g", 4), FindCoordinator("g", 5))


def test_commit_under_way_when_the_leader_dies_is_asked_of_the_next(cluster: Cluster) -> None:
    committing = threading.Event()

    def dies(_: CommitOffsets) -> None:
        committing.set()

    with member(cluster.bootstrap) as client:
        client.join()
        client.wait_for_assignment(complete=True, timeout_s=30)
        cluster.nodes[0].script[CommitOffsets] = dies
        results: list[ErrorCode] = []
        thread = threading.Thread(target=lambda: results.append(commit(client, 7)))
        thread.start()
        assert committing.wait(30)
        cluster.lead(2)
        cluster.nodes[0].kill()
        thread.join(30)
        assert results == [ErrorCode.NONE]
        assert [request.offsets for request in cluster.nodes[2].received(CommitOffsets)] == [
            request.offsets for request in cluster.nodes[0].received(CommitOffsets)
        ]


def test_leader_that_falls_silent_is_left_before_the_session_is_over(cluster: Cluster) -> None:
    with member(cluster.bootstrap, session_timeout_ms=6_000) as client:
        client.join()
        client.wait_for_assignment(complete=True, timeout_s=30)
        cluster.nodes[0].script[Ping] = lambda _: None
        cluster.nodes[0].script[CommitOffsets] = lambda _: None
        cluster.lead(1)
        assert commit(client, 5) is ErrorCode.NONE
        assert asked_of(cluster.nodes[1], RegisterConsumer) == 1
        assert owned(client) == [0, 1]


def test_answer_that_comes_after_the_member_has_left_is_dropped(cluster: Cluster) -> None:
    release = threading.Event()

    def late(_: CommitOffsets) -> CommitOffsetsResponse:
        release.wait(20)
        return CommitOffsetsResponse(accepted=1)

    with member(cluster.bootstrap, session_timeout_ms=6_000) as client:
        client.join()
        client.wait_for_assignment(complete=True, timeout_s=30)
        cluster.nodes[0].script[CommitOffsets] = late
        cluster.lead(1)
        assert commit(client, 5) is ErrorCode.NONE
        release.set()
        assert commit(client, 6) is ErrorCode.NONE
        assert asked_of(cluster.nodes[1], CommitOffsets) == 2


def test_node_that_points_at_a_dead_address_is_asked_again_until_it_knows_better(cluster: Cluster) -> None:
    dead = NodeAddress(0, *unused_address())
    asked: list[FindCoordinator] = []

    def old(request: FindCoordinator) -> FindCoordinatorResponse:
        asked.append(request)
        if len(asked) < 3:
            return FindCoordinatorResponse(coordinator=dead, leader_epoch=4, nodes=cluster.found(1).nodes[:1])
        return cluster.found(1)

    cluster.lead(2)
    cluster.nodes[1].script[FindCoordinator] = old
    with member((cluster.nodes[1].address,), join_timeout_ms=60_000) as client:
        client.join()
        assert asked_of(cluster.nodes[2], RegisterConsumer) == 1
        assert asked[0] == FindCoordinator("g")
        assert asked[1] == FindCoordinator("g", 4)


def test_nodes_that_point_at_each_other_in_a_circle_end_in_an_error_that_says_so(cluster: Cluster) -> None:
    nodes = cluster.nodes
    for number, node in enumerate(nodes):
        following = (number + 1) % 3
        node.script[FindCoordinator] = lambda _, following=following: FindCoordinatorResponse(
            coordinator=NodeAddress(following, *nodes[following].address), leader_epoch=4
        )
    with (
        member(cluster.bootstrap, join_timeout_ms=1_500) as client,
        pytest.raises(KcoordError, match=r"nodes send each other's members around|kcoord\.bootstrap\.servers"),
    ):
        client.join()
    assert sum(node.connections_taken for node in nodes) < 200, "it goes around without a pause"


def test_node_that_has_not_heard_of_the_new_leader_is_passed_over(cluster: Cluster) -> None:
    with member(cluster.bootstrap) as client:
        client.join()
        client.wait_for_assignment(complete=True, timeout_s=30)
        stale = cluster.found(1)
        cluster.lead(0)
        cluster.nodes[0].drop_connections()
        wait_until(lambda: asked_of(cluster.nodes[0], RegisterConsumer) == 2, "registered in the next epoch")
        cluster.nodes[1].script[FindCoordinator] = lambda _: stale
        cluster.lead(2)
        cluster.nodes[0].kill()
        wait_until(lambda: asked_of(cluster.nodes[2], RegisterConsumer) == 1, "found by who has heard")
        assert commit(client, 5) is ErrorCode.NONE


def test_cluster_without_a_leader_is_waited_for_with_what_it_has(cluster: Cluster) -> None:
    with member(cluster.bootstrap) as client:
        client.join()
        client.wait_for_assignment(complete=True, timeout_s=30)
        refusal = FindCoordinatorResponse(ErrorCode.COORDINATOR_NOT_AVAILABLE, "no leader is known")
        for node in cluster.nodes[1:]:
            node.script[FindCoordinator] = lambda _: refusal
        cluster.nodes[0].kill()
        wait_until(lambda: asked_of(cluster.nodes[2], FindCoordinator) >= 2, "asked again")
        assert owned(client) == [0, 1]
        cluster.lead(1)
        for number, node in enumerate(cluster.nodes):
            node.script[FindCoordinator] = lambda _, number=number: cluster.found(number)
        assert commit(client, 5) is ErrorCode.NONE
        assert owned(client) == [0, 1]


def test_questions_beside_a_member_go_to_the_nodes_that_it_has_learned(cluster: Cluster) -> None:
    first, second = cluster.nodes[:2]
    partition = PartitionDescription("t", 1, member_id="m2")
    second.script[DescribeGroup] = lambda _: DescribeGroupResponse(group_id="g", partitions=(partition,))
    second.script[DescribeControls] = lambda _: DescribeControlsResponse()
    with member((first.address,), coordinator_timeout_ms=30_000) as client:
        client.join()
        cluster.lead(1)
        first.kill()
        wait_until(lambda: client.coordinators[0] == second.address, "the member is at the node that it has learned")
        assert set(client.coordinators) >= {first.address, second.address}
        assert client.holders() == {("t", 1): Holder("m2")}
