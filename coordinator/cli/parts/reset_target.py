"""The target of a reset, in Kafka's words, and the CSV form that Kafka's own tool reads and writes.

The CSV has a line a partition and no header: `topic,partition,offset`, or with the group in front.
"""

import csv
import re
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import typer

from coordinator.client.times import parse_time_ms
from coordinator.protocol.ids import TopicPartition
from coordinator.protocol.parts import ResetTarget
from coordinator.protocol.text.durations import parse_duration_ms
from coordinator.protocol.text.escaping import one_line
from coordinator.protocol.vocabulary import ResetKind


@dataclass(frozen=True, slots=True)
class WhereTo:
    """The one `--to-…` of a command line; its kind is that of a ResetTarget."""

    kind: ResetKind
    value: int | None = None


def where_to(
    *,
    to_earliest: bool,
    to_latest: bool,
    to_current: bool,
    to_offset: int | None,
    to_datetime: str | None,
    by_duration: str | None,
    shift_by: int | None,
) -> WhereTo | None:
    """Return where a command line leads, None when it does not say; raises typer.BadParameter when it says two."""
    said = [
        *([WhereTo(ResetKind.EARLIEST)] if to_earliest else ()),
        *([WhereTo(ResetKind.LATEST)] if to_latest else ()),
        *([WhereTo(ResetKind.CURRENT)] if to_current else ()),
        *([WhereTo(ResetKind.OFFSET, to_offset)] if to_offset is not None else ()),
        *([WhereTo(ResetKind.TIMESTAMP, parse_datetime(to_datetime))] if to_datetime is not None else ()),
        *([WhereTo(ResetKind.DURATION, parse_duration(by_duration))] if by_duration is not None else ()),
        *([WhereTo(ResetKind.SHIFT, shift_by)] if shift_by is not None else ()),
    ]
    if len(said) > 1:
        raise typer.BadParameter("say one way where to: --to-earliest, --to-latest, --to-current, --to-offset, …")
    return said[0] if said else None


def parse_datetime(text: str) -> int:
    """Read `YYYY-MM-DDTHH:mm:SS.sss` as milliseconds since 1970; raises typer.BadParameter."""
    try:
        return parse_time_ms(text)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error


def parse_duration(text: str) -> int:
    """Read a duration such as `15m` or `P1DT2H30M` as milliseconds; raises typer.BadParameter."""
    try:
        return parse_duration_ms(text)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error


def read_csv(path: Path, group: str, *, is_one_of_several: bool) -> tuple[ResetTarget, ...]:
    """Read the offsets of a group from a file; raises typer.BadParameter naming the line that is wrong.

    Of several groups each line names its own: one group's offsets say nothing of where another is.
    """
    try:
        lines = list(csv.reader(path.read_text(encoding="utf-8-sig").splitlines()))
    except OSError as error:
        raise typer.BadParameter(f"{path} cannot be read: {error.strerror or error}") from error
    except (UnicodeDecodeError, csv.Error) as error:
        raise typer.BadParameter(f"{path} cannot be read: {error}") from error
    targets: dict[TopicPartition, ResetTarget] = {}
    for number, line in enumerate(lines, 1):
        if not line:
            continue
        cells, where = [cell.strip() for cell in line], f"{path}, line {number}"
        if is_one_of_several and len(cells) != 4:
            raise typer.BadParameter(f"{where}: '{','.join(cells)}' is not group,topic,partition,offset")
        target = _read_line(cells, group, where)
        if target is not None and targets.setdefault((target.topic, target.partition), target) is not target:
            raise typer.BadParameter(f"{path}, line {number}: {target.topic}-{target.partition} is named twice")
    if not targets:
        raise typer.BadParameter(f"{path} has no offset of group {group}")
    return tuple(targets.values())


def _read_line(cells: list[str], group: str, where: str) -> ResetTarget | None:
    if len(cells) == 4:
        if cells[0] != group:
            return None
        cells = cells[1:]
    if len(cells) != 3 or not cells[0] or not all(re.fullmatch(r"\d{1,18}", cell) for cell in cells[1:]):
        raise typer.BadParameter(f"{where}: '{','.join(cells)}' is not topic,partition,offset")
    return ResetTarget(cells[0], int(cells[1]), ResetKind.OFFSET, int(cells[2]))


def write_csv_of_offsets(offsets: Iterable[Sequence[str | int]]) -> None:
    """Write offsets to standard output as Kafka's tool reads them, of one group or with the group in front.

    Names stay as they are, since they are read again by name; spreadsheets are given `--output csv`.
    """
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerows([one_line(cell) if isinstance(cell, str) else cell for cell in row] for row in offsets)


def targets_of(partitions: Sequence[TopicPartition], where: WhereTo) -> tuple[ResetTarget, ...]:
    """Return a target a partition."""
    return tuple(ResetTarget(topic, number, where.kind, where.value) for topic, number in partitions)
