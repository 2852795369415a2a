"""Memory that a crowd has used and nobody needs: it is given back to the system once the crowd is gone.

glibc keeps what is freed between pieces that are still in use, for ever: after ten thousand connections and as many
large requests a node had half as much again as before. So now and then it is asked how much it keeps, and where that
has grown by much since it last gave back what it could, it is told to. That takes a millisecond or some, for which the
event loop stands still; so it is done only when the same was found twice, and a flood that comes and goes within
seconds costs nothing. Another C library than glibc is left alone. What Python's own allocator keeps are arenas of a
megabyte, which it gives back by itself once they are empty.
"""

import asyncio
import ctypes
import sys
from typing import Final, Protocol

_LOOK_S: Final = 2.0
_WORTH_BYTES: Final = 8 * 1024 * 1024
"""Spare memory that is worth the pause, beyond what could not be given back the last time."""


class Allocator(Protocol):
    """The allocator of the process, as far as it is asked for what it keeps."""

    def spare_bytes(self) -> int:
        """Return the bytes that it has and that are not in use, whether the system has them back or not."""

    def give_back(self) -> None:
        """Give all whole pages of them back."""


class SpareMemory:
    """Looks at an allocator from time to time, from `begin` until the loop ends."""

    def __init__(self, loop: asyncio.AbstractEventLoop, allocator: Allocator | None) -> None:
        self._loop = loop
        self._allocator = allocator
        self._kept_bytes = 0
        """The spare memory after the last time, or less, if it has become less."""
        self._was_worth = False

    def begin(self) -> None:
        """Look from now on; nothing where there is no allocator to ask."""
        if self._allocator is not None:
            self._kept_bytes = self._allocator.spare_bytes()
            self._plan()

    def _plan(self) -> None:
        self._loop.call_later(_LOOK_S, self.look)

    def look(self) -> None:
        """Give memory back if that was worth it the last time and still is."""
        allocator = self._allocator
        if allocator is None:
            return
        self._plan()
        spare = allocator.spare_bytes()
        self._kept_bytes = min(self._kept_bytes, spare)
        is_worth = spare - self._kept_bytes >= _WORTH_BYTES
        if is_worth and self._was_worth:
            allocator.give_back()
            self._kept_bytes = allocator.spare_bytes()
            is_worth = False
        self._was_worth = is_worth


class _Figures(ctypes.Structure):
    """The `struct mallinfo2` of malloc.h."""

    _fields_ = tuple(
        (name, ctypes.c_size_t)
        for name in (
            "arena",
            "ordblks",
            "smblks",
            "hblks",
            "hblkhd",
            "usmblks",
            "fsmblks",
            "uordblks",
            "fordblks",
            "keepcost",
        )
    )


class Glibc:
    """The allocator of glibc 2.33 or newer; raises AttributeError or OSError where the process has another."""

    def __init__(self) -> None:
        library = ctypes.CDLL(None)
        self._figures = library.mallinfo2
        self._figures.argtypes, self._figures.restype = (), _Figures
        self._trim = library.malloc_trim
        self._trim.argtypes, self._trim.restype = (ctypes.c_size_t,), ctypes.c_int

    def spare_bytes(self) -> int:
        """Return the bytes that it has and that are not in use, whether the system has them back or not."""
        return int(self._figures().fordblks)

    def give_back(self) -> None:
        """Give all whole pages of them back."""
        self._trim(0)


def allocator_here() -> Allocator | None:
    """Return the allocator of this process, or None where it is none that can be asked."""
    if sys.platform != "linux":
        return None
    try:
        return Glibc()
    except (AttributeError, OSError):
        return None
