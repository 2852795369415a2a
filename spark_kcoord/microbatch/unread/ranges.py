"""The ranges that a checkpoint shows as read and that nobody has read, and the offset that says so.

A stream offset is in Spark's log before its ranges are read. Where one is let go in between, Spark counts it as done
all the same. While the group has offsets, these count; a group that was lost starts where checkpoints say. So such a
micro-batch is followed by an offset that ends where these ranges begin, with nothing to read (decision 0072). Knows
nothing of the coordinator.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import msgspec

from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.parts import Claim, PartitionResult
from spark_kcoord.microbatch.stream_offset import StreamOffset

__all__ = ["UnreadRanges"]


class UnreadRanges:
    """The ranges of the last micro-batch that this process has planned, and those that nobody has read."""

    __slots__ = ("_planned", "_unread")

    def __init__(self) -> None:
        self._planned: frozenset[Claim] = frozenset()
        self._unread: set[Claim] = set()

    def note_planned(self, claims: Iterable[Claim]) -> None:
        """Take note of the ranges that Spark is to read of a new micro-batch."""
        self._planned = frozenset(claims)
        self._unread.clear()

    def was_planned(self, claim: Claim) -> bool:
        """Tell whether this process has had a range of the last micro-batch read."""
        return claim in self._planned

    def note_finished(self, claims: Iterable[Claim], results: Iterable[PartitionResult]) -> None:
        """Take note of the answers for ranges of a micro-batch that Spark counts as done.

        A range that an earlier process of the query had, which may have read it, counts as unread as long as nobody has
        committed it.
        """
        for claim, result in zip(claims, results, strict=True):
            is_open = result.committed is None or result.committed < claim.until_offset
            if result.error is not ErrorCode.NONE and is_open and claim not in self._planned:
                self._unread.add(claim)

    def corrected(self, start: StreamOffset) -> StreamOffset:
        """Return the offset that follows `start` without anything to read and is true, or `start` if that is."""
        if not self._unread or not (unread := self._unread.intersection(start.claims)):
            return start  # as nearly always; an idle query asks many times a second
        return replace(start, ranges=tuple(_read_to(one, is_read=one not in unread) for one in start.ranges), attempt=0)


def _read_to(one: Claim, *, is_read: bool) -> Claim:
    offset = one.until_offset if is_read else one.from_offset
    return msgspec.structs.replace(one, from_offset=offset, until_offset=offset)
