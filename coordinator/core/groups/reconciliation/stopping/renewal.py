"""The deadlines of a shard that decided nothing for a while begin anew: of its members' sessions, and of its stops.

Members could not be heard, and were not told what they are to let go of, so none of that time counts against them.
"""

from coordinator.core.groups.desk import Desk
from coordinator.core.groups.reconciliation.stopping import patience
from coordinator.core.groups.soft.timers import Timer, TimerKind


def renew(desk: Desk) -> None:
    """Give every member a full session time-out from now, and every stop its full time."""
    for group_id, soft in desk.soft.items():
        group = desk.group(group_id)
        for member_id, session in soft.sessions.items():
            session.last_heard_ms = desk.now_ms
            if group is None or not session.stop_deadlines:
                continue
            for partition in session.stop_deadlines:
                session.stop_deadlines[partition] = desk.now_ms + patience.timeout_ms(group, soft, partition)
            desk.timers.set(Timer(TimerKind.STOP, group_id, member_id), min(session.stop_deadlines.values()))
