"""Partitions that their owner has not let go of by the deadline: they are taken, and the owner stays a member.

Only what is late is taken; whatever else the member reads it finishes. A claim that is taken is closed, and the next
owner begins at the committed offset. Who is waited for beyond the deadline is decided by `held_claims` and `patience`.
"""

from collections.abc import Sequence
from itertools import islice

from coordinator.core.groups.desk import Desk
from coordinator.core.groups.hard.held_claims import outlives_stop
from coordinator.core.groups.hard.records import Taken
from coordinator.core.groups.hard.state import GroupState
from coordinator.core.groups.partitions.partition_table import TopicPartition
from coordinator.core.groups.reconciliation.pushes import fetchers_taken
from coordinator.core.groups.reconciliation.reconciler import Reconciler
from coordinator.core.groups.reconciliation.stopping import patience
from coordinator.core.groups.soft.group_soft import GroupSoft
from coordinator.core.groups.soft.sessions import MemberSession
from coordinator.core.groups.soft.timeline import EventKind


class LateStops:
    """The ends of the stops that the members of one shard have not done in time."""

    def __init__(self, desk: Desk, reconciler: Reconciler) -> None:
        self._desk = desk
        self._reconciler = reconciler

    def stop_timed_out(self, group_id: str, member_id: str) -> None:
        """Take from a member what it should have let go of by now, some of it in one step."""
        desk = self._desk
        group, session = desk.group(group_id), desk.session_of(group_id, member_id)
        if group is None or session is None:
            return
        are_due = (partition for partition, at_ms in session.stop_deadlines.items() if at_ms <= desk.now_ms)
        due = sorted(islice(are_due, desk.limits.slice_partitions))
        held = [partition for partition in due if outlives_stop(group, partition)]
        given_up = self._wait_on_claims(group, member_id, session, held)
        late = self._wait_on_others(group, member_id, session, sorted(set(due).difference(held)))
        if late or given_up:
            self._take(group, member_id, session, late, given_up)
        else:
            self._reconciler.stops.set_timer(group_id, member_id)

    def _wait_on_claims(
        self, group: GroupState, member_id: str, session: MemberSession, held: Sequence[TopicPartition]
    ) -> list[TopicPartition]:
        """Give running claims under `hold` their claim time-out instead, and return those for which it is over.

        One that is waited for all the same runs on: to have it read again would serve nobody.
        """
        desk, soft = self._desk, self._desk.soft_of(group.group_id)
        timeout_ms = group.members[member_id].facts.rebalance_timeout_ms
        given_up, kept = [], []
        for partition in held:
            if partition not in session.overstaying_since_ms:
                kept.append(partition)
            since_ms = session.overstaying_since_ms.setdefault(partition, desk.now_ms - timeout_ms)
            end_ms = None if group.claim_timeout_ms is None else since_ms + group.claim_timeout_ms
            is_over = end_ms is not None and end_ms <= desk.now_ms
            if is_over and not patience.is_waited_for(group, soft, partition):
                given_up.append(partition)
            else:
                again_ms = desk.now_ms + timeout_ms
                session.stop_deadlines[partition] = again_ms if end_ms is None or is_over else min(end_ms, again_ms)
        if kept and not given_up:
            why = f"the rebalance time-out of {timeout_ms} ms is over, and running claims under hold outlive it"
            desk.note(group.group_id, EventKind.CLAIM_HELD, why, member_id=member_id, partitions=kept)
        return given_up

    def _wait_on_others(
        self, group: GroupState, member_id: str, session: MemberSession, due: Sequence[TopicPartition]
    ) -> list[TopicPartition]:
        """Give partitions that are waited for all the same another time-out, and return the others."""
        desk, soft = self._desk, self._desk.soft_of(group.group_id)
        again_ms = desk.now_ms + group.members[member_id].facts.rebalance_timeout_ms
        late, kept = [], []
        for partition in due:
            if not patience.is_waited_for(group, soft, partition):
                late.append(partition)
                continue
            if partition not in session.overstaying_since_ms:
                session.overstaying_since_ms[partition] = desk.now_ms
                kept.append(partition)
            session.stop_deadlines[partition] = again_ms
        if kept:
            why = (
                "the time to let go is over; they stay until it commits, since nobody else is due them who was in time"
            )
            desk.note(group.group_id, EventKind.CLAIM_HELD, why, member_id=member_id, partitions=kept)
        return late

    def _take(
        self,
        group: GroupState,
        member_id: str,
        session: MemberSession,
        late: Sequence[TopicPartition],
        given_up: Sequence[TopicPartition],
    ) -> None:
        desk, soft, group_id = self._desk, self._desk.soft_of(group.group_id), group.group_id
        by_why: dict[tuple[EventKind, str, int | None], list[TopicPartition]] = {}
        for partition in late:
            waited_ms = patience.timeout_ms(group, soft, partition)
            key = (EventKind.TAKEN_LATE, self._why_late(group, soft, partition, waited_ms), waited_ms)
            by_why.setdefault(key, []).append(partition)
        if given_up:
            why = f"they ran on for the whole claim time-out of {group.claim_timeout_ms} ms after they were wanted back"
            by_why[EventKind.CLAIM_GIVEN_UP, why, None] = list(given_up)
        taken = sorted((*late, *given_up))
        patience.note_taken(group, soft, member_id, taken)
        for (kind, why, duration_ms), partitions in by_why.items():
            pushes = list(fetchers_taken(group, partitions, why, desk.limits.push_max_partitions))
            desk.journal.decide(Taken(group_id, member_id, tuple(partitions), why))
            for push in pushes:
                desk.push(session.connection_id, push)
            desk.note(group_id, kind, why, member_id=member_id, partitions=partitions, duration_ms=duration_ms)
            self._reconciler.note_lost(group_id, partitions, desk.now_ms, f"taken from {member_id}")
        self._reconciler.stops.forget(group_id, member_id, taken)
        self._reconciler.reconcile(group_id, taken, (member_id,))

    def _why_late(self, group: GroupState, soft: GroupSoft, partition: TopicPartition, waited_ms: int) -> str:
        place = group.claims.rows(partition[0]).get(partition[1])
        since, observed = soft.running_since.get(partition) or soft.running_long.get(partition), ""
        if since is not None and place is not None and since.claims is place.claims:
            observed = f", {self._desk.now_ms - since.at_ms} ms after its claim began to be read"
        return (
            f"not let go within {waited_ms} ms{observed}; raise the rebalance time-out (option "
            "kcoord.rebalance.timeout) above the time of a micro-batch and the trigger interval together"
        )
