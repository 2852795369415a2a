"""Bugs planted into a node: a call that decides records of a shard fails, before or after it has done so.

To go on in the next epoch counts as such a call, and always fails where a bug is planted.
"""

from typing import ClassVar

from coordinator.core.groups.hard.journal import Journal
from coordinator.core.groups.hard.records import Record
from coordinator.core.node import Node


class PlantedBugError(Exception):
    """A bug that the simulator has planted; any other one is a violation."""


class BuggyJournal(Journal):
    """A journal of which one call fails."""

    __slots__ = ()
    left: ClassVar[dict[int, tuple[int, bool]]] = {}
    """The calls of which journal that are left until one fails, and whether that comes after its records."""

    def go_on(self, leader_epoch: int, base_offset: int, began: bytes) -> None:
        calls, is_after = self.left.pop(id(self), (0, False))
        if is_after or not calls:
            super().go_on(leader_epoch, base_offset, began)
        if calls:
            raise PlantedBugError("a bug was planted here")

    def decide(self, *records: Record) -> None:
        calls, is_after = self.left.pop(id(self), (0, False))
        if calls > 1:
            self.left[id(self)] = (calls - 1, is_after)
        if calls != 1:
            super().decide(*records)
            return
        if is_after:
            super().decide(*records)
        raise PlantedBugError("a bug was planted here")


def plant(node: Node, shard: int, calls: int, *, is_after: bool) -> None:
    """Have the shard of a node fail in one of its next calls that decide records."""
    journal = node._shards[shard].desk.journal
    journal.__class__ = BuggyJournal
    BuggyJournal.left[id(journal)] = (calls, is_after)
