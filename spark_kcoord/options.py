"""The options of ``format("kcoord")``: one table of data, and the frozen values read from it.

Names and defaults are spark-sql-kafka's, plus those that begin with ``kcoord.``; they are case-insensitive.
Nothing is silently ignored: an unknown name is told the nearest known one, a wrong value what is allowed, and
an option that is known but not built yet says so. The values hold secrets only inside ``kafka``, which their
repr hides; the object travels to executors inside the pickled reader. Pure, stdlib only; opens nothing.
"""

from __future__ import annotations

import difflib
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal

from spark_kcoord.errors import OptionError
from spark_kcoord.kafka_options import (
    KAFKA_OPTIONS,
    REFUSED_KAFKA_OPTIONS,
    KafkaSettings,
    parse_kafka_options,
)
from spark_kcoord.offset_specs import (
    COMMITTED,
    EARLIEST,
    EARLIEST_POSITION,
    LATEST,
    LATEST_POSITION,
    OffsetSpec,
    parse_offset_spec,
)
from spark_kcoord.option_kinds import (
    BOOLEAN,
    SERVERS,
    TEXT,
    TOPICS,
    Kind,
    choice,
    duration_ms,
    identifier,
    integer,
    names,
)

__all__ = ["NOT_YET", "OPTIONS", "Mode", "Option", "SourceOptions", "describe_options", "host_ports", "parse_options"]

_log = logging.getLogger(__name__)

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


OPTIONS: Final = (
    Option("subscribe", "topics", TOPICS, None, "both", "topics to read; required"),
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
    Option("includeHeaders", "with_headers", BOOLEAN, "false", "both", "add the column headers"),
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
    "kcoord.commit",
    "subscribePattern",
    "assign",
    "startingTimestamp",
    "startingOffsetsByTimestamp",
    "startingOffsetsByTimestampStrategy",
    "endingTimestamp",
    "endingOffsetsByTimestamp",
    "minOffsetsPerTrigger",
    "maxTriggerDelay",
    "minPartitions",
    "maxRecordsPerPartition",
    "fetchOffset.numRetries",
    "fetchOffset.retryIntervalMs",
    "groupIdPrefix",
    "partition.metadata.cache.ttl.ms",
    "kcoord.columns",
    "kcoord.exclude",
)

_NOT_YET_LOWER: Final = {name.lower(): name for name in NOT_YET}
_TABLE: Final = {option.name.lower(): option for option in OPTIONS}
_KNOWN: Final = {
    name.lower(): name for name in (*(o.name for o in OPTIONS), *(o.name for o in KAFKA_OPTIONS), *NOT_YET)
}


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """The options of one read, checked; one attribute an entry of ``OPTIONS`` plus ``kafka``. Shows no secret."""

    mode: Mode
    topics: tuple[str, ...]
    starting: OffsetSpec
    is_starting_given: bool = False
    ending: OffsetSpec = field(default_factory=lambda: OffsetSpec(word=LATEST))
    coordinators: tuple[str, ...] = ()
    group_id: str | None = None
    max_offsets_per_trigger: int | None = None
    with_headers: bool = False
    fail_on_data_loss: bool = True
    fetch_timeout_ms: int = 120_000
    wait_for_topics: bool = False
    instance_id: str | None = None
    session_timeout_ms: int = 10_000
    rebalance_timeout_ms: int = 300_000
    streams: int = 1
    assignors: tuple[str, ...] = ("sticky", "range")
    coordinator_timeout_ms: int = 120_000
    handover: str = "takeover"
    claim_timeout_ms: int | None = None
    kafka: KafkaSettings = field(default_factory=KafkaSettings)

    @property
    def group(self) -> str:
        """The group's id, for what cannot do without; raises OptionError when none was given."""
        if self.group_id is None:
            raise OptionError("Option 'kcoord.group.id' is missing. Give the name of the group.")
        return self.group_id

    def kafka_at(self, servers: tuple[str, ...]) -> KafkaSettings:
        """Return how to reach Kafka at ``servers`` (the driver's finding) with this read's other settings."""
        return replace(self.kafka, servers=servers)


def host_ports(servers: Sequence[str]) -> tuple[tuple[str, int], ...]:
    """Return checked ``host:port`` texts as pairs; an IPv6 host loses its brackets."""
    split = (server.rpartition(":") for server in servers)
    return tuple((host.strip("[]"), int(port)) for host, _, port in split)


def parse_options(given: Mapping[str, str], mode: Mode) -> SourceOptions:
    """Parse Spark's options for a streaming or batch read; raises OptionError for the first thing wrong."""
    options = check_names(given)
    values: dict[str, Any] = {}
    for key, option in _TABLE.items():
        if key not in options:
            continue
        if option.scope not in ("both", mode):
            _refuse_scope(option, mode)
            continue
        values[option.field] = option.kind.read(option.name, options[key])
    is_batch = mode == "batch"
    values["is_starting_given"] = "starting" in values
    values["starting"] = parse_offset_spec(
        "startingOffsets",
        values.get("starting", EARLIEST if is_batch else LATEST),
        words=(EARLIEST, COMMITTED) if is_batch else (EARLIEST, LATEST),
        positions=(EARLIEST_POSITION,) if is_batch else (EARLIEST_POSITION, LATEST_POSITION),
    )
    values["ending"] = parse_offset_spec(
        "endingOffsets", values.get("ending", LATEST), words=(LATEST,), positions=(LATEST_POSITION,)
    )
    kafka = parse_kafka_options({key: text for key, text in options.items() if key.startswith("kafka.")})
    _check_required(values, kafka, mode)
    _check_same_topics(values)
    _check_handover(values)
    return SourceOptions(mode=mode, kafka=kafka, **values)


def check_names(given: Mapping[str, str]) -> dict[str, str]:
    """Return the options by lower-case name; raises OptionError for one that is unknown, refused or not built yet."""
    options = {name.lower(): text for name, text in given.items()}
    for key in options:
        if key in _NOT_YET_LOWER:
            raise OptionError(f"Option '{_NOT_YET_LOWER[key]}' is not supported yet. Remove it.")
        if key in REFUSED_KAFKA_OPTIONS:
            raise OptionError(f"Option '{key}' is not supported. {REFUSED_KAFKA_OPTIONS[key]}.")
        if key not in _KNOWN:
            raise OptionError(_unknown(key))
    return options


def with_headers(given: Mapping[str, str]) -> bool:
    """Return whether the column ``headers`` is asked for; all the schema depends on."""
    options = check_names(given)
    option = _TABLE["includeheaders"]
    return bool(option.kind.read(option.name, options.get("includeheaders", "false")))


def describe_options() -> str:
    """Return the options as a Markdown table, for the documentation."""
    rows = [f"| `{o.name}` | {o.kind.name} | {o.default or 'none'} | {o.scope} | {o.meaning} |" for o in OPTIONS]
    rows += [f"| `{o.name}` | {o.kind.name} | {o.default} | both | {o.meaning} |" for o in KAFKA_OPTIONS]
    return "\n".join(("| option | type | default | for | meaning |", "|---|---|---|---|---|", *rows))


def _unknown(key: str) -> str:
    if key == "path":
        return "A path is given to load(), but kcoord reads topics. Name them with the option 'subscribe'."
    nearest = difflib.get_close_matches(key, _KNOWN, n=1, cutoff=0.6)
    if key.startswith("kafka.") and not nearest:
        return f"Option '{key}' has no counterpart in kafka-python, which kcoord reads Kafka with. Remove it."
    hint = f" Did you mean '{_KNOWN[nearest[0]]}'?" if nearest else f" Known: {', '.join(sorted(_KNOWN.values()))}."
    return f"Option '{key}' is unknown.{hint}"


def _refuse_scope(option: Option, mode: Mode) -> None:
    if mode == "stream":
        raise OptionError(f"Option '{option.name}' is for batch reads; a streaming query has no end. Remove it.")
    _log.warning("option '%s' is for streaming queries and has no effect on a batch read", option.name)


def _check_required(values: Mapping[str, Any], kafka: KafkaSettings, mode: Mode) -> None:
    if "topics" not in values:
        raise OptionError("Option 'subscribe' is missing. Name the topics to read, separated by commas.")
    if mode == "stream":
        needed_by = "A streaming query joins a group"
    elif values["starting"].word == COMMITTED:
        needed_by = "'startingOffsets' is 'committed', which the coordinator knows"
    elif not kafka.servers:
        needed_by = "'kafka.bootstrap.servers' is not given, so the coordinator has to tell where Kafka is"
    else:
        return
    if "coordinators" not in values:
        raise OptionError(
            f"Option 'kcoord.bootstrap.servers' is missing. {needed_by}; give the coordinator's host:port."
        )
    if "group_id" not in values:
        raise OptionError(f"Option 'kcoord.group.id' is missing. {needed_by}; give the name of the group.")


def _check_handover(values: Mapping[str, Any]) -> None:
    if values.get("handover") == "hold":
        if "instance_id" not in values:
            raise OptionError(
                "Option 'kcoord.instance.id' is missing. 'kcoord.handover' is 'hold', which keeps a micro-batch for a "
                "query that is known again by it; give each query of the group an id of its own."
            )
    elif "claim_timeout_ms" in values:
        raise OptionError("Option 'kcoord.claim.timeout' needs 'kcoord.handover' to be 'hold'. Set it, or remove this.")


def _check_same_topics(values: Mapping[str, Any]) -> None:
    for name in ("starting", "ending"):
        strangers = values[name].named_topics() - set(values["topics"])
        if strangers:
            raise OptionError(
                f"Option '{name}Offsets' names topics that 'subscribe' does not: {', '.join(sorted(strangers))}."
            )
