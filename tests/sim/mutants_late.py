"""Mistakes about partitions that are not let go in time, and about claims that nobody reads yet."""

from collections.abc import Callable, Collection, Mapping
from random import Random
from typing import Any

from coordinator.core.groups.hard.held_claims import outlives_stop
from coordinator.core.groups.reconciliation.stopping import patience
from coordinator.core.groups.shard import Shard
from coordinator.core.groups.soft.timeline import EventKind
from coordinator.core.groups.soft.timers import Timer, TimerKind
from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.ids import TopicPartition
from coordinator.protocol.messages import Fenced
from coordinator.protocol.parts import FinalOffset
from coordinator.protocol.vocabulary import Handover
from spark_kcoord.member.core.held.holdings import Holdings
from tests.sim.directed import slow_partitions_to_and_fro
from tests.sim.mix import Mix, draw_mix

Patches = list[tuple[Any, str, Any]]


def late_member_put_out() -> Patches:
    genuine = Shard._due

    def due(self: Shard, timer: Timer) -> None:
        kind, group_id, member_id = timer.kind, timer.group_id, timer.subject
        if kind is not TimerKind.STOP or not isinstance(member_id, str):
            genuine(self, timer)
            return
        desk = self.desk
        group, session = desk.group(group_id), desk.session_of(group_id, member_id)
        if group is None or session is None:
            return
        late = [at_ms for key, at_ms in session.stop_deadlines.items() if not outlives_stop(group, key)]
        if all(at_ms > desk.now_ms for at_ms in late):
            genuine(self, timer)
            return
        desk.push(session.connection_id, Fenced(ErrorCode.FENCED_MEMBER_EPOCH, "it did not let go in time"))
        keeps = group.handover == Handover.HOLD
        left, why = EventKind.MEMBER_LEFT, "it did not let go in time"
        self._departures._remove(group_id, member_id, left, why, None, keeps_running_claims=keeps)

    return [(Shard, "_due", due)]


def given_back_while_the_taker_reads() -> Patches:
    return [(patience, "is_waited_for", lambda group, soft, partition: False)]


def offered_claim_waits() -> Patches:
    genuine = Holdings.release_idle

    def release_idle(
        self: Holdings, busy: Collection[TopicPartition], *, drops_offered: bool
    ) -> tuple[FinalOffset, ...]:
        return genuine(self, busy, drops_offered=False)

    return [(Holdings, "release_idle", release_idle)]


MISTAKES: Mapping[str, tuple[str, Callable[[], Patches], Callable[[Random], Mix]]] = {
    "late-member-put-out": ("who is late with one partition loses its membership", late_member_put_out, draw_mix),
    "given-back-while-the-taker-reads": (
        "a partition is taken again for whom it was taken from",
        given_back_while_the_taker_reads,
        slow_partitions_to_and_fro,
    ),
    "offered-claim-waits": ("what nobody reads is let go with the next trigger only", offered_claim_waits, draw_mix),
}
