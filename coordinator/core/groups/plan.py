"""How the next target of a group becomes hard state: at once, or in parts when it is large.

A part says what some members lose or gain, and never more than a step is for, however much one member has. Between two
parts of one target a partition is in the target of one member at most, since all that is lost comes before anything
that is gained. Until the last part is there the target counts as stale: a load begins the next one.
"""

from collections import deque
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from coordinator.core.groups.in_topics import by_topic, one_by_one
from coordinator.core.groups.partition_table import TopicPartition, in_order
from coordinator.core.groups.records import MemberTarget, TargetsAssigned
from coordinator.core.groups.state import GroupState


class Change(NamedTuple):
    """Partitions that a member is to have from now on, or no longer."""

    member_id: str
    partitions: Collection[TopicPartition]
    is_gain: bool


def cut(member_id: str, partitions: Collection[TopicPartition], most: int, *, is_gain: bool) -> Iterator[Change]:
    """Yield what a member gains or loses in changes of at most so many partitions."""
    if len(partitions) <= most:
        if partitions:
            yield Change(member_id, partitions, is_gain)
        return
    ordered = in_order(partitions)
    for begin in range(0, len(ordered), most):
        yield Change(member_id, ordered[begin : begin + most], is_gain)


@dataclass(slots=True)
class Plan:
    """A target that is not yet, or not wholly, the group's: what its members lose, and after that what they gain."""

    group_epoch: int
    assignor: str
    changes: deque[Change]
    is_large: bool = False
    """More than one part."""
    moves: list[TopicPartition] = field(default_factory=list)
    """What the parts taken so far give to another than its owner."""

    def take(self, group: GroupState, most: int, *, is_outdated: bool) -> TargetsAssigned:
        """Take out the next part, of about `most` partitions; an outdated plan leaves a stale target behind.

        Members that are gone since are passed over, and nobody gets a partition of a topic it reads no longer.
        """
        lost: list[MemberTarget] = []
        gained: list[MemberTarget] = []
        count = 0
        while self.changes and count < most:
            member_id, partitions, is_gain = self.changes.popleft()
            member = group.members.get(member_id)
            if member is None:
                continue
            count += len(partitions) + 1
            if not is_gain:
                lost.append(MemberTarget(member_id, by_topic(partitions)))
                continue
            if is_outdated:
                topics = set(member.facts.topics)
                partitions = [partition for partition in partitions if partition[0] in topics]
            topics_gained, owned = by_topic(partitions), group.owned.get(member_id, ())
            gained.append(MemberTarget(member_id, topics_gained))
            self.moves += [one for one in one_by_one(topics_gained) if one in group.grants and one not in owned]
        is_stale = bool(self.changes) or is_outdated
        return TargetsAssigned(
            group.group_id, self.group_epoch, self.assignor, (), is_stale, tuple(lost), tuple(gained)
        )
