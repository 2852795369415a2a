"""The place where effects wait until the records they were decided upon are durable.

Everything a shard says was decided on a state that its log may not hold on disk yet. So each send is parked with the
shard's log end of that moment and leaves once the high watermark has reached it; what is parked for one shard leaves in
the order in which it was parked. Nothing here knows what is in an effect.
"""

from collections import deque
from collections.abc import Callable
from typing import TypeAlias

from coordinator.core.effects import Effect

Waits: TypeAlias = tuple[tuple[int, int], ...]
"""Each shard that an effect waits for, with the end of the records."""


class Parking:
    """The parked effects of all shards of a node, and each shard's high watermark."""

    __slots__ = ("_high_watermarks", "_parked", "_to_look_at")

    def __init__(self, shards: int) -> None:
        self._high_watermarks = [0] * shards
        self._parked: list[deque[tuple[int, Effect, Waits]]] = [deque() for _ in range(shards)]
        self._to_look_at: set[int] = set()

    def __len__(self) -> int:
        return sum(len(queue) for queue in self._parked)

    def high_watermark(self, shard: int) -> int:
        """Return the end of a shard's durable records."""
        return self._high_watermarks[shard]

    def park(self, effect: Effect, waits: Waits) -> None:
        """Hold an effect until every (shard, end offset) of `waits` is durable."""
        assert waits, "an effect that waits for nothing need not be parked"
        shard, end_offset = waits[0]
        self._parked[shard].append((end_offset, effect, waits[1:]))
        if end_offset <= self._high_watermarks[shard]:
            self._to_look_at.add(shard)

    def lift(self, shard: int, high_watermark: int) -> None:
        """Note that a shard's records below this offset are durable; the high watermark never goes back."""
        self._high_watermarks[shard] = max(self._high_watermarks[shard], high_watermark)
        self._to_look_at.add(shard)

    def release(self) -> list[Effect]:
        """Take out every effect whose records are durable, in order."""
        released: list[Effect] = []
        while self._to_look_at:
            shard = min(self._to_look_at)
            self._to_look_at.discard(shard)
            queue, high_watermark = self._parked[shard], self._high_watermarks[shard]
            while queue and queue[0][0] <= high_watermark:
                _, effect, rest = queue.popleft()
                if rest:
                    self.park(effect, rest)
                else:
                    released.append(effect)
        return released

    def drop(self, is_void: Callable[[Effect, Waits], bool]) -> list[Effect]:
        """Forget the effects that will never be, by what they wait for still, and return them."""
        dropped: list[Effect] = []
        for index, queue in enumerate(self._parked):
            kept: deque[tuple[int, Effect, Waits]] = deque()
            for waits_for, effect, rest in queue:
                if is_void(effect, ((index, waits_for), *rest)):
                    dropped.append(effect)
                else:
                    kept.append((waits_for, effect, rest))
            self._parked[index] = kept
        return dropped

    def drop_all(self) -> None:
        """Forget what is parked: it will never be said."""
        for queue in self._parked:
            queue.clear()
