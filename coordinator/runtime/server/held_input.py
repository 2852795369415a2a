"""Connections that are left unread for a while, in the order in which they began to wait, and the largest of many.

Knows nothing of why they wait, nor of what they say.
"""

import asyncio
from collections.abc import Callable, Iterable, Iterator
from typing import Generic, Protocol, TypeVar


class Waiting(Protocol):
    """A connection that keeps what it has heard until it may be taken in."""

    def take_held(self) -> None:
        """Take in what was heard meanwhile, and hear on."""


WaitingT = TypeVar("WaitingT", bound=Waiting)
T = TypeVar("T")


class HeldInput(Generic[WaitingT]):
    """Decides which connections wait; belongs to the event loop's thread."""

    def __init__(self) -> None:
        self._above_bytes: int | None = None
        self._held: dict[WaitingT, None] = {}
        self._is_stopped = False
        self.is_any = False
        """Anybody is to wait, or waits still: an attribute, since it is asked for with everything that comes."""

    def __len__(self) -> int:
        """Return how many connections wait."""
        return len(self._held)

    def hold(self, above_bytes: int) -> None:
        """Have those wait from now on that say more than this at once."""
        self._above_bytes = above_bytes
        self.is_any = True

    def release(self) -> None:
        """Have nobody wait, and take in soon what was held."""
        self._above_bytes = None
        self.is_any = bool(self._held)
        if self._held:
            asyncio.get_running_loop().call_soon(self._take_held)

    def holds(self, connection: WaitingT, came_bytes: int) -> bool:
        """Say whether a connection is to wait with what it says, and take note of it."""
        if connection not in self._held:
            if self._above_bytes is None or came_bytes <= self._above_bytes:
                return False
            self._held[connection] = None
        return True

    def has(self, connection: WaitingT) -> bool:
        """Say whether a connection waits."""
        return connection in self._held

    def forget(self, connection: WaitingT) -> None:
        """Drop a connection that is gone."""
        self._drop(connection)

    def stop(self) -> None:
        """Take in nothing more."""
        self._is_stopped = True

    def _take_held(self) -> None:
        """Take in what was held, in the order in which it came, until input is held again."""
        for connection in tuple(self._held):
            if self._above_bytes is not None or self._is_stopped:
                return
            self._drop(connection)
            connection.take_held()

    def _drop(self, connection: WaitingT) -> None:
        self._held.pop(connection, None)
        self.is_any = self._above_bytes is not None or bool(self._held)


def largest(connections: Iterable[T], size_of: Callable[[T], int], most_bytes: int) -> Iterator[tuple[T, int]]:
    """Yield the connections of which the most bytes are, until the rest is few enough, each with the bytes of all."""
    sizes = {connection: size_of(connection) for connection in connections}
    total = sum(sizes.values())
    if total <= most_bytes:
        return
    left = total
    for connection in sorted(sizes, key=sizes.__getitem__, reverse=True):
        yield connection, total
        left -= sizes[connection]
        if left <= most_bytes:
            return
