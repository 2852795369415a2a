"""Offsets that were committed before Kafka had said the id of their topic, and get it once Kafka says it.

A commit of no member names topics of which nothing may be known yet. An offset without an id counts for whichever topic
has the name, also for one that is made after the first was deleted, and its records up to there would be passed over.
So the topic is asked for at once, and the offset is written again with the id. A topic that is made again in between is
not seen. Of members' offsets, and of those that an operator sets, the id is known from the start.
"""

from collections import deque
from collections.abc import Iterable, Set
from typing import Final

from msgspec.structs import replace

from coordinator.core.groups.desk import Desk
from coordinator.core.groups.hard.records import CommittedPart, OffsetsCommitted
from coordinator.core.groups.hard.state import GroupState
from coordinator.core.groups.soft.timers import Timer, TimerKind

_PARTITIONS_FOR_A_GROUP: Final = 50
"""So many offsets are written again in the time in which a group is looked at."""


class TopicIds:
    """The offsets of one shard whose topic has no id; soft state, found again after a load."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._awaited: dict[str, set[str]] = {}
        """Groups by the topic whose id Kafka has not said."""
        self._due: deque[tuple[str, str]] = deque()
        """Topics whose id is known, each with a group that is to have it."""

    def start(self, group: GroupState) -> None:
        """Find the offsets of a group after a load."""
        for topic in group.offsets.topics():
            if any(type(row) is CommittedPart and not row.topic_id for row in group.offsets.rows(topic).values()):
                self._awaited.setdefault(topic, set()).add(group.group_id)

    def note(self, committed: Iterable[CommittedPart], group_id: str) -> None:
        """Take note of what was committed, of which some may have no id."""
        for part in committed:
            if not part.topic_id:
                self._awaited.setdefault(part.topic, set()).add(group_id)

    def started(self) -> None:
        """Look at all that `start` has found: Kafka may have told of it for another shard."""
        self.topics_read(set(self._awaited))

    def topics_read(self, topics: Set[str]) -> None:
        """Take note of topics that Kafka has told something new of."""
        for topic in sorted(self._awaited.keys() & topics):
            if self._id_of(topic):
                self._due.extend((topic, group_id) for group_id in sorted(self._awaited.pop(topic)))
        if self._due:
            self._desk.timers.set(Timer(TimerKind.REST, ""), self._desk.now_ms)

    def write_some(self) -> None:
        """Write offsets with the id of their topic, of a bounded number of groups in one step."""
        left = self._desk.limits.slice_members
        while left > 0 and self._due:
            left -= 1 + self._write(*self._due.popleft()) // _PARTITIONS_FOR_A_GROUP
        if self._due:
            self._desk.timers.set(Timer(TimerKind.REST, ""), self._desk.now_ms)

    def _write(self, topic: str, group_id: str) -> int:
        """Write those of a topic in a group, and return how many there are."""
        group, topic_id = self._desk.group(group_id), self._id_of(topic)
        if group is None:
            return 0
        if not topic_id:
            self._awaited.setdefault(topic, set()).add(group_id)
            return 0
        rows = group.offsets.rows(topic)
        without = [row for row in rows.values() if type(row) is CommittedPart and not row.topic_id]
        if without:
            named = tuple(replace(part, topic_id=topic_id) for part in without)
            self._desk.journal.decide(OffsetsCommitted(group_id, named))
        return len(rows)

    def _id_of(self, topic: str) -> str:
        known = self._desk.catalog.topic(topic)
        return known.topic_id if known is not None else ""
