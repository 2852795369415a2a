"""From options to exact offsets: where Kafka is, which partitions there are, where each begins and ends.

Runs in the Spark driver only. What Kafka knows is asked of Kafka, what the group knows of the coordinator, whose client
is loaded only when it is needed. The ranges of a batch read are a snapshot: ends are fixed before the first record is
read.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Final, Protocol

from spark_kcoord.errors import KcoordError, OptionError, UnknownTopicError
from spark_kcoord.fetch.offsets import KafkaLookup, TopicPartitions
from spark_kcoord.fetch.topic_range import TopicPartition, TopicRange
from spark_kcoord.options.kafka_settings import KafkaSettings
from spark_kcoord.options.offset_specs import COMMITTED, EARLIEST_POSITION, LATEST_POSITION, OffsetSpec
from spark_kcoord.options.source_options import SourceOptions
from spark_kcoord.options.subscription import Subscription
from spark_kcoord.planning.narrowing import Narrowing

if TYPE_CHECKING:
    from coordinator.protocol.parts import CommittedOffset

__all__ = [
    "TopicLookup",
    "ends_asked_for",
    "must_be_same_cluster",
    "must_name_all",
    "offsets_of",
    "open_lookup",
    "partitions_of",
    "resolve_kafka",
    "resolve_ranges",
    "subscribed_topics",
]

EVERYTHING: Final = Narrowing()

_log = logging.getLogger(__name__)

ONE_SHOT_TIMEOUT_S: Final = 5.0
"""The longest of one request to the coordinator; a wrong address is told within 10 s, Spark's start included."""


class TopicLookup(Protocol):
    """A source of topics and their partitions."""

    def topic_names(self) -> Collection[str]:
        """Return the names of all topics but Kafka's internal ones."""

    def topics(self, names: Collection[str]) -> Mapping[str, TopicPartitions]:
        """Return the partitions of topics; raises UnknownTopicError naming the missing ones."""


def resolve_kafka(options: SourceOptions) -> KafkaSettings:
    """Return how to reach Kafka: by 'kafka.bootstrap.servers', else at the address the coordinator tells."""
    if options.kafka.servers:
        return options.kafka
    from spark_kcoord.member.client import find_coordinator

    found = find_coordinator(options.coordinators_at, options.group, timeout_s=ONE_SHOT_TIMEOUT_S)
    return options.kafka_at(found.kafka_bootstrap)


def open_lookup(options: SourceOptions, settings: KafkaSettings | None = None) -> KafkaLookup:
    """Return a lookup of the Kafka in ``settings`` (None: to be resolved) that asks again as often as the options say.

    The caller closes it.
    """
    return KafkaLookup(
        settings or resolve_kafka(options),
        retries=options.offset_retries,
        retry_interval_s=options.offset_retry_interval_ms / 1000,
    )


def subscribed_topics(
    lookup: TopicLookup, subscription: Subscription, *, may_be_absent: bool = False
) -> Mapping[str, TopicPartitions]:
    """Return the topics that a subscription stands for now, each with those of its partitions that are subscribed.

    Raises UnknownTopicError for named topics that do not exist, unless they may be absent, and OptionError for an
    assigned partition that its topic has not.
    """
    names = subscription.named_topics
    if names is None:
        from spark_kcoord.options.topic_patterns import matching_topics

        assert subscription.pattern is not None, "a subscription that names no topics has a pattern"
        names = matching_topics(subscription.pattern, subscription.exclusions, lookup.topic_names())
        if not names:
            _log.warning("option 'subscribePattern' ('%s') matches no topic", subscription.pattern)
        # A topic that is deleted just now is not missed.
        return _existing(lookup, names, may_be_absent=True)
    topics = _existing(lookup, names, may_be_absent=may_be_absent)
    return _only_assigned(topics, subscription.assigned) if subscription.assigned else topics


def partitions_of(topics: Mapping[str, TopicPartitions]) -> list[TopicPartition]:
    """Return the partitions of topics one by one."""
    return [(name, number) for name, topic in topics.items() for number in topic.partitions]


def offsets_of(
    topics: Mapping[str, TopicPartitions], committed: Iterable[CommittedOffset]
) -> dict[TopicPartition, int]:
    """Return the offsets that are committed of these topics.

    One of a topic that was deleted says nothing of the one that has its name now; an id that nobody knows is no other.
    """
    mine = [one for one in committed if one.topic in topics]
    return {
        (one.topic, one.partition): one.offset
        for one in mine
        if one.topic_id in ("", topics[one.topic].topic_id) or not topics[one.topic].topic_id
    }


def must_name_all(spec: OffsetSpec, topics: Mapping[str, TopicPartitions]) -> None:
    """Raise OptionError when JSON offsets name other partitions than those that are read."""
    if spec.is_for_all:
        return
    strangers = sorted(spec.named_topics() - topics.keys())
    if strangers:
        raise OptionError(f"Option '{spec.option}' names topics that are not read: {', '.join(strangers)}.")
    for name, topic in topics.items():
        missing = [str(number) for number in topic.partitions if not spec.names(name, number)]
        extra = sorted(spec.named_partitions(name) - set(topic.partitions))
        if missing or extra:
            said = f"leaves out {', '.join(missing)}" if missing else f"names {', '.join(map(str, extra))}"
            raise OptionError(
                f"Option '{spec.option}' {said} of topic '{name}', of which partitions "
                f"{', '.join(map(str, topic.partitions))} are read. Name each of them, or the whole topic."
            )


def must_be_same_cluster(coordinators: str | None, found: str | None, servers: Collection[str]) -> None:
    """Raise OptionError naming both clusters when Kafka at `servers` is not the cluster the coordinator works for."""
    if coordinators and found and coordinators != found:
        raise OptionError(
            f"Option 'kafka.bootstrap.servers' ({', '.join(servers)}) leads to Kafka cluster '{found}', and the "
            f"coordinator at option 'kcoord.bootstrap.servers' works for cluster '{coordinators}'. Offsets of one "
            "cluster mean nothing in another: correct one of the two, or leave the first out."
        )


def resolve_ranges(
    options: SourceOptions, lookup: KafkaLookup, narrowing: Narrowing = EVERYTHING
) -> tuple[TopicRange, ...]:
    """Return the range of every partition that holds something between its start and its end, as far as it is wanted.

    Raises KcoordError when a topic is unknown, when JSON names other partitions than are read, when there is no record
    as late as a start's time, or when a start lies after its end.
    """
    topics = subscribed_topics(lookup, options.subscription)
    for spec in (options.starting, options.ending):
        must_name_all(spec, topics)
    partitions = partitions_of(topics)
    earliest = lookup.earliest_offsets(partitions)
    latest = lookup.end_offsets(partitions)
    starts = _starts(options, lookup, topics, earliest, latest)
    ends = ends_asked_for(options.ending, lookup, latest)
    marks = _high_watermarks(lookup, starts, ends, latest)
    ranges = []
    for key in partitions:
        if not all(key in known for known in (earliest, latest, starts, ends)):
            continue  # the topic is being made again with fewer partitions
        name, number = key
        if ends[key] < starts[key] <= marks.get(key, -1):
            continue  # all that is new is behind an open transaction
        if starts[key] > ends[key]:
            raise KcoordError(
                f"topic '{name}' partition {number}: the start {starts[key]} lies after the end {ends[key]} "
                f"(the log has [{earliest[key]}, {latest[key]})). Correct '{options.starting.option}' or "
                f"'{options.ending.option}'."
            )
        if starts[key] < ends[key]:
            ranges.append(TopicRange(name, topics[name].topic_id, number, starts[key], ends[key]))
    return _narrowed(ranges, narrowing, lookup)


def _high_watermarks(
    lookup: KafkaLookup,
    starts: Mapping[TopicPartition, int],
    ends: Mapping[TopicPartition, int],
    latest: Mapping[TopicPartition, int],
) -> Mapping[TopicPartition, int]:
    """Return where the logs end of partitions that are to be read to their end and whose start lies after it.

    What one reads of committed records only can end before what others have committed to the group.
    """
    behind = [key for key, end in latest.items() if key in starts and ends.get(key) == end < starts[key]]
    return lookup.high_watermarks(behind) if behind else {}


def ends_asked_for(
    spec: OffsetSpec, lookup: KafkaLookup, latest: Mapping[TopicPartition, int]
) -> Mapping[TopicPartition, int]:
    """Return where each partition is to be read to, of which `latest` are the ends now.

    A time after the last record stands for the end. An offset is taken as it is given, also one behind the end.
    """
    times = {key: time for key in latest if (time := spec.time_of(*key)) is not None}
    if not times:
        return {key: _offset(spec, key, latest, latest) for key in latest}
    return {key: latest[key] if offset is None else offset for key, offset in lookup.offsets_at(times).items()}


def no_record_as_late(option: str, partitions: Iterable[TopicPartition]) -> KcoordError:
    """Return the error for partitions without a record at or after the time their start is given by."""
    where = ", ".join(f"{topic}-{partition}" for topic, partition in sorted(partitions))
    return KcoordError(
        f"Option '{option}' gives a time after the last record of {where}. Give an earlier time, or set "
        "'startingOffsetsByTimestampStrategy' to latest to start at the end there."
    )


def _narrowed(ranges: Iterable[TopicRange], narrowing: Narrowing, lookup: KafkaLookup) -> tuple[TopicRange, ...]:
    wanted = [left for whole in ranges if (left := narrowing.apply(whole)) is not None]
    if narrowing.since_ms is None:
        return tuple(wanted)
    found = lookup.offsets_at({(one.topic, one.partition): narrowing.since_ms for one in wanted})
    late = ((one, found.get((one.topic, one.partition))) for one in wanted)
    return tuple(
        replace(one, start=max(one.start, first)) for one, first in late if first is not None and first < one.end
    )


def _starts(
    options: SourceOptions,
    lookup: KafkaLookup,
    topics: Mapping[str, TopicPartitions],
    earliest: Mapping[TopicPartition, int],
    latest: Mapping[TopicPartition, int],
) -> Mapping[TopicPartition, int]:
    spec = options.starting
    if spec.word == COMMITTED:
        _must_be_the_coordinators(options, lookup)
        committed = _committed(options, topics)
        return {**earliest, **{key: offset for key, offset in committed.items() if key in earliest}}
    times = {key: time for key in earliest if (time := spec.time_of(*key)) is not None}
    if not times:
        return {key: _offset(spec, key, earliest, latest) for key in earliest}
    found = lookup.offsets_at(times)
    late = [key for key, offset in found.items() if offset is None]
    if late and options.starting_strategy == "error":
        raise no_record_as_late(spec.option, late)
    there = (key for key in found if key in latest)
    return {key: latest[key] if (offset := found[key]) is None else offset for key in there}


def _must_be_the_coordinators(options: SourceOptions, lookup: KafkaLookup) -> None:
    """Raise OptionError when the user says where Kafka is and a group's offsets are another cluster's."""
    if options.kafka.servers:
        from spark_kcoord.member.client import find_coordinator

        found = find_coordinator(options.coordinators_at, options.group, timeout_s=ONE_SHOT_TIMEOUT_S)
        must_be_same_cluster(found.kafka_cluster_id, lookup.cluster_id, options.kafka.servers)


def _committed(options: SourceOptions, topics: Mapping[str, TopicPartitions]) -> Mapping[TopicPartition, int]:
    from spark_kcoord.member.client import fetch_committed

    found = fetch_committed(options.coordinators_at, options.group, timeout_s=ONE_SHOT_TIMEOUT_S)
    counting = offsets_of(topics, found)
    others = sorted({one.topic for one in found if one.topic in topics and (one.topic, one.partition) not in counting})
    if others:
        _log.warning(
            "group %s: what is committed of %s is of topics that were deleted and created again since: their "
            "partitions are read from their beginning",
            options.group,
            ", ".join(others),
        )
    return counting


def _offset(
    spec: OffsetSpec, key: TopicPartition, earliest: Mapping[TopicPartition, int], latest: Mapping[TopicPartition, int]
) -> int:
    position = spec.position(*key)
    if position is None or position == EARLIEST_POSITION:
        return earliest[key]
    return latest[key] if position == LATEST_POSITION else position


def _existing(lookup: TopicLookup, names: Collection[str], *, may_be_absent: bool) -> Mapping[str, TopicPartitions]:
    """Return the partitions of topics, leaving out those that do not exist yet where that is allowed."""
    if not names:
        return {}
    try:
        return lookup.topics(names)
    except UnknownTopicError as error:
        present = [name for name in names if name not in error.topics]
        if not may_be_absent or len(present) == len(names):
            raise
    return lookup.topics(present) if present else {}


def _only_assigned(
    topics: Mapping[str, TopicPartitions], assigned: Iterable[TopicPartition]
) -> Mapping[str, TopicPartitions]:
    by_topic: dict[str, list[int]] = {name: [] for name in topics}
    for name, number in assigned:
        if name not in topics:
            continue
        if number not in topics[name].partitions:
            known = ", ".join(map(str, topics[name].partitions))
            raise OptionError(
                f"Option 'assign' names partition {number} of topic '{name}', whose partitions are {known}."
            )
        by_topic[name].append(number)
    return {name: TopicPartitions(topics[name].topic_id, tuple(numbers)) for name, numbers in by_topic.items()}
