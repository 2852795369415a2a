"""A node takes a leader's words from whom it follows, and an answer to a round from whom it has asked; one that cannot
load what it is to lead asks for another leader.
"""

from itertools import pairwise

import pytest

from coordinator.core.cluster.znodes import Cluster
from coordinator.core.cluster_node.effects import LoadLog, ReadLog
from coordinator.core.cluster_node.events import LogOpened, LogRead, LogSynced, PieceWritten
from coordinator.core.cluster_node.replication import Replication
from coordinator.core.cluster_node.settings import ClusterSettings
from coordinator.core.effects import WakeAt
from coordinator.core.events import Event, ShardRecovered, ShardUnreadable, Ticked
from coordinator.core.limits import Limits
from coordinator.core.node import Node
from coordinator.core.peers.effects import SayToPeer
from coordinator.core.peers.events import PeerSaid
from coordinator.core.replica.effects import AppendBatches, StepDown
from coordinator.core.replica.epochs import EMPTY_LOG, ReplicaLog
from coordinator.core.replica.events import LeaderAndIsr
from coordinator.core.replica.replica import Follower, FollowerPhase, Leader
from coordinator.core.replica.replicas import Commands, Replicas
from coordinator.protocol import peer_messages as wire
from coordinator.protocol.parts import NodeAddress
from tests.helpers.replica_builder import SETTINGS

CLUSTER = Cluster(cluster_id="c", shards=1, buckets=1, replication_factor=3, min_insync_replicas=2)

SHARD, EPOCH, LIFE = 0, 4, 5


def replication(leader: int, log: ReplicaLog = EMPTY_LOG) -> Replication:
    """Return node 1, in contact with 2 and 3, with a log of one shard, an empty one unless it is said, and a leader."""
    coordinator = Node(Limits(), 1, NodeAddress(1, "h", 1), ("k:9092",))
    coordinator.join(0, 0, "i")
    made = Replication(coordinator, Replicas(1, LIFE, SETTINGS, 1), ClusterSettings(), CLUSTER)
    for peer in (2, 3):
        made.contact_began(peer, LIFE)
    led = LeaderAndIsr(0, SHARD, EPOCH, leader, (1, 2), (1, 2, 3), 1, LIFE)
    made.obey(Commands(0, 1, LIFE, (led,)))
    made.disk(LogOpened(SHARD, log))
    return made


def hear(heard_by: Replication, peer: int, message: wire.PeerMessage) -> list[object]:
    heard_by.out.clear()
    heard_by.hear(PeerSaid(peer, LIFE, message))
    return list(heard_by.out)


def phase(of: Replication) -> FollowerPhase:
    role = of.replicas[SHARD].role
    assert isinstance(role, Follower)
    return role.phase


def round_of(leading: Replication, peer: int) -> int:
    role = leading.replicas[SHARD].role
    assert isinstance(role, Leader)
    return next(fetch.round for fetch in role.fetches if fetch.node == peer)


def test_only_the_leader_that_is_followed_answers_a_fetch_and_pushes() -> None:
    node = replication(leader=2)
    (fetch,) = (each.message for each in node.out if isinstance(each, SayToPeer))
    assert isinstance(fetch, wire.ReplicaFetch)
    streaming = wire.ReplicaFetchAnswer(SHARD, EPOCH, fetch.fetch, wire.Streaming())
    hear(node, 3, streaming)
    assert phase(node) is FollowerPhase.MATCHING
    hear(node, 2, streaming)
    assert phase(node) is FollowerPhase.FOLLOWING
    pushed = wire.ShardRecords(SHARD, EPOCH, fetch.fetch, 0, (wire.RecordBatch(0, EPOCH, (b"one",)),))
    records = wire.ReplicaRecords(1, (pushed,))
    assert hear(node, 3, records) == []
    (appended,) = hear(node, 2, records)
    assert isinstance(appended, AppendBatches)


def test_a_round_that_a_peer_was_not_asked_confirms_nothing() -> None:
    node = replication(leader=1)
    hear(node, 2, wire.ReplicaFetch(SHARD, EPOCH, 1, 0, -1))
    node.end_turn()
    asked = next(
        each.message
        for each in node.out
        if isinstance(each, SayToPeer) and isinstance(each.message, wire.ReplicaRecords)
    )
    progress = wire.ShardProgress(SHARD, EPOCH, 1, 0)
    before = round_of(node, 2)
    for shards in ((progress,), ()):
        hear(node, 2, wire.ReplicaProgress(asked.round + 1, shards))
        assert round_of(node, 2) == before
    hear(node, 2, wire.ReplicaProgress(asked.round, (progress,)))
    assert round_of(node, 2) == asked.round


def test_a_follower_for_whom_nothing_is_left_to_be_read_takes_the_snapshot_although_nothing_is_appended() -> None:
    node = replication(1, ReplicaLog(end=3, durable_end=3, epochs=((1, 0),)))
    hear(node, 2, wire.ReplicaFetch(SHARD, EPOCH, 1, 3, 1))
    hear(node, 3, wire.ReplicaFetch(SHARD, EPOCH, 1, 0, -1))
    node.end_turn()
    assert any(isinstance(each, ReadLog) and each.follower == 3 for each in node.out)
    node.disk(LogSynced(SHARD, 4, 0))
    hear(node, 2, wire.ReplicaProgress(0, (wire.ShardProgress(SHARD, EPOCH, 1, 4),)))
    node.tick(Ticked(0))
    assert told_high_watermark(node, 3) == [(1, 4)]
    node.disk(PieceWritten(SHARD, 4, True, 0))
    node.out.clear()
    node.disk(LogRead(SHARD, 3, EPOCH, 1, 0, None))
    below = wire.ReplicaFetchAnswer(SHARD, EPOCH, 1, wire.BelowLogStart(4))
    assert [each.message for each in node.out if isinstance(each, SayToPeer)] == [below]
    hear(node, 3, wire.ReplicaFetch(SHARD, EPOCH, 2, 4, EPOCH))
    node.tick(Ticked(0))
    assert told_high_watermark(node, 3) == [(2, 4)], "what was told to the fetch before was for another log"


def told_high_watermark(node: Replication, peer: int) -> list[tuple[int, int]]:
    """Return the fetches of a peer that were pushed no records, each with the high watermark that it was told."""
    return [
        (push.fetch, push.high_watermark)
        for each in node.out
        if isinstance(each, SayToPeer) and each.peer == peer and isinstance(each.message, wire.ReplicaRecords)
        for push in each.message.shards
        if not push.batches
    ]


UNREADABLE = ShardUnreadable(SHARD, EPOCH, "input/output error")
NOT_UNDERSTOOD = ShardRecovered(SHARD, EPOCH, EPOCH, ((False, 0, (b"of a newer release",)),))


@pytest.mark.parametrize("failure", [UNREADABLE, NOT_UNDERSTOOD], ids=["unreadable", "not understood"])
def test_a_leader_that_cannot_load_its_log_twice_asks_for_another_and_goes_on_trying(failure: Event) -> None:
    node = replication(leader=1)
    hear(node, 2, wire.ReplicaFetch(SHARD, EPOCH, 1, 0, -1))
    asked: list[list[StepDown]] = []
    for _ in range(3):
        node.out.clear()
        node.coordinate(failure)
        node.coordinate(Ticked(0))
        assert any(isinstance(effect, LoadLog) for effect in node.out), "it tries again"
        asked.append([effect for effect in node.out if isinstance(effect, StepDown)])
    wishes = [StepDown(SHARD, EPOCH, f"its log could not be loaded here, {n} times", cannot_load=True) for n in (2, 3)]
    assert asked == [[], wishes[:1], wishes[1:]]


def test_a_leader_that_has_not_heard_of_its_epoch_is_asked_again_less_and_less_often() -> None:
    following, asked_ms = replication(leader=2), [0]
    for fetch in range(1, 9):
        answer = wire.ReplicaFetchAnswer(SHARD, EPOCH, fetch, wire.UnknownEpoch())
        (wake,) = hear(following, 2, answer)
        assert isinstance(wake, WakeAt)
        assert wake.now_ms > asked_ms[-1]
        following.at(wake.now_ms)
        following.tick(Ticked(wake.now_ms))
        role = following.replicas[SHARD].role
        assert isinstance(role, Follower)
        assert role.fetch == fetch + 1, "it has asked again"
        asked_ms.append(wake.now_ms)
    pauses = [later - earlier for earlier, later in pairwise(asked_ms)]
    assert pauses == [20, 40, 80, 160, 320, 640, 1_000, 1_000]
