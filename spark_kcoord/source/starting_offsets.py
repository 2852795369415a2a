"""The start of a streaming query: what its options say, in the words in which the coordinator keeps it.

A word or a time for all is the reset policy of the group, which the coordinator resolves by itself, also for partitions
found later. What the options say partition by partition becomes hints, times resolved to offsets. Both count only where
neither the group nor the checkpoint has an offset; `committed` asks for nothing more. Runs in the Spark driver.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass
from functools import partial

from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.messages import FetchOffsets, FetchOffsetsResponse
from coordinator.protocol.parts import ResetPolicy, StartHint
from coordinator.protocol.vocabulary import PolicyKind
from spark_kcoord.errors import KcoordError
from spark_kcoord.fetch.offsets import KafkaLookup, TopicPartitions
from spark_kcoord.fetch.topic_range import TopicPartition
from spark_kcoord.member.one_shot import request_once
from spark_kcoord.options.offset_specs import COMMITTED, LATEST_POSITION, OffsetSpec
from spark_kcoord.options.source_options import SourceOptions
from spark_kcoord.source.resolve import (
    ONE_SHOT_TIMEOUT_S,
    must_name_all,
    no_record_as_late,
    offsets_of,
    open_lookup,
    partitions_of,
    subscribed_topics,
)

__all__ = ["StreamStarts", "positions_named", "stream_starts"]

"""The coordinator's word for a reset policy by time."""


@dataclass(frozen=True, slots=True)
class StreamStarts:
    """The start that a member tells the coordinator; no policy means the group's own."""

    policy: ResetPolicy | None
    hints: tuple[StartHint, ...] = ()


def stream_starts(
    options: SourceOptions,
    *,
    is_new: bool,
    lookup: Callable[[SourceOptions], KafkaLookup] = open_lookup,
    committed: Callable[[SourceOptions], Mapping[TopicPartition, int]] | None = None,
) -> StreamStarts:
    """Return the policy and the hints of a query; `is_new` means that it has no checkpoint yet.

    Kafka is asked only where partitions have to be looked up. Raises KcoordError where a new query's options name other
    partitions than are read, or a time after the last record of a partition without a committed offset.
    """
    spec = options.starting
    if spec.word is not None:
        is_policy = options.is_starting_given and spec.word != COMMITTED
        return StreamStarts(ResetPolicy(PolicyKind(spec.word)) if is_policy else None)
    policy = ResetPolicy(PolicyKind.TIMESTAMP, spec.time_ms) if spec.time_ms is not None else None
    needs_kafka = bool(spec.topics) if not is_new else policy is None or options.starting_strategy == "error"
    topics: Mapping[str, TopicPartitions] = {}
    offsets: dict[TopicPartition, int] = {}
    if needs_kafka:
        with closing(lookup(options)) as kafka:
            topics = subscribed_topics(kafka, options.subscription, may_be_absent=options.wait_for_topics)
            if is_new:
                _check_names(spec, topics, may_be_absent=options.wait_for_topics)
            offsets = _offsets_by_time(options, kafka, topics, committed or partial(_committed, topics), is_new=is_new)
    if policy is not None:
        return StreamStarts(policy)
    positions = offsets if spec.is_by_time else positions_named(spec, topics)
    hints = (
        StartHint(topic=topic, topic_id="", partition=partition, offset=position, from_checkpoint=False)
        for (topic, partition), position in sorted(positions.items())
    )
    return StreamStarts(None, tuple(hints))


def positions_named(spec: OffsetSpec, topics: Mapping[str, TopicPartitions]) -> dict[TopicPartition, int]:
    """Return the positions that JSON names, whole topics spelt out by the partitions they have."""
    positions = {(name, number): position for name, number, position in spec.partitions}
    for name, position in spec.topics:
        for number in topics[name].partitions if name in topics else ():
            positions.setdefault((name, number), position)
    return positions


def _check_names(spec: OffsetSpec, topics: Mapping[str, TopicPartitions], *, may_be_absent: bool) -> None:
    if may_be_absent:
        known = OffsetSpec(
            topics=tuple(item for item in spec.topics if item[0] in topics),
            partitions=tuple(item for item in spec.partitions if item[0] in topics),
            is_by_time=spec.is_by_time,
            time_ms=spec.time_ms,
            option=spec.option,
        )
        must_name_all(known, topics)
    else:
        must_name_all(spec, topics)


def _offsets_by_time(
    options: SourceOptions,
    kafka: KafkaLookup,
    topics: Mapping[str, TopicPartitions],
    committed: Callable[[SourceOptions], Mapping[TopicPartition, int]],
    *,
    is_new: bool,
) -> dict[TopicPartition, int]:
    """Return the first offset at or after each partition's time, or LATEST where there is none and that is allowed."""
    spec = options.starting
    times = {key: time for key in partitions_of(topics) if (time := spec.time_of(*key)) is not None}
    if not times:
        return {}
    found = kafka.offsets_at(times)
    late = {key for key, offset in found.items() if offset is None}
    if late and is_new and options.starting_strategy == "error":
        late -= committed(options).keys()
        if late:
            raise no_record_as_late(spec.option, late)
    return {key: LATEST_POSITION if offset is None else offset for key, offset in found.items()}


def _committed(topics: Mapping[str, TopicPartitions], options: SourceOptions) -> Mapping[TopicPartition, int]:
    """Return what the group has committed of these topics; nothing for a group that does not exist yet."""
    response = request_once(options.coordinators_at, FetchOffsets(options.group), timeout_s=ONE_SHOT_TIMEOUT_S)
    assert isinstance(response, FetchOffsetsResponse)
    if response.error not in (ErrorCode.NONE, ErrorCode.GROUP_ID_NOT_FOUND):
        raise KcoordError(
            f"The coordinator refused a question about group '{options.group}': {response.error.name} "
            f"({response.message})."
        )
    return offsets_of(topics, response.offsets)
