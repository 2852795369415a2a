"""From a raw record set, as a broker sends it, to an Arrow record batch, as Spark takes it.

``decode`` and ``end_of`` are pure functions over bytes with two implementations that agree on every row: compiled
(``_native``) where the install has it, else NumPy and pyarrow (``decode_numpy``). This module alone chooses, once a
process, and says so in a log line; the environment variable ``KCOORD_DECODER`` (``native`` or ``numpy``) overrules
it. A record set begins before the offset asked for and may end in the middle of a batch: both ends are trimmed.
Batches of control records, and under ``read_committed`` those of aborted transactions, yield no rows but move
``next_offset``, as compacted holes do; so a reader always gets past them. A set with messages of formats 0 and 1, which
both implementations refuse, is divided by ``mixed_sets``.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, partial
from importlib import import_module
from typing import Any, Final, Protocol

import pyarrow as pa

from spark_kcoord.errors import KcoordError
from spark_kcoord.fetch.decoding.columns import COLUMNS, arrow_schema
from spark_kcoord.fetch.decoding.record_set import (
    DECODED_BYTES,
    AbortedTransaction,
    DecodedBatch,
    OldFormatError,
    RecordSetEnd,
)

__all__ = [
    "COLUMNS",
    "DECODERS",
    "AbortedTransaction",
    "ChosenDecoder",
    "DecodedBatch",
    "Decoder",
    "RecordSetEnd",
    "arrow_schema",
    "chosen_decoder",
    "compiled_decoder",
    "decode",
    "end_of",
    "load_decoder",
]

_log = logging.getLogger(__name__)

DECODERS: Final = {"native": "spark_kcoord.fetch.decoding._native", "numpy": "spark_kcoord.fetch.decoding.decode_numpy"}
"""The implementations by name, the preferred one first."""
_OVERRULE: Final = "KCOORD_DECODER"


class Decoder(Protocol):
    """The functions that an implementation module offers."""

    def decode(
        self,
        record_set: bytes | memoryview,
        topic: str,
        partition: int,
        start: int,
        end: int,
        *,
        columns: Sequence[str],
        aborted: Sequence[AbortedTransaction] | None = None,
        check_crcs: bool = True,
        max_bytes: int = DECODED_BYTES,
    ) -> DecodedBatch:
        """Decode the records of [start, end); raises OldFormatError at a message of format 0 or 1."""

    def end_of(self, record_set: bytes | memoryview, where: str) -> RecordSetEnd | None:
        """Return where the whole batches end, or None; raises OldFormatError at a message of format 0 or 1."""

    def records(
        self, rows: pa.RecordBatch, topic: str, partition: int, epochs: Sequence[tuple[int, int]], kind: type[Any]
    ) -> list[Any]:
        """Return rows, which have all columns, as records of thirteen fields: tuples of a class of named ones.

        `epochs` are pairs of the offset before which a leader epoch counts, and the epoch, in order; with one pair it
        is that of all rows.
        """


@dataclass(frozen=True, slots=True)
class ChosenDecoder:
    """The implementation in use in this process, its name in ``DECODERS``, and why it is that one."""

    name: str
    why: str
    decoder: Decoder

    def __str__(self) -> str:
        """Say it in a sentence."""
        return f"record batches are decoded by the {self.name} decoder: {self.why}"


def load_decoder(name: str) -> Decoder:
    """Return an implementation by its name in ``DECODERS``; raises ImportError where this install lacks it."""
    decoder: Decoder = import_module(DECODERS[name])
    return decoder


@cache
def chosen_decoder() -> ChosenDecoder:
    """Return the implementation that this process uses, chosen and logged at the first call.

    Raises KcoordError where KCOORD_DECODER names none, or one that this install lacks.
    """
    chosen = _choose(os.environ.get(_OVERRULE, ""))
    _log.log(logging.INFO if chosen.name == "native" else logging.WARNING, "%s", chosen)
    return chosen


def compiled_decoder() -> Decoder | None:
    """Return the compiled implementation where `chosen_decoder` would, else None; chooses, says and raises nothing."""
    if os.environ.get(_OVERRULE, "") not in ("", "native"):
        return None
    with suppress(ImportError):
        return load_decoder("native")
    return None


def _choose(wish: str) -> ChosenDecoder:
    if wish and wish not in DECODERS:
        raise KcoordError(f"{_OVERRULE} is '{wish}' but must be one of {', '.join(DECODERS)}, or be unset.")
    try:
        if wish:
            return ChosenDecoder(wish, f"{_OVERRULE} says so", load_decoder(wish))
        return ChosenDecoder("native", "it is compiled and the fastest", load_decoder("native"))
    except ImportError as error:
        if wish:
            raise KcoordError(
                f"{_OVERRULE} is '{wish}' but this install has no such decoder ({error}). Install a C compiler and "
                "install kcoord again, or unset the variable."
            ) from error
        why = f"this install has no compiled one ({error}); with a C compiler there, install kcoord again"
        return ChosenDecoder("numpy", why, load_decoder("numpy"))


def end_of(record_set: bytes | memoryview, where: str) -> RecordSetEnd | None:
    """Return the offset after the last whole batch of a record set and its leader epoch; None when it holds none."""
    with suppress(OldFormatError):
        return chosen_decoder().decoder.end_of(record_set, where)
    from spark_kcoord.fetch.decoding.mixed_sets import (
        end_of_mixed,  # loads kafka-python's records, which few topics need
    )

    return end_of_mixed(record_set, where)


def decode(
    record_set: bytes | memoryview,
    topic: str,
    partition: int,
    start: int,
    end: int,
    *,
    columns: Sequence[str],
    aborted: Sequence[AbortedTransaction] | None = None,
    check_crcs: bool = True,
    max_bytes: int = DECODED_BYTES,
) -> DecodedBatch:
    """Decode the records of [start, end), stopping at a batch's end once about ``max_bytes`` of keys, values and
    headers are held.

    ``aborted`` are the aborted transactions the broker named with this record set (None: read uncommitted).
    ``columns`` names the columns wanted; only these are built, in the order of ``arrow_schema``. Call again with
    ``start=next_offset`` until ``next_offset`` reaches ``end`` or that of ``end_of``. A record set without a
    complete batch gives no rows and ``next_offset == start``. Raises KcoordError for a checksum that does not
    match, a batch that cannot be read and a batch that is too large without its compression; ValueError for a name
    in ``columns`` that is no column.
    """
    decode_batches = partial(
        chosen_decoder().decoder.decode, columns=columns, aborted=aborted, check_crcs=check_crcs, max_bytes=max_bytes
    )
    with suppress(OldFormatError):
        return decode_batches(record_set, topic, partition, start, end)
    # As in `end_of`.
    from spark_kcoord.fetch.decoding.mixed_sets import next_run
    from spark_kcoord.fetch.decoding.old_messages import decode_messages

    run = next_run(record_set, start, f"topic '{topic}' partition {partition}")
    if isinstance(run, bytes):
        return decode_batches(run, topic, partition, start, end)
    return decode_messages(
        run, topic, partition, start, end, columns=columns, check_crcs=check_crcs, max_bytes=max_bytes
    )


if __name__ == "__main__":
    print(_choose(os.environ.get(_OVERRULE, "")))  # noqa: T201 - what set-up shows
