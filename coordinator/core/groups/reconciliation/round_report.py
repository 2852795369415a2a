"""One reconciliation, gathered while it goes on, and how it is put on the group's timeline at its end."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from coordinator.core.groups.desk import Desk
from coordinator.core.groups.hard.state import GroupState
from coordinator.core.groups.partitions.partition_table import TopicPartition
from coordinator.core.groups.soft.group_soft import AskedOffset, GroupSoft, ResolvedStart
from coordinator.core.groups.soft.timeline import EventKind

_PREDECESSORS_NAMED: Final = 5
"""Former members that are named of those that a member takes over from."""
_MEMBERS_SAID_ONE_BY_ONE: Final = 20
"""More than these that get partitions in one round are one event: they would push all others off the timeline."""

NotedStart: TypeAlias = tuple[int, int | None, int | None]
"""A partition's number, and the offset and leader epoch to be written; without an offset the committed one stays."""


@dataclass(slots=True)
class Round:
    """The findings of one reconciliation so far."""

    group: GroupState
    soft: GroupSoft
    answers: Mapping[TopicPartition, ResolvedStart] = field(default_factory=dict)
    """The answers that Kafka has just given; they count for this round, and what is not granted then is asked anew."""
    stops: dict[tuple[str, str], list[TopicPartition]] = field(default_factory=dict)
    grants: dict[tuple[str, str, str], list[NotedStart]] = field(default_factory=dict)
    """The partitions to be granted at the end, by member, topic and why they start there."""
    granted: dict[str, list[TopicPartition]] = field(default_factory=dict)
    """The same by member alone, and what was granted with a reset."""
    taken_over: dict[tuple[str, str], list[TopicPartition]] = field(default_factory=dict)
    durations: dict[str, int] = field(default_factory=dict)
    lookups: dict[TopicPartition, AskedOffset] = field(default_factory=dict)
    starts: dict[str, list[TopicPartition]] = field(default_factory=dict)
    notes: dict[str, list[str]] = field(default_factory=dict)
    """The notes for members about starts that were not committed."""
    resets: dict[str, list[TopicPartition]] = field(default_factory=dict)


def note_round(desk: Desk, turn: Round) -> None:
    """Put what a round did on the timeline: starts, resets, take-overs, and the grants by member."""
    group_id = turn.group.group_id
    for why, partitions in turn.starts.items():
        desk.note(group_id, EventKind.START_RESOLVED, why, partitions=partitions)
    for why, partitions in turn.resets.items():
        desk.note(group_id, EventKind.RESET_APPLIED, why, partitions=partitions)
    for (member_id, before), partitions in turn.taken_over.items():
        why = f"{before} is gone and left a running claim, which is closed"
        desk.note(
            group_id,
            EventKind.TAKEN_OVER,
            why,
            member_id=member_id,
            partitions=partitions,
            duration_ms=turn.durations.get(member_id),
        )
    predecessors: dict[str, set[str]] = {}
    for member_id, before in turn.taken_over:
        predecessors.setdefault(member_id, set()).add(before)
    plain = [member_id for member_id in turn.granted if member_id not in predecessors]
    if len(plain) > _MEMBERS_SAID_ONE_BY_ONE:
        everything = [partition for member_id in plain for partition in turn.granted[member_id]]
        durations = [turn.durations[member_id] for member_id in plain if member_id in turn.durations]
        why = f"the target gives them to {len(plain)} members"
        desk.note(
            group_id, EventKind.GRANTED, why, partitions=everything, duration_ms=max(durations) if durations else None
        )
    for member_id, partitions in turn.granted.items():
        if len(plain) > _MEMBERS_SAID_ONE_BY_ONE and member_id not in predecessors:
            continue
        from_whom = predecessors.get(member_id)
        why = f"taken over from {_some_of(from_whom)}" if from_whom else "the target gives them to it"
        desk.note(
            group_id,
            EventKind.GRANTED,
            why,
            member_id=member_id,
            partitions=partitions,
            duration_ms=turn.durations.get(member_id),
        )


def _some_of(member_ids: Iterable[str]) -> str:
    named = sorted(member_ids)
    more = len(named) - _PREDECESSORS_NAMED
    return ", ".join(named[:_PREDECESSORS_NAMED]) + (f" and {more} more" if more > 0 else "")
