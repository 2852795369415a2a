"""The last records of the logs that are led here, in memory: what followers that keep up are sent.

What is older is read from the disk. A log that is led is never cut, so what is here is what is in it. All logs together
have a limit too, for a node may lead a thousand; what was appended longest ago to any of them goes first, by log.
"""

from collections import deque

from coordinator.core.log.entry import Batch, batch_bytes


class Tail:
    """The tail of one log, from `begin` on; it has at most about `most_bytes`."""

    __slots__ = ("_batches", "_bytes", "_most_bytes")

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes = most_bytes
        self._batches: deque[tuple[Batch, int]] = deque()
        self._bytes = 0

    @property
    def begin(self) -> int | None:
        """Return the offset of the oldest record here; None if there is none."""
        return self._batches[0][0].base_offset if self._batches else None

    def add(self, batch: Batch) -> None:
        """Take what was appended; the oldest goes when it is too much."""
        assert not self._batches or batch.base_offset == self._batches[-1][0].end, "a tail has no gaps"
        size = batch_bytes(batch.records)
        self._batches.append((batch, size))
        self._bytes += size
        while self._bytes > self._most_bytes and len(self._batches) > 1:
            self.let_go()

    @property
    def bytes(self) -> int:
        """Return the bytes of the records here."""
        return self._bytes

    def let_go(self) -> None:
        """Let the oldest batch go."""
        self._bytes -= self._batches.popleft()[1]

    def read(self, begin: int, most_bytes: int) -> tuple[Batch, ...] | None:
        """Return batches from an offset on, at least one if there is one; None if they are not all here."""
        if self.begin is None or begin < self.begin:
            return None
        found: list[Batch] = []
        for batch, size in self._batches:
            if batch.end <= begin:
                continue
            if found and size > most_bytes:
                break
            most_bytes -= size
            found.append(batch_from(batch, begin))
        return tuple(found)


class Tails:
    """The tails of all logs that are led here: each has its limit, and all together one, but for the newest batch."""

    __slots__ = ("_bytes", "_most_bytes", "_most_bytes_each", "_tails")

    def __init__(self, most_bytes_each: int, most_bytes: int) -> None:
        self._most_bytes_each = most_bytes_each
        self._most_bytes = most_bytes
        self._bytes = 0
        self._tails: dict[int, Tail] = {}
        """By shard, the one that was appended to longest ago first."""

    def __getitem__(self, shard: int) -> Tail:
        """Return the tail of a shard, an empty one where nothing is kept."""
        found = self._tails.get(shard)
        return Tail(self._most_bytes_each) if found is None else found

    @property
    def bytes(self) -> int:
        """Return the bytes of all records here."""
        return self._bytes

    def add(self, shard: int, batch: Batch) -> None:
        """Take what was appended to a shard's log."""
        tail = self._tails.pop(shard, None) or Tail(self._most_bytes_each)
        self._tails[shard] = tail
        before = tail.bytes
        tail.add(batch)
        self._bytes += tail.bytes - before
        while self._bytes > self._most_bytes and len(self._tails) > 1:
            oldest = next(iter(self._tails))
            self._bytes -= self._tails[oldest].bytes
            self._tails[oldest].let_go()
            self._bytes += self._tails[oldest].bytes
            if not self._tails[oldest].bytes:
                del self._tails[oldest]

    def drop(self, shard: int) -> None:
        """Forget the tail of a shard that is led here no longer."""
        tail = self._tails.pop(shard, None)
        self._bytes -= 0 if tail is None else tail.bytes


def batch_from(batch: Batch, begin: int) -> Batch:
    """Return the part of a batch at or after an offset, which lies before its end."""
    if batch.base_offset >= begin:
        return batch
    return Batch(begin, batch.leader_epoch, batch.records[begin - batch.base_offset :])
