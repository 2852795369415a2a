"""The last records of the logs that are led here, in memory: what followers that keep up are sent.

What is older is read from the disk. A log that is led is never cut, so what is here is what is in it. All logs together
have a limit too, for a node may lead a thousand; what was appended longest ago to any of them goes first, by log.
"""

from bisect import bisect_right
from typing import Final

from coordinator.core.log.entry import Batch, batch_bytes

_MOST_GONE: Final = 100
"""Places of batches that were let go are kept until there are so many, and more than of those that are here."""


class Tail:
    """The tail of one log, from `begin` on; it has at most about `most_bytes`.

    It may have tens of thousands of batches, of which a follower that keeps up is sent the last few at the end of each
    turn: they are found by their offset, and not passed through.
    """

    __slots__ = ("_batches", "_begins", "_bytes", "_first", "_most_bytes", "_sizes")

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes = most_bytes
        self._batches: list[Batch | None] = []
        """The batches that are here from `_first` on; those before were let go."""
        self._begins: list[int] = []
        self._sizes: list[int] = []
        self._first = 0
        self._bytes = 0

    @property
    def begin(self) -> int | None:
        """Return the offset of the oldest record here; None if there is none."""
        return self._begins[self._first] if self._first < len(self._begins) else None

    def add(self, batch: Batch) -> None:
        """Take what was appended; the oldest goes when it is too much."""
        last = self._batches[-1] if self._batches else None
        assert last is None or batch.base_offset == last.end, "a tail has no gaps"
        size = batch_bytes(batch.records)
        self._batches.append(batch)
        self._begins.append(batch.base_offset)
        self._sizes.append(size)
        self._bytes += size
        while self._bytes > self._most_bytes and len(self._batches) - self._first > 1:
            self.let_go()

    @property
    def bytes(self) -> int:
        """Return the bytes of the records here."""
        return self._bytes

    def let_go(self) -> None:
        """Let the oldest batch go."""
        self._bytes -= self._sizes[self._first]
        self._batches[self._first] = None
        self._first += 1
        if self._first > _MOST_GONE and 2 * self._first > len(self._batches):
            for column in (self._batches, self._begins, self._sizes):
                del column[: self._first]
            self._first = 0

    def read(self, begin: int, most_bytes: int) -> tuple[Batch, ...] | None:
        """Return batches from an offset on, at least one if there is one; None if they are not all here."""
        if self.begin is None or begin < self.begin:
            return None
        found: list[Batch] = []
        at = bisect_right(self._begins, begin, lo=self._first) - 1
        for place in range(at, len(self._batches)):
            batch, size = self._batches[place], self._sizes[place]
            assert batch is not None, "it was not let go"
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
