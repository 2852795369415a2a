"""Replicas in the states that tests begin with, made by the steps that lead there."""

from msgspec.structs import replace

from coordinator.core.log.entry import Batch
from coordinator.core.replica import events as i
from coordinator.core.replica.effects import Effect
from coordinator.core.replica.epochs import ReplicaLog
from coordinator.core.replica.replica import Replica, Settings
from coordinator.core.replica.step import step

SETTINGS = Settings(
    min_insync_replicas=2,
    lag_ms=2_000,
    closed_grace_ms=300,
    fetch_retry_ms=20,
    stall_ms=2_000,
    step_down_ms=5_000,
    doubt_ms=30_000,
)
LOG = ReplicaLog(end=3, durable_end=3, epochs=((1, 0),))
"""Three records of epoch 1."""


def command(epoch: int, leader: int | None, isr: tuple[int, ...] = (1, 2, 3), version: int = 10) -> i.LeaderAndIsr:
    return i.LeaderAndIsr(0, 0, epoch, leader, isr, (1, 2, 3), version)


def after(replica: Replica, *events: i.Event) -> tuple[Replica, list[Effect]]:
    """Return the replica after events, and the effects of the last one."""
    effects: list[Effect] = []
    for event in events:
        replica, effects = step(replica, event)
    return replica, effects


def opened(node: int, told: i.LeaderAndIsr, log: ReplicaLog = LOG) -> tuple[Replica, list[Effect]]:
    """A replica whose log is in no doubt, told by a command what to be."""
    before = replace(told, leader=None, leader_epoch=told.leader_epoch - 1)
    return after(replace(started(node, before, log)[0], is_in_doubt=False), told)


def started(node: int, told: i.LeaderAndIsr, log: ReplicaLog = LOG) -> tuple[Replica, list[Effect]]:
    """A replica whose log was just read from disk."""
    return after(Replica(0, node, SETTINGS), told, i.ReplicaOpened(0, 0, log))


def follower(epoch: int = 2, log: ReplicaLog = LOG) -> Replica:
    """Node 1, following node 2."""
    return after(opened(1, command(epoch, 2), log)[0], i.FetchAnswered(0, 0, epoch, 1, i.Streaming()))[0]


def leader(isr: tuple[int, ...] = (1, 2, 3)) -> Replica:
    """Node 1, leading in epoch 2 from offset 3 on, everything synced, and nobody fetches yet."""
    replica = opened(1, command(2, 1, isr))[0]
    return after(replica, i.ShardLoaded(0, 0, 2), i.LogSynced(0, 0, 0, 4))[0]


def asks(node: int, fetch: int = 1, end: int = 3, last_epoch: int = 1, now_ms: int = 0) -> i.FetchAsked:
    return i.FetchAsked(now_ms, 0, node, 5, 2, fetch, end, last_epoch)


def has(node: int, end: int, round_: int = 0, fetch: int = 1, now_ms: int = 0) -> i.ProgressMade:
    return i.ProgressMade(now_ms, 0, node, 5, 2, fetch, end, round_)


def push(base: int, *epochs: int, high_watermark: int = 0, fetch: int = 1, leader_epoch: int = 2) -> i.RecordsPushed:
    batches = tuple(Batch(base + at, epoch, (b"r",)) for at, epoch in enumerate(epochs))
    return i.RecordsPushed(0, 0, leader_epoch, fetch, batches, high_watermark)
