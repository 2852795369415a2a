"""The part of a group that is still to be looked at after a change, cut into slices so that no step takes long.

A slice is some members with the partitions that have to move from or to them. Everything between two slices is a valid
state: what has not been looked at stays as it was. The backlog is soft, for what a slice does is read from hard state
alone: after a restart all of the group is looked at again.
"""

from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain, islice
from typing import NamedTuple

from coordinator.core.groups.hard.state import GroupState
from coordinator.core.groups.partitions.partition_set import PartitionSet
from coordinator.core.groups.partitions.partition_table import PartitionTable, TopicPartition, in_order
from coordinator.protocol.ids import MAX_PARTITION

_SETTLED_FOR_ONE_THAT_MOVES = 5
"""So many partitions that stay where they are cost as much as one that moves."""
_PORTION = 1_000
"""So many partitions of a member are put in order at once."""


class Slice(NamedTuple):
    """Partitions to stop or grant, in order, and the members that are through with that."""

    partitions: list[TopicPartition]
    members: list[str]


@dataclass(slots=True)
class Backlog:
    """The partitions that are still to be looked at in one group."""

    why: str = ""
    """Why the partitions of members move."""
    is_close: bool = True
    """Each partition of a member is looked at, not only those that are not in both its hands and its target."""
    members: OrderedDict[str, None] = field(default_factory=OrderedDict)
    """Members to be looked at, in order; until then none of them is in the newest epoch."""
    _partitions: OrderedDict[TopicPartition, None] = field(default_factory=OrderedDict)
    """To take the first ones out of a plain dict costs a pass over all that were taken out before."""
    _unless_due: Iterator[TopicPartition] = field(default_factory=lambda: iter(()))
    """Partitions that are looked at too, unless they are somebody's in the target by then."""
    _has_unless_due: bool = False
    _wanted: Iterator[TopicPartition] = field(default_factory=lambda: iter(()))
    """Partitions that are looked at too, if they are somebody's in the target by then or are to be reset."""
    _has_wanted: bool = False
    _rest: Iterator[TopicPartition] | None = None
    """The partitions that the first member may have to give up, once that was begun."""

    def __bool__(self) -> bool:
        return bool(self.members or self._partitions or self._has_unless_due or self._has_wanted)

    def begin(self, members: Iterable[str], why: str, *, is_close: bool) -> None:
        """Have these members looked at in this order, instead of those that were left."""
        self.why = why
        self.is_close = is_close
        self.members = OrderedDict.fromkeys(members)
        self._rest = None

    def add_all(self, members: Iterable[str]) -> None:
        """Have these members looked at too, and each partition of theirs, also where that was done already."""
        self.is_close, self._rest = True, None
        self.add_members(members)

    def add_members(self, members: Iterable[str]) -> None:
        """Have these members looked at too."""
        self.members.update(dict.fromkeys(members))

    def add(self, partitions: Iterable[TopicPartition]) -> None:
        """Have these partitions looked at before any member."""
        self._partitions.update(dict.fromkeys(partitions))

    def add_unless_due(self, partitions: Collection[TopicPartition]) -> None:
        """Have these partitions looked at too, but for those that are in the target of a member, which is looked at."""
        self._unless_due = chain(self._unless_due, tuple(partitions))
        self._has_unless_due = self._has_unless_due or bool(partitions)

    def add_wanted(self, partitions: PartitionSet) -> None:
        """Have those of a set looked at that a member is due or that are to be reset; it is not changed any more."""
        self._wanted = chain(self._wanted, partitions)
        self._has_wanted = self._has_wanted or bool(partitions)

    def _add_wanted(self, group: GroupState, most: int) -> None:
        some = list(islice(self._wanted, _SETTLED_FOR_ONE_THAT_MOVES * most))
        owners, resets = group.target_owners, group.controls.resets
        self.add(partition for partition in some if partition in owners or partition in resets)
        if not some:
            self._wanted, self._has_wanted = iter(()), False

    def _add_some(self, owners: PartitionTable[str], most: int) -> None:
        some = list(islice(self._unless_due, _SETTLED_FOR_ONE_THAT_MOVES * most))
        self.add(partition for partition in some if partition not in owners)
        if not some:
            self._unless_due, self._has_unless_due = iter(()), False

    def take(
        self,
        group: GroupState,
        most: int,
        has_to_stop: Callable[[GroupState, TopicPartition], bool],
        keeps_all: Callable[[GroupState, PartitionSet], bool],
    ) -> Slice:
        """Take out the next slice, of about `most` partitions that move.

        `keeps_all` says for all partitions of a member together, which are just its target, that none has to stop.
        """
        partitions: set[TopicPartition] = set()
        if self._has_wanted and not self._partitions:
            self._add_wanted(group, most)
        if self._has_unless_due and not self._partitions:
            self._add_some(group.target_owners, most)
        while self._partitions and len(partitions) < most:
            partitions.add(self._partitions.popitem(last=False)[0])
        members: list[str] = []
        left = (most - len(partitions)) * _SETTLED_FOR_ONE_THAT_MOVES
        while self.members and left > 0:
            member_id = next(iter(self.members))
            if self._rest is None:
                left -= _SETTLED_FOR_ONE_THAT_MOVES
                settled = self._settled(group, member_id, keeps_all) if self.is_close else 0
                if 0 < settled < left:
                    left -= settled
                else:
                    self._rest = self._to_look_at(group, member_id)
            if self._rest is not None:
                left = self._look_at_rest(group, member_id, left, partitions, has_to_stop)
            if self._rest is None:
                del self.members[member_id]
                members.append(member_id)
        return Slice(in_order(partitions), members)

    def _settled(self, group: GroupState, member_id: str, keeps_all: Callable[[GroupState, PartitionSet], bool]) -> int:
        """Return how many partitions a member has, if it has all of its target and keeps it; else 0."""
        member, owned = group.members.get(member_id), group.owned_by(member_id)
        is_settled = member is not None and owned == member.target and keeps_all(group, owned)
        return len(owned) if is_settled else 0

    def _to_look_at(self, group: GroupState, member_id: str) -> Iterator[TopicPartition] | None:
        """Return which partitions of a member may have to move, as of now, in order; None where none has to."""
        member = group.members.get(member_id)
        if member is None:
            return None
        target, owned = member.target, group.owned_by(member_id)
        if not self.is_close and owned == target:
            return None
        return _in_either(owned.copy(), target, is_close=self.is_close)

    def _look_at_rest(
        self,
        group: GroupState,
        member_id: str,
        left: int,
        partitions: set[TopicPartition],
        has_to_stop: Callable[[GroupState, TopicPartition], bool],
    ) -> int:
        """Add to a slice what moves of the rest of a member's partitions, and return what is left of its size."""
        rest, grants, members = self._rest, group.grants, group.members
        assert rest is not None, "a member is begun before it is looked at"
        while left > 0:
            partition = next(rest, None) if member_id in members else None
            if partition is None:
                self._rest = None
                break
            grant = grants.get(partition)
            if grant is None or grant.member_id not in members:
                moves = partition in members[member_id].target
            else:
                moves = grant.member_id == member_id and has_to_stop(group, partition)
            if moves:
                partitions.add(partition)
            left -= _SETTLED_FOR_ONE_THAT_MOVES if moves else 1
        return left


def _in_either(owned: PartitionSet, target: PartitionSet, *, is_close: bool) -> Iterator[TopicPartition]:
    """Yield in order what is in one of two sets, or also in both; a portion is put in order at a time."""
    for topic in sorted({*dict(owned.columns()), *dict(target.columns())}):
        one, other = owned.numbers(topic), target.numbers(topic)
        at_one = at_other = 0
        while at_one < len(one) or at_other < len(other):
            both = ((one, at_one + _PORTION - 1), (other, at_other + _PORTION - 1))
            last = min([column[at] for column, at in both if at < len(column)], default=MAX_PARTITION)
            to_one, to_other = bisect_right(one, last), bisect_right(other, last)
            some, others = set(one[at_one:to_one]), set(other[at_other:to_other])
            for number in sorted(some | others if is_close else some ^ others):
                yield topic, number
            at_one, at_other = to_one, to_other
