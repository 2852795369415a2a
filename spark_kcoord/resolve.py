"""From options to exact offsets: where Kafka is, which partitions there are, where each begins and ends.

Runs in the Spark driver only. What Kafka knows is asked of Kafka, what the group knows of the coordinator,
whose client is loaded only when it is needed. The ranges of a batch read are a snapshot: ends are fixed before
the first record is read.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final, Protocol

from spark_kcoord.errors import KcoordError, OptionError, UnknownTopicError
from spark_kcoord.fetch.offsets import KafkaLookup, Partition, TopicPartitions
from spark_kcoord.kafka_options import KafkaSettings
from spark_kcoord.offset_specs import COMMITTED, EARLIEST_POSITION, LATEST_POSITION, OffsetSpec
from spark_kcoord.options import SourceOptions, host_ports
from spark_kcoord.partition import TopicRange

__all__ = ["TopicLookup", "must_be_same_cluster", "resolve_kafka", "resolve_ranges", "start_positions", "topics_of"]

ONE_SHOT_TIMEOUT_S: Final = 5.0
"""How long one question to the coordinator may take; a wrong address is told within 10 s, Spark's start included."""


class TopicLookup(Protocol):
    """Whoever knows the partitions of topics."""

    def topics(self, names: Collection[str]) -> Mapping[str, TopicPartitions]:
        """Return the partitions of topics; raises UnknownTopicError naming the missing ones."""


def resolve_kafka(options: SourceOptions) -> KafkaSettings:
    """Return how to reach Kafka: by 'kafka.bootstrap.servers', else at the address the coordinator tells."""
    if options.kafka.servers:
        return options.kafka
    from spark_kcoord.member.client import find_coordinator

    found = find_coordinator(host_ports(options.coordinators), options.group, timeout_s=ONE_SHOT_TIMEOUT_S)
    return options.kafka_at(found.kafka_bootstrap)


def topics_of(lookup: TopicLookup, names: Collection[str], *, may_be_absent: bool) -> Mapping[str, TopicPartitions]:
    """Return the partitions of topics, leaving out those that do not exist yet where that is allowed."""
    try:
        return lookup.topics(names)
    except UnknownTopicError as error:
        present = [name for name in names if name not in error.topics]
        if not may_be_absent or len(present) == len(names):
            raise
    return lookup.topics(present) if present else {}


def start_positions(
    spec: OffsetSpec, topics: Mapping[str, TopicPartitions], *, must_name_all: bool
) -> dict[Partition, int]:
    """Return the positions that option 'startingOffsets' names, whole topics spelt out by partition.

    With `must_name_all` raises OptionError when the JSON names other partitions than the topics have.
    """
    if must_name_all:
        _check_names_all("startingOffsets", spec, topics)
    positions = {(name, number): position for name, number, position in spec.partitions}
    for name, position in spec.topics:
        for number in topics[name].partitions if name in topics else ():
            positions.setdefault((name, number), position)
    return positions


def must_be_same_cluster(coordinators: str | None, found: str | None, servers: Collection[str]) -> None:
    """Raise OptionError naming both clusters when Kafka at `servers` is not the cluster the coordinator works for."""
    if coordinators and found and coordinators != found:
        raise OptionError(
            f"Option 'kafka.bootstrap.servers' ({', '.join(servers)}) leads to Kafka cluster '{found}', and the "
            f"coordinator at option 'kcoord.bootstrap.servers' works for cluster '{coordinators}'. Offsets of one "
            "cluster mean nothing in another: correct one of the two, or leave the first out."
        )


def resolve_ranges(options: SourceOptions, lookup: KafkaLookup) -> tuple[TopicRange, ...]:
    """Return the range of every partition that holds something between its start and its end.

    Raises KcoordError when a topic is unknown, when JSON offsets name other partitions than the topic has, or
    when a start lies after its end.
    """
    topics = lookup.topics(options.subscription.topics)
    for option, spec in (("startingOffsets", options.starting), ("endingOffsets", options.ending)):
        _check_names_all(option, spec, topics)
    partitions = [(name, number) for name, topic in topics.items() for number in topic.partitions]
    earliest = lookup.earliest_offsets(partitions)
    latest = lookup.end_offsets(partitions)
    committed = _committed(options) if options.starting.word == COMMITTED else {}
    ranges = []
    for key in partitions:
        if key not in earliest or key not in latest:
            continue  # the topic is being made again with fewer partitions
        name, number = key
        if options.starting.word == COMMITTED:
            start = committed.get(key, earliest[key])
        else:
            start = _offset(options.starting, key, earliest, latest)
        end = _offset(options.ending, key, earliest, latest)
        if start > end:
            raise KcoordError(
                f"topic '{name}' partition {number}: the start {start} lies after the end {end} "
                f"(the log has [{earliest[key]}, {latest[key]})). Correct 'startingOffsets' or 'endingOffsets'."
            )
        if start < end:
            ranges.append(TopicRange(name, topics[name].topic_id, number, start, end))
    return tuple(ranges)


def _committed(options: SourceOptions) -> Mapping[Partition, int]:
    from spark_kcoord.member.client import fetch_offsets

    found: Mapping[Partition, int] = fetch_offsets(
        host_ports(options.coordinators), options.group, timeout_s=ONE_SHOT_TIMEOUT_S
    )
    return found


def _offset(
    spec: OffsetSpec, key: Partition, earliest: Mapping[Partition, int], latest: Mapping[Partition, int]
) -> int:
    position = spec.position(*key)
    if position is None or position == EARLIEST_POSITION:
        return earliest[key]
    return latest[key] if position == LATEST_POSITION else position


def _check_names_all(option: str, spec: OffsetSpec, topics: Mapping[str, TopicPartitions]) -> None:
    if spec.word is not None:
        return
    for name, topic in topics.items():
        wanted = spec.named_partitions(name)
        missing = [str(number) for number in topic.partitions if spec.position(name, number) is None]
        extra = sorted(wanted - set(topic.partitions))
        if missing or extra:
            said = f"leaves out {', '.join(missing)}" if missing else f"names {', '.join(map(str, extra))}"
            raise OptionError(
                f"Option '{option}' {said} of topic '{name}', whose partitions are "
                f"{', '.join(map(str, topic.partitions))}. Name each of them, or the whole topic."
            )
