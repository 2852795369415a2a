"""A group's timeline: the newest of its events, for people who ask what happened and why.

Soft state: after a restart it begins anew. The kinds are stable strings; each event is also a notice of the node. The
memory of all timelines together is `timeline_room`'s.
"""

from collections import deque
from collections.abc import Iterator
from itertools import islice
from typing import Final, Protocol

from coordinator.core.groups.soft.timeline_room import TimelineRoom
from coordinator.protocol.parts import GroupEvent
from coordinator.protocol.vocabulary import EventKind as EventKind

WARNINGS: Final = frozenset({EventKind.RECOVERING, EventKind.LOG_WENT_BACK, EventKind.TOPICS_LEFT_OUT})
"""Events that a person should look at: groups are known elsewhere that are not known here, or further than here, or
topics are not read."""


class Partitions(Protocol):
    """Partitions that an event is about: a list, a set or a table of them."""

    def __iter__(self) -> Iterator[tuple[str, int]]:
        """Yield them."""

    def __len__(self) -> int:
        """Return how many there are."""


_NAMED: Final = 100
"""Partitions that one event names: a timeline is kept in memory and is read by people."""

_PAGE_BYTES: Final = 1024 * 1024
"""Bytes of texts on one page."""


_EVENT_BYTES: Final = 300
_PARTITION_BYTES: Final = 100
"""About what an event takes in memory, and each partition that it names, besides texts."""


class Timeline:
    """The newest events of one group, numbered from 1."""

    __slots__ = ("_events", "_length", "_room", "_sequence")

    def __init__(self, length: int, room: TimelineRoom) -> None:
        self._length = length
        self._events: deque[GroupEvent] = deque()
        self._room = room
        self._sequence = 0

    def add(
        self,
        kind: EventKind,
        *,
        at_ms: int,
        member_id: str,
        why: str,
        group_epoch: int,
        partitions: Partitions = (),
        duration_ms: int | None = None,
    ) -> GroupEvent:
        """Append an event, dropping the oldest when there are too many, and return it.

        Of more than a hundred partitions the first hundred are named, in the order in which they are given.
        """
        self._sequence += 1
        event = GroupEvent(
            self._sequence,
            at_ms,
            str(kind),
            member_id,
            why,
            group_epoch,
            tuple(sorted(islice(partitions, _NAMED))),
            duration_ms,
            len(partitions),
        )
        if self._length > 0:
            if len(self._events) == self._length:
                self._room.free(self, self._events.popleft().sequence)
            self._events.append(event)
            self._room.take(self, event.sequence, _bytes_of(event))
        return event

    def drop_oldest(self) -> None:
        """Forget the oldest event, whose room is another's."""
        self._events.popleft()

    def forget(self) -> None:
        """Forget all events, of a group that is no more."""
        while self._events:
            self._room.free(self, self._events.popleft().sequence)

    def page(self, after: int) -> tuple[tuple[GroupEvent, ...], int | None]:
        """Return the events that came after this number, oldest first, with a bound on their texts.

        With them comes the number of the last one if there are more.
        """
        found: list[GroupEvent] = []
        left = _PAGE_BYTES
        for event in self._events:
            if event.sequence <= after:
                continue
            if left <= 0:
                return tuple(found), found[-1].sequence
            found.append(event)
            left -= len(event.why) + sum([len(topic) for topic, _ in event.partitions])
        return tuple(found), None


def _bytes_of(event: GroupEvent) -> int:
    names = sum([_PARTITION_BYTES + len(topic) for topic, _ in event.partitions])
    return _EVENT_BYTES + len(event.why.encode()) + len(event.member_id) + names
