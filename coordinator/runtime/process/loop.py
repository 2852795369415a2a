"""The event loop of a node: uvloop where it is installed, Python's own where it is not or where that is asked for.

Between the kernel and a protocol uvloop does in C what asyncio does in Python (docs/decisions/0010). Nothing else in a
node knows which of the two it runs on, and both pass the same tests.
"""

import asyncio
from collections.abc import Callable

from coordinator.config import LoopKind


class LoopError(Exception):
    """The event loop that was asked for is not there; the text says what to do."""


def loop_factory(kind: LoopKind) -> tuple[str, Callable[[], asyncio.AbstractEventLoop]]:
    """Return the name of the event loop to use and what makes one; raises LoopError when it is not installed."""
    if kind == "asyncio":
        return "asyncio", asyncio.new_event_loop
    try:
        import uvloop
    except ImportError as error:
        if kind == "auto":
            return "asyncio", asyncio.new_event_loop
        raise LoopError(
            f"node.event_loop is uvloop, which cannot be loaded ({error}); install it with `pip install uvloop`, or "
            "set node.event_loop to auto or asyncio"
        ) from error
    return "uvloop", uvloop.new_event_loop
