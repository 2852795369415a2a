"""Mistakes about what bounds a step and the state."""

from collections.abc import Callable, Mapping
from typing import Any

from coordinator.core import node
from coordinator.core.groups import committed_table
from coordinator.core.groups.describe import describe

Patches = list[tuple[Any, str, Any]]


def group_told_at_once() -> Patches:
    return [(node, "describe", lambda desk, group, after, _: describe(desk, group, after, 1_000_000))]


def metadata_not_counted() -> Patches:
    return [(committed_table, "_bytes_of", lambda known, number: committed_table.OFFSET_BYTES)]


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

    return [(node, "describe", skipping)]


MISTAKES: Mapping[str, tuple[str, Callable[[], Patches]]] = {
    "group-told-at-once": ("a description has no pages", group_told_at_once),
    "page-skips-one": ("what a page ends with is on no page", page_skips_one),
    "metadata-not-counted": ("the account of a group leaves out metadata where offsets change", metadata_not_counted),
}
