"""Reports of owners that Kafka does not have their offset: Kafka is asked before anything is believed.

The group's offset of a partition goes only if Kafka itself says that neither it nor the owner's position lies within
[log start, high watermark]. That is so for every isolation level: a position between the last stable offset and the
high watermark is there, with nothing to read yet. An end can be old, as a broker that has just lost its leadership
knows it, so an offset behind the end has to be found there in two answers that lie apart. An answer counts for the
grant and the offsets that the question was about and for no others; a report that changes nothing may be made again.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from coordinator.core.effects import OffsetToResolve, ResolveOffsets
from coordinator.core.events import OffsetsResolved, ResolvedOffset
from coordinator.core.groups.desk import Desk
from coordinator.core.groups.hard.records import Released, ReleasedPart, WentOutOfRange
from coordinator.core.groups.hard.state import GroupState
from coordinator.core.groups.offsets.committed_offsets import refused, why_fenced
from coordinator.core.groups.offsets.releases import after_release
from coordinator.core.groups.partitions.partition_table import TopicPartition
from coordinator.core.groups.reconciliation.read_only import reader_policy
from coordinator.core.groups.reconciliation.reconciler import Reconciler
from coordinator.core.groups.soft.group_soft import BeyondEnd, ReadAnew
from coordinator.core.groups.soft.timeline import EventKind
from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.ids import EARLIEST, LATEST
from coordinator.protocol.messages import ReportOutOfRange, ReportOutOfRangeResponse
from coordinator.protocol.parts import LostPosition, PartitionResult
from coordinator.protocol.vocabulary import PolicyKind

END_AGE_MS: Final = 2_000
"""The greatest age of an end that a broker knows: so far apart are the two answers that prove an offset behind it."""
ANSWER_AGE_MS: Final = 120_000
"""The longest time between the two: later, what the first one said is over."""


@dataclass(slots=True)
class _Question:
    """A report that waits for Kafka; `committed` are the group's offsets when it was made."""

    connection_id: int
    correlation_id: int
    group_id: str
    member_id: str
    reported: tuple[LostPosition, ...]
    committed: dict[TopicPartition, int | None]
    open_lookups: int = 2
    answers: dict[int, dict[TopicPartition, ResolvedOffset]] = field(default_factory=dict)


class Reports:
    """The reports of the members of one shard."""

    def __init__(self, desk: Desk, reconciler: Reconciler, new_lookup_id: Callable[[], int]) -> None:
        self._desk = desk
        self._reconciler = reconciler
        self._new_lookup_id = new_lookup_id
        self._lookups: dict[int, tuple[_Question, int]] = {}

    # ---- asked ------------------------------------------------------------------------------------------------------

    def handle(
        self, connection_id: int, correlation_id: int, group: GroupState, member_id: str, request: ReportOutOfRange
    ) -> None:
        """Ask Kafka about what a member reports, or answer at once what needs no question."""
        held = [one for one in request.partitions if self._is_held(group, member_id, one)]
        committed = {_partition(one): _committed(group, _partition(one)) for one in held}
        question = _Question(connection_id, correlation_id, group.group_id, member_id, request.partitions, committed)
        most = self._desk.limits.reset_lookups_max
        if held and len(self._lookups) >= most:
            why = f"{most} questions about offsets wait for Kafka already; report again later"
            for bound in (EARLIEST, LATEST):
                question.answers[bound] = {key: ResolvedOffset(*key, None, why=why) for key in committed}
            self._decide(group, question)
            return
        if not held:
            self._decide(group, question)
            return
        for bound in (EARLIEST, LATEST):
            lookup_id = self._new_lookup_id()
            self._lookups[lookup_id] = (question, bound)
            asked = tuple(OffsetToResolve(*partition, bound) for partition in committed)
            self._desk.effects.append(ResolveOffsets(lookup_id, asked))

    # ---- answered ---------------------------------------------------------------------------------------------------

    def awaits(self, lookup_id: int) -> bool:
        """True when an answer of Kafka is meant for a report."""
        return lookup_id in self._lookups

    def handle_resolved(self, event: OffsetsResolved) -> None:
        """Take in an answer of Kafka; with the last one the report is decided, if its member is still there."""
        question, bound = self._lookups.pop(event.lookup_id)
        question.answers[bound] = {(answer.topic, answer.partition): answer for answer in event.offsets}
        question.open_lookups -= 1
        connection, group = self._desk.connections.get(question.connection_id), self._desk.group(question.group_id)
        if question.open_lookups or connection is None or group is None:
            return
        if (connection.group_id, connection.member_id) == (question.group_id, question.member_id):
            self._decide(group, question)

    def _decide(self, group: GroupState, question: _Question) -> None:
        desk, member_id = self._desk, question.member_id
        anew: dict[TopicPartition, LostPosition] = {}
        results = tuple(self._judge(group, question, one, anew) for one in question.reported)
        if anew:
            soft = desk.soft_of(group.group_id)
            if member_id in group.by_facts.readers:
                # That Kafka does not have the position of a reader says nothing about the group's offsets.
                before = {partition: ReadAnew(member_id, _committed(group, partition)) for partition in anew}
                released = tuple(ReleasedPart(one.topic, one.partition, one.owner_epoch) for one in anew.values())
                desk.journal.decide(Released(group.group_id, member_id, released, ()))
                soft.read_anew.update(before)
            else:
                desk.journal.decide(WentOutOfRange(group.group_id, tuple(anew)))
            # What the member was told is complete is not any more; it hears when it is again.
            soft.sessions[member_id].is_told_complete = False
        desk.respond(question.connection_id, question.correlation_id, ReportOutOfRangeResponse(results))
        after_release(desk, self._reconciler, group, member_id, tuple(anew))

    def _judge(
        self, group: GroupState, question: _Question, one: LostPosition, anew: dict[TopicPartition, LostPosition]
    ) -> PartitionResult:
        """Return the result of one partition, and add it to those that start anew if it is to."""
        partition, member_id, name = _partition(one), question.member_id, f"{one.topic}-{one.partition}"
        committed = _committed(group, partition)

        def unchanged(why: str) -> PartitionResult:
            return refused(partition, ErrorCode.OFFSET_NOT_AVAILABLE, f"{why}; nothing was changed", committed)

        if not self._is_held(group, member_id, one):
            why = why_fenced(group, partition, one.owner_epoch, member_id)
            return refused(partition, ErrorCode.FENCED_OWNER_EPOCH, why, committed)
        is_reader = member_id in group.by_facts.readers
        if not is_reader and committed != question.committed.get(partition):
            return unchanged(f"the group's offset of {name} changed while Kafka was asked")
        bounds = self._bounds(question, partition)
        if isinstance(bounds, str):
            return unchanged(f"Kafka could not say what {name} holds: {bounds}")
        begin, end = bounds
        own = None if is_reader else committed
        position = own if one.position is None else one.position
        beyond_end = self._desk.soft_of(group.group_id).beyond_end
        if position is not None and begin <= position <= end:
            beyond_end.pop(partition, None)
            return unchanged(f"Kafka has offset {position} of {name}, whose log is [{begin}, {end})")
        if not self._is_proven(group, one, own, end):
            return unchanged(
                f"{name} ends at offset {end} as Kafka says now, and {max(position or 0, own or 0)} is behind it; an "
                "end can be old, so Kafka is asked once more with the next report"
            )
        beyond_end.pop(partition, None)
        gone = f"Kafka does not have offset {position} of {name}, whose log is [{begin}, {end})"
        if own is not None and begin <= own <= end:
            return PartitionResult(*partition, message=f"{gone}, and has the group's offset {own}", committed=own)
        policy = reader_policy(group, member_id) if is_reader else group.reset_policy
        if policy is not None and policy.kind == PolicyKind.NONE:
            whose = "its reader's" if is_reader else "the group's"
            why = f"{gone}, and {whose} policy is none; reset the group's offset, or choose another policy"
            return refused(partition, ErrorCode.OFFSET_OUT_OF_RANGE, why, committed)
        if partition not in anew:
            anew[partition] = one
            why = f"{gone}; {'its reader' if is_reader else 'it'} starts anew by the policy"
            self._desk.note(group.group_id, EventKind.OUT_OF_RANGE, why, member_id=member_id, partitions=(partition,))
        return PartitionResult(*partition)

    def _is_held(self, group: GroupState, member_id: str, one: LostPosition) -> bool:
        return group.grant_of(one.topic, one.partition, member_id, one.owner_epoch) is not None

    def _bounds(self, question: _Question, partition: TopicPartition) -> tuple[int, int] | str:
        """Return where the log of a partition begins and ends, or why that is not known."""
        found = []
        for bound in (EARLIEST, LATEST):
            answer = question.answers[bound].get(partition)
            if answer is None or answer.offset is None or answer.offset < 0:
                return answer.why if answer is not None else "it gave no answer"
            found.append(answer.offset)
        return found[0], found[1]

    def _is_proven(self, group: GroupState, one: LostPosition, committed: int | None, end: int) -> bool:
        """True when an earlier answer too said that the partition ends before these offsets, or none is behind it."""
        behind = _if_behind(one.position, end), _if_behind(committed, end)
        if behind == (None, None):
            return True
        soft, now_ms, partition = self._desk.soft_of(group.group_id), self._desk.now_ms, _partition(one)
        before = soft.beyond_end.get(partition)
        is_over = before is not None and now_ms - before.at_ms > ANSWER_AGE_MS
        if before is None or is_over or before[:2] != behind:
            soft.beyond_end[partition] = BeyondEnd(*behind, now_ms)
            return False
        return now_ms - before.at_ms >= END_AGE_MS


def _if_behind(offset: int | None, end: int) -> int | None:
    return offset if offset is not None and offset > end else None


def _partition(one: LostPosition) -> TopicPartition:
    return one.topic, one.partition


def _committed(group: GroupState, partition: TopicPartition) -> int | None:
    grant = group.grants.get(partition)
    return group.committed_offset(partition, grant.topic_id if grant is not None else "")
