"""A group's timeline: the newest of its events, for people who ask what happened and why.

Soft state: after a restart it begins anew. The kinds are stable strings; each event is also a notice of the node.
"""

from collections import deque
from collections.abc import Iterable
from enum import StrEnum
from typing import Final

from coordinator.protocol.parts import GroupEvent


class EventKind(StrEnum):
    """What can happen in a group."""

    MEMBER_JOINED = "member-joined"
    MEMBER_RETURNED = "member-returned"
    MEMBER_REPLACED = "member-replaced"
    MEMBER_LEFT = "member-left"
    MEMBER_EXPIRED = "member-expired"
    REBALANCE = "rebalance"
    STABLE = "stable"
    GRANTED = "granted"
    RELEASED = "released"
    TAKEN_OVER = "taken-over"
    TAKEN_LATE = "taken-late"
    CLAIM_SKIPPED = "claim-skipped"
    CLAIM_HELD = "claim-held"
    CLAIM_GIVEN_UP = "claim-given-up"
    GROUP_EXPIRED = "group-expired"
    CLAIM_OLD = "claim-old"
    START_RESOLVED = "start-resolved"
    START_UNRESOLVED = "start-unresolved"
    OUT_OF_RANGE = "out-of-range"
    RECOVERING = "recovering"
    RECOVERED = "recovered"
    TOPIC_GROWN = "topic-grown"
    TOPIC_DELETED = "topic-deleted"
    TOPIC_RECREATED = "topic-recreated"
    PAUSED = "paused"
    RESUMED = "resumed"
    DRAINED = "drained"
    UNDRAINED = "undrained"
    RESET_PLANNED = "reset-planned"
    RESET_APPLIED = "reset-applied"
    RESET_CANCELLED = "reset-cancelled"
    OFFSETS_DELETED = "offsets-deleted"
    GROUP_DELETED = "group-deleted"
    CLAIM_RELEASED = "claim-released"


WARNINGS: Final = frozenset({EventKind.RECOVERING})
"""Events that a person should look at: groups are known elsewhere that are not known here."""


class Timeline:
    """The newest events of one group, numbered from 1."""

    __slots__ = ("_events", "_sequence")

    def __init__(self, length: int) -> None:
        self._events: deque[GroupEvent] = deque(maxlen=length)
        self._sequence = 0

    def add(
        self,
        kind: EventKind,
        *,
        at_ms: int,
        member_id: str,
        why: str,
        group_epoch: int,
        partitions: Iterable[tuple[str, int]] = (),
        duration_ms: int | None = None,
    ) -> GroupEvent:
        """Append an event, dropping the oldest when there are too many, and return it."""
        self._sequence += 1
        event = GroupEvent(
            self._sequence, at_ms, str(kind), member_id, why, group_epoch, tuple(sorted(partitions)), duration_ms
        )
        self._events.append(event)
        return event

    def after(self, sequence: int) -> tuple[GroupEvent, ...]:
        """Return the events that came after this number, oldest first."""
        return tuple(event for event in self._events if event.sequence > sequence)
