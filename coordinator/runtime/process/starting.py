"""The garbage collector while a process imports what it is made of.

Modules stay. Rounds that go over them find next to nothing, and there are many while they are imported and at the end
of Python: together they are a fifth to a third of the processor time of a short command and of the start of a node.
"""

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def without_rounds() -> Iterator[None]:
    """Have no round of the collector within the block, unless the block has them begin again."""
    were_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if were_on:
            gc.enable()


def leave_out_of_rounds() -> None:
    """Leave everything there is out of all rounds, also of those at the end of Python, and have rounds from now on.

    For a process of our own, which does this between what it imports and what it does.
    """
    gc.freeze()
    gc.enable()
