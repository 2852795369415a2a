"""The indexes of a shard: which groups know a topic, and which subscribe by patterns; replay keeps them.

A group knows a topic that it has seen for a member, or of which it has offsets: those that a tool, or a consumer that
is no member, has set before any member read the topic. An index follows from the groups and is in no record.
"""

from typing import Final

from coordinator.core.groups.hard.operator_records import OffsetsDeleted, ResetApplied
from coordinator.core.groups.hard.records import (
    MemberJoined,
    MemberRemoved,
    Record,
    TopicSeen,
    TopicsMatched,
)
from coordinator.core.groups.hard.replay.changes import discard
from coordinator.core.groups.hard.state import GroupState, ShardState

ABOUT_TOPICS: Final = frozenset({TopicSeen, TopicsMatched, MemberJoined, MemberRemoved})
"""Records that `index_topics` has to hear of."""
ABOUT_OFFSETS: Final = frozenset({ResetApplied, OffsetsDeleted})
"""Records that `index_offsets` has to hear of. Commits aside, others say offsets of topics members were granted."""


def index_topics(state: ShardState, group: GroupState, record: Record) -> None:
    """Take note of a topic that a group has seen, or of whether it subscribes by patterns now."""
    if isinstance(record, TopicSeen):
        state.groups_of_topic.setdefault(record.topic, set()).add(group.group_id)
    elif group.by_facts.patterns:
        state.groups_with_patterns.add(group.group_id)
    else:
        state.groups_with_patterns.discard(group.group_id)


def index_offsets(state: ShardState, group: GroupState, record: Record) -> None:
    """Take note of a topic of which a group has offsets, or none any more, and that it has not seen."""
    seen = group.topics
    if isinstance(record, ResetApplied):
        if record.topic not in seen:
            index_topic(state, group.group_id, record.topic)
    else:
        assert isinstance(record, OffsetsDeleted), f"{type(record).__name__} says nothing of offsets"
        for topic in {topic for topic, _ in record.partitions}:
            if topic not in seen and not group.offsets.rows(topic):
                discard(state.groups_of_topic, topic, group.group_id)


def index_topic(state: ShardState, group_id: str, topic: str) -> None:
    """Take note of a topic of which a group has offsets."""
    state.groups_of_topic.setdefault(topic, set()).add(group_id)


def drop_from_indexes(state: ShardState, group: GroupState) -> None:
    """Take out a group that is no more."""
    state.groups_with_patterns.discard(group.group_id)
    for topic in {*group.topics, *group.offsets.topics()}:
        discard(state.groups_of_topic, topic, group.group_id)
