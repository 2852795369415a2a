"""Logs that went back: the disk was lost, or an old copy of the data directory was put back, and members know more.

Each node that goes on with a log leaves its incarnation in it, and members are told how far which incarnation had come.
One that shows more than there is, when it registers, proves that the log went back, or that it is another one. Then
nothing that stands in its group is trusted but offsets: every grant and claim is over, as it may have been given to
somebody else since, or left out by its owner; and owner epochs begin above everything that was shown, by so much that
they are above what others will show who come later. Nobody can take a new grant for one of before.
"""

from typing import Final

from coordinator.core.groups.desk import Desk
from coordinator.core.groups.hard.life_records import LogWentBack
from coordinator.core.groups.hard.state import GroupState, ShardState
from coordinator.core.groups.partitions.partition_table import TopicPartition
from coordinator.core.groups.reconciliation.pushes import fetchers_taken
from coordinator.core.groups.reconciliation.reconciler import Reconciler
from coordinator.core.groups.soft.shown import MOST_SHOWN, Shown
from coordinator.core.groups.soft.timeline import EventKind
from coordinator.protocol.messages import RegisterConsumer

MARGIN: Final = 2**32
"""So many records later than what one member shows another one may have been told, before the log went back."""


def end_shown(request: RegisterConsumer, shown: Shown) -> int:
    """Return how far the log had come at least, by what a registration shows; counted as owner epochs are."""
    log = request.log
    return max(shown.end, log.end if log is not None and log.end < MOST_SHOWN else 0)


def is_of_another_log(state: ShardState, request: RegisterConsumer, shown: Shown, next_epoch: int) -> bool:
    """Say whether a registration shows a place that this log, which ends at `next_epoch`, never had.

    Of an incarnation that was forgotten because there were so many since, nothing is known but that it is old.
    """
    if end_shown(request, shown) > next_epoch:
        return True
    if request.log is None or request.log.end >= MOST_SHOWN:
        return False
    begins = state.lives.values()
    begin = state.lives.get(request.log.incarnation)
    if begin is None:
        oldest = min(begins, default=0)
        return oldest == 0 or request.log.end > oldest
    following = min((other for other in begins if other > begin), default=next_epoch)
    return request.log.end > following


class GoneBack:
    """The groups of one shard of whose logs members know more than there is."""

    def __init__(self, desk: Desk, reconciler: Reconciler) -> None:
        self._desk = desk
        self._reconciler = reconciler

    def is_shown(self, group: GroupState | None, request: RegisterConsumer, shown: Shown) -> bool:
        """Say whether a registration shows that the log went back, and more than was known of that."""
        journal = self._desk.journal
        if group is not None and end_shown(request, shown) < group.epochs_from:
            return False
        return is_of_another_log(journal.state, request, shown, journal.next_epoch)

    def begin_anew(self, group: GroupState, member_id: str, shown: int) -> None:
        """End every grant of a group and begin owner epochs above all that members were told, `shown` at least."""
        desk, journal, group_id = self._desk, self._desk.journal, group.group_id
        end = journal.next_epoch
        epochs_from = end + 1 if shown + MARGIN < end else max(shown, end) + 2 * MARGIN
        why = (
            f"{member_id} was told of this group's log up to {shown}, and here it ends at {end} or is another one: the "
            "disk was lost, or an old copy of the data directory was put back. Offsets are as they were then, what was "
            f"committed since is read again, and owner epochs begin at {epochs_from}. Look whether this node has the "
            "right data directory (--data), and that no other node goes on with the newer one"
        )
        self._say_taken(group, why)
        had = {owner: partitions.in_order() for owner, partitions in group.owned.items()}
        journal.decide(LogWentBack(group_id, epochs_from, epochs_from - journal.log_end_offset - 1))
        for owner, partitions in had.items():
            self._forget(group_id, owner, partitions)
        desk.note(group_id, EventKind.LOG_WENT_BACK, why, member_id=member_id)

    def _say_taken(self, group: GroupState, why: str) -> None:
        """Tell members that are connected already that they have nothing any more."""
        desk, soft = self._desk, self._desk.soft_of(group.group_id)
        for member_id, session in sorted(soft.sessions.items()):
            owned = group.owned_by(member_id).in_order()
            if owned and session.connection_id is not None:
                for push in fetchers_taken(group, owned, why, desk.limits.push_max_partitions):
                    desk.push(session.connection_id, push)

    def _forget(self, group_id: str, member_id: str, partitions: list[TopicPartition]) -> None:
        self._reconciler.note_lost(group_id, partitions, self._desk.now_ms, "the log went back")
        if self._desk.session_of(group_id, member_id) is not None:
            self._reconciler.stops.forget(group_id, member_id, partitions)
            self._reconciler.unsettle(group_id, (member_id,))
