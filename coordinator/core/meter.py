"""The work of one step, counted in things that grow with a group: rows told, offsets written, partitions looked at.

A node takes up no more work in a step once this is over its limit, and whatever checks a node can see that a step
stays below a bound whatever the size of its groups.
"""

from dataclasses import dataclass
from typing import Final

PASSED_OVER: Final = 20
"""So many names are passed over in the time in which one thing is told."""


@dataclass(slots=True)
class Meter:
    """The things done in the step at hand."""

    things: int = 0
    passed_over: int = 0
    """Names that were looked at to find where a page begins."""

    def note(self, things: int) -> None:
        """Count what was done."""
        self.things += things

    def pass_over(self, names: int) -> None:
        """Count names that were looked at, whether they are told or not."""
        self.passed_over += names

    @property
    def work(self) -> int:
        """The work of the step, in things told."""
        return self.things + self.passed_over // PASSED_OVER
