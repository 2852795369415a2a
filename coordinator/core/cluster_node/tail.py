"""The last records of the logs that are led here, in memory: what followers that keep up are sent.

What is older is read from the disk. A log that is led is never cut, so what is here is what is in it.
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


def batch_from(batch: Batch, begin: int) -> Batch:
    """Return the part of a batch at or after an offset, which lies before its end."""
    if batch.base_offset >= begin:
        return batch
    return Batch(begin, batch.leader_epoch, batch.records[begin - batch.base_offset :])
