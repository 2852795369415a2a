"""The decisions of operators about a group that stand, in pages: many pauses may have long reasons."""

import heapq
from collections.abc import Collection, Iterator
from typing import Final, TypeVar

from coordinator.core.groups.hard.controls import Controls, Decree
from coordinator.protocol.parts import ControlDescription, ControlsUpTo
from coordinator.protocol.vocabulary import ControlKind

_IN_ORDER: Final = tuple(ControlKind)

_PAGE_BYTES: Final = 1024 * 1024
"""Bytes of texts on one page."""

K = TypeVar("K", str, tuple[str, int])


def describe_controls(
    controls: Controls, after: ControlsUpTo | None, most: int
) -> tuple[tuple[ControlDescription, ...], ControlsUpTo | None]:
    """Return what stands behind a mark, at most so many and with a bound on their texts, and a mark if there are more.

    The group's pause comes first, then paused partitions, drained members and pending resets.
    """
    found: list[ControlDescription] = []
    left = _PAGE_BYTES
    for control in _behind(controls, after, most + 1):
        if found and (len(found) == most or left <= 0):
            last = found[-1]
            number = -1 if last.partition is None else last.partition
            return tuple(found), ControlsUpTo(last.kind, last.topic or last.member_id, number)
        found.append(control)
        left -= len(control.who) + len(control.why) + len(control.topic) + len(control.member_id)
    return tuple(found), None


def _behind(controls: Controls, after: ControlsUpTo | None, most: int) -> Iterator[ControlDescription]:
    """Yield what stands behind a mark, at most so many of each kind."""
    begin = _IN_ORDER.index(after.kind) if after is not None and after.kind in _IN_ORDER else 0
    for kind in _IN_ORDER[begin:]:
        mark = after if after is not None and after.kind == kind else None
        partition = (mark.name, mark.partition) if mark is not None else ("", -1)
        if kind is ControlKind.GROUP_PAUSED:
            if controls.group_pause is not None and mark is None:
                yield _described(kind, controls.group_pause)
        elif kind is ControlKind.PARTITION_PAUSED:
            for topic, number in _next(controls.paused.keys(), partition, most):
                yield _described(kind, controls.paused[topic, number], topic, number)
        elif kind is ControlKind.MEMBER_DRAINED:
            for member_id in _next(controls.drained.keys(), mark.name if mark is not None else "", most):
                yield _described(kind, controls.drained[member_id], member_id=member_id)
        else:
            for topic, number in _next(controls.resets.keys(), partition, most):
                reset = controls.resets[topic, number]
                yield _described(kind, reset.decree, topic, number, offset=reset.offset)


def _next(keys: Collection[K], after: K, most: int) -> list[K]:
    behind = (key for key in keys if key > after)
    return sorted(behind) if len(keys) <= most else heapq.nsmallest(most, behind)


def _described(
    kind: ControlKind,
    decree: Decree,
    topic: str = "",
    partition: int | None = None,
    *,
    member_id: str = "",
    offset: int | None = None,
) -> ControlDescription:
    return ControlDescription(kind, decree.who, decree.why, decree.at_ms, topic, partition, member_id, offset)
