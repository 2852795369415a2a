"""Topics that Kafka has not told of, and that somebody who is no member commits for: so many of them, and no more.

A node asks Kafka about every topic of which a group has offsets, again and again, since one that is not there may be
made yet. Names cost nothing to invent, so those that nobody knows are bounded for all groups of a node. A topic that
Kafka has told of, or that a group of the shard knows, is never refused.
"""

from collections.abc import Sequence

from coordinator.core.groups.desk import Desk
from coordinator.core.groups.hard.state import GroupState
from coordinator.core.groups.soft.sessions import Connection
from coordinator.core.node_wide import UNKNOWN_TOPICS
from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.parts import PartitionResult, TopicOffsets


def without_unknown_topics(
    desk: Desk, connection: Connection, group: GroupState, asked: Sequence[TopicOffsets]
) -> tuple[Sequence[TopicOffsets], tuple[PartitionResult, ...]]:
    """Return the offsets that may be committed, and the refusal of those of one unknown topic too many."""
    known, catalog, most = desk.journal.state.groups_of_topic, desk.catalog, desk.limits.unknown_topics_max
    new = {each.topic for each in asked if each.topic not in known and catalog.topic(each.topic) is None}
    left = most - catalog.unknown_topics
    if len(new) <= left:
        return asked, ()
    refused = set(sorted(new)[max(0, left) :])
    why = (
        f"groups of this node have offsets of {most} topics of which Kafka has not told, and no more are taken "
        "(group.unknown_topics_max): commit for topics that a member reads, delete offsets or groups that nobody needs "
        "(`kcoord group delete-offsets`, `kcoord group delete`), or raise the setting"
    )
    desk.note_reached(UNKNOWN_TOPICS, connection, why)
    results = [
        PartitionResult(
            each.topic, number, ErrorCode.STATE_LIMIT_REACHED, why, group.offsets.offset_of((each.topic, number))
        )
        for each in asked
        if each.topic in refused
        for number in each.partitions
    ]
    return tuple(each for each in asked if each.topic not in refused), tuple(results)
