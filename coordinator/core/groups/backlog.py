"""What of a group is still to be looked at after a change, cut into slices so that no step takes long.

A slice is some members with the partitions that have to move from or to them. Everything between two slices is a valid
state: what has not been looked at stays as it was. The backlog is soft, for what a slice does is read from hard state
alone: after a restart all of the group is looked at again.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from coordinator.core.groups.partition_table import TopicPartition
from coordinator.core.groups.state import GroupState

_SETTLED_FOR_ONE_THAT_MOVES = 10
"""So many partitions that stay where they are cost as much as one that moves."""


class Slice(NamedTuple):
    """Partitions to stop or grant, in order, and the members that are through with that."""

    partitions: list[TopicPartition]
    members: list[str]


@dataclass(slots=True)
class Backlog:
    """What is still to be looked at in one group."""

    why: str = ""
    """Why the partitions of members move."""
    is_close: bool = True
    """Each partition of a member is looked at, not only those that are not in both its hands and its target."""
    members: dict[str, None] = field(default_factory=dict)
    """Members to be looked at, in order; until then none of them is in the newest epoch."""
    _partitions: dict[TopicPartition, None] = field(default_factory=dict)
    _rest: list[TopicPartition] | None = None

    def __bool__(self) -> bool:
        return bool(self.members or self._partitions)

    def begin(self, members: Iterable[str], why: str, *, is_close: bool) -> None:
        """Have these members looked at in this order, instead of those that were left."""
        self.why = why
        self.is_close = is_close
        self.members = dict.fromkeys(members)
        self._rest = None

    def add_members(self, members: Iterable[str]) -> None:
        """Have these members looked at too."""
        self.members.update(dict.fromkeys(members))

    def add(self, partitions: Iterable[TopicPartition]) -> None:
        """Have these partitions looked at before any member."""
        self._partitions.update(dict.fromkeys(partitions))

    def take(self, group: GroupState, most: int, has_to_stop: Callable[[GroupState, TopicPartition], bool]) -> Slice:
        """Take out the next slice, of about `most` partitions that move."""
        partitions: set[TopicPartition] = set()
        while self._partitions and len(partitions) < most:
            partition = next(iter(self._partitions))
            del self._partitions[partition]
            partitions.add(partition)
        members: list[str] = []
        left = (most - len(partitions)) * _SETTLED_FOR_ONE_THAT_MOVES
        while self.members and left > 0:
            member_id = next(iter(self.members))
            if self._rest is None:
                left -= _SETTLED_FOR_ONE_THAT_MOVES + len(group.owned.get(member_id, ()))
                self._rest = self._moving(group, member_id, has_to_stop) if member_id in group.members else []
            fitting = max(0, left // _SETTLED_FOR_ONE_THAT_MOVES) + 1
            taken, self._rest = self._rest, []
            if len(taken) > fitting:
                # Only what is cut needs an order of its own: a slice is put in order as a whole.
                taken.sort()
                taken, self._rest = taken[:fitting], taken[fitting:]
            partitions.update(taken)
            left -= len(taken) * _SETTLED_FOR_ONE_THAT_MOVES
            if not self._rest:
                self._rest = None
                del self.members[member_id]
                members.append(member_id)
        return Slice(sorted(partitions), members)

    def _moving(
        self, group: GroupState, member_id: str, has_to_stop: Callable[[GroupState, TopicPartition], bool]
    ) -> list[TopicPartition]:
        """Return what a member has to let go of, and what of its target no member owns, in no order."""
        target = group.members[member_id].target
        owned = group.owned.get(member_id)
        if owned is None:
            return [partition for partition in target if _is_free(group, partition)]
        if owned == target and not self.is_close:
            return []
        moving = [
            partition for partition in (owned if self.is_close else owned - target) if has_to_stop(group, partition)
        ]
        moving += [partition for partition in target - owned if _is_free(group, partition)]
        return moving


def _is_free(group: GroupState, partition: TopicPartition) -> bool:
    """True when no member owns a partition."""
    grant = group.grants.get(partition)
    return grant is None or grant.member_id not in group.members
