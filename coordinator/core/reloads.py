"""Shards that are loaded again after a bug of ours: which they are, how far each is, and how soon the next load begins.

The first bug of a shard has it loaded at once. Each further one within a minute doubles the pause before the load, so
that a request which members repeat costs its shard more and more time, and the others none. It ends no node.
"""

from collections.abc import Collection, Iterator
from typing import Final

from coordinator.core.groups.shard import Shard

FORGIVEN_AFTER_MS: Final = 60_000
"""A shard without a bug for so long is as one that never had any."""
SHORTEST_PAUSE_MS: Final = 500
LONGEST_PAUSE_MS: Final = 8_000


class Reloads:
    """The shards of one node that are not served, since they are loaded again."""

    __slots__ = ("_bugs", "_last_ms", "_loads", "waiting")

    def __init__(self, shards: int) -> None:
        self._bugs = [0] * shards
        self._last_ms = [0] * shards
        self.waiting: set[int] = set()
        """The shards that are not in service; looked at for each request, so it is no property."""
        self._loads: dict[int, tuple[Shard, Iterator[int]]] = {}

    def begin(self, index: int, now_ms: int) -> int:
        """Take a shard out of service after a bug; returns how long to wait before it is read from the disk."""
        is_forgiven = self._bugs[index] == 0 or now_ms - self._last_ms[index] > FORGIVEN_AFTER_MS
        self._bugs[index] = 1 if is_forgiven else self._bugs[index] + 1
        self._last_ms[index] = now_ms
        self.waiting.add(index)
        self._loads.pop(index, None)
        again = self._bugs[index] - 2
        return 0 if again < 0 else min(LONGEST_PAUSE_MS, SHORTEST_PAUSE_MS * 2 ** min(again, 10))

    def is_awaited(self, index: int) -> bool:
        """True when a shard is to be loaded and nothing of it has come yet."""
        return index in self.waiting and index not in self._loads

    def go_on_with(self, index: int, fresh: Shard, load: Iterator[int]) -> None:
        """Have a shard loaded slice by slice; `load` yields the bytes of each record that it has replayed."""
        self._loads[index] = (fresh, load)

    @property
    def under_way(self) -> Collection[int]:
        """The shards of which there is more to replay."""
        return self._loads.keys()

    def load_slice(self, index: int, most_bytes: int) -> Shard | None:
        """Replay about so many bytes more; returns the shard, which is in service again, once that is all."""
        fresh, load = self._loads[index]
        left = most_bytes
        for size in load:
            left -= size
            if left <= 0:
                return None
        del self._loads[index]
        self.waiting.discard(index)
        return fresh
