"""The timeline of one group, as the shard's log has it: encoded entries, the newest last, numbered without gaps.

Entries are kept as the bytes that records carry: they are written and replayed far more often than they are read. What
is kept, and what has to go to make room, is decided with the record that brings an entry; nothing here has a limit.
"""

from collections.abc import Sequence
from typing import Final

import msgspec

from coordinator.core.groups.partitions.in_topics import TopicNumbers, one_by_one
from coordinator.protocol.parts import GroupEvent

ENTRY_BYTES: Final = 64
"""About what an entry takes in memory besides its bytes."""


class Entry(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """An event: its kind, to whom it happened and why; of many partitions some are named. `at_ms` is wall-clock time.

    It is laid in records and so only grows: a new field last, with a default.
    """

    at_ms: int
    kind: str
    member_id: str
    why: str
    group_epoch: int
    topics: tuple[TopicNumbers, ...] = ()
    duration_ms: int | None = None
    partition_count: int = 0


class EntryHead(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The beginning of an Entry, by which entries are chosen."""

    at_ms: int
    kind: str


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(Entry)
_head_decoder = msgspec.msgpack.Decoder(EntryHead)
encode_entry = _encoder.encode
head_of = _head_decoder.decode


def event_of(sequence: int, data: bytes) -> GroupEvent:
    """Return an entry as tools read it."""
    entry = _decoder.decode(data)
    return GroupEvent(
        sequence,
        entry.at_ms,
        entry.kind,
        entry.member_id,
        entry.why,
        entry.group_epoch,
        tuple(one_by_one(entry.topics)),
        entry.duration_ms,
        entry.partition_count,
    )


class Timeline:
    """The entries of one group that are kept, and the number of the newest one there ever was."""

    __slots__ = ("bytes", "entries", "last_sequence")

    def __init__(self) -> None:
        self.entries: list[bytes] = []
        self.last_sequence = 0
        self.bytes = 0
        """Account: the memory that the entries take."""

    @property
    def first_sequence(self) -> int:
        """The number of the oldest entry that is kept, or of the next one while none is."""
        return self.last_sequence - len(self.entries) + 1

    def take(self, first: int, entries: Sequence[bytes], dropped: int) -> None:
        """Drop so many of the oldest entries, then take in others, the first of which has this number."""
        assert self is not NO_TIMELINE, "the timeline without entries is only read; a write needs one of its own"
        kept = self.entries
        if dropped:
            self.bytes -= weight_of(kept[:dropped])
            del kept[:dropped]
        kept += entries
        self.bytes += weight_of(entries)
        self.last_sequence = first + len(entries) - 1

    def copy(self) -> "Timeline":
        """Return a timeline with the same entries."""
        other = Timeline()
        other.entries, other.last_sequence, other.bytes = self.entries.copy(), self.last_sequence, self.bytes
        return other

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Timeline)
            and (self.last_sequence, self.bytes) == (other.last_sequence, other.bytes)
            and self.entries == other.entries
        )

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Timeline({len(self.entries)} entries to {self.last_sequence})"


NO_TIMELINE: Final = Timeline()
"""The timeline of groups that never had an entry, to read."""


def weight_of(entries: Sequence[bytes]) -> int:
    """Return the memory that entries take."""
    return sum(map(len, entries)) + ENTRY_BYTES * len(entries)
