"""The looks of a group at its topics: a record of what is new about one, and a sentence about it.

A look is a record of the group's own, so that groups that first saw a topic at different sizes start its
partitions each in its way.
"""

from coordinator.core.groups.hard.records import TopicSeen
from coordinator.core.groups.hard.state import GroupState, TopicState
from coordinator.core.groups.soft.timeline import EventKind


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
