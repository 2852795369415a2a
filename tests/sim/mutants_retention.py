"""Known mistakes in how long groups without members are kept; `mutants` has them beside its own."""

from typing import Any

from coordinator.core.groups.bounds.expiry import Expiry
from coordinator.core.groups.bounds.lived_time import LivedTime
from coordinator.core.groups.hard.state import GroupState


def retention_by_wall_clock() -> list[tuple[Any, str, Any]]:
    def left_ms(self: Expiry, group: GroupState) -> int:
        assert group.emptied is not None
        return group.emptied.at_ms + self._retention_ms(group) - self._desk.clock.wall_ms

    return [(Expiry, "_left_ms", left_ms)]


def never_forgotten() -> list[tuple[Any, str, Any]]:
    return [(Expiry, "is_due", lambda self, group: None)]


def clock_counts_while_no_node_ran() -> list[tuple[Any, str, Any]]:
    start = LivedTime.start

    def start_later(self: LivedTime) -> None:
        start(self)
        written_at_ms = self._desk.journal.state.lived_at_ms
        if written_at_ms is not None:
            self._before_ms += max(0, self._desk.clock.wall_ms - written_at_ms)

    return [(LivedTime, "start", start_later)]
