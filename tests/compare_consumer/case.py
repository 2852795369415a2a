"""A case of the comparison: a small program, with what it notes; one that differs names its row of the page's tables.

A case gets a side, and what it returns is compared. Where a case is `documented`, it has to differ.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tests.compare_consumer.side import Side

Run = Callable[[Side], Any]


@dataclass(frozen=True, slots=True)
class Case:
    """A program by its name; `documented` is the row that says how it differs, empty where it must not."""

    name: str
    run: Run
    documented: str = ""


class Cases(list[Case]):
    """The cases of one subject, in the order in which they stand."""

    def case(self, name: str, documented: str = "") -> Callable[[Run], Run]:
        """Add a program."""

        def add(run: Run) -> Run:
            self.append(Case(name, run, documented))
            return run

        return add

    def each(self, name: str, values: dict[str, Run]) -> None:
        """Add a program for each of some calls."""
        for shown, run in values.items():
            self.append(Case(f"{name}: {shown}", run))
