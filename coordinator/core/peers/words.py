"""Values of a shard's replicas as messages to other nodes, and messages of other nodes as those values.

Both directions are functions. Reading a message has held each number against its range; what is held here is how they
fit together. A message that makes no sense raises PeerError, whose text is for people: its sender is not in order, and
the contact with it is to be ended. No message of a peer, however wild, may become a value that a replica trips over.
"""

from collections.abc import Iterable, Iterator
from typing import Final

from coordinator.core.log.entry import MAX_BATCH_BYTES, Batch, batch_bytes
from coordinator.core.log.snapshot import SnapshotPiece
from coordinator.core.peers.events import PeerSaid
from coordinator.core.replica import effects as fx
from coordinator.core.replica import events as ev
from coordinator.protocol import peer_messages as wire
from coordinator.protocol.peer_messages.ranges import MAX_OFFSET

PUSH_BYTES: Final = 4 * 1024 * 1024
"""A message of records is cut when it has so many bytes; a single record may make it longer."""
_BATCH_BYTES: Final = 32
_SHARD_BYTES: Final = 48
"""About what a batch and a shard's push have besides their records."""


class PeerError(Exception):
    """A peer said what makes no sense."""


# ---- out -------------------------------------------------------------------------------------------------------------


def fetch_of(effect: fx.AskFetch) -> wire.ReplicaFetch:
    """Return how a follower asks its leader for a fetch."""
    return wire.ReplicaFetch(effect.shard, effect.leader_epoch, effect.fetch, effect.end, effect.last_epoch)


def stop_of(effect: fx.EndFetch) -> wire.ReplicaStop:
    """Return how a follower says that its leader's epoch is over."""
    return wire.ReplicaStop(effect.shard, effect.leader_epoch)


def refusal_of(effect: fx.RefuseCut) -> wire.CutRefused:
    """Return how a follower says that it will not cut what was committed."""
    return wire.CutRefused(effect.shard, effect.leader_epoch, effect.high_watermark)


def progress_of(round_: int, reports: Iterable[fx.ReportProgress]) -> wire.ReplicaProgress:
    """Return how a follower tells one leader what is on its disk, and the last round that it has seen of it."""
    return wire.ReplicaProgress(
        round_,
        tuple(
            wire.ShardProgress(report.shard, report.leader_epoch, report.fetch, report.durable_end)
            for report in reports
        ),
    )


def answer_of(effect: fx.AnswerFetch) -> wire.ReplicaFetchAnswer:
    """Return how a leader answers a fetch."""
    return wire.ReplicaFetchAnswer(effect.shard, effect.leader_epoch, effect.fetch, _said_answer(effect.answer))


def records_of(
    round_: int, pushes: Iterable[tuple[fx.PushRecords, tuple[Batch, ...]]]
) -> tuple[wire.ReplicaRecords, ...]:
    """Return how a leader pushes to one follower, in order, each with the batches that were read of the log for it.

    There are several messages where one would be long; all of them bear the round.
    """
    messages: list[wire.ReplicaRecords] = []
    shards: list[wire.ShardRecords] = []
    used = 0
    for push, batches in pushes:
        for part in _parts(batches):
            size = _SHARD_BYTES + sum(_BATCH_BYTES + batch_bytes(batch.records) for batch in part)
            if shards and used + size > PUSH_BYTES:
                messages.append(wire.ReplicaRecords(round_, tuple(shards)))
                shards, used = [], 0
            said = tuple(wire.RecordBatch(batch.base_offset, batch.leader_epoch, batch.records) for batch in part)
            shards.append(wire.ShardRecords(push.shard, push.leader_epoch, push.fetch, push.high_watermark, said))
            used += size
    if shards:
        messages.append(wire.ReplicaRecords(round_, tuple(shards)))
    return tuple(messages)


def piece_of(
    shard: int, leader_epoch: int, log_number: int, piece: SnapshotPiece, next_position: int
) -> wire.SnapshotPiece:
    """Return how a leader sends a piece of its snapshot to the follower that asked for it, under its log number."""
    return wire.SnapshotPiece(
        shard,
        leader_epoch,
        log_number,
        piece.end_offset,
        piece.leader_epoch,
        piece.index,
        piece.is_last,
        next_position,
        piece.records,
    )


def _parts(batches: tuple[Batch, ...]) -> Iterator[tuple[Batch, ...]]:
    """Yield batches in lots of about PUSH_BYTES, each batch cut where that is; one lot of none for no batches."""
    lot: list[Batch] = []
    used = 0
    for batch in batches:
        begin = 0
        for index, record in enumerate(batch.records):
            size = batch_bytes((record,))
            if used and used + size > PUSH_BYTES:
                if index > begin:
                    lot.append(_cut(batch, begin, index))
                yield tuple(lot)
                lot, used, begin = [], 0, index
            used += size
        lot.append(_cut(batch, begin, len(batch.records)))
    yield tuple(lot)


def _cut(batch: Batch, begin: int, end: int) -> Batch:
    if begin == 0 and end == len(batch.records):
        return batch
    return Batch(batch.base_offset + begin, batch.leader_epoch, batch.records[begin:end])


# ---- in --------------------------------------------------------------------------------------------------------------


def heard(said: PeerSaid, now_ms: int) -> tuple[ev.Event, ...]:
    """Return the events of replicas that a message of a follower or a leader is, in order; raises PeerError.

    None for a message of any other subject. A round is told with the progress of each shard; that of a ReplicaProgress
    without shards is for whoever counts rounds.
    """
    peer, life = said.peer, said.node_epoch
    match said.message:
        case wire.ReplicaFetch(shard, epoch, fetch, end, last_epoch):
            _must(last_epoch <= epoch, f"shard {shard}: its log ends in epoch {last_epoch}, which is after {epoch}")
            return (ev.FetchAsked(now_ms, shard, peer, life, epoch, fetch, end, last_epoch),)
        case wire.ReplicaProgress(round_, shards):
            return tuple(
                ev.ProgressMade(now_ms, it.shard, peer, life, it.leader_epoch, it.fetch, it.durable_end, round_)
                for it in shards
            )
        case wire.ReplicaStop(shard, epoch):
            return (ev.FetchEnded(now_ms, shard, peer, life, epoch),)
        case wire.CutRefused(shard, epoch, high_watermark):
            return (ev.CutRefused(now_ms, shard, peer, epoch, high_watermark),)
        case wire.ReplicaFetchAnswer(shard, epoch, fetch, answer):
            return (ev.FetchAnswered(now_ms, shard, epoch, fetch, _heard_answer(answer)),)
        case wire.ReplicaRecords(_, shards):
            return tuple(
                ev.RecordsPushed(now_ms, it.shard, it.leader_epoch, it.fetch, _heard_batches(it), it.high_watermark)
                for it in shards
            )
        case _:
            return ()


def piece_in(message: wire.SnapshotPiece) -> SnapshotPiece:
    """Return a piece of a leader's snapshot, to be installed; raises PeerError."""
    _must(message.end > 0, f"shard {message.shard}: a snapshot stands for no records")
    return SnapshotPiece(message.end, message.last_epoch, message.records, message.index, message.is_last)


def _heard_batches(pushed: wire.ShardRecords) -> tuple[Batch, ...]:
    shard, epoch = pushed.shard, 0
    end: int | None = None
    for batch in pushed.batches:
        _must(end is None or batch.base_offset == end, f"shard {shard}: records do not follow one another at {end}")
        _must(epoch <= batch.leader_epoch, f"shard {shard}: epoch {batch.leader_epoch} comes after {epoch}")
        _must(
            batch_bytes(batch.records) <= MAX_BATCH_BYTES,
            f"shard {shard}: a batch at {batch.base_offset} is larger than a frame of a log may be",
        )
        epoch, end = batch.leader_epoch, batch.base_offset + len(batch.records)
    _must(epoch <= pushed.leader_epoch, f"shard {shard}: records of epoch {epoch} in epoch {pushed.leader_epoch}")
    _must(end is None or end <= MAX_OFFSET, f"shard {shard}: records end at {end}, which no log does")
    return tuple(Batch(batch.base_offset, batch.leader_epoch, batch.records) for batch in pushed.batches)


# ---- both ways -------------------------------------------------------------------------------------------------------


def _said_answer(answer: ev.FetchAnswer) -> wire.FetchAnswer:
    match answer:
        case ev.Streaming():
            return wire.Streaming()
        case ev.Diverged(epoch, end):
            return wire.Diverged(epoch, end)
        case ev.BelowLogStart(start):
            return wire.BelowLogStart(start)
        case ev.Fenced():
            return wire.Fenced()
        case ev.UnknownEpoch():
            return wire.UnknownEpoch()


def _heard_answer(answer: wire.FetchAnswer) -> ev.FetchAnswer:
    match answer:
        case wire.Streaming():
            return ev.Streaming()
        case wire.Diverged(epoch, end):
            return ev.Diverged(epoch, end)
        case wire.BelowLogStart(start):
            return ev.BelowLogStart(start)
        case wire.Fenced():
            return ev.Fenced()
        case wire.UnknownEpoch():
            return ev.UnknownEpoch()


def _must(is_so: object, why: str) -> None:
    if not is_so:
        raise PeerError(why)
