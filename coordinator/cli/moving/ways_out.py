"""The position of a group in the forms that others read: `startingOffsets` of Spark, and offsets of a group of Kafka.

Pure. What is not known is said to start at the beginning, since a position that was guessed would pass over records.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from coordinator.cli.moving.kafka_groups import Committed
from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.ids import TopicPartition
from coordinator.protocol.parts import CommittedOffset, PartitionDescription, ResetResult
from coordinator.protocol.text.counts import counted

SPARK_EARLIEST: Final = -2
"""The beginning of a partition in the words of Spark's `startingOffsets`."""


@dataclass(frozen=True, slots=True)
class StartingOffsets:
    """The value of `startingOffsets`, by topic and number as Spark wants them, and how much was not known."""

    offsets: Mapping[str, Mapping[str, int]]
    from_claims: int
    """Partitions that have no committed offset and a range that is being read: they start where that begins."""
    from_beginning: int
    """Partitions of which neither is there."""


def starting_offsets(
    partitions: Iterable[PartitionDescription], unknown: Sequence[TopicPartition] = ()
) -> StartingOffsets:
    """Return where a query that follows the group is to start.

    Spark wants every partition of a topic to be named: `unknown` are those that the group has not heard of.
    """
    offsets: dict[str, dict[str, int]] = {}
    from_claims = from_beginning = 0
    for found in partitions:
        offset = found.committed
        if offset is None and found.claim is not None:
            offset = found.claim.from_offset
            from_claims += 1
        elif offset is None:
            offset = SPARK_EARLIEST
            from_beginning += 1
        offsets.setdefault(found.topic, {})[str(found.partition)] = offset
    for topic, number in unknown:
        offsets.setdefault(topic, {})[str(number)] = SPARK_EARLIEST
    return StartingOffsets(offsets, from_claims, from_beginning + len(unknown))


def for_kafka(offsets: Iterable[CommittedOffset], remark: str) -> dict[TopicPartition, Committed]:
    """Return offsets as a group of Kafka is given them; `remark` is the metadata of those that have none."""
    return {
        (each.topic, each.partition): Committed(each.offset, each.leader_epoch, each.metadata or remark)
        for each in offsets
    }


def planned(
    wanted: Mapping[TopicPartition, Committed], there: Mapping[TopicPartition, Committed], *, moves_back: bool
) -> tuple[list[ResetResult], int]:
    """Return what would be written over what is there, and how many partitions are left alone so as not to go back."""
    results: list[ResetResult] = []
    kept = 0
    for partition, each in wanted.items():
        old = there[partition].offset if partition in there else None
        back = 0 if old is None else old - each.offset
        if back > 0 and not moves_back:
            kept += 1
            why = f"it would move back by {counted(back, 'record')}; add --move-back to have it so"
            results.append(ResetResult(*partition, ErrorCode.INVALID_REQUEST, why, old, each.offset))
        else:
            results.append(ResetResult(*partition, old_offset=old, new_offset=each.offset))
    return results, kept


def written(results: Sequence[ResetResult], refused: Mapping[TopicPartition, str]) -> list[ResetResult]:
    """Return the results once Kafka has answered; `refused` says of a partition why it was not written."""
    return [
        ResetResult(
            result.topic,
            result.partition,
            ErrorCode.INVALID_REQUEST,
            refused[result.topic, result.partition],
            result.old_offset,
            result.new_offset,
        )
        if refused.get((result.topic, result.partition))
        else result
        for result in results
    ]
