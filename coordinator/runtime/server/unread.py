"""The connections that are behind with reading: who of them reads nothing, and for whom the most waits.

One that reads a little now and then gains nothing: within each time-out it has to take a good piece of what waits.
"""

import fcntl
import struct
import termios
from collections.abc import Iterator
from typing import Final, Generic, Protocol, TypeVar

READ_BYTES: Final = 64 * 1024
"""So much has to be read within the time-out, or all that waits."""


def unsent_bytes(file: int) -> int:
    """Return how many bytes a socket keeps that its peer's machine has not confirmed, 0 where that cannot be asked.

    A socket has room for megabytes, and tells that it has room again only when much of it is free.
    """
    try:
        (count,) = struct.unpack("i", fcntl.ioctl(file, termios.TIOCOUTQ, bytes(4)))
    except OSError:
        return 0
    return int(count)


class Reading(Protocol):
    """A connection that is written to."""

    def taken_bytes(self) -> int:
        """Return how much its peer has read, from any beginning that stays the same while it is behind."""


ReadingT = TypeVar("ReadingT", bound=Reading)


class Unread(Generic[ReadingT]):
    """Decides who has read too little for too long; belongs to the event loop's thread."""

    def __init__(self, timeout_ms: int) -> None:
        self._timeout_ms = timeout_ms
        self._known: dict[ReadingT, tuple[int, int]] = {}
        """The bytes that each had read when it last had read enough, and when that was."""

    def __len__(self) -> int:
        """Return how many are behind."""
        return len(self._known)

    def __iter__(self) -> Iterator[ReadingT]:
        """Iterate over those who are behind."""
        return iter(self._known)

    def add(self, connection: ReadingT, now_ms: int) -> None:
        """Take note that a connection is behind from now on."""
        self._known.setdefault(connection, (connection.taken_bytes(), now_ms))

    def discard(self, connection: ReadingT) -> None:
        """Take note that it is not, or is gone."""
        self._known.pop(connection, None)

    def overdue(self, now_ms: int) -> list[ReadingT]:
        """Return the connections that have read too little for too long."""
        late = []
        for connection, (had_taken, at_ms) in self._known.items():
            taken = connection.taken_bytes()
            if taken - had_taken >= READ_BYTES:
                self._known[connection] = (taken, now_ms)
            elif now_ms - at_ms >= self._timeout_ms:
                late.append(connection)
        return late
