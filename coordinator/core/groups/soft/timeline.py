"""Timelines of the groups of a shard: what is put on them, as one record a group and step, and how much of it.

A timeline is hard state, so that it outlives its node: `hard.tables.timeline`. An entry is noted while a step decides,
and is written at the end of the step with the records that the step wrote: no entry has a write of its own where
something changed, and none is there without its change. What comes too fast is not written entry by entry: a second
later one entry a kind says how many there were. So whatever members do, a log carries so many bytes of this a second.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Final, Protocol

from coordinator.core.groups.hard.records import EventsNoted
from coordinator.core.groups.hard.state import GroupState
from coordinator.core.groups.hard.tables.timeline import ENTRY_BYTES, Entry, encode_entry
from coordinator.core.groups.partitions.in_topics import by_topic
from coordinator.core.groups.soft.timeline_room import TimelineRoom
from coordinator.core.limits import Limits
from coordinator.protocol.vocabulary import EventKind as EventKind

WARNINGS: Final = frozenset({EventKind.RECOVERING, EventKind.LOG_WENT_BACK, EventKind.TOPICS_LEFT_OUT})
"""Events that a person should look at: groups are known elsewhere that are not known here, or further than here, or
topics are not read."""

TOLD_TOGETHER_MS: Final = 1_000
"""Entries that are left out are told together after so long."""

_NAMED: Final = 100
"""Partitions that one entry names: a timeline is kept in memory and is read by people."""
_MOST_WORDS: Final = 4_000
"""Characters of what is said of an event. A record of the log is bounded, whoever is named in it."""
_BURST_S: Final = 16
"""So many seconds' worth may be written at once."""
_GROUPS_AT_ONCE: Final = 16
"""A shard writes as much as so many of its groups may."""


class Partitions(Protocol):
    """Partitions that an event is about: a list, a set or a table of them."""

    def __iter__(self) -> Iterator[tuple[str, int]]:
        """Yield them."""

    def __len__(self) -> int:
        """Return how many there are."""


def entry_of(
    kind: EventKind,
    at_ms: int,
    member_id: str,
    why: str,
    group_epoch: int,
    partitions: Partitions,
    duration_ms: int | None,
) -> Entry:
    """Return an entry, which of more than a hundred partitions names the first hundred, in the order that is given."""
    topics = by_topic(islice(partitions, _NAMED)) if len(partitions) else ()
    if len(why) > _MOST_WORDS:
        why = f"{why[:_MOST_WORDS]} and {len(why) - _MOST_WORDS} characters more"
    return Entry(at_ms, str(kind), member_id, why, group_epoch, topics, duration_ms, len(partitions))


class Flow:
    """Bytes that may be written: so many a second on average, and what is saved up for some seconds at once."""

    __slots__ = ("_at_ms", "_left", "_most", "_per_s")

    def __init__(self, bytes_per_s: int) -> None:
        self._per_s = bytes_per_s
        self._most = self._left = bytes_per_s * _BURST_S * 1_000
        self._at_ms = 0

    def has_room(self, now_ms: int) -> bool:
        """True when something may be written; the last of it may be larger than what was left."""
        if self._left < self._most:
            self._left = min(self._most, self._left + (now_ms - self._at_ms) * self._per_s)
        self._at_ms = now_ms
        return self._left > 0

    def take(self, size: int) -> None:
        """Take note of bytes that are written."""
        self._left -= size * 1_000


@dataclass(slots=True)
class LeftOut:
    """Entries of one kind that came too fast: how many, of how many partitions, and the last of them."""

    last: Entry
    count: int = 1
    partitions: int = 0


@dataclass(slots=True)
class Noting:
    """A group's part of what may be written, and its entries that are still to be told together."""

    flow: Flow
    left_out: dict[str, LeftOut] = field(default_factory=dict)


class Timelines:
    """The entries that a step notes of the groups of one shard, and the bounds of all that is noted."""

    __slots__ = ("_flow", "_limits", "pending", "room")

    def __init__(self, limits: Limits, shards: int = 1) -> None:
        self._limits = limits
        self._flow = Flow(limits.timeline_bytes_per_s * _GROUPS_AT_ONCE)
        self.room = TimelineRoom(limits.timeline_total_bytes // shards)
        self.pending: dict[str, list[bytes]] = {}
        """Encoded entries that the step is to write, by group."""

    def noting(self) -> Noting:
        """Return what a group begins with."""
        return Noting(Flow(self._limits.timeline_bytes_per_s))

    def note(self, group_id: str, noting: Noting, entry: Entry, now_ms: int) -> bool:
        """Have an entry written with this step; False for the first of those that come too fast, to be told later."""
        if noting.flow.has_room(now_ms) and self._flow.has_room(now_ms):
            self._put(group_id, noting, entry)
            return True
        left_out = noting.left_out.get(entry.kind)
        if left_out is None:
            noting.left_out[entry.kind] = LeftOut(entry, partitions=entry.partition_count)
            return len(noting.left_out) > 1
        left_out.last = entry
        left_out.count += 1
        left_out.partitions += entry.partition_count
        return True

    def tell_left_out(self, group_id: str, noting: Noting, now_ms: int) -> bool:
        """Have one entry a kind written of what was left out; False while the shard has written too much."""
        if not self._flow.has_room(now_ms):
            return False
        for left_out in noting.left_out.values():
            entry = left_out.last
            if left_out.count > 1:
                why = f"{left_out.count} like this in a short time, not told one by one; the last: {entry.why}"
                entry = Entry(
                    entry.at_ms, entry.kind, entry.member_id, why, entry.group_epoch, (), None, left_out.partitions
                )
            self._put(group_id, noting, entry)
        noting.left_out.clear()
        return True

    def forget(self, group: GroupState) -> None:
        """Let go of a group that is no more, and of what was to be noted of it."""
        self.pending.pop(group.group_id, None)
        self.room.gone(group.timeline)

    def _put(self, group_id: str, noting: Noting, entry: Entry) -> None:
        data = encode_entry(entry)
        noting.flow.take(len(data))
        self._flow.take(len(data))
        self.pending.setdefault(group_id, []).append(data)

    def take(self, groups: Mapping[str, GroupState], wall_ms: int) -> Iterator[EventsNoted]:
        """Yield the records of what is pending, each to be decided before the next; of a group that is none, nothing.

        A group's own oldest entries make room where its timeline has as much as it may.
        """
        pending, self.pending = self.pending, {}
        length, most_bytes = self._limits.timeline_length, self._limits.timeline_max_bytes
        for group_id, entries in pending.items():
            group = groups.get(group_id)
            if group is None:
                continue
            kept = group.timeline.entries
            first = group.timeline.last_sequence + 1
            if length == 0:
                if not kept:
                    continue
                entries.clear()
            elif len(entries) > length:
                first += len(entries) - length
                del entries[:-length]
            dropped = max(0, len(kept) + len(entries) - length)
            over = group.timeline.bytes + sum(map(len, entries)) + ENTRY_BYTES * len(entries) - most_bytes
            if over > 0:
                freed = sum(map(len, kept[:dropped])) + ENTRY_BYTES * dropped
                while freed < over and dropped < len(kept):
                    freed += len(kept[dropped]) + ENTRY_BYTES
                    dropped += 1
            before = group.timeline.bytes, len(kept)
            yield EventsNoted(group_id, first, tuple(entries), dropped)
            self.room.changed(groups, group_id, before, wall_ms)

    def make_room(self, groups: Mapping[str, GroupState], wall_ms: int) -> Iterator[EventsNoted]:
        """Yield the records by which the oldest entries of all go while there are too many, each to be decided."""
        if not self.room.is_over:
            return
        for group_id, dropped in self.room.make_room(groups, wall_ms).items():
            timeline = groups[group_id].timeline
            before = timeline.bytes, len(timeline.entries)
            yield EventsNoted(group_id, timeline.last_sequence + 1, (), dropped)
            self.room.changed(groups, group_id, before, wall_ms)
