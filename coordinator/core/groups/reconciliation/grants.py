"""Gives partitions that nobody owns to members: where each starts, or the question about it, and the records.

A round looks at its partitions one by one; what a member gets of a topic, for one reason, is granted together at the
round's end, in as few records as may be. Who is to have a partition, and whether it is free, is not decided here.
"""

from collections.abc import Iterable, Iterator
from typing import Final, TypeAlias

from coordinator.core.groups.desk import Desk
from coordinator.core.groups.hard.records import MOST_TOGETHER, Granted, TopicCommit
from coordinator.core.groups.hard.state import Grant, GroupState
from coordinator.core.groups.partitions.partition_table import TopicPartition, is_same_topic
from coordinator.core.groups.reconciliation.read_only import reader_hints, reader_start
from coordinator.core.groups.reconciliation.round_report import NotedStart, Round
from coordinator.core.groups.reconciliation.start_lookups import Lookups
from coordinator.core.groups.reconciliation.start_offsets import AskedStart, NoStart, start_of, usual_start
from coordinator.core.groups.soft.group_soft import AskedOffset
from coordinator.core.groups.soft.hints import Hints
from coordinator.protocol.ids import EARLIEST
from coordinator.protocol.vocabulary import IsolationLevel

Free: TypeAlias = tuple[TopicPartition, str, Grant | None]
"""A partition that no member owns, the member that is to have it, and the grant it has of somebody who is gone."""

_Begun: TypeAlias = tuple[TopicPartition, str, Grant | None, str, NotedStart]
"""The same, and why it starts where it does."""

_COMMITTED: Final = "the committed offset"
_NAMED: Final = 8
"""Partitions that one sentence names."""


class Grants:
    """The grants of the groups of one shard."""

    def __init__(self, desk: Desk, lookups: Lookups) -> None:
        self._desk = desk
        self._lookups = lookups

    def note(self, turn: Round, topic: str, free: Iterable[Free]) -> None:
        """Note the grants of partitions of one topic, in ascending order, and the questions about their starts."""
        soft, grants, granted = turn.soft, turn.grants, turn.granted
        is_awaited = bool(soft.lost_owners or soft.unresolved_why)
        for partition, member_id, before, why, start in self._with_starts(turn, topic, free):
            grants.setdefault((member_id, topic, why), []).append(start)
            granted.setdefault(member_id, []).append(partition)
            if before is not None or is_awaited:
                is_cut = before is not None and turn.group.claims.is_running(partition)
                self.end_wait(turn, partition, member_id, before.member_id if before is not None and is_cut else None)
            soft.read_anew.pop(partition, None)

    def _with_starts(self, turn: Round, topic: str, free: Iterable[Free]) -> Iterator[_Begun]:
        """Yield the partitions whose start is known; what Kafka has to say of others is noted as to be asked."""
        group, soft, answers = turn.group, turn.soft, turn.answers
        known = group.topics[topic]
        topic_id, first_partitions, partitions = known.topic_id, known.first_partitions, known.partitions
        offsets = group.offsets.rows(topic)
        hints, usual, is_usual = None, usual_start(group), False
        own_hints: dict[str, Hints] = {}
        waits = group.recovery_ms is not None
        asked = AskedOffset(topic_id, 0)
        for partition, member_id, before in free:
            number = partition[1]
            if number >= partitions:
                continue
            is_reader = member_id in group.by_facts.readers
            anew = is_reader and (
                soft.read_anew.get(partition) == (member_id, group.committed_offset(partition, topic_id))
            )
            committed = offsets.get(number)
            if committed is not None and not anew and is_same_topic(committed.topic_id, topic_id):
                yield partition, member_id, before, _COMMITTED, (number, None, None)
                continue
            if waits and not is_reader and partition not in group.by_policy:
                continue
            if hints is None:
                hints = _hints_of(turn)
                is_usual = not hints and not group.by_policy and not known.earliest_why
            if is_reader:
                facts = group.members[member_id].facts
                if member_id not in own_hints:
                    own_hints[member_id] = reader_hints(facts, hints)
                start = reader_start(group, facts, partition, known, own_hints[member_id], anew=anew)
            else:
                start = usual if is_usual and number < first_partitions else start_of(group, partition, known, hints)
            if isinstance(start, AskedStart):
                # Where a log begins is the same for everybody.
                is_read_committed = start.timestamp_ms != EARLIEST and _reads_committed(group, member_id)
                if asked[1:] != (start.timestamp_ms, is_read_committed):
                    asked = AskedOffset(topic_id, start.timestamp_ms, is_read_committed)
                answer = answers.get(partition)
                if answer is None or answer.asked != asked:
                    if partition not in soft.lookups:
                        turn.lookups[partition] = asked
                    continue
                noted: NotedStart = (number, answer.offset, answer.leader_epoch)
            elif isinstance(start, NoStart):
                self._lookups.note_unresolved(group.group_id, partition, start.why)
                continue
            else:
                noted = (number, start.offset, None)
            turn.starts.setdefault(start.why, []).append(partition)
            yield partition, member_id, before, start.why, noted

    def end_wait(self, turn: Round, partition: TopicPartition, member_id: str, cut: str | None) -> None:
        """Note how long a partition was nobody's that a member gets now, and `cut`, whose running claim that closes."""
        desk, soft = self._desk, turn.soft
        soft.unresolved_why.pop(partition, None)
        lost = soft.lost_owners.take(partition)
        if lost is not None:
            turn.durations[member_id] = max(turn.durations.get(member_id, 0), desk.now_ms - lost.at_ms)
        if cut is not None:
            turn.taken_over.setdefault((member_id, cut), []).append(partition)

    def decide(self, turn: Round) -> None:
        """Make the noted grants hard state."""
        journal, group, wall_ms = self._desk.journal, turn.group, self._desk.clock.wall_ms
        for (member_id, topic, why), noted in turn.grants.items():
            topic_id = group.topics[topic].topic_id
            if why != _COMMITTED:
                turn.notes.setdefault(member_id, []).append(_say_start(topic, noted, why))
            for begin in range(0, len(noted), MOST_TOGETHER):
                partitions, offsets, leader_epochs = zip(*noted[begin : begin + MOST_TOGETHER], strict=True)
                starts = None
                if offsets[0] is not None:
                    has_epochs = leader_epochs.count(None) < len(leader_epochs)
                    starts = TopicCommit(
                        topic, topic_id, wall_ms, partitions, offsets, (), leader_epochs if has_epochs else ()
                    )
                epoch, is_read_only = journal.next_epoch, member_id in group.by_facts.readers
                journal.decide(
                    Granted(group.group_id, member_id, topic, topic_id, partitions, epoch, starts, why, is_read_only)
                )


def _say_start(topic: str, noted: list[NotedStart], why: str) -> str:
    named = ", ".join(f"{topic}-{number}" for number, _, _ in noted[:_NAMED])
    more = f" and {len(noted) - _NAMED} more" if len(noted) > _NAMED else ""
    return f"the group has no offset of {named}{more}: {why}"


def _reads_committed(group: GroupState, member_id: str) -> bool:
    member = group.members.get(member_id)
    return member is not None and member.facts.isolation_level == IsolationLevel.READ_COMMITTED


def _hints_of(turn: Round) -> Hints:
    """Return the hints that count for the group: those of a member that commits nothing are its own."""
    soft = turn.soft
    if soft.hints is None:
        members = turn.group.members.values()
        soft.hints = Hints(each for one in members if one.facts.commits for each in one.facts.hints)
    return soft.hints
