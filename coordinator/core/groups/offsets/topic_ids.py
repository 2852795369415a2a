"""Offsets that were committed before Kafka had said the id of their topic, and get it once Kafka says it.

A commit of no member names topics of which nothing may be known yet. An offset without an id counts for whichever topic
has the name, also for one that is made after the first was deleted, and its records up to there would be passed over.
So the topic is asked for at once, and the offset is written again with the id. A topic that is made again in between is
not seen. Of members' offsets, and of those that an operator sets, the id is known from the start.
"""

from collections import deque
from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass
from typing import Final

from msgspec.structs import replace

from coordinator.core.groups.desk import Desk
from coordinator.core.groups.hard.records import CommittedPart, OffsetsCommitted
from coordinator.core.groups.hard.state import GroupState
from coordinator.core.groups.soft.timers import Timer, TimerKind

_PARTITIONS_FOR_A_GROUP: Final = 50
"""So many offsets are written again in the time in which a group is looked at."""
_OFFSETS_AT_ONCE: Final = 1_000
_TOPICS_KEPT: Final = 100
"""Topics that are noted and of which there is nothing any more, as many as there are others and so many besides."""


@dataclass(slots=True)
class _Due:
    """The offsets of a topic in a group that is to have its id; their partitions once they were begun with."""

    topic: str
    topic_id: str
    group_id: str
    numbers: Sequence[int] = ()
    begin: int = 0


class TopicIds:
    """The offsets of one shard whose topic has no id; soft state, found again after a load."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._awaited: set[str] = set()
        """Topics whose id Kafka has not said; the groups that may have offsets of one are in the shard's index."""
        self._due: deque[_Due] = deque()

    def start(self, group: GroupState) -> int:
        """Find the offsets of a group after a load, and return how many were looked at."""
        looked_at = 0
        for topic in group.offsets.topics():
            if topic not in self._awaited:
                rows = group.offsets.rows(topic)
                looked_at += len(rows)
                if any(type(row) is CommittedPart and not row.topic_id for row in rows.values()):
                    self._awaited.add(topic)
        return looked_at

    def note(self, committed: Iterable[CommittedPart]) -> None:
        """Take note of what was committed, of which some may have no id."""
        self._awaited.update(part.topic for part in committed if not part.topic_id)
        known = self._desk.journal.state.groups_of_topic
        if len(self._awaited) > 2 * len(known) + _TOPICS_KEPT:
            self._awaited &= known.keys()

    def started(self) -> None:
        """Look at all that `start` has found: Kafka may have told of it for another shard."""
        self.topics_read(set(self._awaited))
        self._come_back()

    def topics_read(self, topics: Set[str]) -> None:
        """Take note of topics that Kafka has told something new of."""
        groups_of_topic = self._desk.journal.state.groups_of_topic
        for topic in sorted(self._awaited & topics):
            known = self._desk.catalog.topic(topic)
            if known is not None and known.topic_id:
                self._awaited.discard(topic)
                group_ids = sorted(groups_of_topic.get(topic, ()))
                self._due.extend(_Due(topic, known.topic_id, group_id) for group_id in group_ids)

    def write_some(self) -> None:
        """Write offsets with the id of their topic, of a bounded number of groups and partitions in one step."""
        left = self._desk.limits.slice_members
        while left > 0 and self._due:
            due = self._due.popleft()
            left -= 1 + self._write(due) // _PARTITIONS_FOR_A_GROUP
            if due.begin < len(due.numbers):
                self._due.appendleft(due)
        self._come_back()

    def _come_back(self) -> None:
        """Have a step made for what is left."""
        if self._due:
            self._desk.timers.set(Timer(TimerKind.REST, ""), self._desk.now_ms)

    def _write(self, due: _Due) -> int:
        """Write some of the offsets that are due, and return how many were looked at."""
        group = self._desk.group(due.group_id)
        rows = group.offsets.rows(due.topic) if group is not None else {}
        if not due.begin:
            due.numbers = tuple(rows)
        numbers = due.numbers[due.begin : due.begin + _OFFSETS_AT_ONCE]
        due.begin += len(numbers)
        found = [row for number in numbers if (row := rows.get(number)) is not None]
        without = [row for row in found if type(row) is CommittedPart and not row.topic_id]
        if without:
            named = tuple(replace(part, topic_id=due.topic_id) for part in without)
            self._desk.journal.decide(OffsetsCommitted(due.group_id, named))
        return len(numbers)
