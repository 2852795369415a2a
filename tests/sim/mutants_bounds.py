"""Mistakes about what bounds a step and the state."""

from collections.abc import Callable, Mapping
from typing import Any

from coordinator.core.groups.describe import describe
from coordinator.core.groups.hard.tables.committed_table import CommittedTable
from coordinator.core.groups.partitions.partition_table import TopicPartition
from coordinator.core.requests import reads

Patches = list[tuple[Any, str, Any]]


def group_told_at_once() -> Patches:
    return [(reads, "describe", lambda desk, group, after, _: describe(desk, group, after, 1_000_000))]


def deleted_offsets_stay_counted() -> Patches:
    genuine = CommittedTable.__delitem__

    def delete(self: CommittedTable, partition: TopicPartition) -> None:
        counted = self.bytes
        genuine(self, partition)
        self.bytes = counted

    return [(CommittedTable, "__delitem__", delete)]


def page_skips_one() -> Patches:
    def skipping(desk: Any, group: Any, after: Any, most: int) -> Any:
        told = describe(desk, group, after, most + 1)
        if told.up_to is None or not told.partitions:
            return told
        return type(told)(
            **{
                name: getattr(told, name)[:-1] if name == "partitions" else getattr(told, name)
                for name in told.__struct_fields__
            }
        )

    return [(reads, "describe", skipping)]


MISTAKES: Mapping[str, tuple[str, Callable[[], Patches]]] = {
    "group-told-at-once": ("a description has no pages", group_told_at_once),
    "page-skips-one": ("what a page ends with is on no page", page_skips_one),
    "deleted-offsets-stay-counted": (
        "offsets that are gone stay in their group's account",
        deleted_offsets_stay_counted,
    ),
}
