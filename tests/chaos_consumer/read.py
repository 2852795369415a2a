"""The files of consumers' programs after a run: what was read under which owner epoch, when, and what that says.

A record may come twice for each grant under which it was read and not committed. The same owner epoch gives it twice
only to a member that was told in between that the partition is lost. A call that begins when somebody has read a
partition under a later owner epoch returns nothing of it.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from tests.chaos.log_of_cuts import Cut

Grant = tuple[int, int]
"""A partition and an owner epoch."""


@dataclass(slots=True)
class Read:
    """All that consumers read."""

    rows: list[tuple[int, int, str]] = field(default_factory=list)
    until: dict[Grant, int] = field(default_factory=dict)
    again: list[Cut] = field(default_factory=list)
    """What came once more under the same owner epoch, after its member was told that it is lost."""
    double_owned: list[str] = field(default_factory=list)
    handovers_ms: list[float] = field(default_factory=list)
    """The times from the begin of an orderly end to the first record that the next consumer had of a partition."""

    @property
    def handover_ms(self) -> int:
        """The median of the hand-overs, 0 without one."""
        return round(median(self.handovers_ms)) if self.handovers_ms else 0


def read(paths: Iterable[Path], topic: str) -> Read:
    """Return what the lines in these files say."""
    known, said = Read(), [line for path in paths for line in _lines(path)]
    batches = sorted((line for line in said if line["what"] == "records"), key=lambda line: line["ended"])
    first: dict[Grant, tuple[float, int]] = {}
    for line in batches:
        epochs = {int(number): epoch for number, epoch in line["epochs"].items()}
        for number, epoch in epochs.items():
            first.setdefault((number, epoch), (line["ended"], line["pid"]))
        known.rows += [(number, offset, value) for number, offset, value in line["rows"]]
    for line in batches:
        for number, epoch in ((int(number), epoch) for number, epoch in line["epochs"].items()):
            newer = [other for other in first if other[0] == number and other[1] > epoch]
            if any(first[other][0] < line["began"] for other in newer):
                why = f"{topic}-{number} under owner epoch {epoch}, begun at {line['began']:.3f}: {newer}"
                known.double_owned.append(why)
    _note_ranges(known, said, topic)
    _note_handovers(known, said, first)
    return known


def _lines(path: Path) -> Iterable[Mapping[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def _note_ranges(known: Read, said: Iterable[Mapping[str, Any]], topic: str) -> None:
    """Note up to where was read under each grant; each process's lines come in the order in which they were written."""
    was_lost: set[tuple[int, int]] = set()
    for line in said:
        pid = line["pid"]
        if line["what"] == "lost":
            was_lost |= {(pid, number) for number in line["partitions"]}
        if line["what"] != "records":
            continue
        for number, offset, _ in line["rows"]:
            grant = number, line["epochs"][str(number)]
            until = known.until.get(grant, 0)
            if offset < until and (pid, number) in was_lost:
                known.again.append(Cut(topic, *grant, offset, until, str(pid), "lost"))
                known.until[grant] = until = offset
            was_lost.discard((pid, number))
            known.until[grant] = max(until, offset + 1)


def _note_handovers(known: Read, said: Iterable[Mapping[str, Any]], first: Mapping[Grant, tuple[float, int]]) -> None:
    for line in said:
        if line["what"] != "closing":
            continue
        mine = {number: epoch for (number, epoch), (_, pid) in sorted(first.items()) if pid == line["pid"]}
        for number, epoch in mine.items():
            after = [(key[1], at) for key, (at, _) in first.items() if key[0] == number and key[1] > epoch]
            if after and min(after)[1] > line["at"]:
                known.handovers_ms.append((min(after)[1] - line["at"]) * 1000)
