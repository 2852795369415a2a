"""Mistakes about where logs end and what is still there, for `mutants.py`: what is wrong, and where it is planted."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from coordinator.core.groups.offsets.out_of_range import Reports
from coordinator.core.groups.reconciliation import grants
from coordinator.protocol.ids import TopicPartition
from spark_kcoord.member.core.held.holdings import AssignedPartition
from spark_kcoord.microbatch.commands import Planning
from spark_kcoord.microbatch.log_bounds import LogBounds

Patches = list[tuple[Any, str, Any]]

BEHIND_EVERYTHING = 2**60


def _report_believed() -> Patches:
    return [(Reports, "_bounds", lambda *_: (BEHIND_EVERYTHING, BEHIND_EVERYTHING))]


def _old_end_believed() -> Patches:
    return [(Reports, "_is_proven", lambda *_: True)]


def _latest_beyond_transactions() -> Patches:
    return [(grants, "_reads_committed", lambda *_: False)]


def _readable_end_taken_for_the_end() -> Patches:
    def behind_what_can_be_read(
        self: LogBounds,
        looked_at: Sequence[AssignedPartition],
        positions: Mapping[TopicPartition, int],
        ends: Mapping[TopicPartition, int],
    ) -> Planning[tuple[Mapping[TopicPartition, int], frozenset[TopicPartition]]]:
        del self
        yield from ()
        keys = ((owned.topic, owned.partition) for owned in looked_at)
        return {key: ends[key] for key in keys if key in ends and ends[key] < positions[key]}, frozenset()

    return [(LogBounds, "_behind_the_log", behind_what_can_be_read)]


def _loss_told_at_once() -> Patches:
    return [(LogBounds, "_is_over", lambda *_, **__: True)]


MISTAKES: Mapping[str, tuple[str, Callable[[], Patches]]] = {
    "report-believed": ("who says that an offset is out of range is believed", _report_believed),
    "old-end-believed": ("the end that one answer names is believed", _old_end_believed),
    "loss-told-at-once": ("a query fails by the end that one answer names", _loss_told_at_once),
    "latest-beyond-transactions": ("`latest` passes over an open transaction", _latest_beyond_transactions),
    "readable-end-taken-for-the-end": (
        "an offset behind an open transaction is taken for lost",
        _readable_end_taken_for_the_end,
    ),
}
