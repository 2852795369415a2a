"""The committed records that are on their way to standbys: from memory while a follower keeps up, else from the disk.

A standby is fed what is committed and on the disk here, and nothing else: that is never cut. A new one begins with the
snapshot on the disk. In one tick all of them together are fed a part of what a step may replay. While there is more
another tick is asked for, after a pause in which the shards that are led here go on: a short one while more waits than
a tick takes. So a tick is as short beside a thousand followed shards as beside one, and a standby keeps up.
"""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple, TypeAlias

from coordinator.core.cluster_node.effects import ReadLog, ReadSnapshot
from coordinator.core.cluster_node.events import LogRead, SnapshotRead
from coordinator.core.events import StandbyDropped, StandbyFed
from coordinator.core.groups.hard.journal import RECORD_WEIGHT, weight_of
from coordinator.core.log.entry import Batch, batch_bytes
from coordinator.core.replica.epochs import ReplicaLog

OWN_STANDBY: Final = -1
"""The follower for whom a node reads its own logs."""
PAUSE_MS: Final = 20
"""The pause before what came since the last feed is fed: the more comes in one, the less it takes."""
SHORT_PAUSE_MS: Final = 2
"""The pause between two feeds while more waits than one takes."""
FEEDS_OF_A_STEP: Final = 2
"""All feeds of a tick are this part of what a step may replay, so that what the node leads is not kept waiting."""
READ_BYTES: Final = 1024 * 1024
"""The records that are read from the disk at once."""
MOST_READ_AT_ONCE: Final = 2
"""So many shards have records read from the disk and not fed at the same time."""

Fed: TypeAlias = StandbyFed | StandbyDropped | ReadLog | ReadSnapshot


class _Read(NamedTuple):
    """Records that were read, and where they belong; `is_complete` says that the next are not of the same snapshot."""

    offset: int
    leader_epoch: int
    records: Sequence[bytes]
    is_snapshot: bool = False
    is_complete: bool = True


@dataclass(slots=True)
class Feed:
    """The records that a standby is fed; it has all below `end`, None before it has any.

    A read of its own has the `number` of the feed, so that an answer for a former one is told apart.
    """

    number: int
    leader_epoch: int
    end: int | None
    high_watermark: int = 0
    log: ReplicaLog = field(default_factory=ReplicaLog)
    tail: deque[Batch] = field(default_factory=deque)
    """The last records of the log, without a gap, as far as they are in memory."""
    tail_bytes: int = 0
    read: deque[_Read] = field(default_factory=deque)
    is_reading: bool = False
    reading_to: int = 0
    """The end of what was committed when it was read: what is above may have been cut since."""
    snapshot_end: int | None = None
    position: int = 0
    begins_anew: bool = True
    """The standby is to be dropped: it has nothing that counts."""
    is_over: bool = False
    """A bug has cost the standby; there is none in this epoch."""

    @property
    def is_busy(self) -> bool:
        """Return whether records of it have been read, or are being read."""
        return self.is_reading or bool(self.read)

    @property
    def committed(self) -> int:
        """Return the end of what is committed and on the disk here."""
        return min(self.high_watermark, self.log.durable_end)

    def forget_tail(self, end: int) -> int:
        """Forget what is in memory from `end` on; returns the bytes."""
        before = self.tail_bytes
        while self.tail and self.tail[-1].end > end:
            batch = self.tail.pop()
            self.tail_bytes -= batch_bytes(batch.records)
            if batch.base_offset < end:
                self.put(Batch(batch.base_offset, batch.leader_epoch, batch.records[: end - batch.base_offset]))
        return before - self.tail_bytes

    def put(self, batch: Batch) -> None:
        """Add a batch to what is in memory."""
        self.tail.append(batch)
        self.tail_bytes += batch_bytes(batch.records)

    def pop(self) -> Batch:
        """Take the first batch out of memory."""
        batch = self.tail.popleft()
        self.tail_bytes -= batch_bytes(batch.records)
        return batch


class StandbyFeeds:
    """The feeds of a node; `log_of` returns a replica's log, and all records in memory are about `most_bytes`."""

    def __init__(self, slice_bytes: int, most_bytes: int, log_of: Callable[[int], ReplicaLog]) -> None:
        self._slice_bytes = slice_bytes
        self._most_bytes = most_bytes
        self._log_of = log_of
        self._feeds: dict[int, Feed] = {}
        self._due: dict[int, None] = {}
        """The shards of which something may be fed or read, first the one that was fed longest ago."""
        self._bytes = 0
        self._numbers = 0
        self.pause_ms = PAUSE_MS
        """The pause before what is left is fed."""

    # ---- what happens to a replica ----------------------------------------------------------------------------------

    def begin(self, shard: int, leader_epoch: int, high_watermark: int, standby_end: int | None) -> None:
        """Feed the standby of a shard that is followed, which has what is below `standby_end`, unless it is being fed.

        Without a standby it begins with nothing.
        """
        feed = self._feeds.get(shard)
        if feed is not None and (not feed.is_over or feed.leader_epoch == leader_epoch):
            return
        self.end(shard)
        self._numbers += 1
        feed = Feed(self._numbers, leader_epoch, standby_end, high_watermark, begins_anew=standby_end is None)
        self._feeds[shard] = feed
        self._due[shard] = None

    def end(self, shard: int) -> None:
        """Feed a shard no more: it is led, or its log is replaced or gone."""
        feed = self._feeds.pop(shard, None)
        self._due.pop(shard, None)
        self._bytes -= 0 if feed is None else feed.tail_bytes

    def appended(self, shard: int, batches: Sequence[Batch]) -> None:
        """Take a leader's records that are being written to the log."""
        feed = self._feeds.get(shard)
        if feed is None or feed.is_over:
            return
        before, begin = feed.tail_bytes, batches[0].base_offset
        feed.forget_tail(begin)
        if feed.tail and feed.tail[-1].end != begin:
            feed.forget_tail(0)
        for batch in batches:
            feed.put(batch)
        if self._bytes + feed.tail_bytes - before > self._most_bytes:
            feed.forget_tail(0)  # it is on the disk soon, and read from there
        self._bytes += feed.tail_bytes - before

    def cut(self, shard: int, end: int) -> None:
        """Forget the records at or above `end`, which are in the log no more."""
        feed = self._feeds.get(shard)
        if feed is not None:
            self._bytes -= feed.forget_tail(end)

    def committed_to(self, shard: int, high_watermark: int) -> None:
        """Take note of what is committed."""
        feed = self._feeds.get(shard)
        if feed is not None and not feed.is_over:
            feed.high_watermark = max(feed.high_watermark, high_watermark)
            self._due[shard] = None

    # ---- the disk ---------------------------------------------------------------------------------------------------

    def was_read(self, event: LogRead | SnapshotRead) -> None:
        """Take what was read of a log, unless nobody waits for it any more."""
        feed = self._feeds.get(event.shard)
        number = event.fetch if isinstance(event, LogRead) else event.log_number
        if feed is None or not feed.is_reading or feed.number != number:
            return
        feed.is_reading = False
        if isinstance(event, SnapshotRead):
            self._snapshot_was_read(feed, event)
        elif event.batches is None:
            self._begin_again(feed)
        else:
            for batch in event.batches:
                records = batch.records[: max(0, feed.reading_to - batch.base_offset)]
                if records:
                    feed.read.append(_Read(batch.base_offset, batch.leader_epoch, records))

    def _snapshot_was_read(self, feed: Feed, event: SnapshotRead) -> None:
        piece = event.piece
        if piece is None:
            self._begin_again(feed)
            return
        feed.snapshot_end, feed.position = piece.end_offset, event.next_position
        feed.read.append(_Read(piece.end_offset, piece.leader_epoch, piece.records, True, piece.is_last))

    def _begin_again(self, feed: Feed) -> None:
        """Begin with the snapshot that there is now: what was to be read is below it."""
        feed.end = feed.snapshot_end = None
        feed.position, feed.begins_anew = 0, True
        feed.read.clear()

    # ---- feeding ----------------------------------------------------------------------------------------------------

    def next(self) -> list[Fed]:
        """Return what is to be fed in this tick, about a slice in all, and what is to be read for the next ones."""
        wanted: list[Fed] = []
        left = self._slice_bytes // FEEDS_OF_A_STEP
        readable = MOST_READ_AT_ONCE - sum(feed.is_busy for feed in self._feeds.values())
        for shard in tuple(self._due):
            if left <= 0:
                break
            feed = self._feeds[shard]
            feed.log = self._log_of(shard)
            if feed.begins_anew:
                feed.begins_anew = False
                wanted.append(StandbyDropped(shard))
            if feed.end is None and feed.log.start == 0 and feed.snapshot_end is None and not feed.is_busy:
                feed.end = 0  # there is no snapshot to begin with
            while left > 0 and (fed := self._fed(shard, feed, left)) is not None:
                left -= weight_of(fed.records)
                wanted.append(fed)
            read = self._reading(shard, feed) if readable > 0 else None
            if read is not None:
                readable -= 1
                wanted.append(read)
            self._due.pop(shard)
            if feed.is_busy or feed.end is None or feed.high_watermark > feed.end:
                self._due[shard] = None
        self.pause_ms = SHORT_PAUSE_MS if left <= 0 else PAUSE_MS
        return wanted

    @property
    def is_behind(self) -> bool:
        """Return whether there is something to be fed at once."""
        return any(feed.read or self._is_in_memory(feed) for feed in map(self._feeds.__getitem__, self._due))

    def failed(self, shard: int) -> None:
        """Feed a shard no more in this epoch: its standby has met a bug."""
        feed = self._feeds[shard]
        self._bytes -= feed.forget_tail(0)
        feed.is_over = True
        feed.read.clear()
        self._due.pop(shard, None)

    def _is_in_memory(self, feed: Feed) -> bool:
        end = feed.end
        return end is not None and end < feed.committed and bool(feed.tail) and feed.tail[0].base_offset <= end

    def _fed(self, shard: int, feed: Feed, most: int) -> StandbyFed | None:
        """Return the next records of a feed, of one batch or piece, that weigh about so much."""
        if feed.read:
            read = feed.read.popleft()
            records = _first(read.records, most)
            is_all = len(records) == len(read.records)
            if not is_all:
                offset = read.offset if read.is_snapshot else read.offset + len(records)
                feed.read.appendleft(read._replace(offset=offset, records=read.records[len(records) :]))
            return self._now_fed(shard, feed, read._replace(records=records), is_complete=is_all and read.is_complete)
        before = feed.tail_bytes
        while feed.tail and feed.end is not None and feed.tail[0].end <= feed.end:
            feed.pop()
        self._bytes += feed.tail_bytes - before
        if feed.is_reading or not self._is_in_memory(feed):
            return None
        first, end = feed.tail[0], feed.end
        assert end is not None, "it is in memory"
        records = _first(first.records[end - first.base_offset : feed.committed - first.base_offset], most)
        return self._now_fed(shard, feed, _Read(end, first.leader_epoch, records), is_complete=True)

    def _now_fed(self, shard: int, feed: Feed, read: _Read, *, is_complete: bool) -> StandbyFed:
        if not read.is_snapshot:
            feed.end = read.offset + len(read.records)
        elif is_complete:
            feed.end = read.offset
        # Records of a log stand for themselves: a part of a batch is as complete as all of it.
        is_complete = is_complete or not read.is_snapshot
        return StandbyFed(shard, read.leader_epoch, read.offset, read.records, read.is_snapshot, is_complete)

    def _reading(self, shard: int, feed: Feed) -> ReadLog | ReadSnapshot | None:
        """Return what is to be read from the disk for a feed."""
        if feed.is_busy:
            return None
        if feed.end is None:
            feed.is_reading = True
            return ReadSnapshot(shard, OWN_STANDBY, feed.leader_epoch, feed.number, feed.snapshot_end, feed.position)
        if feed.committed <= feed.end or self._is_in_memory(feed):
            return None
        feed.is_reading, feed.reading_to = True, feed.committed
        return ReadLog(shard, OWN_STANDBY, feed.leader_epoch, feed.number, feed.end, READ_BYTES)


def _first(records: Sequence[bytes], most: int) -> Sequence[bytes]:
    """Return the first records, that weigh about so much and are at least one."""
    weight = 0
    for number, record in enumerate(records, 1):
        weight += len(record) + RECORD_WEIGHT
        if weight >= most:
            return records[:number]
    return records
