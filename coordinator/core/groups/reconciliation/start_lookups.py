"""Questions to Kafka about where partitions start: asked, answered, asked again while Kafka cannot say.

The answers are soft and count for the reconciliation that follows them; a start becomes hard with the grant that uses
it. What is unknown stays unknown and is said once, with the reason. Which partitions need a start is not known here.
"""

from collections.abc import Callable
from dataclasses import dataclass

from coordinator.core.effects import OffsetToResolve, ResolveOffsets
from coordinator.core.events import OffsetsResolved
from coordinator.core.groups.desk import Desk
from coordinator.core.groups.partitions.partition_table import TopicPartition
from coordinator.core.groups.soft.group_soft import AskedOffset, Lookup, ResolvedStart
from coordinator.core.groups.soft.timeline import EventKind
from coordinator.core.groups.soft.timers import Timer, TimerKind
from coordinator.protocol.ids import LATEST


@dataclass(frozen=True, slots=True)
class Answered:
    """The starts of a group's partitions as Kafka has said them."""

    group_id: str
    starts: dict[TopicPartition, ResolvedStart]


class Lookups:
    """The questions to Kafka of the groups of one shard."""

    def __init__(self, desk: Desk, new_lookup_id: Callable[[], int]) -> None:
        self._desk = desk
        self._new_lookup_id = new_lookup_id

    def ask(self, group_id: str, wanted: dict[TopicPartition, AskedOffset], *, is_for_end: bool = False) -> None:
        """Ask where partitions start; with `is_for_end` where they end, for those whose wanted time is after it."""
        lookup_id = self._new_lookup_id()
        self._desk.lookups[lookup_id] = Lookup(group_id, wanted, is_for_end)
        self._desk.soft_of(group_id).lookups.update(dict.fromkeys(wanted, lookup_id))
        self._desk.effects.append(
            ResolveOffsets(
                lookup_id,
                tuple(
                    OffsetToResolve(topic, number, LATEST if is_for_end else one.timestamp_ms, one.is_read_committed)
                    for (topic, number), one in wanted.items()
                ),
            )
        )

    def take(self, event: OffsetsResolved) -> Answered | None:
        """Take Kafka's answers, and ask again for what has none; None when nobody waits for them any more."""
        lookup = self._desk.lookups.pop(event.lookup_id, None)
        if lookup is None or self._desk.group(lookup.group_id) is None:
            return None
        soft = self._desk.soft_of(lookup.group_id)
        lookups, lookup_id, wanted = soft.lookups, event.lookup_id, lookup.asked
        ask_for_end: dict[TopicPartition, AskedOffset] = {}
        starts: dict[TopicPartition, ResolvedStart] = {}
        for answer in event.offsets:
            partition = (answer.topic, answer.partition)
            asked, offset = wanted.get(partition), answer.offset
            if asked is None or lookups.pop(partition, None) != lookup_id:
                continue
            if offset is None or offset < LATEST:
                self.note_unresolved(lookup.group_id, partition, f"Kafka could not say where it starts: {answer.why}")
                self._ask_later(lookup.group_id)
            elif offset == LATEST and not lookup.is_for_end:
                ask_for_end[partition] = asked
            else:
                starts[partition] = ResolvedStart(asked, offset, answer.leader_epoch)
                if (lookup.is_for_end or asked.timestamp_ms == LATEST) and not asked.is_read_committed:
                    self._desk.catalog.note_end(answer.topic, answer.partition, offset)
        if len(starts) < len(wanted):
            for partition in wanted:
                if lookups.get(partition) == lookup_id:
                    del lookups[partition]
                    self._ask_later(lookup.group_id)
        if ask_for_end:
            self.ask(lookup.group_id, ask_for_end, is_for_end=True)
        return Answered(lookup.group_id, starts)

    def note_unresolved(self, group_id: str, partition: TopicPartition, why: str) -> None:
        """Say why a partition has no start, once a reason."""
        soft = self._desk.soft_of(group_id)
        if soft.unresolved_why.get(partition) != why:
            soft.unresolved_why[partition] = why
            self._desk.note(group_id, EventKind.START_UNRESOLVED, why, partitions=(partition,))

    def _ask_later(self, group_id: str) -> None:
        timer = Timer(TimerKind.LOOKUP, group_id)
        if self._desk.timers.get(timer) is None:
            self._desk.timers.set(timer, self._desk.now_ms + self._desk.limits.lookup_retry_ms)
