"""The states of a group and how its next target is computed.

A target says where partitions belong; it is computed from the members as they are, by an assignor that all of them
name, and starts from the target before it so that little moves. Bringing partitions there is `ownership`'s business.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

from coordinator.core.groups.assignors import Assignor, AssignorInput, AssignorMember
from coordinator.core.groups.holds import held_partitions
from coordinator.core.groups.records import MemberTarget, TargetsAssigned, TopicSeen
from coordinator.core.groups.reserved import assign_around
from coordinator.core.groups.soft import GroupSoft
from coordinator.core.groups.state import GroupState, TopicPartition, TopicState
from coordinator.core.groups.subscriptions import explicit_target
from coordinator.core.groups.timeline import EventKind


class GroupStatus(StrEnum):
    """How far a group is on the way to its target."""

    EMPTY = "Empty"
    """It has no members; its offsets and abandoned claims stay. A member that joins leads out."""
    ASSIGNING = "Assigning"
    """A change came and waits for others; what is owned stays owned. The window's end leads out."""
    RECONCILING = "Reconciling"
    """Some member does not hold exactly its target. Releases and grants lead out, or the next change."""
    STABLE = "Stable"
    """Every member holds exactly its target. A change leads out."""


GROUP_TRANSITIONS: Final[Mapping[GroupStatus, Mapping[GroupStatus, str]]] = {
    GroupStatus.EMPTY: {
        GroupStatus.EMPTY: "nobody joins",
        GroupStatus.ASSIGNING: "a member joins and its window is open",
        GroupStatus.RECONCILING: "a member joins whose partitions have no start yet",
        GroupStatus.STABLE: "a member joins and gets all at once",
    },
    GroupStatus.ASSIGNING: {
        GroupStatus.ASSIGNING: "another change",
        GroupStatus.RECONCILING: "the window ends and partitions have to move",
        GroupStatus.STABLE: "the window ends and nothing has to move",
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
    if group.is_target_stale:
        return GroupStatus.ASSIGNING
    return GroupStatus.RECONCILING if soft.unsettled else GroupStatus.STABLE


def choose_assignor(group: GroupState, known_assignors: Mapping[str, Assignor]) -> str:
    """Return the assignor that all members name and most name first; the order of the known ones decides a tie."""
    common = [name for name in known_assignors if group.assignor_supporters.get(name, 0) == len(group.members)]
    assert common, f"group {group.group_id} has no assignor that all members name"
    return max(common, key=lambda name: group.assignor_favourites.get(name, 0))


def next_targets(group: GroupState, known_assignors: Mapping[str, Assignor]) -> TargetsAssigned:
    """Compute the target of the next group epoch: the members whose target changes."""
    if not group.members:
        return TargetsAssigned(group.group_id, group.group_epoch + 1, group.assignor, ())
    name = choose_assignor(group, known_assignors)
    takers = {
        member_id: member for member_id, member in group.members.items() if member_id not in group.controls.drained
    }
    assigned_to = {member_id: member for member_id, member in takers.items() if not member.facts.partitions}
    subscriptions = {topics: frozenset(topics) for topics in {member.facts.topics for member in assigned_to.values()}}
    given = AssignorInput(
        members=tuple(
            AssignorMember(member_id, subscriptions[member.facts.topics], member.facts.streams)
            for member_id, member in assigned_to.items()
        ),
        partitions={topic: group.topics[topic].partitions for topic in group.subscribers if topic in group.topics},
        current={
            member_id: member.target if member.member_epoch else group.owned_by(member_id)
            for member_id, member in assigned_to.items()
        },
    )
    assigned = {
        member_id: explicit_target(group, member.facts)
        for member_id, member in takers.items()
        if member.facts.partitions
    }
    if assigned_to:
        assigned |= assign_around(known_assignors[name], given, held_partitions(group) | group.explicit.keys())
    nothing: frozenset[TopicPartition] = frozenset()
    targets = tuple(
        MemberTarget(member_id, tuple(sorted(target)))
        for member_id, member in group.members.items()
        if (target := assigned.get(member_id, nothing)) is not member.target and target != member.target
    )
    return TargetsAssigned(group.group_id, group.group_epoch + 1, name, targets)


def look_at_topic(group: GroupState, topic: str, topic_id: str, partitions: int) -> TopicSeen | None:
    """Return the record of what is new about a topic, if anything is."""
    seen = group.topics.get(topic)
    if seen is None:
        return TopicSeen(group.group_id, topic, topic_id, partitions, partitions)
    if seen.topic_id != topic_id:
        return TopicSeen(group.group_id, topic, topic_id, 0, partitions)
    if seen.partitions < partitions:
        return TopicSeen(group.group_id, topic, topic_id, seen.first_partitions, partitions)
    return None


def note_deleted(group: GroupState, topic: str) -> TopicSeen | None:
    """Return the record of a topic that is no more, unless the group knows."""
    seen = group.topics.get(topic)
    return TopicSeen(group.group_id, topic, "", 0, 0) if seen is not None and seen.partitions else None


def say_topic_change(before: TopicState | None, after: TopicSeen) -> tuple[EventKind, str] | None:
    """Say what a look at a topic showed, unless it was the group's first."""
    if before is None:
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
