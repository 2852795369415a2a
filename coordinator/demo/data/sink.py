"""Reads what a streaming query wrote to Spark's Parquet file sink, as Spark itself would read it.

The sink's log (`_spark_metadata`) says which files belong to the output: a file that is not in it was written by a
micro-batch that did not finish, and is no output. Every tenth entry of the log is a compaction, which holds
everything before it.
"""

import urllib.parse
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec
import pyarrow as pa
import pyarrow.dataset as ds

from coordinator.demo.data.checker import Delivered
from coordinator.demo.errors import DemoError

_LOG: Final = "_spark_metadata"
_VERSION: Final = "v1"
_COMPACTION: Final = ".compact"


class _Entry(msgspec.Struct):
    """One file in the sink's log."""

    path: str
    action: str


class _Value(msgspec.Struct):
    """The part of a flight's JSON that is looked at."""

    line: int


_entries = msgspec.json.Decoder(_Entry)
_values = msgspec.json.Decoder(_Value)


def output_files(sink: Path) -> list[Path]:
    """Return the files that belong to the output, oldest first; none when no micro-batch has finished."""
    log = sink / _LOG
    if not log.is_dir():
        return []
    numbers = {_number(entry): entry for entry in log.iterdir() if _number(entry) is not None}
    compactions = [number for number, entry in numbers.items() if number is not None and entry.suffix == _COMPACTION]
    since = max(compactions, default=0)
    files: dict[str, None] = {}
    for number in sorted(number for number in numbers if number is not None and number >= since):
        for entry in _read_log(numbers[number]):
            if entry.action == "add":
                files[entry.path] = None
            else:
                files.pop(entry.path, None)
    return [Path(urllib.parse.unquote(urllib.parse.urlsplit(path).path)) for path in files]


def read_delivered(sink: Path) -> Iterator[Delivered]:
    """Yield a row for each flight in the output; raises DemoError for output that cannot be read."""
    files = output_files(sink)
    if not files:
        return
    try:
        dataset = ds.dataset([str(path) for path in files], format="parquet")
        for batch in dataset.to_batches(columns=["value", "partition", "offset"]):
            rows = zip(*(column.to_pylist() for column in batch.columns), strict=True)
            for value, partition, offset in rows:
                yield Delivered(_values.decode(value).line, partition, offset)
    except (OSError, pa.ArrowException, msgspec.MsgspecError, TypeError) as error:
        raise DemoError(f"the output in {sink} cannot be read: {error}") from error


def _number(entry: Path) -> int | None:
    name = entry.name.removesuffix(_COMPACTION)
    return int(name) if name.isdigit() else None


def _read_log(path: Path) -> list[_Entry]:
    version, *lines = path.read_text(encoding="utf-8").splitlines()
    if version != _VERSION:
        raise DemoError(f"the sink's log {path} has version {version!r}, and only {_VERSION} is known here")
    try:
        return [_entries.decode(line) for line in lines]
    except msgspec.MsgspecError as error:
        raise DemoError(f"the sink's log {path} cannot be read: {error}") from error
