"""The table of the options of ``format("kcoord")``: data that the parser, the documentation and the tests read.

Names and defaults are spark-sql-kafka's, plus those that begin with ``kcoord.``. An entry says how one option is read;
what options have to do with each other is the parser's to know. Pure, stdlib only.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from spark_kcoord.kafka_options import KAFKA_OPTIONS
from spark_kcoord.option_kinds import (
    BOOLEAN,
    SERVERS,
    TEXT,
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
from spark_kcoord.subscription import ASSIGNMENT

__all__ = ["COLUMNS", "HEADERS", "NOT_YET", "OPTIONS", "Mode", "Option", "Scope", "describe_options"]

Mode = Literal["stream", "batch"]
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
        TEXT,
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
        "coordinator nodes; required in a stream, and in a batch unless kafka.bootstrap.servers says where to read",
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
        "startingOffsets",
        "starting",
        TEXT,
        "latest in a stream, earliest in a batch",
        "both",
        "where to start: earliest, latest (stream), committed (batch) or JSON; a stream uses it only where neither "
        "the group nor the checkpoint has an offset",
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
        "kcoord.commit",
        "is_committing",
        BOOLEAN,
        "true",
        "stream",
        "commit what is done to the group; false reads as a member and never commits",
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
        "kcoord.instance.id",
        "instance_id",
        identifier(250),
        None,
        "stream",
        "static member id: a restarted query without a checkpoint is the same member",
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
        "how long a partition waits for a running micro-batch; must exceed batch time plus trigger interval",
    ),
    Option(
        "kcoord.streams",
        "streams",
        integer(1, 100_000),
        "1",
        "stream",
        "this member's capacity relative to the others of its group",
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
        "how long a running query waits for a coordinator that is away before it fails",
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
)

NOT_YET: Final = (
    "startingTimestamp",
    "startingOffsetsByTimestamp",
    "startingOffsetsByTimestampStrategy",
    "endingTimestamp",
    "endingOffsetsByTimestamp",
    "fetchOffset.numRetries",
    "fetchOffset.retryIntervalMs",
    "groupIdPrefix",
    "partition.metadata.cache.ttl.ms",
)


def describe_options() -> str:
    """Return the options as a Markdown table, for the documentation."""
    rows = [f"| `{o.name}` | {o.kind.name} | {o.default or 'none'} | {o.scope} | {o.meaning} |" for o in OPTIONS]
    rows += [f"| `{o.name}` | {o.kind.name} | {o.default} | both | {o.meaning} |" for o in KAFKA_OPTIONS]
    return "\n".join(("| option | type | default | for | meaning |", "|---|---|---|---|---|", *rows))
