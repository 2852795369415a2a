"""The table of the options of ``format("kcoord")``: data that the parser, the documentation and the tests read.

Names and defaults are spark-sql-kafka's, plus those that begin with ``kcoord.``. An entry says how one option is read;
what options have to do with each other is the parser's to know. Pure, stdlib only.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from spark_kcoord.options.kafka_settings import KAFKA_OPTIONS, KAFKA_WITHOUT_EFFECT
from spark_kcoord.options.kinds import (
    BOOLEAN,
    METADATA_TTL,
    PATTERN,
    PUSHED_FILTERS,
    SERVERS,
    TEXT,
    TIME_MS,
    TOPICS,
    Kind,
    byte_count,
    choice,
    chosen_names,
    duration_ms,
    identifier,
    integer,
    names,
    spark_duration_ms,
)
from spark_kcoord.options.security_options import SECURITY_OPTIONS
from spark_kcoord.options.subscription import ASSIGNMENT

__all__ = ["COLUMNS", "HEADERS", "OPTIONS", "WITHOUT_EFFECT", "Mode", "Option", "Scope", "describe_options"]

Mode = Literal["stream", "batch", "group batch"]
"""The kind of read: a streaming query, a snapshot, or the block of ``spark_kcoord.batch``, a snapshot as a member."""
Scope = Literal["both", "stream", "batch"]


@dataclass(frozen=True, slots=True)
class Option:
    """One option: its name as documented, its kind, its default as text (None: none), where it counts, its
    meaning.

    ``field`` is the attribute of SourceOptions it sets.
    """

    name: str
    field: str
    kind: Kind
    default: str | None
    scope: Scope
    meaning: str


HEADERS: Final = "headers"
COLUMNS: Final = ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType", HEADERS)
"""The names of the columns, in the order of the schema."""

OPTIONS: Final = (
    Option(
        "subscribe",
        "topics",
        TOPICS,
        None,
        "both",
        "topics to read; one of subscribe, subscribePattern and assign is required",
    ),
    Option(
        "subscribePattern",
        "pattern",
        PATTERN,
        None,
        "both",
        "regular expression (RE2's) that whole topic names match; topics that come later are read too",
    ),
    Option(
        "assign",
        "assigned",
        ASSIGNMENT,
        None,
        "both",
        "partitions to read; in a stream they are this query's alone and are never rebalanced",
    ),
    Option(
        "kcoord.exclude",
        "exclusions",
        TOPICS,
        None,
        "both",
        "topics to leave out of subscribe or subscribePattern",
    ),
    Option(
        "kcoord.bootstrap.servers",
        "coordinators",
        SERVERS,
        None,
        "both",
        "coordinator nodes, of which one that answers names the others; required in a stream, and in a batch unless "
        "kafka.bootstrap.servers says where to read",
    ),
    Option(
        "kcoord.group.id",
        "group_id",
        identifier(250),
        None,
        "both",
        "consumer group to join; required in a stream, and in a batch that needs the coordinator",
    ),
    Option(
        "kafka.group.id",
        "kafka_group_id",
        identifier(250),
        None,
        "both",
        "taken for kcoord.group.id, with a warning, where that is not given; else it has no effect",
    ),
    Option(
        "startingTimestamp",
        "starting_time",
        TIME_MS,
        None,
        "both",
        "start every partition at this time (ms since 1970); goes before the two below",
    ),
    Option(
        "startingOffsetsByTimestamp",
        "starting_by_time",
        TEXT,
        None,
        "both",
        "start at a time (ms) by topic and partition, or by topic, as JSON; goes before startingOffsets",
    ),
    Option(
        "startingOffsetsByTimestampStrategy",
        "starting_strategy",
        choice(("error", "latest")),
        "error",
        "both",
        "what to do where no record is as late as the start's time: fail, or start at the end",
    ),
    Option(
        "startingOffsets",
        "starting",
        TEXT,
        "latest in a stream, earliest in a batch",
        "both",
        "where to start: earliest, latest (stream), committed or JSON; a stream uses any of these options only where "
        "neither the group nor the checkpoint has an offset, and not in a group that was forgotten",
    ),
    Option(
        "endingTimestamp",
        "ending_time",
        TIME_MS,
        None,
        "batch",
        "end every partition before this time (ms), or at its end; goes before the two below",
    ),
    Option(
        "endingOffsetsByTimestamp",
        "ending_by_time",
        TEXT,
        None,
        "batch",
        "end before a time (ms) by topic and partition, or by topic, as JSON; goes before endingOffsets",
    ),
    Option("endingOffsets", "ending", TEXT, "latest", "batch", "where to end: latest or JSON"),
    Option(
        "maxOffsetsPerTrigger",
        "max_offsets_per_trigger",
        integer(1),
        None,
        "stream",
        "most offsets of one micro-batch, split over the partitions by their backlog",
    ),
    Option(
        "minOffsetsPerTrigger",
        "min_offsets_per_trigger",
        integer(1),
        None,
        "stream",
        "fewest offsets of one micro-batch: wait for so many, or for maxTriggerDelay; at most maxOffsetsPerTrigger",
    ),
    Option(
        "maxTriggerDelay",
        "max_trigger_delay_ms",
        spark_duration_ms("365d"),
        "15m",
        "stream",
        "longest wait for minOffsetsPerTrigger",
    ),
    Option(
        "maxBytesPerTrigger",
        "max_bytes_per_trigger",
        byte_count(1),
        None,
        "stream",
        "about the most bytes of one micro-batch, by the size that records had lately",
    ),
    Option(
        "minPartitions",
        "min_partitions",
        integer(1, 100_000),
        None,
        "both",
        "least number of tasks to split the ranges into",
    ),
    Option(
        "maxRecordsPerPartition",
        "max_records_per_partition",
        integer(1),
        None,
        "both",
        "most offsets of one task; applied before minPartitions",
    ),
    Option("includeHeaders", "has_headers", BOOLEAN, "false", "both", "add the column headers"),
    Option(
        "kcoord.columns",
        "columns",
        chosen_names(COLUMNS),
        "all but headers, which includeHeaders adds",
        "both",
        "only these columns; what is not asked for is not sent to Spark",
    ),
    Option(
        "kcoord.push.filters",
        "takes_filters",
        PUSHED_FILTERS,
        "false",
        "batch",
        "one-scan reads less by filters on topic, partition, offset and timestamp, where each load() is read by one "
        "scan alone; it needs Spark's spark.sql.python.filterPushdown.enabled to be true",
    ),
    Option(
        "failOnDataLoss",
        "fail_on_data_loss",
        BOOLEAN,
        "true",
        "both",
        "fail when records of a range are gone; false warns and reads on after them",
    ),
    Option(
        "kafkaConsumer.pollTimeoutMs",
        "fetch_timeout_ms",
        integer(1, 2**31 - 1),
        "120000",
        "both",
        "how long an executor tries to get the next records before it fails",
    ),
    Option(
        "fetchOffset.numRetries",
        "offset_retries",
        integer(0, 1_000),
        "none: one try of 5 s",
        "both",
        "how often the Spark driver asks Kafka for offsets again after a try of 5 s",
    ),
    Option(
        "fetchOffset.retryIntervalMs",
        "offset_retry_interval_ms",
        integer(0, 2**31 - 1),
        "10",
        "both",
        "how long it waits before it asks again",
    ),
    Option(
        "kcoord.commit",
        "is_committing",
        BOOLEAN,
        "true",
        "stream",
        "commit what is done to the group; false reads as a member and writes no offset of the group",
    ),
    Option(
        "kcoord.share.within.application",
        "shares_application",
        BOOLEAN,
        "false",
        "stream",
        "let other queries of this Spark application, which say so too, share the group's partitions with this one",
    ),
    Option(
        "kcoord.wait.for.topics",
        "wait_for_topics",
        BOOLEAN,
        "false",
        "stream",
        "wait for topics that do not exist yet instead of failing",
    ),
    Option(
        "kcoord.client.id",
        "client_id",
        identifier(250),
        "kafka.client.id, else the Spark application's name",
        "stream",
        "name that describe and members show, such as the application's and the query's",
    ),
    Option(
        "kcoord.instance.id",
        "instance_id",
        identifier(250),
        None,
        "stream",
        "static member id: a restarted query is the same member, and its place is kept for a session time-out",
    ),
    Option(
        "kcoord.session.timeout",
        "session_timeout_ms",
        duration_ms("1s", "30m"),
        "10s",
        "stream",
        "the coordinator declares a silent member dead after this",
    ),
    Option(
        "kcoord.ping.interval",
        "ping_interval_ms",
        duration_ms("100ms", "10m"),
        "a third of the session time-out",
        "stream",
        "how often the member tells the coordinator that it lives, if more often than the default",
    ),
    Option(
        "kcoord.rebalance.timeout",
        "rebalance_timeout_ms",
        duration_ms("1s", "24h"),
        "5m",
        "stream",
        "how long a partition waits for a running micro-batch; read twice if batch plus trigger interval exceed it",
    ),
    Option(
        "kcoord.streams",
        "streams",
        integer(1, 100_000),
        "1, and tasks for the cores of the Spark driver's machine",
        "stream",
        "how many tasks the application runs at once: this member's capacity relative to the others of its group, and "
        "what small ranges are packed into tasks by",
    ),
    Option(
        "kcoord.assignors",
        "assignors",
        names(),
        "sticky,range",
        "stream",
        "assignors this member accepts, best first",
    ),
    Option(
        "kcoord.coordinator.timeout",
        "coordinator_timeout_ms",
        duration_ms("100ms", "1h"),
        "2m",
        "stream",
        "how long a running query waits for a coordinator that is away before it fails, from when its session is lost, "
        "also while there is nothing to read",
    ),
    Option(
        "kcoord.handover",
        "handover",
        choice(("takeover", "hold")),
        "takeover",
        "stream",
        "what becomes of a micro-batch under way when its query dies: takeover reads it again elsewhere; hold keeps it "
        "for the same instance id. The same for all of a group",
    ),
    Option(
        "kcoord.claim.timeout",
        "claim_timeout_ms",
        duration_ms("1s", "720h"),
        None,
        "stream",
        "how long hold waits before it lets another query read the micro-batch again; none waits for ever",
    ),
    *(Option(name, "security", TEXT.as_secret(), None, "both", meaning) for name, meaning in SECURITY_OPTIONS),
)

WITHOUT_EFFECT: Final = (
    Option(
        "groupIdPrefix",
        "",
        TEXT,
        None,
        "both",
        "accepted with a warning: no group ids are made up here, see kcoord.group.id",
    ),
    Option(
        "partition.metadata.cache.ttl.ms",
        "",
        METADATA_TTL,
        "-1",
        "stream",
        "accepted with a warning: partitions come from the coordinator and are never looked up by a trigger",
    ),
    *(
        Option(name, "", TEXT, None, "both", f"accepted with a warning: {why}")
        for name, why in KAFKA_WITHOUT_EFFECT.items()
    ),
)
"""Options of format("kafka") that are checked and then change nothing."""


def describe_options() -> str:
    """Return the options as a Markdown table, for the documentation."""
    rows = [
        f"| `{o.name}` | {o.kind.name} | {o.default or 'none'} | {o.scope} | {o.meaning} |"
        for o in (*OPTIONS, *WITHOUT_EFFECT)
    ]
    rows += [f"| `{o.name}` | {o.kind.name} | {o.default} | both | {o.meaning} |" for o in KAFKA_OPTIONS]
    return "\n".join(("| option | type | default | for | meaning |", "|---|---|---|---|---|", *rows))
