"""Shards of a node that are not in service: which are not led here, which are being loaded, and how far each load is.

A shard is loaded when its node begins to lead it, and again after a bug of ours. The first bug has it loaded at once.
Each further one within a minute doubles the pause before the load, so that a request which members repeat costs its
shard more and more time, and the others none. It ends no node. Loads that fail are counted: where others have the log,
one of them may be able to load it.
"""

from collections.abc import Collection, Iterator
from typing import Final

from coordinator.core.groups.shard import Shard

FORGIVEN_AFTER_MS: Final = 60_000
"""A shard without a bug for so long is as one that never had any."""
MOST_FAILED_LOADS: Final = 2
"""So often a load fails before another node is wanted to lead the shard; the first may have gone wrong by a standby."""
SHORTEST_PAUSE_MS: Final = 500
LONGEST_PAUSE_MS: Final = 8_000


class Loads:
    """The shards of one node that are not served; at first these are all."""

    __slots__ = ("_bugs", "_last_ms", "_under_way", "failed", "not_led", "waiting")

    def __init__(self, shards: int) -> None:
        self._bugs = [0] * shards
        self._last_ms = [0] * shards
        self.failed = [0] * shards
        """The loads of each shard that came to nothing since it was served last or began to be led."""
        self.waiting = set(range(shards))
        """The shards that are not in service; looked at for each request, so it is no property."""
        self.not_led = set(range(shards))
        """Those of them that this node does not lead."""
        self._under_way: dict[int, tuple[Shard, Iterator[int]]] = {}

    def begin(self, index: int) -> None:
        """Wait for the log of a shard that is led from now on, or again."""
        self.not_led.discard(index)
        self.waiting.add(index)
        self._under_way.pop(index, None)

    def begin_after_bug(self, index: int, now_ms: int) -> int:
        """Take a shard out of service after a bug; returns how long to wait before it is read from the disk."""
        is_forgiven = self._bugs[index] == 0 or now_ms - self._last_ms[index] > FORGIVEN_AFTER_MS
        self._bugs[index] = 1 if is_forgiven else self._bugs[index] + 1
        self._last_ms[index] = now_ms
        self.begin(index)
        again = self._bugs[index] - 2
        return 0 if again < 0 else min(LONGEST_PAUSE_MS, SHORTEST_PAUSE_MS * 2 ** min(again, 10))

    def give_up(self, index: int) -> None:
        """Take a shard out of service that is led no longer; what there is of a load of it counts for nothing."""
        self.begin(index)
        self.not_led.add(index)

    def done(self, index: int) -> None:
        """Have a shard in service: it is led here, and all of it is replayed."""
        self.not_led.discard(index)
        self.waiting.discard(index)
        self.failed[index] = 0

    def is_awaited(self, index: int) -> bool:
        """True when a shard is to be loaded and nothing of it has come yet."""
        return index in self.waiting and index not in self.not_led and index not in self._under_way

    @property
    def is_loading(self) -> bool:
        """True while a shard that is led here is not in service yet, or not again."""
        return len(self.waiting) > len(self.not_led)

    def go_on_with(self, index: int, fresh: Shard, load: Iterator[int]) -> None:
        """Have a shard loaded slice by slice; `load` yields the bytes of each record that it has replayed."""
        self._under_way[index] = (fresh, load)

    @property
    def under_way(self) -> Collection[int]:
        """The shards of which there is more to replay."""
        return self._under_way.keys()

    def load_slice(self, index: int, most_bytes: int) -> Shard | None:
        """Replay about so many bytes more; returns the shard once that is all."""
        fresh, load = self._under_way[index]
        left = most_bytes
        for size in load:
            left -= size
            if left <= 0:
                return None
        del self._under_way[index]
        return fresh
