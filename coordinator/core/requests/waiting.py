"""Requests that wait for a step of their own: of each connection in their order, the connections one after the other.

So one that asks for a thousand pages at once waits for these itself, and another waits for one page of each that was
there before it. Knows nothing of what is asked, nor how much of it one step answers.
"""

from collections import deque
from typing import Generic, TypeVar

T = TypeVar("T")


class WaitingRequests(Generic[T]):
    """The requests of a node that wait, by connection."""

    __slots__ = ("by_connection",)

    def __init__(self) -> None:
        self.by_connection: dict[int, deque[T]] = {}
        """Those of each connection that has some, whose turn is next first; those of one that is gone are taken out."""

    def __bool__(self) -> bool:
        """Say whether any waits."""
        return bool(self.by_connection)

    def add(self, connection_id: int, request: T) -> None:
        """Have a request wait behind the others of its connection."""
        self.by_connection.setdefault(connection_id, deque()).append(request)

    def take(self) -> T:
        """Return the next request; its connection is the last in turn from then on."""
        connection_id = next(iter(self.by_connection))
        requests = self.by_connection.pop(connection_id)
        request = requests.popleft()
        if requests:
            self.by_connection[connection_id] = requests
        return request
