"""The sizes of what is due: how much of the time of one step it takes.

They are counted in partitions that change hands, of which a step is for a bounded number.
"""

from typing import Final

from coordinator.core.groups.desk import Desk
from coordinator.core.groups.soft.timers import Timer, TimerKind

_OFFSETS_FOR_A_PARTITION = 50
"""So many offsets are forgotten in the time in which one partition changes hands."""
_PARTITIONS_FOR_A_GROUP = 3
"""So many partitions change hands in the time in which a group without any offsets is forgotten."""
_TOLD_FOR_ONE_MOVED = 10
"""So many partitions are told a member that has them in the time in which one changes hands."""

DEAR: Final = frozenset(
    {
        TimerKind.WINDOW,
        TimerKind.SLICE,
        TimerKind.LOOKUP,
        TimerKind.STOP,
        TimerKind.GRACE,
        TimerKind.EXPIRY,
        TimerKind.CLAIM_AGE,
        TimerKind.CLAIM_TIMEOUT,
        TimerKind.REGISTRATION,
        TimerKind.LOOK,
        TimerKind.TELL,
    }
)
"""Timers of groups whose work grows with their size, of members whose work grows with what they have or let go of,
or to many groups or connections at the same time."""


def size_of(desk: Desk, timer: Timer) -> int:
    """Return in how many partitions that change hands the work of a timer is counted; its own step is one more."""
    if timer.kind is TimerKind.STOP:
        assert isinstance(timer.subject, str), "what stops is a member"
        session = desk.session_of(timer.group_id, timer.subject)
        return len(session.stop_deadlines) if session is not None else 0
    if timer.kind is TimerKind.LOOK:
        return desk.limits.slice_partitions
    if timer.kind is TimerKind.TELL:
        return desk.limits.push_max_partitions // _TOLD_FOR_ONE_MOVED
    group = desk.group(timer.group_id)
    if group is None or timer.kind is TimerKind.REGISTRATION:
        return 0
    if timer.kind is TimerKind.EXPIRY:
        return 0 if group.members else _PARTITIONS_FOR_A_GROUP + len(group.offsets) // _OFFSETS_FOR_A_PARTITION
    if timer.kind is TimerKind.GRACE:
        assert isinstance(timer.subject, str), "who is gone is a member"
        return len(group.owned_by(timer.subject))
    if timer.kind in {TimerKind.WINDOW, TimerKind.SLICE, TimerKind.LOOKUP}:
        return max(len(group.members), group.target_count)
    return len(group.members)
