"""Large records, in pieces: what one record would say of very many partitions is said by several that follow it.

A record is bounded so that it fits a frame of the log whatever members have shown. Every piece is replayed at once,
and pieces say of each partition, or member, what the whole would have said, independently of the others. So if the log
ends between two of them, which only a crash does, what is there is as if less had been asked for: nobody was answered,
and whoever asked asks again. What has to be whole (a member's registration, a micro-batch) is never cut; its size is
bounded where it comes in.
"""

from collections.abc import Callable, Iterator
from typing import Any, Final

from msgspec.structs import replace

from coordinator.core.groups.hard.operator_records import (
    ClaimsReleased,
    OffsetsDeleted,
    PauseChanged,
    ResetsCancelled,
    ResetsPlanned,
)
from coordinator.core.groups.hard.records import (
    ClaimsClosed,
    ClaimsGivenUp,
    ClaimsRunning,
    MemberEpochsAdvanced,
    OffsetsCommitted,
    Record,
    Released,
    StopBegan,
    StreamsAssigned,
    Taken,
    TopicsMatched,
    WentOutOfRange,
    encode_record,
)

LARGE_BYTES: Final = 256 * 1024
"""A record that is larger is cut, if it can be."""

MAX_RECORD_BYTES: Final = 8 * 1024 * 1024 - 64
"""No record is larger: that is what a frame of the log holds."""

_ITEMS: Final = 500
"""Partitions, members or topics in a piece; of a topic whose partitions are a column, a piece has them all."""
_MEMBERS: Final = 2_000
"""Members in a piece that names very many topics besides."""


class RecordTooLargeError(Exception):
    """A record that cannot be cut passes what a frame of the log holds: something that came in was not bounded."""


def in_pieces(record: Record, data: bytes) -> list[tuple[Record, bytes]]:
    """Return the pieces that say what a large record does, each with its bytes, or the record if it is never cut.

    Raises RecordTooLargeError when one of them is too large.
    """
    cut = _CUT.get(type(record))
    cuts = [record] if cut is None else list(cut(record))
    pieces = [(record, data)] if len(cuts) == 1 else [(piece, encode_record(piece)) for piece in cuts]
    for piece, its_data in pieces:
        check_size(piece, its_data)
    return pieces


def check_size(record: Record, data: bytes) -> None:
    """Raise RecordTooLargeError when the bytes of a record are more than it may have."""
    if len(data) > MAX_RECORD_BYTES:
        raise RecordTooLargeError(
            f"{type(record).__name__} of group {record.group_id[:250]!r} has {len(data)} bytes and a record may have "
            f"{MAX_RECORD_BYTES}"
        )


def _by(name: str, most: int = _ITEMS) -> Callable[[Any], Iterator[Record]]:
    """Return what cuts records by the list of this name."""

    def cut(record: Any) -> Iterator[Record]:
        items = getattr(record, name)
        if items is None:
            yield record
            return
        for begin in range(0, len(items), most):
            yield replace(record, **{name: items[begin : begin + most]})

    return cut


def _released(record: Released) -> Iterator[Record]:
    """A partition is let go of with its final offset."""
    committed = {(part.topic, part.partition): part for part in record.committed}
    for begin in range(0, len(record.partitions), _ITEMS):
        parts = record.partitions[begin : begin + _ITEMS]
        finals = tuple(final for part in parts if (final := committed.get((part.topic, part.partition))) is not None)
        yield replace(record, partitions=parts, committed=finals)


def _committed(record: OffsetsCommitted) -> Iterator[Record]:
    for begin in range(0, len(record.committed), _ITEMS):
        yield replace(record, committed=record.committed[begin : begin + _ITEMS], together=())
    for begin in range(0, len(record.together), _ITEMS):
        yield replace(record, committed=(), together=record.together[begin : begin + _ITEMS])


_CUT: Final[dict[type[Record], Callable[[Any], Iterator[Record]]]] = {
    OffsetsCommitted: _committed,
    Released: _released,
    MemberEpochsAdvanced: _by("member_ids"),
    TopicsMatched: _by("member_ids", _MEMBERS),
    StreamsAssigned: _by("streams"),
    ResetsPlanned: _by("resets"),
    ClaimsRunning: _by("topics"),
    ClaimsClosed: _by("topics"),
    **{
        kind: _by("partitions")
        for kind in (
            StopBegan,
            ClaimsGivenUp,
            WentOutOfRange,
            Taken,
            PauseChanged,
            ResetsCancelled,
            OffsetsDeleted,
            ClaimsReleased,
        )
    },
}
