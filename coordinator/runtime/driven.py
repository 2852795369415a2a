"""The node that a driver drives, and the ports through which, each by the part of it that the driver uses.

The disk's is `coordinator.core.log.storage.DiskPort`, which is used whole.
"""

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from coordinator.core.effects import OffsetToResolve
from coordinator.protocol.messages import Push, Response


class NodeMachine(Protocol):
    """The part of a node that the driver uses: of `coordinator.core.node.Node`, or of another with more events."""

    @property
    def start(self) -> Callable[..., Any]:
        """Begin, after everything was loaded."""

    def step(self, event: Any, now_ms: int) -> list[Any]:
        """Take one event that happens at this monotonic time, and return effects."""


class KafkaReader(Protocol):
    """The part of the Kafka port that the driver uses."""

    def watch_topics(self, topics: frozenset[str], *, lists_all: bool) -> None:
        """Poll these topics from now on, and every other one too if all are wanted."""

    def resolve_offsets(self, lookup_id: int, offsets: Sequence[OffsetToResolve], *, asks_topics: bool) -> None:
        """Find offsets in the background, and ask for their topics before if that is wanted."""


class Sender(Protocol):
    """The part of the server that the driver uses."""

    @property
    def is_behind(self) -> bool:
        """True while connections that are no members' have said what is not heard yet."""

    def send_response(self, connection_id: int, correlation_id: int, response: Response) -> None:
        """Queue a response."""

    def send_push(self, connection_id: int, push: Push) -> None:
        """Queue a push."""

    def close_connection(self, connection_id: int, why: str) -> None:
        """Close a connection after what was queued."""

    def flush(self) -> None:
        """Write what was queued."""

    def hold_input(self, above_bytes: int) -> None:
        """Leave what connections say unread, of those that say more than this at once."""

    def release_input(self) -> None:
        """Read everything again."""

    def check_deadlines(self, now_ms: int) -> None:
        """Disconnect whoever is too late."""
