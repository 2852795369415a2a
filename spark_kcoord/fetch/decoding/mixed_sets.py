"""Record sets that have messages of formats 0 and 1, alone or before, between and after batches of today's.

A topic that was never rewritten keeps old messages, and gets batches after them. The decoders of batches stop at an old
message; then the set is divided here into runs, each of one kind, for one call to decode the first that has anything
left. Batches are given to the decoder from the first of the set on, without the messages among them, because a
transaction may have been aborted in an earlier run. Nothing is decoded here.
"""

from __future__ import annotations

import itertools
import struct
from collections.abc import Iterator
from typing import Final, NamedTuple

from spark_kcoord.fetch.decoding.old_messages import OldMessage, is_old_at, message_at
from spark_kcoord.fetch.decoding.record_set import RecordSetEnd, batches

__all__ = ["Entry", "end_of_mixed", "entries", "next_run"]

_PREFIX_BYTES: Final = struct.calcsize(">qi")
_NO_EPOCH: Final = -1


class Entry(NamedTuple):
    """One whole message of an old format or one whole batch; a wrapper does not tell its ``first_offset``."""

    data: memoryview
    first_offset: int | None
    next_offset: int
    leader_epoch: int
    message: OldMessage | None


def entries(data: memoryview, where: str) -> Iterator[Entry]:
    """Yield the whole messages and batches of a record set in order; raises KcoordError at one that cannot be one."""
    position = 0
    while position + _PREFIX_BYTES <= len(data):
        if is_old_at(data, position):
            message = message_at(data, position, where)
            if message is None:
                return
            first = None if message.codec else message.offset
            entry = Entry(message.data, first, message.next_offset, _NO_EPOCH, message)
        else:
            batch = next(batches(data[position:], where), None)
            if batch is None:
                return
            whole = data[position : position + batch.size]
            entry = Entry(whole, batch.base_offset, batch.next_offset, batch.leader_epoch, None)
        yield entry
        position += len(entry.data)


def end_of_mixed(record_set: bytes | memoryview, where: str) -> RecordSetEnd | None:
    """Return where the whole messages and batches of a record set end; None when it holds none."""
    end = None
    for entry in entries(memoryview(record_set), where):
        end = RecordSetEnd(entry.next_offset, entry.leader_epoch)
    return end


def next_run(record_set: bytes | memoryview, start: int, where: str) -> list[OldMessage] | bytes:
    """Return the first run with anything from ``start`` on: messages, or batches with those of the runs before them.

    Without such a run there are no batches.
    """
    earlier: list[memoryview] = []
    for is_old, found in itertools.groupby(entries(memoryview(record_set), where), lambda entry: bool(entry.message)):
        run = list(found)
        if not is_old:
            earlier += [entry.data for entry in run]
        if run[-1].next_offset > start:
            return [entry.message for entry in run if entry.message is not None] if is_old else b"".join(earlier)
    return b""
