"""The work of one step, counted in things that grow with a group: rows told, offsets written, partitions looked at.

A node takes up no more work in a step once this is over its limit, and whatever checks a node can see that a step
stays below a bound whatever the size of its groups.
"""

from dataclasses import dataclass
from typing import Final

PASSED_OVER: Final = 20
"""So many names are passed over in the time in which one thing is told."""
MATCHED_AT_ONCE: Final = 1_000_000
"""So much is matched in one step: 2 ms at worst, some 900 names where the pattern is simple."""


@dataclass(slots=True)
class Meter:
    """The things done in the step at hand."""

    things: int = 0
    passed_over: int = 0
    """Names that were looked at to find where a page begins."""
    matched: int = 0
    """Patterns that were held against names, in instructions of RE2 times characters; see `matching`."""

    def note(self, things: int) -> None:
        """Count what was done."""
        self.things += things

    def pass_over(self, names: int) -> None:
        """Count names that were looked at, whether they are told or not."""
        self.passed_over += names

    def match(self, cost: int) -> None:
        """Count what was matched."""
        self.matched += cost

    @property
    def may_match(self) -> bool:
        """True while the step has not matched enough."""
        return self.matched < MATCHED_AT_ONCE

    @property
    def work(self) -> int:
        """The work of the step, in things told."""
        return self.things + self.passed_over // PASSED_OVER
