"""Brings partitions to where they belong: the target, stops, grants and the questions to Kafka before them.

A partition is granted the moment nobody owns it and its start is known. An owner that must let go is asked to, and
has its rebalance time-out for it. An abandoned grant, whose owner is gone, is given to the next owner at once, which
closes its claim. Nobody else is touched: work is in proportion to the partitions that an event is about.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import groupby
from operator import itemgetter

from coordinator.core.events import OffsetsResolved
from coordinator.core.groups.assignment.assignors import Assignor, run_whole
from coordinator.core.groups.assignment.targets import plan_targets
from coordinator.core.groups.desk import Desk
from coordinator.core.groups.hard.controls import PendingReset
from coordinator.core.groups.hard.held_claims import is_held
from coordinator.core.groups.hard.operator_records import ResetApplied, ResetsCancelled
from coordinator.core.groups.hard.records import MemberEpochsAdvanced, StopBegan
from coordinator.core.groups.hard.state import Grant, GroupState
from coordinator.core.groups.partitions.partition_set import PartitionSet
from coordinator.core.groups.partitions.partition_table import TopicPartition, in_order, is_same_topic
from coordinator.core.groups.reconciliation.grants import Free, Grants
from coordinator.core.groups.reconciliation.rebalance_window import RebalanceWindow
from coordinator.core.groups.reconciliation.round_report import Round, note_round
from coordinator.core.groups.reconciliation.start_lookups import Lookups
from coordinator.core.groups.reconciliation.stopping.stops import Stops
from coordinator.core.groups.reconciliation.tellings import Tellings
from coordinator.core.groups.soft.group_soft import GroupSoft
from coordinator.core.groups.soft.lost_owners import LostOwner
from coordinator.core.groups.soft.staged_target import StagedTarget
from coordinator.core.groups.soft.timeline import EventKind
from coordinator.core.groups.soft.timers import Timer, TimerKind
from coordinator.core.groups.status import is_complete


class Reconciler:
    """The reconciliation of the groups of one shard."""

    def __init__(self, desk: Desk, assignors: Mapping[str, Assignor], new_lookup_id: Callable[[], int]) -> None:
        self._desk = desk
        self._assignors = assignors
        self._lookups = Lookups(desk, new_lookup_id)
        self._grants = Grants(desk, self._lookups)
        self.stops = Stops(desk)
        self.tellings = Tellings(desk)
        self.window = RebalanceWindow(desk)

    # ---- rebalance --------------------------------------------------------------------------------------------------

    def note_first(self, group_id: str) -> None:
        """Rebalance without a window for the first member of a group, unless the group is large: more will come."""
        if not self.window.is_large(self._both(group_id)[0]):
            self.rebalance(group_id)

    def window_ended(self, group_id: str) -> None:
        """Rebalance the group, once what the rebalance before it began is done and the node has heard who waits."""
        group, soft = self._both(group_id)
        if soft.planning is not None or soft.staged_target is not None or soft.backlog.members:
            self.window.look_again(group_id)
        elif not self.window.put_off(group, soft):
            self.rebalance(group_id)

    def rebalance(self, group_id: str) -> None:
        """Begin the next group epoch: compute the target and start to bring partitions there."""
        group, soft = self._both(group_id)
        why = self.window.close(group_id)
        is_close = soft.has_news_of_topics or group.controls.holds_back
        soft.has_news_of_topics = False
        soft.backlog.begin((), why, is_close=is_close)
        planning = plan_targets(group, self._assignors, self._part)
        if self.window.is_large(group):
            soft.planning = planning
            self._go_on(group_id, soft)
            return
        soft.planning, soft.staged_target = None, run_whole(planning)
        if soft.staged_target.is_large:  # to have computed it was enough for one step
            self._go_on(group_id, soft)
        else:
            self._take_part(group, soft, soft.staged_target)

    @property
    def _part(self) -> int:
        """Partitions of a target that become hard state in one step, where one costs less than a grant does."""
        return 4 * self._desk.limits.slice_partitions

    def _take_part(self, group: GroupState, soft: GroupSoft, staged: StagedTarget) -> None:
        """Make the next part of a target the group's, and begin to bring partitions there after the last."""
        desk = self._desk
        targets = staged.take(group, self._part, is_outdated=bool(soft.causes))
        desk.journal.decide(targets)
        changed = {target.member_id for target in (*targets.lost, *targets.gained)}
        for member_id in sorted(changed):
            session = soft.sessions.get(member_id)
            if session is not None:
                session.is_told_complete = False
        soft.backlog.add_members(sorted(changed))
        if not staged.changes:
            desk.note(group.group_id, EventKind.REBALANCE, soft.backlog.why, partitions=staged.moves)
            soft.staged_target = None
            soft.unsettled = set(group.members)
            soft.backlog.add_members(group.members)
            soft.backlog.add_unless_due(group.controls.resets)
            self.next_slice(group.group_id)
        else:
            self._go_on(group.group_id, soft)

    def begin_again(self, group_id: str) -> None:
        """Have all of a group looked at after a load, in slices."""
        group, soft = self._both(group_id)
        soft.backlog.begin(group.members, "", is_close=True)
        soft.backlog.add(group.controls.resets)
        self._go_on(group_id, soft)

    def look_at_all(self, group_id: str) -> None:
        """Have every partition of a group looked at, in slices, and tell all members whose share changes."""
        group, soft = self._both(group_id)
        self.unsettle(group_id, group.members)
        soft.backlog.add_all(group.members)
        self._go_on(group_id, soft)

    def next_slice(self, group_id: str) -> None:
        """Go on with what is to be done in a group, and leave the rest to a step of its own."""
        desk = self._desk
        group = desk.group(group_id)
        if group is None:
            return
        soft = desk.soft_of(group_id)
        if soft.planning is not None:
            try:
                next(soft.planning)
            except StopIteration as done:
                soft.planning, soft.staged_target = None, done.value
            self._go_on(group_id, soft)
            return
        if soft.staged_target is not None:
            self._take_part(group, soft, soft.staged_target)
            return
        partitions, members = soft.backlog.take(group, desk.limits.slice_partitions, _has_to_stop, _keeps_all)
        self._reconcile(Round(group, soft), partitions, members, soft.backlog.why)
        self._go_on(group_id, soft)

    def _go_on(self, group_id: str, soft: GroupSoft) -> None:
        if soft.backlog or soft.planning is not None or soft.staged_target is not None:
            self._desk.timers.set(Timer(TimerKind.SLICE, group_id), self._desk.now_ms)

    # ---- reconcile --------------------------------------------------------------------------------------------------

    def reconcile(self, group_id: str, partitions: Collection[TopicPartition], members: Iterable[str]) -> None:
        """Stop, grant or ask about these partitions as the target wants, and tell these members and new owners.

        When they are many, the first slice is looked at now and the rest in steps of their own.
        """
        group, soft = self._both(group_id)
        self._reconcile(Round(group, soft), self._first_slice(group_id, soft, partitions), members, "")

    def _first_slice(
        self, group_id: str, soft: GroupSoft, partitions: Iterable[TopicPartition]
    ) -> list[TopicPartition]:
        """Return as many partitions as one step looks at, in order, and leave the rest to steps of their own."""
        ordered = in_order(set(partitions))
        most = self._desk.limits.slice_partitions
        if len(ordered) > most:
            soft.backlog.add(ordered[most:])
            self._go_on(group_id, soft)
        return ordered[:most]

    def _reconcile(self, turn: Round, partitions: Iterable[TopicPartition], members: Iterable[str], why: str) -> None:
        """Do what is to be done about partitions, which are in order and each there once, and tell whom it concerns."""
        desk, group, soft = self._desk, turn.group, turn.soft
        for topic, of_topic in groupby(partitions, itemgetter(0)):
            self._look_at(turn, topic, of_topic, why)
        self._grants.decide(turn)
        self._begin_stops(turn)
        if turn.lookups:
            self._lookups.ask(group.group_id, turn.lookups)
        touched = sorted({member_id for member_id in members if member_id in group.members} | set(turn.granted))
        advanced = tuple(
            member_id
            for member_id in touched
            if group.members[member_id].member_epoch != group.group_epoch
            and member_id not in group.stopping
            and soft.staged_target is None
            and member_id not in soft.backlog.members
            and not (group.is_target_stale and group.members[member_id].member_epoch == 0)
        )
        if advanced:
            desk.journal.decide(MemberEpochsAdvanced(group.group_id, group.group_epoch, advanced))
        for member_id in touched:
            self.tellings.news(turn, member_id)
        note_round(desk, turn)
        self.note_if_stable(group.group_id)

    def _look_at(self, turn: Round, topic: str, partitions: Iterable[TopicPartition], why: str) -> None:
        """Note what has to be stopped of a topic, reset what is to be reset, and note what can be granted.

        A record that is decided on the way changes only the partition it is about, which is not looked at again.
        """
        group = turn.group
        grants, members, controls = group.grants.rows(topic), group.members, group.controls
        free: list[Free] = []
        for partition in partitions:
            grant = grants.get(partition[1])
            if grant is not None and grant.member_id in members:
                if grant.stop_why is None:
                    stop_why = _why_stop(group, partition, grant, why)
                    if stop_why is not None:
                        turn.stops.setdefault((grant.member_id, stop_why), []).append(partition)
                continue
            wanted_by = group.wanted_owner(partition)
            reset = None
            if controls.resets:
                self._drop_reset_of_old_topic(group, partition)
                reset = controls.resets.get(partition)
            if grant is not None and is_held(group, partition) and not (reset is not None and reset.releases_claims):
                continue
            if reset is not None:
                self._try_to_reset(turn, partition, reset, wanted_by, grant)
            elif wanted_by is not None:
                free.append((partition, wanted_by, grant))
        if free:
            self._grants.note(turn, topic, free)

    def _drop_reset_of_old_topic(self, group: GroupState, partition: TopicPartition) -> None:
        reset, topic = group.controls.resets.get(partition), group.topics.get(partition[0])
        if reset is None or topic is None or is_same_topic(reset.topic_id, topic.topic_id):
            return
        why = "the topic was deleted and made again, and the offset was meant for the old one"
        self._desk.journal.decide(
            ResetsCancelled(group.group_id, (partition,), "the coordinator", why, self._desk.clock.wall_ms)
        )
        self._desk.note(group.group_id, EventKind.RESET_CANCELLED, why, partitions=(partition,))

    def _try_to_reset(
        self,
        turn: Round,
        partition: TopicPartition,
        reset: PendingReset,
        wanted_by: str | None,
        before: Grant | None,
    ) -> None:
        """Do a planned reset now that no member owns the partition, unless a claim of somebody gone forbids it."""
        desk, group = self._desk, turn.group
        cut = before.member_id if before is not None and group.claims.is_running(partition) else None
        if cut is not None and wanted_by is None and not reset.releases_claims:
            return
        topic = group.topics.get(partition[0])
        desk.journal.decide(
            ResetApplied(
                group.group_id,
                partition[0],
                topic.topic_id if topic is not None else reset.topic_id,
                partition[1],
                reset.offset,
                reset.leader_epoch,
                desk.clock.wall_ms,
                wanted_by,
                desk.journal.next_epoch if wanted_by is not None else None,
            )
        )
        turn.resets.setdefault(reset.decree.said(), []).append(partition)
        if wanted_by is not None:
            turn.granted.setdefault(wanted_by, []).append(partition)
            self._grants.end_wait(turn, partition, wanted_by, cut)
        elif cut is not None:
            # What was held for somebody gone is in no target, and is free now.
            self.window.note_change(group.group_id, "running claims were released")

    def _begin_stops(self, turn: Round) -> None:
        desk = self._desk
        for (member_id, why), partitions in turn.stops.items():
            desk.journal.decide(StopBegan(turn.group.group_id, member_id, tuple(partitions), why))
            self.stops.push(turn.group.group_id, member_id, partitions)

    def unsettle(self, group_id: str, member_ids: Iterable[str]) -> None:
        """Note that members are about to hold something else than before, without a new target."""
        group, soft = self._both(group_id)
        for member_id in member_ids:
            if member_id in group.members and not is_complete(group, member_id):
                soft.unsettled.add(member_id)
                soft.sessions[member_id].is_told_complete = False
        if soft.unsettled and soft.changing_since_ms is None:
            soft.changing_since_ms = self._desk.now_ms

    def tell_more(self, group_id: str, member_id: str) -> None:
        """Tell a member that has registered more of what it has."""
        group, session = self._desk.group(group_id), self._desk.session_of(group_id, member_id)
        if group is not None and session is not None and session.untold:
            self.want_back(group_id, member_id, self.tellings.go_on(group, member_id))

    def want_back(self, group_id: str, member_id: str, told: Sequence[TopicPartition]) -> None:
        """Ask a member that came back for those of the partitions it was told, in order, that it is to let go of.

        They were being stopped, or were paused, reset or made again meanwhile.
        """
        group, _ = self._both(group_id)
        stopping = group.stopping.get(member_id)
        if stopping:
            self.stops.push(group_id, member_id, [partition for partition in told if partition in stopping])
        self._hold_back(group, member_id, told)

    def _hold_back(self, group: GroupState, member_id: str, owned: Sequence[TopicPartition]) -> None:
        controls, group_id = group.controls, group.group_id
        held_back: list[TopicPartition] = []
        for topic, of_topic in groupby(owned, itemgetter(0)):
            grants, topic_id = group.grants.rows(topic), group.topics[topic].topic_id
            held_back += [one for one in of_topic if grants[one[1]].topic_id != topic_id]
        if controls.holds_back:
            held_back += [one for one in owned if one in controls.resets or controls.pause_of(one) is not None]
        if held_back:
            self.unsettle(group_id, (member_id,))
            self.reconcile(group_id, held_back, ())

    def note_if_stable(self, group_id: str) -> None:
        """Put on the timeline that every member holds its target, once a change."""
        group, soft = self._both(group_id)
        since_ms = soft.changing_since_ms
        if since_ms is None or soft.unsettled or group.is_target_stale or soft.causes or soft.planning is not None:
            return
        soft.changing_since_ms = None
        soft.lost_owners.settle()
        if group.members:
            count = len(group.members)
            why = f"{count} member{'s hold' if count > 1 else ' holds'} all of the target"
            self._desk.note(group_id, EventKind.STABLE, why, duration_ms=self._desk.now_ms - since_ms)

    def look_at_wanted(self, group_id: str, partitions: PartitionSet) -> None:
        """Grant or reset those of very many partitions, which nobody owns, that the target wants; all in turns.

        The set is not changed any more.
        """
        _, soft = self._both(group_id)
        soft.backlog.add_wanted(partitions)
        self._go_on(group_id, soft)

    def note_lost(self, group_id: str, partitions: Iterable[TopicPartition], at_ms: int, why: str) -> None:
        """Remember since when partitions have no owner; a set of them is not changed any more."""
        self._desk.soft_of(group_id).lost_owners.note(partitions, LostOwner(at_ms, why))

    # ---- questions to Kafka -----------------------------------------------------------------------------------------

    def handle_resolved(self, event: OffsetsResolved) -> None:
        """Take Kafka's answers and grant what has a start now."""
        answered = self._lookups.take(event)
        if answered is not None and answered.starts:
            group, soft = self._both(answered.group_id)
            turn = Round(group, soft, answered.starts)
            self._reconcile(turn, self._first_slice(answered.group_id, soft, answered.starts), (), "")

    def grant_what_is_free(self, group_id: str) -> None:
        """Try again to grant or reset everything that nobody owns and that the target gives to somebody or is reset."""
        group, soft = self._both(group_id)
        soft.backlog.add_members(
            member_id for member_id, member in group.members.items() if not member.target <= group.owned_by(member_id)
        )
        soft.backlog.add(group.controls.resets)
        self.next_slice(group_id)

    def _both(self, group_id: str) -> tuple[GroupState, GroupSoft]:
        group = self._desk.group(group_id)
        assert group is not None, f"group {group_id} is not known"
        return group, self._desk.soft_of(group_id)


def _has_to_stop(group: GroupState, partition: TopicPartition) -> bool:
    grant = group.grants[partition]
    return grant.stop_why is None and _why_stop(group, partition, grant, "") is not None


def _keeps_all(group: GroupState, owned: PartitionSet) -> bool:
    """Say whether a member that has just its target keeps all of it, without a look at each for itself."""
    if group.controls.holds_back:
        return False
    for topic, numbers in owned.columns():
        grants, topic_id = group.grants.rows(topic), group.topics[topic].topic_id
        for number in numbers:
            if grants[number].topic_id != topic_id:
                return False
    return True


def _why_stop(group: GroupState, partition: TopicPartition, grant: Grant, why: str) -> str | None:
    """Say why the live owner of a partition has to let go of it, if it has to."""
    if grant.topic_id != group.topics[partition[0]].topic_id:
        is_there = group.topics[partition[0]].partitions > 0
        return f"its topic was deleted{' and made again' if is_there else ''}"
    reset = group.controls.resets.get(partition)
    if reset is not None:
        return f"its offset is set to {reset.offset} {reset.decree.said()}"
    pause = group.controls.pause_of(partition)
    if pause is not None:
        return f"paused {pause.said()}"
    if grant.member_id != group.target_owners.get(partition):
        return why or "the target has changed"
    return None
