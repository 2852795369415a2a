"""A schedule: an order of events on real services under which a promise was once broken, and how it can break.

A schedule is a function of the place it runs in. It returns when the promise held and raises BrokenError when it did
not; any other error counts as wrong. A file of `tests/promises/schedules` lists its own under SCHEDULES.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from tests.promises.place import Place

Kind = Literal["lost", "stuck", "wrong"]


class BrokenError(Exception):
    """A promise that did not hold: records lost without an error, no progress, or another wrong outcome."""

    def __init__(self, kind: Kind, why: str) -> None:
        super().__init__(why)
        self.kind = kind


@dataclass(frozen=True, slots=True)
class Schedule:
    """One schedule; `promise` is the sentence that is held by it, `timeout_s` the time after which it is stuck."""

    name: str
    promise: str
    run: Callable[["Place"], None]
    timeout_s: float = 120.0


def must_have(expected: set[int], got: set[int], *, what: str) -> None:
    """Raise BrokenError when records of `expected` never arrived (lost) or others did (wrong)."""
    missing, surplus = expected - got, got - expected
    if missing:
        raise BrokenError(
            "lost", f"{what}: {len(missing)} of {len(expected)} records are missing, first {min(missing)}"
        )
    if surplus:
        raise BrokenError(
            "wrong", f"{what}: {len(surplus)} records arrived that were not expected, first {min(surplus)}"
        )


def must(condition: bool, why: str, *, kind: Kind = "wrong") -> None:
    """Raise BrokenError of a kind unless the condition holds."""
    if not condition:
        raise BrokenError(kind, why)
