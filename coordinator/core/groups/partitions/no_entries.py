"""A mapping without entries that all share who have nothing of something: they are very many, and each empty one costs.

Whoever has something puts a mapping of its own in the place of this one, before the first write. A write that forgot
to would give something to everybody: it is a bug of ours and fails here, before anything is written.
"""

from typing import Any, Final, NoReturn


class _NoEntries(dict[Any, Any]):
    """A dictionary that nothing is put into; to take out of it what is not there is no change."""

    __slots__ = ()

    def _refuse(self, *_: object, **__: object) -> NoReturn:
        raise AssertionError("the mapping without entries is only read; a write needs one of its own")

    __setitem__ = __ior__ = setdefault = update = _refuse


NO_ENTRIES: Final[dict[Any, Any]] = _NoEntries()
"""The mapping without entries, to read."""
