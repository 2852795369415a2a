"""Everything that one node counts of its own work, in one value that its parts are given."""

from collections.abc import Callable, Mapping
from typing import Final

from coordinator.runtime.figures.family import Family, Histogram
from coordinator.runtime.figures.limits import LimitsSeen, limit_families
from coordinator.runtime.figures.lines import LineFigures
from coordinator.runtime.figures.mirror import mirror_families
from coordinator.runtime.figures.notices import NoticeFigures
from coordinator.runtime.figures.requests import RequestFigures

_SHORT: Final = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)
"""Bounds in seconds: one sync, one turn of the loop."""


class NodeFigures:
    """The figures of one node; `families` belongs to the thread of the event loop."""

    def __init__(self, lines: LineFigures) -> None:
        self.requests = RequestFigures()
        self.notices = NoticeFigures()
        self.syncs = Histogram(_SHORT)
        self.loop_lag = Histogram(_SHORT)
        self.zookeeper: Histogram | None = None
        """Of a node of a cluster, from when it asks ZooKeeper."""
        self.mirror: Callable[[], Mapping[str, float]] = dict
        """Returns what a mirror says of itself; nothing of a node without one."""
        self.limits: Callable[[], LimitsSeen] = LimitsSeen
        """Returns how much of each limit is used, and how often it was reached."""
        self._lines = lines

    def joins_cluster(self) -> Histogram:
        """Count from now on what only a node of a cluster does; return what times questions to ZooKeeper."""
        self.notices.joins_cluster()
        self.zookeeper = Histogram()
        return self.zookeeper

    def families(self) -> tuple[Family, ...]:
        """Return everything as it is now."""
        asked = () if self.zookeeper is None else self.zookeeper.samples()
        return (
            *self.requests.families(),
            *self.notices.families(),
            Family("kcoord_fsync_seconds", "histogram", "Time of one sync of a shard's log.", self.syncs.samples()),
            Family(
                "kcoord_event_loop_lag_seconds",
                "histogram",
                "Time by which the event loop was late, looked at ten times a second.",
                self.loop_lag.samples(),
            ),
            Family("kcoord_zk_request_seconds", "histogram", "Time from a question to ZooKeeper to its answer.", asked),
            *mirror_families(self.mirror()),
            *limit_families(self.limits()),
            self._lines.family(),
        )
