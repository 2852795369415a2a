"""A snapshot of a shard: the records that rebuild its whole state from nothing.

It uses the records of the log, so that a snapshot needs no replay of its own. The order within a group matters: what
one record implies must not disturb what an earlier one said. A snapshot of a large shard is encoded in slices while
the shard goes on: a group is copied before its first change, so that all of it is as of one offset. What is encoded
is handed out in pieces, so that no more than a piece of it is held.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import sub
from typing import Final, TypeVar

from coordinator.core.groups.hard.controls import NO_CONTROLS
from coordinator.core.groups.hard.facts_index import NO_FACTS, FactsIndex
from coordinator.core.groups.hard.life_records import LogOpened, LogWentBack
from coordinator.core.groups.hard.operator_records import DrainChanged, PauseChanged, PlannedReset, ResetsPlanned
from coordinator.core.groups.hard.pieces import check_size
from coordinator.core.groups.hard.records import (
    MOST_TOGETHER,
    Advanced,
    ClaimsRunning,
    CommittedPart,
    EventsNoted,
    Granted,
    GroupSettings,
    IdentityAwaited,
    MemberJoined,
    MemberTarget,
    OffsetsCommitted,
    Record,
    RecoveryChanged,
    StopBegan,
    StreamsAssigned,
    TargetsAssigned,
    TimeLived,
    TopicCommit,
    TopicSeen,
    TopicSteps,
    WentOutOfRange,
    encode_record,
)
from coordinator.core.groups.hard.state import Grant, GroupState, MemberState, ShardState
from coordinator.core.groups.hard.tables.committed_table import Committed
from coordinator.core.groups.hard.tables.timeline import NO_TIMELINE
from coordinator.core.groups.partitions.in_topics import TopicNumbers, columns_of
from coordinator.core.groups.partitions.no_entries import NO_ENTRIES
from coordinator.core.groups.partitions.partition_table import TopicPartition

T = TypeVar("T")

_PARTS_OF_A_RECORD: Final = 500
"""Partitions in one record of a snapshot."""
_METADATA_OF_A_PART: Final = 128
"""Characters of metadata that count as another partition: a record is encoded in one go."""
_ENTRIES_OF_A_RECORD: Final = 100
"""Entries of a timeline in one record of a snapshot, each of which may take tens of kilobytes."""
_MOST_CLAIMED_AT_ONCE: Final = 2_000
"""Claims that are one record because they were made at once; they take less than other parts do."""

_BYTES_FOR_A_GRANT: Final = 8
"""So many bytes of other records take as long as finding out that a partition was granted with those before it."""


@dataclass(frozen=True, slots=True)
class Piece:
    """Some of the encoded records that rebuild the whole state as of an offset; pieces are numbered from 0."""

    end_offset: int
    index: int
    records: tuple[bytes, ...]
    is_last: bool


class GrowingSnapshot:
    """The snapshot of a shard as of one offset, which is encoded slice by slice and handed out in pieces."""

    __slots__ = (
        "_bytes",
        "_copied",
        "_epochs_ahead",
        "_index",
        "_records",
        "_state",
        "_under_way",
        "_waiting",
        "end_offset",
    )

    def __init__(self, state: ShardState, end_offset: int) -> None:
        self.end_offset = end_offset
        self._state = state
        self._waiting = dict.fromkeys(state.groups)
        self._copied: dict[str, GroupState] = {}
        self._under_way: Iterator[Record] = iter(())
        self._epochs_ahead = state.epochs_ahead
        self._records = [encode_record(record) for record in _records_of_time(state)]
        self._bytes = 0
        self._index = 0

    def before_change(self, group_id: str) -> None:
        """Keep a group as it is, unless that has been done; call it before every record that is replayed."""
        if group_id in self._waiting:
            del self._waiting[group_id]
            self._copied[group_id] = _copy_of(self._state.groups[group_id])

    def grow(self, most_bytes: int, piece_bytes: int) -> Piece | None:
        """Encode about so many bytes more; return a piece once it is full with about `piece_bytes`, or the last.

        Raises RecordTooLargeError.
        """
        left = most_bytes
        while True:
            for record in self._under_way:
                data = encode_record(record)
                check_size(record, data)
                self._records.append(data)
                self._bytes += len(data)
                left -= len(data)
                if isinstance(record, Granted):
                    left -= _BYTES_FOR_A_GRANT * len(record.partitions)
                if self._bytes >= piece_bytes:
                    return self._take_piece(is_last=False)
                if left <= 0:
                    return None
            if not self._copied:
                if not self._waiting:
                    return self._take_piece(is_last=True)
                self.before_change(next(iter(self._waiting)))
            group_id = next(iter(self._copied))
            self._under_way = _records_of_group(self._copied.pop(group_id), self._epochs_ahead)

    def _take_piece(self, *, is_last: bool) -> Piece:
        piece = Piece(self.end_offset, self._index, tuple(self._records), is_last)
        self._records.clear()
        self._bytes = 0
        self._index += 1
        return piece


def _copy_of(group: GroupState) -> GroupState:
    """Return a copy of what a snapshot is made from; the values themselves are frozen.

    Indexes are left as they are: replay makes them from the records.
    """
    controls, facts, timeline = group.controls, group.by_facts, group.timeline
    return replace(
        group,
        topics=dict(group.topics) or NO_ENTRIES,
        members={
            member_id: MemberState(member.facts, member.member_epoch, member.target)
            for member_id, member in group.members.items()
        }
        or NO_ENTRIES,
        grants=group.grants.copy(),
        claims=group.claims.copy(),
        offsets=group.offsets.copy(),
        controls=controls
        if controls is NO_CONTROLS
        else replace(
            controls, paused=dict(controls.paused), drained=dict(controls.drained), resets=dict(controls.resets)
        ),
        awaited=dict(group.awaited) or NO_ENTRIES,
        left_by=dict(group.left_by) or NO_ENTRIES,
        by_facts=FactsIndex(readers=set(facts.readers)) if facts.readers else NO_FACTS,
        timeline=timeline if timeline is NO_TIMELINE else timeline.copy(),
    )


def records_of(state: ShardState) -> Iterator[Record]:
    """Yield records whose replay on an empty state gives this state."""
    yield from _records_of_time(state)
    for group in state.groups.values():
        yield from _records_of_group(group, state.epochs_ahead)


def _records_of_time(state: ShardState) -> Iterator[Record]:
    for incarnation, begin in state.lives.items():
        yield LogOpened(incarnation, begin, state.epochs_ahead)
    if state.lived_at_ms is not None:
        yield TimeLived(state.lived_ms, state.lived_at_ms)


def _records_of_group(group: GroupState, epochs_ahead: int) -> Iterator[Record]:
    group_id = group.group_id
    for topic, seen in group.topics.items():
        yield TopicSeen(
            group_id,
            topic,
            seen.topic_id,
            seen.first_partitions,
            seen.partitions,
            seen.by_readers,
            seen.earliest_why,
        )
    for member in group.members.values():
        yield MemberJoined(group_id, member.facts, member.member_epoch)
    yield from _records_of_targets(group)
    if group.epochs_from:
        yield LogWentBack(group_id, group.epochs_from, epochs_ahead)
    for some in _cut(group.by_policy.in_order()):
        yield WentOutOfRange(group_id, some)
    for topic in group.offsets.topics():
        yield from _records_of_offsets(group_id, group.offsets.rows(topic))
    yield from _records_of_grants(group)
    yield from _records_of_claims(group)
    yield from _records_of_gone(group)
    if group.emptied is not None:
        yield group.emptied
    if group.was_forgotten:
        yield RecoveryChanged(group_id, group.recovery_ms)
    yield from _records_of_controls(group)
    yield from _records_of_timeline(group)
    yield GroupSettings(
        group_id,
        group.group_epoch,
        group.assignor,
        group.reset_policy,
        group.handover,
        group.is_target_stale,
        group.claim_timeout_ms,
        group.owner,
    )


def _records_of_targets(group: GroupState) -> Iterator[Record]:
    targets: list[MemberTarget] = []
    count = 0
    for member_id, member in group.members.items():
        if member.target:
            targets.append(MemberTarget(member_id, columns_of(member.target)))
            count += len(member.target)
        if count >= _PARTS_OF_A_RECORD:
            yield TargetsAssigned(group.group_id, group.group_epoch, group.assignor, tuple(targets))
            targets, count = [], 0
    yield TargetsAssigned(group.group_id, group.group_epoch, group.assignor, tuple(targets))


def _records_of_controls(group: GroupState) -> Iterator[Record]:
    controls, group_id = group.controls, group.group_id
    if controls.group_pause is not None:
        by = controls.group_pause
        yield PauseChanged(group_id, None, is_paused=True, who=by.who, why=by.why, at_ms=by.at_ms)
    for partition, by in controls.paused.items():
        yield PauseChanged(group_id, (partition,), is_paused=True, who=by.who, why=by.why, at_ms=by.at_ms)
    for member_id, by in controls.drained.items():
        yield DrainChanged(group_id, member_id, is_drained=True, who=by.who, why=by.why, at_ms=by.at_ms)
    for (topic, number), reset in controls.resets.items():
        by = reset.decree
        planned = PlannedReset(topic, reset.topic_id, number, reset.offset, reset.leader_epoch, reset.releases_claims)
        yield ResetsPlanned(group_id, (planned,), by.who, by.why, by.at_ms)


def _records_of_timeline(group: GroupState) -> Iterator[Record]:
    timeline = group.timeline
    if timeline.last_sequence:
        first, entries = timeline.first_sequence, timeline.entries
        for begin in range(0, max(1, len(entries)), _ENTRIES_OF_A_RECORD):
            yield EventsNoted(group.group_id, first + begin, tuple(entries[begin : begin + _ENTRIES_OF_A_RECORD]))


def _records_of_offsets(group_id: str, rows: Mapping[int, Committed]) -> Iterator[Record]:
    """Yield a topic's committed offsets: together what still is what was committed together, the rest one by one.

    The places are shared with the table that goes on, and between two records one may cease to be whole: so what is
    together is so with the first of its partitions that is met, and is remembered as that.
    """
    parts: list[CommittedPart] = []
    together: list[TopicCommit] = []
    told: set[int] = set()
    left = _PARTS_OF_A_RECORD
    for number, known in rows.items():
        if isinstance(known, CommittedPart):
            parts.append(known)
            left -= len(known.metadata) // _METADATA_OF_A_PART
        elif id(known) not in told:
            if known.is_whole:
                together.append(known.commit)
                told.add(id(known))
            else:
                parts.append(known.commit.part(number))
                left -= len(parts[-1].metadata) // _METADATA_OF_A_PART
        left -= 1
        if left <= 0 and (parts or together):
            yield OffsetsCommitted(group_id, tuple(parts), tuple(together))
            parts, together, left = [], [], _PARTS_OF_A_RECORD
    if parts or together:
        yield OffsetsCommitted(group_id, tuple(parts), tuple(together))


def _records_of_grants(group: GroupState) -> Iterator[Record]:
    """Yield the grants and what hangs on them; what hangs on few is noted on the way, not looked for afterwards."""
    by_stream: list[tuple[str, int, int]] = []
    with_more: dict[str, list[TopicPartition]] = {}
    together: list[TopicPartition] = []
    shared: Grant | None = None
    for partition, grant in group.grants.items():
        if shared is not None and (
            len(together) == MOST_TOGETHER
            or (grant is not shared and not _were_granted_together(together[0], shared, partition, grant))
        ):
            yield _granted(group, shared, together)
            together = []
        shared = grant
        together.append(partition)
        if grant.stream is not None:
            by_stream.append((*partition, grant.stream))
        if grant.stop_why is not None:
            with_more.setdefault(grant.member_id, []).append(partition)
    if shared is not None:
        yield _granted(group, shared, together)
    for some in _cut(by_stream):
        yield StreamsAssigned(group.group_id, some)
    for member_id, partitions in with_more.items():
        yield from _records_of_owner(group, member_id, partitions)


def _were_granted_together(one: TopicPartition, grant: Grant, another: TopicPartition, its_grant: Grant) -> bool:
    return (
        grant.owner_epoch == its_grant.owner_epoch
        and grant.member_id == its_grant.member_id
        and grant.topic_id == its_grant.topic_id
        and one[0] == another[0]
    )


def _granted(group: GroupState, grant: Grant, partitions: list[TopicPartition]) -> Granted:
    topic, topic_id = partitions[0][0], grant.topic_id
    numbers = tuple([number for _, number in partitions])
    starts = None
    if grant.start is not None:
        of_all = [group.grants[partition] for partition in partitions]
        offsets = tuple([one.start for one in of_all if one.start is not None])
        leader_epochs = tuple([one.start_leader_epoch for one in of_all])
        starts = TopicCommit(topic, topic_id, 0, numbers, offsets, (), leader_epochs)
    is_read_only = grant.member_id in group.by_facts.readers
    return Granted(
        group.group_id, grant.member_id, topic, topic_id, numbers, grant.owner_epoch, starts, is_read_only=is_read_only
    )


def _records_of_owner(group: GroupState, member_id: str, partitions: Iterable[TopicPartition]) -> Iterator[Record]:
    """Yield what hangs on those of an owner's grants on which something does."""
    stops: dict[str, list[TopicPartition]] = {}
    for partition in sorted(partitions):
        why = group.grants[partition].stop_why
        assert why is not None, f"{partition} is not to be let go of"
        stops.setdefault(why, []).append(partition)
    for why, stopping in stops.items():
        for some in _cut(stopping):
            yield StopBegan(group.group_id, member_id, some, why)


def _records_of_gone(group: GroupState) -> Iterator[Record]:
    """Yield whose the claims are that members left who are gone."""
    left_by = dict(group.left_by)
    for instance_id, member_id in group.awaited.items():
        yield IdentityAwaited(group.group_id, member_id, instance_id, left_by.pop(member_id, ""))
    for member_id, principal in left_by.items():
        yield IdentityAwaited(group.group_id, member_id, "", principal)


def _cut(items: Sequence[T]) -> Iterator[tuple[T, ...]]:
    """Yield what is said one by one in portions of a record each."""
    for begin in range(0, len(items), _PARTS_OF_A_RECORD):
        yield tuple(items[begin : begin + _PARTS_OF_A_RECORD])


def _records_of_claims(group: GroupState) -> Iterator[Record]:
    """Yield the claims, each record's of one owner's in one topic; an owner has all it has by then.

    What was claimed together and still is comes as it is, the rest by owner; it is so with the first of its partitions
    that is met, as with offsets.
    """
    for topic in group.claims.topics():
        apart: list[tuple[int, bool]] = []
        told: set[int] = set()
        grants = group.grants.rows(topic)
        for number, place in group.claims.rows(topic).items():
            claims = place.claims
            if id(place) in told:
                continue
            if not place.is_whole or len(claims.partitions) > _MOST_CLAIMED_AT_ONCE:
                apart.append((number, claims.is_running))
            else:
                told.add(id(place))
                steps = tuple(map(sub, claims.until_offsets, claims.from_offsets))
                yield from _claimed(group, grants[number], topic, claims.partitions, steps, claims.is_running)
        alike: dict[tuple[str, str, bool], list[int]] = {}
        for number, is_running in sorted(apart):
            grant = grants[number]
            numbers = alike.setdefault((grant.member_id, grant.topic_id, is_running), [])
            numbers.append(number)
            if len(numbers) >= _PARTS_OF_A_RECORD:
                yield from _claimed_apart(group, topic, numbers, is_running)
                numbers.clear()
        for (_, _, is_running), numbers in alike.items():
            if numbers:
                yield from _claimed_apart(group, topic, numbers, is_running)


def _claimed_apart(group: GroupState, topic: str, numbers: list[int], is_running: bool) -> Iterator[Record]:  # noqa: FBT001 - as the records have it
    rows = group.claims.rows(topic)
    claims = [rows[number].of(number) for number in numbers]
    steps = tuple([claim.until_offset - claim.from_offset for claim in claims])
    yield from _claimed(group, group.grants[topic, numbers[0]], topic, tuple(numbers), steps, is_running)


def _claimed(
    group: GroupState,
    grant: Grant,
    topic: str,
    partitions: tuple[int, ...],
    steps: tuple[int, ...],
    is_running: bool,  # noqa: FBT001 - as the records have it
) -> Iterator[Record]:
    offered = (TopicSteps(topic, grant.topic_id, partitions, steps),)
    yield Advanced(group.group_id, grant.member_id, 0, (), offered, keeps_offered=True)
    if is_running:
        yield ClaimsRunning(group.group_id, (TopicNumbers(topic, partitions),))
