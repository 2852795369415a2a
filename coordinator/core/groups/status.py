"""The states of groups and of members, and what leads from each to each.

A member's are KIP-848's and follow from hard state alone, a group's also from what is still to be settled.
Nothing is decided by them but what people and members are told.
"""

from collections.abc import Mapping
from typing import Final

from coordinator.core.groups.hard.state import GroupState
from coordinator.core.groups.soft.group_soft import GroupSoft
from coordinator.protocol.vocabulary import GroupStatus, MemberStatus

MEMBER_TRANSITIONS: Final[Mapping[MemberStatus, Mapping[MemberStatus, str]]] = {
    MemberStatus.STABLE: {
        MemberStatus.STABLE: "a target that is what it holds",
        MemberStatus.UNREVOKED_PARTITIONS: "a target without some of what it holds",
        MemberStatus.UNRELEASED_PARTITIONS: "a target with partitions it has to wait for",
    },
    MemberStatus.UNREVOKED_PARTITIONS: {
        MemberStatus.UNREVOKED_PARTITIONS: "it has more to let go of",
        MemberStatus.STABLE: "it has let go and holds its target",
        MemberStatus.UNRELEASED_PARTITIONS: "it has let go and waits for others",
    },
    MemberStatus.UNRELEASED_PARTITIONS: {
        MemberStatus.UNRELEASED_PARTITIONS: "it waits for more",
        MemberStatus.STABLE: "the last of its target is granted",
        MemberStatus.UNREVOKED_PARTITIONS: "a target without some of what it holds",
    },
}
"""The states to which each state can lead, and by what; besides, a member can be gone from any."""


def member_status(group: GroupState, member_id: str) -> MemberStatus:
    """Return the state of a member."""
    if member_id in group.stopping:
        return MemberStatus.UNREVOKED_PARTITIONS
    owned = group.owned_by(member_id)
    return MemberStatus.STABLE if group.due_to(member_id) <= owned else MemberStatus.UNRELEASED_PARTITIONS


def is_complete(group: GroupState, member_id: str) -> bool:
    """True when a member holds exactly its target of the newest epoch, less what is paused."""
    member = group.members[member_id]
    return (
        member.member_epoch == group.group_epoch > 0
        and member_id not in group.stopping
        and group.owned_by(member_id) == group.due_to(member_id)
    )


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
"""The states to which each state can lead, and by what. A first member is assigned at once, without a window."""


def group_status(group: GroupState, soft: GroupSoft | None) -> GroupStatus:
    """Return the state of a group, which may have no soft state."""
    if not group.members:
        return GroupStatus.EMPTY
    if group.recovery_ms is not None:
        return GroupStatus.RECOVERING
    if group.is_target_stale:
        return GroupStatus.ASSIGNING
    return GroupStatus.RECONCILING if soft is not None and soft.unsettled else GroupStatus.STABLE
