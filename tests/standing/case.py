"""A case: something done to a real node that once stopped it, slowed others or lost what was acknowledged.

A case is a function of its trial: it starts a node, has a good client beside it, does the harm, and returns. The
trial's verdict comes after it. A case raises BrokenError for whatever else it finds. A file of `tests/standing/cases`
lists its own under CASES.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from tests.standing.trial import Trial

Kind = Literal["stopped", "lost", "slow", "wrong"]


class BrokenError(Exception):
    """A node that ended other than asked, an acknowledged commit that is gone, a good client that waited, or else."""

    def __init__(self, kind: Kind, why: str) -> None:
        super().__init__(why)
        self.kind = kind


@dataclass(frozen=True, slots=True)
class Case:
    """One case; `promise` is the sentence that is held by it, `timeout_s` the time after which it is given up."""

    name: str
    promise: str
    run: Callable[["Trial"], None]
    timeout_s: float = 180.0


def must(condition: bool, why: str, *, kind: Kind = "wrong") -> None:
    """Raise BrokenError of a kind unless the condition holds."""
    if not condition:
        raise BrokenError(kind, why)
