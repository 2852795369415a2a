"""What a sink has compared with what was produced: what is missing, what came twice, and whether that is explained."""

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.chaos.log_of_cuts import Cut

Place = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Verdict:
    """Counts of records; `unexplained` are deliveries too many that lie in no range that was cut."""

    records: int
    missing: int
    wrong: int
    duplicates: int
    unexplained: int
    examples: tuple[str, ...] = ()

    @property
    def is_good(self) -> bool:
        """Whether every record is there, as it was produced, and every duplicate is explained."""
        return not (self.missing or self.wrong or self.unexplained)


def delivered(folders: Iterable[Path]) -> list[tuple[int, int, str]]:
    """Return every row of every file in the folders of a sink."""
    return [
        (partition, offset, value)
        for folder in folders
        for path in sorted(folder.glob("batch-*.json"))
        for partition, offset, value in json.loads(path.read_text())
    ]


def judge(rows: Iterable[tuple[int, int, str]], ends: Mapping[int, int], cuts: Iterable[Cut]) -> Verdict:
    """Compare rows with a topic whose partitions hold the offsets below their ends, each with its place as its value.

    A record may come once more for each time that a running claim on it was cut.
    """
    known = list(rows)
    wrong = [row for row in known if row[2] != f"{row[0]}:{row[1]}" or row[1] >= ends.get(row[0], 0)]
    times = Counter((partition, offset) for partition, offset, _ in known)
    allowed: Counter[Place] = Counter()
    for cut in cuts:
        allowed.update((cut.partition, offset) for offset in range(cut.from_offset, cut.until_offset))
    missing = [(p, offset) for p, end in ends.items() for offset in range(end) if (p, offset) not in times]
    over = {place: count - 1 for place, count in times.items() if count > 1}
    unexplained = {place: extra - allowed[place] for place, extra in over.items() if extra > allowed[place]}
    return Verdict(
        records=sum(ends.values()),
        missing=len(missing),
        wrong=len(wrong),
        duplicates=sum(over.values()),
        unexplained=sum(unexplained.values()),
        examples=(
            *(f"missing: {p}-{offset}" for p, offset in missing[:5]),
            *(f"wrong: {row}" for row in wrong[:5]),
            *(f"unexplained: {p}-{o} came {times[p, o]} times" for p, o in list(unexplained)[:5]),
        ),
    )


def describe_cuts(rows: Iterable[tuple[int, int, str]], cuts: Iterable[Cut]) -> list[str]:
    """Return a line for each cut range that has duplicates, with how many lie in it."""
    times = Counter((partition, offset) for partition, offset, _ in rows)
    lines = []
    for cut in cuts:
        twice = sum(times[cut.partition, offset] > 1 for offset in range(cut.from_offset, cut.until_offset))
        if twice:
            lines.append(
                f"{cut.topic}-{cut.partition} [{cut.from_offset}, {cut.until_offset}) of {cut.member_id} under owner "
                f"epoch {cut.owner_epoch} was cut by {cut.ended_by}: {twice} records came again"
            )
    return lines
