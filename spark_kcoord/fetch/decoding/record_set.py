"""The parts of a record set: the batch headers, which batches a reader sees, and what is wrong with bad ones.

A record set is what a broker answers a fetch with: whole record batches of message format 2 (KIP-98), the first
of which may begin before the offset asked for, the last of which may be cut off. Messages of formats 0 and 1 end the
walk over batches with an error of their own; ``mixed_sets.py`` reads them. Both decoders agree on batches,
transactions and error messages because those are decided here; records and Arrow are theirs.
"""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import google_crc32c
import pyarrow as pa

from spark_kcoord.errors import KcoordError

__all__ = [
    "ABSENT",
    "ATTRIBUTES_AT",
    "CODEC_MASK",
    "CONTROL",
    "CUT",
    "DECODED_BYTES",
    "HEADER_BYTES",
    "LOG_APPEND_TIME",
    "MAX_ROWS",
    "OUTSIDE",
    "REST",
    "SMALLEST_RECORD",
    "TRANSACTIONAL",
    "AbortedTransaction",
    "Batch",
    "DecodedBatch",
    "OldFormatError",
    "RecordSetEnd",
    "VisibleBatches",
    "batches",
    "check_crc",
    "damaged_header",
    "old_format",
    "unreadable",
    "unrepresentable_time",
    "wrong_checksum",
]

CODEC_MASK: Final = 0x07
LOG_APPEND_TIME: Final = 0x08
TRANSACTIONAL: Final = 0x10
CONTROL: Final = 0x20

ATTRIBUTES_AT: Final = 21
"""The place of the attributes, the first bytes that the checksum covers."""
HEADER_BYTES: Final = 61
SMALLEST_RECORD: Final = 7
"""Bytes of a record that holds nothing: a byte for each of its fields."""
MAX_ROWS: Final = 1 << 20
"""Rows held after which decoding stops at a batch's end, however few bytes they have."""

DECODED_BYTES: Final = 16 << 20
"""Bytes of keys, values and headers held after which decoding stops at a batch's end, unless told otherwise."""

CUT: Final = "a record is cut short or has a field that is longer than the record"
OUTSIDE: Final = "a record has an offset outside of its batch"
REST: Final = "the records do not fill the batch"
ABSENT: Final = "a record has a negative number of headers, or a header without a key"

_PREFIX: Final = struct.Struct(">qi")
_HEADER: Final = struct.Struct(">qiibIhiqqqhii")
_MAGIC_AT: Final = 16
_MAGIC: Final = 2
_LARGEST_OFFSET: Final = (1 << 63) - 1

_NO_PRODUCER: Final = -1
_END_MARKER: Final = struct.Struct(">hh")
_ABORT: Final = 0


class OldFormatError(KcoordError):
    """A message of format 0 or 1 stands where the decoders of batches expect a batch; its reader is another one."""


@dataclass(frozen=True, slots=True)
class AbortedTransaction:
    """A producer's aborted transaction that begins at ``first_offset`` and ends at its next abort marker."""

    producer_id: int
    first_offset: int


@dataclass(frozen=True, slots=True)
class DecodedBatch:
    """Rows, and the offset to go on from; ``next_offset`` is past everything looked at, rows or none."""

    rows: pa.RecordBatch
    next_offset: int


class RecordSetEnd(NamedTuple):
    """The end of the whole batches of a record set, and the epoch of the leader that wrote the last of them.

    ``leader_epoch`` is -1 where the batch has none.
    """

    next_offset: int
    leader_epoch: int


@dataclass(slots=True)
class Batch:
    """One whole batch as its header tells it; ``position`` and ``size`` say where it lies in the record set."""

    position: int
    size: int
    base_offset: int
    leader_epoch: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    record_count: int

    @property
    def next_offset(self) -> int:
        """Return the offset after the batch, also when compaction took its last records."""
        return self.base_offset + self.last_offset_delta + 1


def batches(data: memoryview, where: str) -> Iterator[Batch]:
    """Yield the whole batches of a record set in order.

    Raises OldFormatError at a message of format 0 or 1, KcoordError at a batch that cannot be one.
    """
    position = 0
    while position + _PREFIX.size <= len(data):
        base_offset, length = _PREFIX.unpack_from(data, position)
        size = _PREFIX.size + length
        if position + size > len(data) and length > 0:
            return
        if size > _MAGIC_AT and 0 <= data[position + _MAGIC_AT] < _MAGIC:
            raise old_format(where, base_offset, data[position + _MAGIC_AT])
        if size < HEADER_BYTES or data[position + _MAGIC_AT] != _MAGIC:
            raise damaged_header(where, base_offset)
        fields = _HEADER.unpack_from(data, position)
        batch = Batch(
            position=position,
            size=size,
            base_offset=base_offset,
            leader_epoch=fields[2],
            crc=fields[4],
            attributes=fields[5],
            last_offset_delta=fields[6],
            base_timestamp=fields[7],
            max_timestamp=fields[8],
            producer_id=fields[9],
            record_count=fields[12],
        )
        is_possible = base_offset >= 0 and batch.last_offset_delta >= 0 and batch.record_count >= 0
        if not is_possible or batch.next_offset > _LARGEST_OFFSET:
            raise damaged_header(where, base_offset)
        yield batch
        position += size


def check_crc(data: memoryview, batch: Batch, where: str) -> None:
    """Raise KcoordError unless the batch has the CRC-32C that its header says."""
    found = google_crc32c.value(bytes(data[batch.position + ATTRIBUTES_AT : batch.position + batch.size]))
    if found != batch.crc:
        raise wrong_checksum(where, batch.base_offset, found, batch.crc)


class VisibleBatches:
    """Says which batches a reader sees, batch after batch from the start of a record set.

    Only control and transactional batches need to be asked about; every other one is visible.
    """

    def __init__(self, aborted: Sequence[AbortedTransaction] | None, where: str) -> None:
        self._is_read_committed = aborted is not None
        self._coming = deque(sorted(aborted or (), key=lambda transaction: transaction.first_offset))
        self._aborted_producers: set[int] = set()
        self._where = where

    def shows(self, attributes: int, producer_id: int, base_offset: int, end: int, plain: Callable[[], bytes]) -> bool:
        """Return whether the records of the batch [base_offset, end) are for the reader; asked once, in order.

        ``plain`` returns the batch's records without compression; only those of an end marker are looked at.
        """
        is_control = bool(attributes & CONTROL)
        if self._is_read_committed and producer_id != _NO_PRODUCER:
            while self._coming and self._coming[0].first_offset < end:
                self._aborted_producers.add(self._coming.popleft().producer_id)
            is_aborting = producer_id in self._aborted_producers
            if is_aborting and is_control and _is_abort_marker(plain(), base_offset, self._where):
                self._aborted_producers.discard(producer_id)
            elif is_aborting and attributes & TRANSACTIONAL:
                return False
        return not is_control


def _is_abort_marker(plain: bytes, base_offset: int, where: str) -> bool:
    if not plain:
        return False  # compaction took the marker and left its batch
    try:
        _length, position = _varint(plain, 0)
        _time, position = _varint(plain, position + 1)
        _offset, position = _varint(plain, position)
        length, position = _varint(plain, position)
        return length >= _END_MARKER.size and _END_MARKER.unpack_from(plain, position)[1] == _ABORT
    except (IndexError, struct.error):
        raise unreadable(where, base_offset, CUT) from None


def _varint(data: bytes, position: int) -> tuple[int, int]:
    """Return the zigzag number at ``position`` and the position after it."""
    raw = shift = 0
    while True:
        byte = data[position]
        position += 1
        raw |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (raw >> 1) ^ -(raw & 1), position
        shift += 7


def old_format(where: str, base_offset: int, magic: int) -> OldFormatError:
    """Return the error for a message from before Kafka 0.11."""
    return OldFormatError(f"{where}: the message at offset {base_offset} has format {magic}, from before Kafka 0.11.")


def damaged_header(where: str, base_offset: int) -> KcoordError:
    """Return the error for bytes that are no batch."""
    return KcoordError(f"{where}: the batch at offset {base_offset} is damaged: its header cannot be read.")


def wrong_checksum(where: str, base_offset: int, found: int, said: int) -> KcoordError:
    """Return the error for a batch whose bytes have changed since it was written."""
    return KcoordError(
        f"{where}: the batch at offset {base_offset} is damaged: its checksum is {found:#010x} but "
        f"it says {said:#010x}. Read around it, or set 'kafka.check.crcs' to false to try without the check."
    )


def unreadable(where: str, base_offset: int, why: str) -> KcoordError:
    """Return the error for a batch whose records make no sense."""
    return KcoordError(f"{where}: the batch at offset {base_offset} cannot be read ({why}).")


def unrepresentable_time(where: str, offset: int, milliseconds: int) -> KcoordError:
    """Return the error for a timestamp that does not fit in 64 bits as microseconds."""
    return KcoordError(
        f"{where}: the record at offset {offset} has a timestamp Spark cannot hold ({milliseconds} ms since 1970). "
        "It was written so; correct the producer."
    )
