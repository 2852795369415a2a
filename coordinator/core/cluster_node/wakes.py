"""The one wish of a node to be woken, in the place of all that its rooms have.

Whoever performs the wish has one timer: the last wish counts alone. So it is for the earliest time of all that are
wanted, and each of these stands until a tick has come, also when its time is over already.
"""

from coordinator.core import effects as done
from coordinator.core.cluster_node.effects import Effect


class Wakes:
    """The times at which parts of a node want to be woken and that no tick has come for."""

    __slots__ = ("_wanted",)

    def __init__(self) -> None:
        self._wanted: set[int] = set()

    def in_one(self, effects: list[Effect], now_ms: int, *, is_tick: bool) -> list[Effect]:
        """Return the effects of a step with one wish, where there is a new one; a tick is what all until now wanted."""
        if not is_tick and done.WakeAt not in map(type, effects):
            return effects
        wishes = {effect.now_ms for effect in effects if isinstance(effect, done.WakeAt)}
        before = None if is_tick else min(self._wanted, default=None)
        if is_tick:
            self._wanted = {at_ms for at_ms in self._wanted if at_ms > now_ms}
        self._wanted |= wishes
        others: list[Effect] = [effect for effect in effects if not isinstance(effect, done.WakeAt)]
        first = min(self._wanted, default=None)
        return others if first is None or first == before else [*others, done.WakeAt(first)]
