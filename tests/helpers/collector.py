"""Objects that live on while Python's garbage collector makes no round: whatever is in a cycle."""

import contextlib
import gc
from collections.abc import Callable, Iterator


@contextlib.contextmanager
def left_to_python(*kinds: type) -> Iterator[Callable[[], list[object]]]:
    """Turn the collector off; yield what returns the objects of these kinds that have been made since and live."""
    gc.collect()
    gc.disable()
    before = [one for one in gc.get_objects() if type(one) in kinds]
    known = set(map(id, before))
    try:
        yield lambda: [one for one in gc.get_objects() if type(one) in kinds and id(one) not in known]
    finally:
        gc.enable()
