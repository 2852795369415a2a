"""Offsets that cannot be: further beyond the end of their partition than can have been written since Kafka said it.

Whoever commits one has everybody skip records that nobody has read. The end that is known is a little old, so an offset
may be beyond it by as much as is written meanwhile; and one that is not known, or was said too long ago, refuses
nothing, for Kafka may be away while members read on. What is let go of is let go of all the same, without the offset.
"""

from collections.abc import Sequence

from msgspec.structs import replace

from coordinator.core.groups.desk import Desk
from coordinator.core.groups.hard.state import GroupState
from coordinator.core.groups.soft.sessions import Connection
from coordinator.core.node_wide import AHEAD_OF_END
from coordinator.protocol.columns import in_columns, one_by_one
from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.parts import FinalOffset, PartitionResult, TopicClaims, TopicOffsets


def without_beyond_end(
    desk: Desk, connection: Connection, group: GroupState, asked: Sequence[TopicOffsets]
) -> tuple[Sequence[TopicOffsets], tuple[PartitionResult, ...]]:
    """Return the offsets that can be, and the refusal of the others."""
    ahead = desk.limits.commit_ahead_max
    for topic in asked:  # of each commit, so that nearly all are through without a call for each topic
        offsets = topic.offsets
        if offsets and max(offsets) > ahead and _first_beyond(desk, topic.topic, topic.partitions, offsets):
            break
    else:
        return asked, ()
    kept, refused = [], []
    for one in one_by_one(asked):
        why = _first_beyond(desk, one.topic, (one.partition,), (one.offset,))
        if why is None:
            kept.append(one)
            continue
        committed = group.offsets.offset_of((one.topic, one.partition))
        refused.append(PartitionResult(one.topic, one.partition, ErrorCode.INVALID_REQUEST, why, committed))
    desk.note_reached(AHEAD_OF_END, connection, refused[0].message)
    return in_columns(kept), tuple(refused)


def why_claims_beyond_end(desk: Desk, connection: Connection, claims: Sequence[TopicClaims]) -> str | None:
    """Say why claims cannot be made, for one that reaches too far, or return None."""
    for asked in claims:
        why = _first_beyond(desk, asked.topic, asked.partitions, asked.until_offsets)
        if why is not None:
            desk.note_reached(AHEAD_OF_END, connection, why)
            return why
    return None


def finals_that_can_be(desk: Desk, connection: Connection, finals: Sequence[FinalOffset]) -> Sequence[FinalOffset]:
    """Return what is let go of, without the offsets that cannot be."""
    found: list[FinalOffset] = []
    beyond: list[str] = []
    for final in finals:
        offset = final.offset
        why = None if offset is None else _first_beyond(desk, final.topic, (final.partition,), (offset,))
        if why is not None:
            beyond.append(why)
        found.append(final if why is None else replace(final, offset=None))
    if not beyond:
        return finals
    desk.note_reached(AHEAD_OF_END, connection, beyond[0])
    return found


def _first_beyond(desk: Desk, topic: str, partitions: Sequence[int], offsets: Sequence[int]) -> str | None:
    """Say which of a topic's offsets is the first that cannot be, or return None."""
    ahead = desk.limits.commit_ahead_max
    if not offsets or max(offsets) <= ahead:  # every end is 0 or more
        return None
    catalog = desk.catalog
    if desk.now_ms - catalog.ends_read_ms > desk.limits.ends_known_for_ms:
        return None
    for number, offset in zip(partitions, offsets, strict=True):
        end = catalog.end_of(topic, number) if offset > ahead else None
        if end is not None and offset > end + ahead:
            return (
                f"offset {offset} of {topic}-{number} is beyond the end of the partition, which is {end} as Kafka said "
                f"it last, by more than {ahead} (group.commit_ahead_max); commit the next offset to read"
            )
    return None
