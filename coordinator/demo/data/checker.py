"""Compares what reached the sinks with what was produced. Pure.

A flight may be delivered twice only in one way: the application that was killed had written it, its micro-batch was
not committed yet, and the survivor read the same offset again. A flight that is missing, that nobody produced, that
one sink has twice or that both have for another reason makes the demo fail.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Delivered:
    """One row of a sink: which flight it is and where in the topic it was read."""

    line: int
    partition: int
    offset: int


@dataclass(frozen=True, slots=True)
class Verdict:
    """The result of the comparison; `repeats` are rows of the survivor that the killed one had written too."""

    flights: int
    rows: int
    missing: int
    repeats: int
    repeated_offsets: Mapping[int, tuple[int, int]]
    """Partition -> the range [from, until) that encloses its repeats."""
    wrong: tuple[str, ...]
    """The faults that at-least-once delivery does not excuse, a sentence each; empty when all is well."""

    @property
    def is_good(self) -> bool:
        """True when nothing is missing and every repeat has its reason."""
        return not self.missing and not self.wrong


def check_delivery(
    expected: range,
    survivor: Iterable[Delivered],
    killed: Iterable[Delivered],
    committed_at_kill: Mapping[int, int],
) -> Verdict:
    """Compare the rows of both sinks with the `expected` lines.

    `committed_at_kill` is, a partition of the killed application, the group's offset when it died: what it wrote
    below that was committed and must not come again.
    """
    by_survivor, by_killed = list(survivor), list(killed)
    wrong: list[str] = []
    for name, rows in (("surviving", by_survivor), ("killed", by_killed)):
        twice = sum(count - 1 for count in Counter(row.line for row in rows).values())
        if twice:
            wrong.append(f"{twice} flights are twice in the sink of the {name} application alone")
    lines = {row.line for row in by_survivor} | {row.line for row in by_killed}
    strangers = sum(1 for line in lines if line not in expected)
    if strangers:
        wrong.append(f"{strangers} rows are no flights that were produced")

    written = {row.line: row for row in by_killed}
    repeats = [row for row in by_survivor if row.line in written]
    elsewhere = sum(1 for row in repeats if written[row.line] != row)
    if elsewhere:
        wrong.append(f"{elsewhere} flights came from two places of the topic: they were produced twice")
    finished = sum(1 for row in repeats if row.offset < committed_at_kill.get(row.partition, 0))
    if finished:
        wrong.append(f"{finished} flights came again although the killed application had committed them")
    return Verdict(
        flights=len(expected),
        rows=len(by_survivor) + len(by_killed),
        missing=len(expected) - (len(lines) - strangers),
        repeats=len(repeats),
        repeated_offsets=_ranges(repeats),
        wrong=tuple(wrong),
    )


def explain_repeats(verdict: Verdict, killed_name: str, survivor_name: str) -> str:
    """Say in one sentence why flights were delivered twice, or why none was."""
    if not verdict.repeats:
        return (
            f"No flight was delivered twice: the micro-batch in flight when {killed_name} was killed had not reached "
            f"its sink, and {survivor_name} read it from the last committed offset."
        )
    ranges = ", ".join(
        f"partition {partition} [{first}, {until})"
        for partition, (first, until) in sorted(verdict.repeated_offsets.items())
    )
    return (
        f"{verdict.repeats} flights were delivered twice: the micro-batch in flight when {killed_name} was killed had "
        f"reached its sink but was not committed, so {survivor_name} read it again from the last committed offset "
        f"({ranges})."
    )


def _ranges(rows: Iterable[Delivered]) -> dict[int, tuple[int, int]]:
    ranges: dict[int, tuple[int, int]] = {}
    for row in rows:
        first, until = ranges.get(row.partition, (row.offset, row.offset + 1))
        ranges[row.partition] = (min(first, row.offset), max(until, row.offset + 1))
    return ranges
