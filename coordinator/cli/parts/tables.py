"""Writes rows to standard output: as a table or CSV with one header line, or as JSON or YAML.

Nothing written contains a control character or a mark of direction, whatever a member calls itself, and no text in a
CSV begins as a formula; a value that is not known is `-` in a table, empty in CSV and null in JSON and YAML.
"""

import csv
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import groupby
from typing import TypeAlias

import msgspec

from coordinator.protocol.text.escaping import csv_cell, json_document, one_line

Cell: TypeAlias = str | int | None


class OutputFormat(StrEnum):
    """The form in which data is written."""

    TABLE = "table"
    JSON = "json"
    YAML = "yaml"
    CSV = "csv"

    @property
    def is_document(self) -> bool:
        """Say whether values are written with their names, as one document."""
        return self in (OutputFormat.JSON, OutputFormat.YAML)


class OngoingFormat(StrEnum):
    """The form of data that may go on; jsonl is one document a line."""

    TABLE = "table"
    JSON = "json"
    YAML = "yaml"
    JSONL = "jsonl"
    CSV = "csv"

    @property
    def is_document(self) -> bool:
        """Say whether all of it is one document, which has an end."""
        return self in (OngoingFormat.JSON, OngoingFormat.YAML)


def write_rows(output: OutputFormat, columns: Sequence[str], rows: Sequence[Sequence[Cell]]) -> None:
    """Write rows in any form; in a document each is an object with the columns' names in lower case."""
    match output:
        case OutputFormat.TABLE:
            write_table(columns, rows)
        case OutputFormat.CSV:
            write_csv(columns, rows)
        case OutputFormat.JSON | OutputFormat.YAML:
            names = [column.lower().replace("-", "_").replace("#", "") for column in columns]
            write_document(output, [dict(zip(names, row, strict=True)) for row in rows])


@dataclass(frozen=True, slots=True)
class View:
    """One group as it is shown: rows for tables and CSV, and a document, which only JSON and YAML make."""

    columns: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    document: Callable[[], Mapping[str, object]]


def write_views(output: OutputFormat, views: Sequence[View], *, is_one: bool) -> None:
    """Write views: tables with an empty line between them, one CSV, or a document; several come as a list.

    A CSV has another header line only where the columns change.
    """
    if output.is_document:
        write_document(output, views[0].document() if is_one else [view.document() for view in views])
        return
    for columns, run in groupby(views, key=lambda view: tuple(view.columns)):
        if output is OutputFormat.CSV:
            write_rows(output, columns, [row for view in run for row in view.rows])
            continue
        for view in run:
            if view is not views[0] and view.rows:
                sys.stdout.write("\n")
            write_table(columns, view.rows)


def write_csv(header: Sequence[str], rows: Iterable[Sequence[Cell]]) -> None:
    """Write a header, unless it is empty, and a line a row."""
    writer = csv.writer(sys.stdout, lineterminator="\n")
    if header:
        writer.writerow(header)
    writer.writerows([csv_cell(cell) if isinstance(cell, str) else cell for cell in row] for row in rows)


def write_table(columns: Sequence[str], rows: Sequence[Sequence[Cell]]) -> None:
    """Write a header and a line a row, in columns as wide as their longest value; nothing when there are no rows."""
    GrowingTable(columns).write(rows)


class GrowingTable:
    """A table whose rows come some at a time: one header, and columns as wide as the longest value so far."""

    def __init__(self, columns: Sequence[str]) -> None:
        self._columns = columns
        self._widths: list[int] = []

    def write(self, rows: Sequence[Sequence[Cell]]) -> None:
        """Write a line a row, the first of all after the header; nothing when there are no rows."""
        if not rows:
            return
        cells = [list(map(_in_table, column)) for column in zip(*rows, strict=True)]
        if not self._widths:
            self._widths = [0] * len(self._columns)
            cells = [[name, *column] for name, column in zip(self._columns, cells, strict=True)]
        self._widths = [max(width, *map(len, column)) for width, column in zip(self._widths, cells, strict=True)]
        line = "  ".join(f"%-{width}s" for width in self._widths)
        sys.stdout.writelines([f"{(line % row).rstrip()}\n" for row in zip(*cells, strict=True)])


def write_document(output: OutputFormat, value: Mapping[str, object] | Sequence[object]) -> None:
    """Write one document: JSON, indented, or YAML, in which all that is not ASCII is escaped."""
    if output is OutputFormat.YAML:
        import yaml  # what nobody asks for need not be loaded

        sys.stdout.write(
            yaml.safe_dump(msgspec.to_builtins(value), sort_keys=False, allow_unicode=False, width=1 << 30)
        )
        return
    sys.stdout.write(json_document(msgspec.json.format(msgspec.json.encode(value), indent=2).decode()) + "\n")


def write_line(value: Mapping[str, object]) -> None:
    """Write one document of JSON in one line."""
    sys.stdout.write(json_document(msgspec.json.encode(value).decode()) + "\n")


def _in_table(cell: Cell) -> str:
    if type(cell) is int:
        return str(cell)
    if cell is None or cell == "":
        return "-"
    return one_line(str(cell))
