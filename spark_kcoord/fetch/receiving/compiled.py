"""The compiled module beside decoding, where this process uses it: receives, and turns with the interpreter.

``receive`` takes all that a socket has, and what comes within a millisecond after, for 10 ms at most, in one step
without the interpreter's lock: as Python does it, each piece of a large response is a wait for that lock beside a
program that computes. ``going_first`` is for the thread that fetches: threads that make records of rows give way to it,
which costs them what it does in Python, and spares it up to 5 ms wherever it lets go of the interpreter.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any, Protocol

from spark_kcoord.fetch.decoding.decode import compiled_decoder

__all__ = ["Receive", "going_first", "receive_compiled"]


class Receive(Protocol):
    """Receives into memory."""

    def __call__(self, sock: int, target: memoryview, many: int) -> int:
        """Return how many bytes came, 0 at the end of the stream; raises OSError as `recv_into` of a socket does.

        ``sock`` is its file descriptor, which does not block. With ``many`` it is readable, until all has come, only
        once so many bytes have.
        """


@cache
def _compiled() -> Any:
    """Return the compiled module where it is the one in use; who reads no records is told nothing of decoders.

    One that is older than this, of a checkout that was not set up again, can do nothing of it.
    """
    module = compiled_decoder()
    return module if hasattr(module, "RECEIVES") else None


@cache
def receive_compiled() -> Receive | None:
    """Return the compiled form of receiving, None where this process, or its system, has none."""
    module = _compiled()
    found: Receive | None = module.receive if module is not None and module.RECEIVES else None
    return found


@contextmanager
def going_first() -> Iterator[None]:
    """Have threads that make records give way to this one; not for what may wait for anything."""
    module = _compiled()
    if module is None:
        yield
        return
    module.turn_begins()
    try:
        yield
    finally:
        module.turn_ends()
