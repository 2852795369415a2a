"""Scopes of the small model: those of `make test`, with the number of states in each, and those of `make model`.

The numbers are held so that a change which makes the model see less does not pass unnoticed; one that makes it see more
is welcome, and changes them.
"""

from dataclasses import dataclass, replace
from typing import Final

from tests.model.state import Scope


@dataclass(frozen=True, slots=True)
class Counted:
    """A scope and the number of its states."""

    scope: Scope
    states: int


@dataclass(frozen=True, slots=True)
class Walks:
    """Random walks in a scope that is too large for every state."""

    scope: Scope
    walks: int
    steps: int


QUICK_SCOPES: Final = {
    "stale-replies": Counted(Scope(epochs=2, records=0, unknown=0, reads=1, changes=1), 4_684),
    "restarts": Counted(Scope(epochs=1, records=1, unknown=0, reads=0, changes=1, restarts=1), 1_875),
    "lost-disks": Counted(Scope(epochs=1, records=1, unknown=0, reads=0, changes=2, wiped=1), 12_061),
    "older-copies": Counted(Scope(epochs=2, records=0, unknown=0, reads=0, changes=0, put_back=1), 21_045),
    "restarts-of-leaders": Counted(Scope(epochs=2, records=0, unknown=0, reads=0, changes=0, restarts=1), 13_196),
    "records": Counted(Scope(epochs=2, records=1, unknown=0, reads=0, changes=0), 33_607),
    "any-order": Counted(Scope(epochs=1, records=1, unknown=1, reads=0, changes=2, in_order=False), 1_207),
}
_WIDE: Final = Scope(epochs=4, records=6, unknown=2, reads=2, changes=8, in_order=False, restarts=2)
QUICK_WALKS: Final = {
    "lost-disk": Walks(replace(_WIDE, wiped=1), 30, 150),
    "older-copy": Walks(replace(_WIDE, put_back=1), 30, 150),
}

LARGE_SCOPES: Final = {
    "records-and-changes": Scope(epochs=2, records=1, unknown=0, reads=0, changes=1),
    "stale-replies-and-lost-outcomes": Scope(epochs=2, records=0, unknown=1, reads=1, changes=3),
    "alone": Scope(epochs=2, records=1, unknown=0, reads=1, changes=2, min_insync=1),
    "two-records": Scope(epochs=2, records=2, unknown=0, reads=0, changes=0),
    "from-nothing": Scope(epochs=2, records=0, unknown=0, reads=0, changes=0, warm=0),
    "three-epochs": Scope(epochs=3, records=0, unknown=0, reads=1, changes=1),
    "lost-outcomes": Scope(epochs=1, records=2, unknown=2, reads=0, changes=4),
    "restarts-and-records": Scope(epochs=2, records=1, unknown=0, reads=0, changes=0, restarts=1),
    "older-copies-and-three-epochs": Scope(epochs=3, records=0, unknown=0, reads=0, changes=0, put_back=1),
    "older-copies-and-changes": Scope(epochs=2, records=0, unknown=0, reads=0, changes=1, restarts=1, put_back=1),
    "lost-disks-and-elections": Scope(epochs=2, records=0, unknown=0, reads=0, changes=2, wiped=1),
    "any-order-two-epochs": Scope(epochs=2, records=0, unknown=1, reads=1, changes=1, in_order=False),
}
MOST_STATES: Final = 400_000
"""How many states of a scope `make model` looks at, nearest first: about a minute of a processor."""

_WIDEST: Final = Scope(epochs=6, records=9, unknown=4, reads=4, changes=12, in_order=False, restarts=4)
LARGE_WALKS: Final = {
    "lost-disks": Walks(replace(_WIDEST, wiped=2), 1_000, 400),
    "older-copies": Walks(replace(_WIDEST, put_back=1), 1_000, 400),
}
