"""How the next target of a group is computed.

A target says where partitions belong; it is computed from the members as they are, by an assignor that all of them
name, and starts from the target before it so that little moves. Bringing partitions there is `ownership`'s business.
"""

from collections import deque
from collections.abc import Mapping

from coordinator.core.groups.assignors import Assignor, AssignorInput, AssignorMember, Pace, Turns
from coordinator.core.groups.holds import held_partitions
from coordinator.core.groups.partition_table import TopicPartition
from coordinator.core.groups.plan import Change, Plan, cut
from coordinator.core.groups.reserved import assign_around
from coordinator.core.groups.state import GroupState
from coordinator.core.groups.subscriptions import explicit_target

_NOTHING: frozenset[TopicPartition] = frozenset()


def choose_assignor(group: GroupState, known_assignors: Mapping[str, Assignor]) -> str:
    """Return the assignor that all members name and most name first; the order of the known ones decides a tie."""
    common = [name for name in known_assignors if group.assignor_supporters.get(name, 0) == len(group.members)]
    assert common, f"group {group.group_id} has no assignor that all members name"
    return max(common, key=lambda name: group.assignor_favourites.get(name, 0))


def plan_targets(group: GroupState, known_assignors: Mapping[str, Assignor], most: int) -> Turns[Plan]:
    """Compute the target of the next group epoch, to be taken in parts of about `most` partitions.

    It is computed from the group as it is now, also when the group changes between two turns.
    """
    if not group.members:
        return Plan(group.group_epoch + 1, group.assignor, deque())
    name = choose_assignor(group, known_assignors)
    next_epoch, targets = group.group_epoch + 1, [(one.facts.member_id, one.target) for one in group.members.values()]
    assigned = yield from _assign(group, known_assignors[name])
    yield
    losses: list[Change] = []
    gains: list[Change] = []
    pace = Pace()
    for member_id, before in targets:
        target = assigned.get(member_id, _NOTHING)
        if target is not before:
            losses += cut(member_id, before - target, most, is_gain=False)
            gains += cut(member_id, target - before, most, is_gain=True)
            if pace.is_over(len(before) + len(target)):
                yield
    is_large = sum(len(change.partitions) + 1 for change in (*losses, *gains)) > most
    return Plan(next_epoch, name, deque([*losses, *gains]), is_large)


def _assign(group: GroupState, assignor: Assignor) -> Turns[Mapping[str, frozenset[TopicPartition]]]:
    drained = group.controls.drained
    members: list[AssignorMember] = []
    current: dict[str, frozenset[TopicPartition]] = {}
    assigned: dict[str, frozenset[TopicPartition]] = {}
    subscriptions: dict[tuple[str, ...], frozenset[str]] = {}
    for member_id, member in group.members.items():
        facts = member.facts
        if member_id in drained:
            continue
        if facts.partitions:
            assigned[member_id] = explicit_target(group, facts)
            continue
        topics = subscriptions.get(facts.topics)
        if topics is None:
            topics = subscriptions[facts.topics] = frozenset(facts.topics)
        members.append(AssignorMember(member_id, topics, facts.streams))
        current[member_id] = member.target if member.member_epoch else group.owned_by(member_id)
    if members:
        sizes = {topic: group.topics[topic].partitions for topic in group.subscribers if topic in group.topics}
        given = AssignorInput(tuple(members), sizes, current)
        assigned |= yield from assign_around(assignor, given, held_partitions(group) | group.explicit.keys())
    return assigned
