"""The way of a group's next target into hard state: at once, or in parts when it is large.

A part says what some members lose or gain, and never more than a step is for, however much one member has. Between two
parts of one target a partition is in the target of one member at most, since all that is lost comes before anything
that is gained. Until the last part is there the target counts as stale: a load begins the next one.
"""

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from coordinator.core.groups.hard.records import MemberTarget, TargetsAssigned
from coordinator.core.groups.hard.state import GroupState
from coordinator.core.groups.partitions.in_topics import TopicNumbers
from coordinator.core.groups.partitions.partition_table import TopicPartition


class Change(NamedTuple):
    """Partitions that a member is to have from now on, or no longer."""

    member_id: str
    topics: tuple[TopicNumbers, ...]
    is_gain: bool

    @property
    def size(self) -> int:
        """The number of its partitions."""
        return sum([len(each.partitions) for each in self.topics])


def cut(member_id: str, topics: Sequence[TopicNumbers], most: int, *, is_gain: bool) -> Iterator[Change]:
    """Yield what a member gains or loses in changes of at most so many partitions."""
    piece: list[TopicNumbers] = []
    left = most
    for topic, numbers in [(each.topic, each.partitions) for each in topics]:
        begin = 0
        while begin < len(numbers):
            some = numbers[begin : begin + left]
            piece.append(TopicNumbers(topic, some))
            begin, left = begin + len(some), left - len(some)
            if not left:
                yield Change(member_id, tuple(piece), is_gain)
                piece, left = [], most
    if piece:
        yield Change(member_id, tuple(piece), is_gain)


@dataclass(slots=True)
class StagedTarget:
    """A target that is not yet, or not wholly, the group's: what its members lose, and after that what they gain."""

    group_epoch: int
    assignor: str
    changes: deque[Change]
    is_large: bool = False
    """More than one part."""
    moves: list[TopicPartition] = field(default_factory=list)
    """The partitions that the parts taken so far give to another than their owner."""

    def take(self, group: GroupState, most: int, *, is_outdated: bool) -> TargetsAssigned:
        """Take out the next part, of about `most` partitions; an outdated target leaves a stale one behind.

        Members that are gone since are passed over, and nobody gets a partition of a topic it reads no longer.
        """
        lost: list[MemberTarget] = []
        gained: list[MemberTarget] = []
        count = 0
        while self.changes and count < most:
            change = self.changes.popleft()
            member_id, topics, is_gain = change
            member = group.members.get(member_id)
            if member is None:
                continue
            count += change.size + 1
            if not is_gain:
                lost.append(MemberTarget(member_id, topics))
                continue
            if is_outdated:
                still_read = set(member.facts.topics)
                topics = tuple([each for each in topics if each.topic in still_read])
            gained.append(MemberTarget(member_id, topics))
            for each in topics:
                grants = group.grants.rows(each.topic)
                self.moves += [
                    (each.topic, number)
                    for number in each.partitions
                    if number in grants and grants[number].member_id != member_id
                ]
        is_stale = bool(self.changes) or is_outdated
        return TargetsAssigned(
            group.group_id, self.group_epoch, self.assignor, (), is_stale, tuple(lost), tuple(gained)
        )
