"""Facts that the node has said of groups and of the cluster, counted by kind; and how long rebalances took.

A notice is a fact that the core says once, with a stable kind. Kinds of a group's timeline are a family of their own
and are there from the start, with 0, so that their first one is seen as a change. Belongs to the thread of the event
loop.
"""

from collections import Counter
from typing import Final

from coordinator.core.effects import Notice
from coordinator.protocol.vocabulary import EventKind
from coordinator.runtime.figures.family import Family, Histogram, counter

_OF_GROUPS: Final = frozenset(map(str, EventKind))
_ELECTIONS: Final = ("elected", "unclean", "without-leader")
_ISR_CHANGES: Final = ("expand", "shrink", "exchange")
_MOST_KINDS: Final = 100
"""Kinds are written in the code; more of them than this would be a mistake."""
_LONG: Final = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0)
"""Bounds in seconds: a rebalance waits for micro-batches."""


class NoticeFigures:
    """The notices of one node."""

    def __init__(self) -> None:
        self._of_groups: Counter[str] = Counter({str(kind): 0 for kind in EventKind})
        self._others: Counter[str] = Counter()
        self._elections: Counter[str] = Counter()
        self._isr_changes: Counter[str] = Counter()
        self._rebalance_took = Histogram(_LONG)

    def joins_cluster(self) -> None:
        """Count from now on what only a node of a cluster says."""
        self._elections.update(dict.fromkeys(_ELECTIONS, 0))
        self._isr_changes.update(dict.fromkeys(_ISR_CHANGES, 0))

    def add(self, notice: Notice) -> None:
        """Count a notice."""
        if notice.kind in _OF_GROUPS:
            self._of_groups[notice.kind] += 1
            if notice.kind == EventKind.STABLE:
                self._rebalanced(notice)
        elif notice.kind in self._others or len(self._others) < _MOST_KINDS:
            self._others[notice.kind] += 1
        for name, value in notice.fields:
            if name == "election" and value in _ELECTIONS:
                self._elections[str(value)] += 1
            elif name == "isr_change" and value in _ISR_CHANGES:
                self._isr_changes[str(value)] += 1

    def families(self) -> tuple[Family, ...]:
        """Return everything as it is now."""
        return (
            counter("kcoord_group_events_total", "Events of groups' timelines, by kind.", "kind", self._of_groups),
            Family(
                "kcoord_rebalance_duration_seconds",
                "histogram",
                "Time from a change of a group until each member holds what it is to hold.",
                self._rebalance_took.samples(),
            ),
            counter("kcoord_notices_total", "Facts that are not of one group, by kind.", "kind", self._others),
            counter(
                "kcoord_elections_total",
                "Elections of shards' leaders that this node held as the controller, by kind.",
                "kind",
                self._elections,
            ),
            counter(
                "kcoord_isr_changes_total",
                "Changes of in-sync sets that this node made as a leader, by kind.",
                "kind",
                self._isr_changes,
            ),
        )

    def _rebalanced(self, notice: Notice) -> None:
        for name, value in notice.fields:
            if name == "duration_ms" and isinstance(value, int):
                self._rebalance_took.observe(value / 1000)
