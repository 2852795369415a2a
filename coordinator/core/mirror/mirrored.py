"""A node whose groups are mirrored: the node as it is, and at each tick what is to be written to Kafka.

A write is an effect that waits at its shard's gate like everything that a shard says. So Kafka is told only of what is
committed, by a leader that was the leader still, and what a leader that was replaced had decided is never written. The
node itself knows nothing of this but what its journals note; a node without a mirror has neither.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, Final, Protocol

from coordinator.core.effects import BugMet, Effect, MirrorEnded, MirrorOffsets
from coordinator.core.events import Ticked
from coordinator.core.mirror.events import MirrorAnswered
from coordinator.core.mirror.mirror import Mirror
from coordinator.core.mirror.settings import MirrorSettings
from coordinator.core.node import Node
from coordinator.core.request_shape import where_of

PAUSE_MS: Final = 60_000
"""A mirror that has met a bug begins anew after so long."""


class Machine(Protocol):
    """The node, or a machine around it."""

    def start(self, now_ms: int, wall_ms: int, *more: Any) -> Any:
        """Begin."""

    def step(self, event: Any, now_ms: int) -> list[Any]:
        """Take in one event and return what is to be done."""


class Mirrored:
    """A machine and the mirror of its groups, as one machine: `start`, then `step`, as the machine's.

    `coordinator` returns the node within the machine, once there is one, of which nothing is loaded when this is made.
    The machine is given before the start.
    """

    def __init__(
        self, coordinator: Callable[[], Node | None], settings: MirrorSettings, wants: Callable[[str], bool]
    ) -> None:
        self.machine: Machine
        self._coordinator = coordinator
        self._node: Node | None = None
        self._new_mirror = partial(Mirror, settings, wants, self._topic_id)
        self.mirror = self._new_mirror()
        self._paused_until_ms = 0
        self._find_node()

    def start(self, now_ms: int, wall_ms: int, *more: Any) -> Any:
        """Start the machine."""
        return self.machine.start(now_ms, wall_ms, *more)

    def step(self, event: Any, now_ms: int) -> list[Any]:
        """Take in one event; at a tick what is to be mirrored is decided first, and leaves when it may be said."""
        if type(event) is MirrorAnswered:
            return self._contained(now_ms, lambda: self.mirror.answered(event, now_ms))
        said = self._contained(now_ms, lambda: self._look(now_ms)) if type(event) is Ticked else []
        effects = self.machine.step(event, now_ms)
        if self._node is None:
            self._find_node()
        return [*said, *effects] if said else effects

    def _contained(self, now_ms: int, work: Callable[[], list[Effect]]) -> list[Effect]:
        """Have the mirror do something; a bug there costs a pause, after which it begins anew, and not the node."""
        if now_ms < self._paused_until_ms:
            return []
        try:
            return work()
        except Exception as error:  # noqa: BLE001 - a bug of the mirror's is no reason to stop a node
            self._paused_until_ms = now_ms + PAUSE_MS
            self.mirror = self._new_mirror(self.mirror.last_attempt)
            shards = () if self._node is None else self._node.served_journals()
            why = f"the mirror met a bug at {where_of(error)}; it begins anew in {PAUSE_MS // 1000} s"
            return [BugMet(why, error), *map(MirrorEnded, shards)]

    def _find_node(self) -> None:
        """Have the node note what changes from the step on that has made it, before it leads anything."""
        self._node = self._coordinator()
        if self._node is not None:
            self._node.note_changes()

    def _look(self, now_ms: int) -> list[Effect]:
        node = self._node
        if node is None:
            return []
        said: list[Effect] = []
        journals = node.served_journals()
        for effect in self.mirror.look(journals, now_ms):
            if isinstance(effect, MirrorOffsets):
                node.gates.park(effect.shard, [effect], journals[effect.shard].log_end_offset)
            else:
                said.append(effect)
        return said

    def _topic_id(self, topic: str) -> str | None:
        known = None if self._node is None else self._node.catalog.topic(topic)
        return None if known is None else known.topic_id
