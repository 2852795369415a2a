"""Mistakes about where partitions start in groups that are not new: each passes over what nobody has read, or may."""

from typing import Any

from coordinator.core.groups.hard.state import GroupState
from coordinator.core.groups.membership.recovery import Recovery
from coordinator.core.groups.offsets.topic_ids import TopicIds
from coordinator.core.groups.partitions.partition_set import NOTHING
from coordinator.core.groups.reconciliation import grants
from coordinator.core.groups.reconciliation.grants import Grants
from coordinator.core.groups.reconciliation.start_offsets import Start, start_of

Patches = list[tuple[Any, str, Any]]


def first_member_back_gets_latest() -> Patches:
    """Take a group of which nothing is known for a new one, whoever comes first."""
    why, note = Recovery.why_earliest, Recovery.note_registered

    def why_earliest(self: Recovery, *given: Any, is_new_group: bool, is_known: bool) -> str:
        return "" if is_new_group else why(self, *given, is_new_group=is_new_group, is_known=is_known)

    def note_registered(self: Recovery, *given: Any, is_new_group: bool, has_gone_back: bool) -> None:
        if not is_new_group:
            note(self, *given, is_new_group=is_new_group, has_gone_back=has_gone_back)

    return [(Recovery, "why_earliest", why_earliest), (Recovery, "note_registered", note_registered)]


def nobody_is_waited_for() -> Patches:
    """Start what no checkpoint has shown yet although others are to come."""
    with_starts = Grants._with_starts

    def with_starts_at_once(self: Grants, turn: Any, topic: str, free: Any) -> Any:
        group, waits_ms = turn.group, turn.group.recovery_ms
        group.recovery_ms = None
        try:
            return iter(list(with_starts(self, turn, topic, free)))
        finally:
            group.recovery_ms = waits_ms

    return [(Grants, "_with_starts", with_starts_at_once)]


def added_topic_by_policy() -> Patches:
    """Start by the policy what a query that was there before adds to its subscription."""
    why = Recovery.why_earliest

    def why_earliest(self: Recovery, *given: Any, is_new_group: bool, is_known: bool) -> str:
        return why(self, *given, is_new_group=is_new_group, is_known=is_known) if is_new_group else ""

    return [(Recovery, "why_earliest", why_earliest)]


def hints_for_ever() -> Patches:
    """Start again where the query's process began when an operator has deleted the offset."""

    def start_by_hints(group: GroupState, *given: Any) -> Start:
        marked, group.by_policy = group.by_policy, NOTHING
        try:
            return start_of(group, *given)
        finally:
            group.by_policy = marked

    return [(grants, "start_of", start_by_hints)]


def offset_of_any_topic() -> Patches:
    """Leave an offset that was committed before Kafka had told of its topic without that topic's id."""

    def write(*_: Any) -> int:
        return 0

    return [(TopicIds, "_write", write)]
