"""The memory that the timelines of a shard's groups may take together: the oldest entries of all make room.

A timeline alone is bounded; groups are many. Each shard of a node has its part of the node's limit, led or followed, so
that no shard's log has to say what was dropped for another's sake. What is dropped is a record like what is noted.

Entries of different groups are told apart by their wall-clock times. One that is stamped later than now was written
before the clock was put right, so before all that is noted from then on: it goes first.
"""

from collections.abc import Mapping
from heapq import heapify, heappop, heappush
from typing import Final

from coordinator.core.groups.hard.state import GroupState
from coordinator.core.groups.hard.tables.timeline import Timeline, head_of, weight_of

_AT_ONCE: Final = 64
"""One part in so many of the room is freed together, so that this is done rarely."""
_MOST_IN_A_STEP: Final = 1_000
"""Entries that one step drops at most: where a node has less room than before, there may be very many to go."""
_MORE_THAN_GROUPS: Final = 1_000
"""Groups that are no more are forgotten here when there are so many, and as many as there are groups."""
_AHEAD_MS: Final = 60_000
"""An entry that is stamped so much later than now was not stamped by the clock as it is now."""
_BEFORE_ALL: Final = 2**62
"""Taken from such a stamp it is before all others, and after those of its kind that are older."""


class TimelineRoom:
    """The bytes that the timelines of one shard take, and about when the oldest entry of each group was."""

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes = most_bytes
        self._oldest: list[tuple[int, str]] = []
        """A heap with a group for each timeline that has entries; its oldest may be gone by now, the group too."""
        self._latest_ms = 0
        """No time in the heap is later."""
        self.used_bytes = 0

    def begin(self, groups: Mapping[str, GroupState], wall_ms: int) -> None:
        """Count what was loaded, by this wall-clock time."""
        self._oldest = []
        self.used_bytes = 0
        for group_id, group in groups.items():
            entries = group.timeline.entries
            if entries:
                self.used_bytes += group.timeline.bytes
                self._oldest.append((_key_of(entries[0], wall_ms), group_id))
        heapify(self._oldest)
        self._latest_ms = max((key for key, _ in self._oldest), default=0)

    def changed(self, groups: Mapping[str, GroupState], group_id: str, before: tuple[int, int], wall_ms: int) -> None:
        """Take note of a group whose timeline had so many bytes and entries before."""
        timeline = groups[group_id].timeline
        its_bytes, its_entries = before
        self.used_bytes += timeline.bytes - its_bytes
        if not its_entries and timeline.entries:
            self._push(_key_of(timeline.entries[0], wall_ms), group_id)
            if len(self._oldest) > _MORE_THAN_GROUPS + 2 * len(groups):
                self.begin(groups, wall_ms)

    def gone(self, timeline: Timeline) -> None:
        """Take back the room of a group that is no more."""
        self.used_bytes -= timeline.bytes

    @property
    def is_over(self) -> bool:
        """True when entries have to go."""
        return self.used_bytes > self._most_bytes

    def make_room(self, groups: Mapping[str, GroupState], wall_ms: int) -> dict[str, int]:
        """Return how many of its oldest entries each group is to lose now, so that the newest of all stay."""
        if self._latest_ms > wall_ms + _AHEAD_MS:
            self.begin(groups, wall_ms)  # the clock was ahead
        drops: dict[str, int] = {}
        count = 0
        left = self.used_bytes - (self._most_bytes - self._most_bytes // _AT_ONCE)
        while left > 0 and self._oldest and count < _MOST_IN_A_STEP:
            key, group_id = heappop(self._oldest)
            group = groups.get(group_id)
            entries = group.timeline.entries if group is not None else []
            dropped = drops.get(group_id, 0)
            if dropped >= len(entries):
                continue
            now_oldest = _key_of(entries[dropped], wall_ms)
            if now_oldest <= key:
                drops[group_id] = dropped + 1
                count += 1
                left -= weight_of(entries[dropped : dropped + 1])
                if dropped + 1 == len(entries):
                    continue
                now_oldest = _key_of(entries[dropped + 1], wall_ms)
            self._push(now_oldest, group_id)
        return drops

    def _push(self, key: int, group_id: str) -> None:
        heappush(self._oldest, (key, group_id))
        self._latest_ms = max(self._latest_ms, key)


def _key_of(entry: bytes, wall_ms: int) -> int:
    """Return by what an entry is ordered among those of all groups, the first to go first."""
    at_ms = head_of(entry).at_ms
    return at_ms if at_ms <= wall_ms + _AHEAD_MS else at_ms - _BEFORE_ALL
