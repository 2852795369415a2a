"""The remains of groups that are no more, of which some is let go in each step: to free very much memory takes long.

It is nobody's: nothing is read from it again.
"""

from typing import Any, Final, TypeAlias

from coordinator.core.groups.hard.state import GroupState
from coordinator.core.groups.hard.tables.claim_table import ClaimTable
from coordinator.core.groups.hard.tables.committed_table import CommittedTable
from coordinator.core.groups.partitions.partition_table import PartitionTable
from coordinator.core.groups.soft.group_soft import GroupSoft

_Table: TypeAlias = PartitionTable[Any] | CommittedTable | ClaimTable

A_STEP: Final = 10_000
"""So much is let go of in one step."""
_LARGE: Final = 1_000
"""Anything that is not larger is let go of at once, with what it is part of."""
_A_GROUP: Final = 50
"""So much can be let go of in the time that a group takes."""


class Remains:
    """Large parts of what is no more."""

    __slots__ = ("parts",)

    def __init__(self) -> None:
        self.parts: list[dict[Any, Any]] = []
        """To look at: nothing is left once it is empty."""

    def add(self, part: dict[Any, Any]) -> None:
        """Take what nobody else needs any longer: a table of anything, also one of groups."""
        if part:
            self.parts.append(part)

    def add_group(self, group: GroupState) -> None:
        """Take the large parts of a group."""
        self._add_large([group.members, group.owned], group.grants, group.claims, group.offsets, group.target_owners)

    def add_soft(self, soft: GroupSoft) -> None:
        """Take the large parts of what a restart may forget of a group."""
        parts: list[dict[Any, Any]] = [soft.sessions, soft.late_owners, *soft.lost_owners.parts()]
        self._add_large(parts, soft.running_since, soft.running_long)

    def _add_large(
        self, parts: list[dict[Any, Any]], *tables: PartitionTable[Any] | CommittedTable | ClaimTable
    ) -> None:
        parts += [table.rows(topic) for table in tables for topic in table.topics()]
        self.parts += [part for part in parts if len(part) > _LARGE]

    def drop(self) -> bool:
        """Let go of some of it; return whether there is more."""
        left = A_STEP
        while self.parts and left > 0:
            part = self.parts[-1]
            count = len(self.parts)
            while part and left > 0 and len(self.parts) == count:
                _, value = part.popitem()
                left -= 1
                if isinstance(value, GroupState):
                    left -= _A_GROUP + min(_LARGE, len(value.offsets)) + min(_LARGE, value.target_count)
                    self.add_group(value)
                elif isinstance(value, GroupSoft):
                    left -= _A_GROUP
                    self.add_soft(value)
            if not part:
                del self.parts[count - 1]
        return bool(self.parts)
