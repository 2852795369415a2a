"""Decisions about committed offsets: who may commit what, and what is on record.

An owner commits under the owner epoch of its grant; an operator commits for partitions nobody owns. Offsets of a
partition never move back. Nothing here changes state: records and answers are returned.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from operator import attrgetter, ge, itemgetter
from typing import Final

from coordinator.core.groups.hard.records import MOST_TOGETHER, CommittedPart, TopicCommit
from coordinator.core.groups.hard.state import Grant, GroupState
from coordinator.core.groups.hard.tables.committed_table import Committed, Together
from coordinator.core.groups.partitions.names import one_for_all
from coordinator.core.groups.partitions.pages import next_names, next_numbers
from coordinator.core.groups.partitions.partition_table import TopicPartition, is_same_topic
from coordinator.protocol.columns import OffsetToCommit
from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.ids import MAX_METADATA_BYTES, why_bad_partition, why_bad_topic_id
from coordinator.protocol.parts import CommittedOffset, FinalOffset, PartitionResult, TopicClaims, TopicOffsets

_PAGE_METADATA_BYTES: Final = 512 * 1024
"""Characters of metadata on one page of offsets, about."""


def why_bad_offset(offset: int, metadata: str) -> tuple[ErrorCode, str] | None:
    """Say why an offset cannot be committed by anybody, or return None."""
    if offset < 0:
        return ErrorCode.INVALID_REQUEST, f"offset {offset} is negative; commit the next offset to read"
    if len(metadata) * 4 > MAX_METADATA_BYTES and (size := len(metadata.encode())) > MAX_METADATA_BYTES:
        return (
            ErrorCode.OFFSET_METADATA_TOO_LARGE,
            f"metadata of {size} bytes is over the limit of {MAX_METADATA_BYTES}; send less",
        )
    return None


def why_fenced(group: GroupState, partition: TopicPartition, owner_epoch: int | None, member_id: str) -> str:
    """Say why a member does not own a partition under an owner epoch."""
    name = f"{partition[0]}-{partition[1]}"
    grant = group.grants.get(partition)
    if owner_epoch is None:
        return f"a member commits {name} under the owner epoch of its grant, and none was given"
    if grant is None:
        return f"{name} is nobody's now; owner epoch {owner_epoch} is over"
    if grant.member_id != member_id:
        return f"{name} is {grant.member_id}'s now under owner epoch {grant.owner_epoch}, not {owner_epoch}"
    return f"{name} was granted again under owner epoch {grant.owner_epoch}; owner epoch {owner_epoch} is over"


def owned_topic_id(group: GroupState, member_id: str, asked: TopicOffsets | TopicClaims) -> str | None:
    """Return the id of a topic if a member owns all the partitions it names, under the owner epochs it names.

    None if not, if they do not ascend, or if not all of them are of one id.
    """
    grants = group.grants.rows(asked.topic)
    grant: Grant | None = None
    last = -1
    if len(asked.owner_epochs) != len(asked.partitions):
        return None
    for number, owner_epoch in zip(asked.partitions, asked.owner_epochs, strict=True):
        found = grants.get(number)
        if found is None or number <= last or found.owner_epoch != owner_epoch:
            return None
        last = number
        if found is not grant:
            if found.member_id != member_id:
                return None
            if grant is not None and found.topic_id != grant.topic_id:
                return None
            grant = found
    return grant.topic_id if grant is not None else None


def commit_together(group: GroupState, topic_id: str, asked: TopicOffsets, commit_ms: int) -> list[TopicCommit] | None:
    """Decide a member's commit of partitions it owns, by their topic's id; None if each has to be looked at.

    What it takes is what `commit_by_owner` would have accepted. Nothing that happens as often handles as much.
    """
    topic, numbers, offsets = asked.topic, asked.partitions, asked.offsets
    if asked.metadata or not group.claims.rows(topic).keys().isdisjoint(numbers):
        return None
    committed = group.offsets.rows(topic)
    known = committed.get(numbers[0])
    if isinstance(known, Together) and known.is_whole and known.commit.partitions == numbers:
        floors: Iterable[int] = known.commit.offsets
    else:
        floors = map(_floor, map(committed.get, numbers), numbers)
    if not all(map(ge, offsets, floors)):
        return None
    whole = TopicCommit(topic, topic_id, commit_ms, numbers, offsets, asked.owner_epochs, asked.leader_epochs)
    return [whole] if len(numbers) <= MOST_TOGETHER else list(whole.cut())


def finals_together(
    group: GroupState, member_id: str, finals: Iterable[FinalOffset], commit_ms: int
) -> list[TopicCommit] | None:
    """Decide where a member that leaves has come to, topic by topic; None if each has to be looked at.

    No final offset has metadata. The member lets go of everything as it is removed, so that only offsets count, and
    of those only what it still owns.
    """
    by_topic: dict[str, list[FinalOffset]] = {}
    for final in finals:
        if final.offset is not None:
            by_topic.setdefault(final.topic, []).append(final)
    pieces: list[TopicCommit] = []
    for topic, named in by_topic.items():
        mine = _still_owned(group, member_id, topic, named)
        if not mine:
            continue
        leader_epochs = tuple([one.leader_epoch for one in mine])
        asked = TopicOffsets(
            topic,
            tuple([one.partition for one in mine]),
            tuple([one.offset for one in mine if one.offset is not None]),
            tuple([one.owner_epoch for one in mine]),
            leader_epochs if leader_epochs.count(None) < len(mine) else (),
        )
        topic_id = owned_topic_id(group, member_id, asked)
        together = commit_together(group, topic_id, asked, commit_ms) if topic_id is not None else None
        if together is None:
            return None
        pieces += together
    return pieces


def _still_owned(group: GroupState, member_id: str, topic: str, finals: Sequence[FinalOffset]) -> list[FinalOffset]:
    """Return those of a topic's partitions that a member owns under the owner epoch that it names, ascending."""
    grants = group.grants.rows(topic)
    return sorted(
        [
            final
            for final in finals
            if (grant := grants.get(final.partition)) is not None
            and grant.owner_epoch == final.owner_epoch
            and grant.member_id == member_id
        ],
        key=attrgetter("partition"),
    )


def _floor(known: Committed | None, number: int) -> int:
    """Return the smallest offset that may follow what is committed."""
    return 0 if known is None else known.position_of(number)[0]


def commit_by_owner(
    group: GroupState, member_id: str, offsets: Iterable[OffsetToCommit], commit_ms: int
) -> tuple[tuple[CommittedPart, ...], tuple[PartitionResult, ...]]:
    """Decide a commit of a member: what to write, and a result an offset in the order asked."""
    accepted: dict[TopicPartition, CommittedPart] = {}
    results = []
    for asked in offsets:
        partition = (asked.topic, asked.partition)
        grant = group.grants.get(partition)
        if grant is None or grant.owner_epoch != asked.owner_epoch or grant.member_id != member_id:
            why = why_fenced(group, partition, asked.owner_epoch, member_id)
            results.append(_refused(group, partition, ErrorCode.FENCED_OWNER_EPOCH, why))
            continue
        claim = group.claims.get(partition)
        if claim is not None:
            claimed = f"[{claim.from_offset}, {claim.until_offset}) of {asked.topic}-{asked.partition}"
            why = f"{claimed} is claimed; finish the claim, which commits it"
            results.append(_refused(group, partition, ErrorCode.INVALID_REQUEST, why))
            continue
        bad = _why_not(asked, accepted.get(partition) or group.offsets.get(partition), grant.topic_id)
        if bad is not None:
            results.append(_refused(group, partition, *bad))
            continue
        accepted[partition] = _accepted(asked, asked.topic, grant.topic_id, commit_ms, grant.owner_epoch)
        results.append(PartitionResult(*partition, committed=asked.offset))
    return tuple(accepted.values()), tuple(results)


def commit_by_operator(
    group: GroupState, offsets: Iterable[OffsetToCommit], topic_ids: dict[str, str], commit_ms: int
) -> tuple[tuple[CommittedPart, ...], tuple[PartitionResult, ...]]:
    """Decide a commit of somebody who is no member; `topic_ids` holds the ids of the topics that are known."""
    accepted: dict[TopicPartition, CommittedPart] = {}
    results = []
    for asked in offsets:
        partition = (asked.topic, asked.partition)
        if why_bad := why_bad_partition(*partition):
            results.append(PartitionResult(*partition, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, why_bad))
            continue
        if why_bad := why_bad_topic_id(asked.topic_id):
            results.append(PartitionResult(*partition, ErrorCode.INVALID_REQUEST, why_bad))
            continue
        grant = group.grants.get(partition)
        if grant is not None:
            why = (
                f"{asked.topic}-{asked.partition} is owned by {grant.member_id} under owner epoch {grant.owner_epoch}; "
                "only its owner may commit it"
            )
            results.append(_refused(group, partition, ErrorCode.PARTITION_OWNED, why))
            continue
        known_id = topic_ids.get(asked.topic, "") or _recorded_topic_id(group, partition)
        if not is_same_topic(asked.topic_id, known_id or asked.topic_id):
            why = (
                f"the offset is of a topic {asked.topic} with id {asked.topic_id}, and the one that is known here has "
                f"id {known_id}: it was made again; commit what was read of the present one"
            )
            results.append(_refused(group, partition, ErrorCode.UNKNOWN_TOPIC_ID, why))
            continue
        topic_id = known_id or asked.topic_id
        bad = _why_not(asked, accepted.get(partition) or group.offsets.get(partition), topic_id)
        if bad is not None:
            results.append(_refused(group, partition, *bad))
            continue
        accepted[partition] = _accepted(asked, one_for_all(asked.topic), topic_id, commit_ms, None)
        results.append(PartitionResult(*partition, committed=asked.offset))
    return tuple(accepted.values()), tuple(results)


def _recorded_topic_id(group: GroupState, partition: TopicPartition) -> str:
    """Return the id a topic has in the group's records; an empty one when it is in none."""
    seen, committed = group.topics.get(partition[0]), group.offsets.get(partition)
    return (seen.topic_id if seen is not None else "") or (committed.topic_id if committed is not None else "")


def _why_not(asked: OffsetToCommit, before: CommittedPart | None, topic_id: str) -> tuple[ErrorCode, str] | None:
    """Say why an offset cannot follow what was committed before it, or return None."""
    bad = why_bad_offset(asked.offset, asked.metadata)
    if bad is not None or before is None or asked.offset >= before.offset:
        return bad
    if not is_same_topic(before.topic_id, topic_id):
        return None
    return ErrorCode.INVALID_REQUEST, why_backwards(asked.offset, before.offset)


def _accepted(
    asked: OffsetToCommit, topic: str, topic_id: str, commit_ms: int, owner_epoch: int | None
) -> CommittedPart:
    return CommittedPart(
        topic, topic_id, asked.partition, asked.offset, asked.leader_epoch, asked.metadata, commit_ms, owner_epoch
    )


def why_backwards(offset: int, committed: int) -> str:
    """Say that an offset lies before the committed one."""
    return f"offset {offset} is before the committed offset {committed}; committed offsets never move back"


def committed_part(grant: Grant, partition: TopicPartition, offset: int, commit_ms: int) -> CommittedPart:
    """Return the commit of an owner without leader epoch and metadata."""
    topic, number = partition
    return CommittedPart(topic, grant.topic_id, number, offset, None, "", commit_ms, grant.owner_epoch)


def fetch(
    group: GroupState, partitions: Iterable[TopicPartition] | None, after: TopicPartition | None, most: int
) -> tuple[tuple[CommittedOffset, ...], TopicPartition | None]:
    """Return committed offsets of the partitions that are named, or of all in order; what does not exist is absent.

    They are those behind a partition, at most so many and with a bound on their metadata, with the last one if there
    are more. Those that are named come in the order asked, each once; of them at most so many are looked for, whether
    they are there or not.
    """
    wanted: Iterable[tuple[str, Iterable[int]]]
    up_to: TopicPartition | None = None
    if partitions is not None:
        asked = list(dict.fromkeys(partitions))
        begin_at = asked.index(after) + 1 if after in asked else 0
        page = asked[begin_at : begin_at + most]
        up_to = page[-1] if begin_at + most < len(asked) else None
        wanted = ((topic, [number for _, number in of_topic]) for topic, of_topic in groupby(page, itemgetter(0)))
    else:
        begin, last = after or ("", -1)
        topics = list(group.offsets.topics())
        ordered = ([begin] if begin in topics else []) + next_names(topics, begin, most + 1)
        nothing: tuple[int, ...] = ()
        wanted = (
            (
                topic,
                next_numbers(last if topic == begin else -1, most + 1, group.offsets.rows(topic).keys(), nothing, 0),
            )
            for topic in ordered
        )
    found: list[CommittedOffset] = []
    left = _PAGE_METADATA_BYTES
    for row in _told(group, wanted):
        if len(found) == most or (left < 0 and found):
            return tuple(found), (found[-1].topic, found[-1].partition)
        found.append(row)
        left -= len(row.metadata)
    return tuple(found), up_to


def _told(group: GroupState, wanted: Iterable[tuple[str, Iterable[int]]]) -> Iterator[CommittedOffset]:
    for topic, numbers in wanted:
        rows = group.offsets.rows(topic)
        for number in numbers:
            known = rows.get(number)
            if known is not None:
                offset, leader_epoch, metadata = known.position_of(number)
                yield CommittedOffset(topic, known.topic_id, number, offset, leader_epoch, metadata, known.commit_ms)


def _refused(group: GroupState, partition: TopicPartition, code: ErrorCode, why: str) -> PartitionResult:
    return refused(partition, code, why, _offset(group, partition))


def refused(partition: TopicPartition, code: ErrorCode, why: str, committed: int | None) -> PartitionResult:
    """Return the result of a refused partition with the group's offset, if it has one."""
    return PartitionResult(partition[0], partition[1], code, why, committed)


def _offset(group: GroupState, partition: TopicPartition) -> int | None:
    committed = group.offsets.get(partition)
    return committed.offset if committed is not None else None
