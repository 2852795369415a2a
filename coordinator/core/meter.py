"""The work of one step, counted in things that grow with a group: rows told, offsets written, partitions looked at.

A node takes up no more work in a step once this is over its limit, and whatever checks a node can see that a step
stays below a bound whatever the size of its groups.
"""

from dataclasses import dataclass


@dataclass(slots=True)
class Meter:
    """The things done in the step at hand."""

    things: int = 0

    def note(self, things: int) -> None:
        """Count what was done."""
        self.things += things
