"""A node whose groups are mirrored: the node as it is, and at each tick what is to be written to Kafka.

A write is an effect that waits at its shard's gate like everything that a shard says. So Kafka is told only of what is
committed, by a leader that was the leader still, and what a leader that was replaced had decided is never written. The
node itself knows nothing of this but what its journals note; a node without a mirror has neither.
"""

from collections.abc import Callable
from typing import Any, Protocol

from coordinator.core.effects import Effect, MirrorOffsets
from coordinator.core.events import Ticked
from coordinator.core.mirror.events import MirrorAnswered
from coordinator.core.mirror.mirror import Mirror
from coordinator.core.mirror.settings import MirrorSettings
from coordinator.core.node import Node


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
        self.mirror = Mirror(settings, wants, self._topic_id)
        self._find_node()

    def start(self, now_ms: int, wall_ms: int, *more: Any) -> Any:
        """Start the machine."""
        return self.machine.start(now_ms, wall_ms, *more)

    def step(self, event: Any, now_ms: int) -> list[Any]:
        """Take in one event; at a tick what is to be mirrored is decided first, and leaves when it may be said."""
        if type(event) is MirrorAnswered:
            return self.mirror.answered(event, now_ms)
        said = self._look(now_ms) if type(event) is Ticked else []
        effects = self.machine.step(event, now_ms)
        if self._node is None:
            self._find_node()
        return [*said, *effects] if said else effects

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
