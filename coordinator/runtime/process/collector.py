"""The garbage collector of a process that must never stand still: short rounds over what is new, between its steps.

What a node holds, it holds for long: going through all of it again and again costs tenths of a second and finds
nothing. So rounds are frequent and small, and what has outlived a full one is left out of all later ones; it is still
freed when nothing refers to it, like everything else. Only garbage in cycles that grow old is never found.

The event loop makes the rounds by itself. Left to Python they come in the middle of whatever makes many objects at
once, and a step that assigns tens of thousands of partitions takes half as long again.
"""

import asyncio
import gc
from typing import Final

_INTERVAL_S: Final = 0.05
_NEW: Final = 5_000
"""So many more objects than there were are worth a round."""
_GROWN: Final = 20_000
"""Objects since the last full round that are worth another one."""
_UNSEEN: Final = 15_000
"""Objects that no round has looked at are worth a full one, some 10 ms, however few more there are than there were.

Python counts an object that ends against one that begins, whichever of them is old. Where thousands of connections
take the places of others there are hardly any more, and all of them are new.
"""
_AT_ONCE: Final = 1_000_000
"""New objects after which Python makes a round of its own, should the event loop not come to it."""


class Rounds:
    """The collector's rounds of the process on an event loop, from `begin` until the loop ends."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._grown = 0

    def begin(self) -> None:
        """Leave everything there is out of the rounds, and make them from now on."""
        gc.collect()
        gc.freeze()
        gc.set_threshold(_AT_ONCE, 1, 1)
        self._plan()

    def _plan(self) -> None:
        self._loop.call_later(_INTERVAL_S, self._look)

    def _look(self) -> None:
        self._plan()
        new, unseen = gc.get_count()[0], len(gc.get_objects(generation=0))
        if new < _NEW and unseen < _UNSEEN:
            return
        self._grown += new
        if self._grown < _GROWN and unseen < _UNSEEN:
            gc.collect(1)
        else:
            self._grown = 0
            gc.collect()
            gc.freeze()
