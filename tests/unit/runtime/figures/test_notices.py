"""Notices and lines of the log, counted by kind."""

import pytest

from coordinator.core.effects import Notice
from coordinator.protocol.vocabulary import EventKind
from coordinator.runtime.figures.family import Family
from coordinator.runtime.figures.lines import LineFigures
from coordinator.runtime.figures.notices import NoticeFigures


def counts(family: Family) -> dict[tuple[str, ...], float]:
    return {tuple(value for _, value in labels): number for _, labels, number in family.samples}


def told(figures: NoticeFigures) -> dict[str, Family]:
    return {family.name: family for family in figures.families()}


def test_events_of_groups_are_there_from_the_start() -> None:
    figures = NoticeFigures()
    figures.add(Notice("rebalance", "w", "g"))
    figures.add(Notice("stable", "w", "g", fields=(("group_epoch", 4), ("duration_ms", 250))))
    seen = told(figures)
    events = counts(seen["kcoord_group_events_total"])
    assert set(events) == {(str(kind),) for kind in EventKind}
    assert (events["rebalance",], events["stable",], events["member-expired",]) == (1, 1, 0)
    assert seen["kcoord_rebalance_duration_seconds"].samples[-2:] == (("_sum", (), 0.25), ("_count", (), 1))
    assert seen["kcoord_notices_total"].samples == ()


def test_a_node_that_is_alone_tells_nothing_of_elections() -> None:
    figures = NoticeFigures()
    assert told(figures)["kcoord_elections_total"].samples == told(figures)["kcoord_isr_changes_total"].samples == ()
    figures.joins_cluster()
    figures.add(Notice("shard-published", "w", fields=(("shard", 3), ("election", "unclean"))))
    figures.add(Notice("isr-changed", "w", fields=(("shard", 3), ("isr_change", "shrink"))))
    seen = told(figures)
    assert counts(seen["kcoord_elections_total"]) == {("elected",): 0, ("unclean",): 1, ("without-leader",): 0}
    assert counts(seen["kcoord_isr_changes_total"]) == {("expand",): 0, ("shrink",): 1, ("exchange",): 0}
    assert counts(seen["kcoord_notices_total"]) == {("shard-published",): 1, ("isr-changed",): 1}


@pytest.mark.parametrize("kinds", [10_000])
def test_kinds_are_bounded(kinds: int) -> None:
    figures, lines = NoticeFigures(), LineFigures()
    for number in range(kinds):
        figures.add(Notice(f"kind-{number}", "w"))
        lines(None, "info", {"event": f"kind-{number}"})
    assert len(told(figures)["kcoord_notices_total"].samples) == 100
    assert len(lines.family().samples) == 200


def test_lines_are_counted_by_kind_and_level() -> None:
    lines = LineFigures()
    line = {"event": "stalled", "why": "w"}
    assert lines(None, "warning", line) is line
    seen = counts(lines.family())
    assert seen["stalled", "warning"] == 1
    assert seen["bug", "critical"] == 0
