"""The states of a group, and what is new to it about its topics.

The states follow from hard state and from what is still to be settled; a look at a topic is a record of the group's
own, so that groups that first saw a topic at different sizes start its partitions each in its way.
"""

from collections.abc import Mapping
from typing import Final

from coordinator.core.groups.records import TopicSeen
from coordinator.core.groups.soft import GroupSoft
from coordinator.core.groups.state import GroupState, TopicState
from coordinator.core.groups.timeline import EventKind
from coordinator.protocol.vocabulary import GroupStatus as GroupStatus

GROUP_TRANSITIONS: Final[Mapping[GroupStatus, Mapping[GroupStatus, str]]] = {
    GroupStatus.EMPTY: {
        GroupStatus.EMPTY: "nobody joins",
        GroupStatus.ASSIGNING: "a member joins and its window is open",
        GroupStatus.RECOVERING: "a member is back of whose group nothing is known",
        GroupStatus.RECONCILING: "a member joins whose partitions have no start yet",
        GroupStatus.STABLE: "a member joins and gets all at once",
    },
    GroupStatus.ASSIGNING: {
        GroupStatus.ASSIGNING: "another change",
        GroupStatus.RECONCILING: "the window ends and partitions have to move",
        GroupStatus.STABLE: "the window ends and nothing has to move",
        GroupStatus.EMPTY: "the last member goes",
    },
    GroupStatus.RECOVERING: {
        GroupStatus.RECOVERING: "other members come, or nothing changes",
        GroupStatus.ASSIGNING: "the wait is over amid a change",
        GroupStatus.RECONCILING: "the wait is over, and starts are asked for",
        GroupStatus.STABLE: "checkpoints show every partition",
        GroupStatus.EMPTY: "the last member goes",
    },
    GroupStatus.RECONCILING: {
        GroupStatus.RECONCILING: "some member still lacks or has to let go of partitions",
        GroupStatus.STABLE: "every member holds its target",
        GroupStatus.ASSIGNING: "a change",
        GroupStatus.EMPTY: "the last member goes",
    },
    GroupStatus.STABLE: {
        GroupStatus.STABLE: "nothing changes",
        GroupStatus.ASSIGNING: "a change",
        GroupStatus.EMPTY: "the last member goes",
    },
}
"""Where each state can lead, and by what. A first member is assigned at once, without a window."""


def group_status(group: GroupState, soft: GroupSoft) -> GroupStatus:
    """Return the state of a group."""
    if not group.members:
        return GroupStatus.EMPTY
    if group.recovery_ms is not None:
        return GroupStatus.RECOVERING
    if group.is_target_stale:
        return GroupStatus.ASSIGNING
    return GroupStatus.RECONCILING if soft.unsettled else GroupStatus.STABLE


def look_at_topic(group: GroupState, topic: str, topic_id: str, partitions: int) -> TopicSeen | None:
    """Return the record of what is new about a topic, if anything is."""
    seen = group.topics.get(topic)
    if seen is None:
        return TopicSeen(group.group_id, topic, topic_id, partitions, partitions)
    if seen.topic_id != topic_id:
        return TopicSeen(group.group_id, topic, topic_id, 0, partitions)
    if seen.partitions < partitions:
        first_partitions, why = seen.first_partitions, seen.earliest_why
        return TopicSeen(group.group_id, topic, topic_id, first_partitions, partitions, earliest_why=why)
    return None


def note_deleted(group: GroupState, topic: str) -> TopicSeen | None:
    """Return the record of a topic that is no more, unless the group knows."""
    seen = group.topics.get(topic)
    return TopicSeen(group.group_id, topic, "", 0, 0) if seen is not None and seen.partitions else None


def say_topic_change(before: TopicState | None, after: TopicSeen) -> tuple[EventKind, str] | None:
    """Say what a look at a topic showed, unless it was the group's first."""
    if before is None or (before.topic_id, before.partitions) == (after.topic_id, after.partitions):
        return None
    if after.partitions == 0:
        why = f"topic {after.topic} was deleted; its offsets stay until the group's expire"
        return EventKind.TOPIC_DELETED, why
    if before.partitions == 0:
        return EventKind.TOPIC_GROWN, f"topic {after.topic} exists now, with {after.partitions} partitions"
    if before.topic_id != after.topic_id:
        why = f"topic {after.topic} was deleted and made again; its new partitions start at earliest"
        return EventKind.TOPIC_RECREATED, why
    return EventKind.TOPIC_GROWN, f"topic {after.topic} has {after.partitions} partitions, and had {before.partitions}"
