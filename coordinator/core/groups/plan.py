"""How the next target of a group becomes hard state: at once, or in parts when it is large.

Between two parts of one target a partition is in the target of one member at most, since what members lose comes
before what others gain. Until the last part is there the target counts as stale: a load begins the next one.
"""

from collections import deque
from dataclasses import dataclass, field

from coordinator.core.groups.in_topics import by_topic
from coordinator.core.groups.partition_table import TopicPartition
from coordinator.core.groups.records import MemberTarget, TargetsAssigned
from coordinator.core.groups.state import GroupState


@dataclass(slots=True)
class Plan:
    """A target that is not yet, or not wholly, the group's: the members whose target changes."""

    group_epoch: int
    assignor: str
    changes: deque[tuple[str, frozenset[TopicPartition]]]
    is_large: bool = False
    """More than one part."""
    moves: list[TopicPartition] = field(default_factory=list)
    """What the parts taken so far give to another than its owner."""

    def take(self, group: GroupState, most: int, *, is_outdated: bool) -> TargetsAssigned:
        """Take out the next part, of about `most` partitions; an outdated plan leaves a stale target behind.

        Members that are gone since are passed over, and nobody gets a partition of a topic it reads no longer.
        """
        targets: list[MemberTarget] = []
        count = 0
        while self.changes and count < most:
            member_id, target = self.changes.popleft()
            member = group.members.get(member_id)
            if member is None:
                continue
            if is_outdated:
                topics = set(member.facts.topics)
                target = frozenset(partition for partition in target if partition[0] in topics)
            targets.append(MemberTarget(member_id, by_topic(target)))
            self.moves += [
                partition
                for partition in target.difference(group.owned.get(member_id, ()))
                if partition in group.grants
            ]
            count += len(target) + 1
        is_stale = bool(self.changes) or is_outdated
        return TargetsAssigned(group.group_id, self.group_epoch, self.assignor, tuple(targets), is_stale)
