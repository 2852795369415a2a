"""The options of a read, checked one by one and against each other: from Spark's text to frozen values.

Names are those of the option table and are case-insensitive. Nothing is silently ignored: an unknown name is told the
nearest known one, a wrong value what is allowed, and an option that changes nothing here is warned about. The values
hold secrets only inside ``kafka`` and ``security``, which their repr hides; the object travels to executors inside the
pickled reader, without ``security``: executors ask no coordinator.
Pure, stdlib only; opens nothing.
"""

from __future__ import annotations

import difflib
import logging
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, Final

from spark_kcoord.errors import OptionError
from spark_kcoord.options.kafka_settings import (
    KAFKA_OPTIONS,
    REFUSED_KAFKA_OPTIONS,
    KafkaSettings,
    parse_kafka_options,
)
from spark_kcoord.options.offset_specs import (
    COMMITTED,
    EARLIEST,
    EARLIEST_POSITION,
    LATEST,
    LATEST_POSITION,
    OffsetSpec,
    parse_offset_spec,
    parse_time_spec,
)
from spark_kcoord.options.security_options import SECURITY_OPTIONS
from spark_kcoord.options.subscription import Subscription, make_subscription
from spark_kcoord.options.table import COLUMNS, HEADERS, OPTIONS, WITHOUT_EFFECT, Mode, Option

if TYPE_CHECKING:
    from coordinator.client.security import Coordinators

__all__ = [
    "SourceOptions",
    "columns_of",
    "coordinators_at",
    "host_ports",
    "must_be_complete",
    "must_not_share_filters",
    "parse_options",
]

_log = logging.getLogger(__name__)

DEFAULT_COLUMNS: Final = tuple(name for name in COLUMNS if name != HEADERS)
"""The columns of a read that asks for none."""

_NOT_IN_A_BLOCK: Final = ("min_offsets_per_trigger", "max_trigger_delay_ms", "takes_filters")
"""The options of streams and batches that `spark_kcoord.batch` cannot take: it has one trigger and its own source."""

_STARTS: Final = ("starting_time", "starting_by_time", "starting")
_TABLE: Final = {option.name.lower(): option for option in OPTIONS}
_NAMES: Final = (*(o.name for o in (*OPTIONS, *WITHOUT_EFFECT)), *(o.name for o in KAFKA_OPTIONS))
_KNOWN: Final = {name.lower(): name for name in _NAMES}


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """The options of one read, checked; nearly one attribute an entry of ``OPTIONS``. Shows no secret.

    ``columns`` are names of ``COLUMNS`` in its order.
    """

    mode: Mode
    subscription: Subscription
    starting: OffsetSpec
    is_starting_given: bool = False
    starting_strategy: str = "error"
    ending: OffsetSpec = field(default_factory=lambda: OffsetSpec(word=LATEST))
    coordinators: tuple[str, ...] = ()
    group_id: str | None = None
    max_offsets_per_trigger: int | None = None
    min_offsets_per_trigger: int | None = None
    max_trigger_delay_ms: int = 900_000
    max_bytes_per_trigger: int | None = None
    min_partitions: int | None = None
    max_records_per_partition: int | None = None
    columns: tuple[str, ...] = DEFAULT_COLUMNS
    takes_filters: bool = False
    fail_on_data_loss: bool = True
    fetch_timeout_ms: int = 120_000
    offset_retries: int = 0
    offset_retry_interval_ms: int = 10
    is_committing: bool = True
    shares_application: bool = False
    wait_for_topics: bool = False
    client_id: str | None = None
    instance_id: str | None = None
    session_timeout_ms: int = 10_000
    ping_interval_ms: int | None = None
    rebalance_timeout_ms: int = 300_000
    streams: int | None = None
    assignors: tuple[str, ...] = ("sticky", "range")
    coordinator_timeout_ms: int = 120_000
    handover: str = "takeover"
    claim_timeout_ms: int | None = None
    kafka: KafkaSettings = field(default_factory=KafkaSettings)
    security: tuple[tuple[str, str], ...] = field(default=(), repr=False)

    def __getstate__(self) -> list[Any]:
        """Leave out what only the driver needs and nobody else may see."""
        return [() if one.name == "security" else getattr(self, one.name) for one in fields(self)]

    def __setstate__(self, state: list[Any]) -> None:
        """Make them again of their fields."""
        for one, value in zip(fields(self), state, strict=True):
            object.__setattr__(self, one.name, value)

    @property
    def coordinators_at(self) -> Coordinators:
        """The coordinators, and how they are spoken to; on the driver alone. Raises OptionError."""
        return coordinators_at(self.coordinators, dict(self.security))

    @property
    def group(self) -> str:
        """The group's id, for what cannot do without; raises OptionError when none was given."""
        if self.group_id is None:
            raise OptionError("Option 'kcoord.group.id' is missing. Give the name of the group.")
        return self.group_id

    def kafka_at(self, servers: tuple[str, ...]) -> KafkaSettings:
        """Return how to reach Kafka at ``servers`` (the driver's finding) with this read's other settings."""
        return replace(self.kafka, servers=servers)


_OWN_FIELDS: Final = frozenset(one.name for one in fields(SourceOptions)) - {"columns"}


def host_ports(servers: Sequence[str]) -> tuple[tuple[str, int], ...]:
    """Return checked ``host:port`` texts as pairs; an IPv6 host loses its brackets."""
    from coordinator.protocol.text.addresses import parse_address  # not at the top: executors load this file too

    return tuple(parse_address(server) for server in servers)


def coordinators_at(servers: Sequence[str], security: Mapping[str, str]) -> Coordinators:
    """Return coordinators with how they are spoken to, by options and the environment; raises OptionError."""
    from coordinator.client.security import Coordinators, SecurityError, security_of_options  # for the driver alone

    try:
        return Coordinators(host_ports(servers), security_of_options(security))
    except SecurityError as error:
        raise OptionError(f"How a coordinator is spoken to cannot be read: {error}.") from None


def parse_options(given: Mapping[str, str], mode: Mode) -> SourceOptions:
    """Parse the options of one kind of read; raises OptionError for the first thing wrong."""
    options = check_names(given)
    values = _read_all(options, mode)
    _warn_without_effect(options)
    _take_kafkas_group(values)
    subscription = make_subscription(values)
    columns = _columns(values)
    values["security"] = _security(options)
    is_starting_given = not values.keys().isdisjoint(_STARTS)
    values["starting"] = _starting(values, mode)
    values["ending"] = _ending(values)
    kafka = parse_kafka_options({key: text for key, text in options.items() if key.startswith("kafka.")})
    values.setdefault("client_id", options.get("kafka.client.id"))
    _check_required(values, kafka, mode)
    _check_same_topics(values, subscription)
    _check_handover(values)
    _check_limits(values)
    own = {name: value for name, value in values.items() if name in _OWN_FIELDS}
    parsed = SourceOptions(
        mode=mode,
        subscription=subscription,
        is_starting_given=is_starting_given,
        columns=columns,
        kafka=kafka,
        **own,
    )
    if parsed.coordinators:
        parsed.coordinators_at  # noqa: B018 - what is wrong with it is said now
    return parsed


def _security(options: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    names = {name for name, _ in SECURITY_OPTIONS}
    return tuple((name, text) for name, text in options.items() if name in names)


def check_names(given: Mapping[str, str]) -> dict[str, str]:
    """Return the options by lower-case name; raises OptionError for one that is unknown or refused."""
    options = {name.lower(): text for name, text in given.items()}
    for key in options:
        if key in REFUSED_KAFKA_OPTIONS:
            raise OptionError(f"Option '{key}' is not supported. {REFUSED_KAFKA_OPTIONS[key]}.")
        if key not in _KNOWN:
            raise OptionError(_unknown(key))
    return options


def must_be_complete(given: Mapping[str, str]) -> None:
    """Refuse a read that lacks what it needs whether it is a stream or a batch; raises OptionError.

    Without Kafka's address a batch needs a coordinator and a group too, to be told it.
    """
    options = check_names(given)
    if "kafka.bootstrap.servers" in options:
        _must_go_together(options)
        return
    for name, others, what in _TO_BE_TOLD:
        if not any(other in options for other in (name, *others)):
            raise OptionError(f"Option '{name}' is missing. {_NEEDED_BY}; give {what}.")


def must_not_share_filters(given: Mapping[str, str]) -> None:
    """Refuse to take filters from more than one scan of a load(); raises OptionError, as for other wrong values."""
    _read_all(check_names(given), None, only=("takes_filters",))


def _must_go_together(options: Mapping[str, str]) -> None:
    """Refuse a coordinator without a group, and a group without a coordinator: a stream that has forgotten one."""
    coordinator, group = "kcoord.bootstrap.servers", "kcoord.group.id"
    if coordinator in options and group not in options and "kafka.group.id" not in options:
        missing, given = group, coordinator
    elif group in options and coordinator not in options:
        missing, given = coordinator, group
    else:
        return
    raise OptionError(
        f"Option '{missing}' is missing. A streaming query joins a group, and '{given}' alone is not enough for that; "
        "give both, or neither for a batch read that asks Kafka alone."
    )


_NEEDED_BY: Final = (
    "A streaming query joins a group, and a batch read without 'kafka.bootstrap.servers' is told by a coordinator "
    "where Kafka is"
)
_TO_BE_TOLD: Final = (
    ("kcoord.bootstrap.servers", (), "the coordinator's host:port"),
    ("kcoord.group.id", ("kafka.group.id",), "the name of the group"),
)


def columns_of(given: Mapping[str, str]) -> tuple[str, ...]:
    """Return the columns that are asked for; all the schema depends on."""
    return _columns(_read_all(check_names(given), None, only=("has_headers", "columns")))


def _read_all(options: Mapping[str, str], mode: Mode | None, only: Collection[str] = ()) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for key, option in _TABLE.items():
        if key not in options or (only and option.field not in only):
            continue
        if mode is not None and not _counts(option, mode):
            _refuse_scope(option, mode)
            continue
        values[option.field] = option.kind.read(option.name, options[key])
    return values


def _counts(option: Option, mode: Mode) -> bool:
    if mode == "group batch":
        return option.field not in _NOT_IN_A_BLOCK
    return option.scope in ("both", mode)


def _starting(values: Mapping[str, Any], mode: Mode) -> OffsetSpec:
    """Return where to start, by the first of the three options in their order."""
    if "starting_time" in values:
        return OffsetSpec(time_ms=values["starting_time"], option="startingTimestamp")
    if "starting_by_time" in values:
        return parse_time_spec("startingOffsetsByTimestamp", values["starting_by_time"])
    is_batch = mode == "batch"
    return parse_offset_spec(
        "startingOffsets",
        values.get("starting", EARLIEST if is_batch else LATEST),
        words=(EARLIEST, COMMITTED) if is_batch else (EARLIEST, LATEST, COMMITTED),
        positions=(EARLIEST_POSITION,) if is_batch else (EARLIEST_POSITION, LATEST_POSITION),
    )


def _ending(values: Mapping[str, Any]) -> OffsetSpec:
    if "ending_time" in values:
        return OffsetSpec(time_ms=values["ending_time"], option="endingTimestamp")
    if "ending_by_time" in values:
        return parse_time_spec("endingOffsetsByTimestamp", values["ending_by_time"])
    return parse_offset_spec(
        "endingOffsets", values.get("ending", LATEST), words=(LATEST,), positions=(LATEST_POSITION,)
    )


def _take_kafkas_group(values: dict[str, Any]) -> None:
    found = values.get("kafka_group_id")
    if found is None:
        return
    named = values.setdefault("group_id", found)
    why = "is taken for 'kcoord.group.id'" if named == found else f"has no effect: 'kcoord.group.id' is '{named}'"
    _log.warning("option 'kafka.group.id' ('%s') %s", found, why)


def _warn_without_effect(options: Mapping[str, str]) -> None:
    for option in WITHOUT_EFFECT:
        if option.name.lower() in options:
            option.kind.read(option.name, options[option.name.lower()])
            _log.warning("option '%s' has no effect: %s", option.name, option.meaning.partition(": ")[2])


def _columns(values: Mapping[str, Any]) -> tuple[str, ...]:
    has_headers: bool | None = values.get("has_headers")
    chosen: tuple[str, ...] | None = values.get("columns")
    if chosen is None:
        return COLUMNS if has_headers else DEFAULT_COLUMNS
    if has_headers is not None and has_headers != (HEADERS in chosen):
        raise OptionError(
            f"Option 'includeHeaders' is {str(has_headers).lower()}, but 'kcoord.columns' "
            f"{'leaves out' if has_headers else 'names'} the column headers. Remove 'includeHeaders': the list counts."
        )
    return chosen


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
    where = "on a batch read" if mode == "batch" else "in spark_kcoord.batch"
    what = "streaming queries" if option.scope == "stream" else "snapshots"
    _log.warning("option '%s' is for %s and has no effect %s", option.name, what, where)


def _check_required(values: Mapping[str, Any], kafka: KafkaSettings, mode: Mode) -> None:
    if mode != "batch":
        needed_by = "A streaming query joins a group" if mode == "stream" else "spark_kcoord.batch joins a group"
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


def _check_limits(values: Mapping[str, Any]) -> None:
    fewest, most = values.get("min_offsets_per_trigger"), values.get("max_offsets_per_trigger")
    if fewest is not None and most is not None and fewest > most:
        raise OptionError(
            f"Option 'minOffsetsPerTrigger' is {fewest}, more than 'maxOffsetsPerTrigger', which is {most}. "
            "Make it at most that."
        )
    if fewest is None and "max_trigger_delay_ms" in values:
        _log.warning("option 'maxTriggerDelay' has no effect without 'minOffsetsPerTrigger'")


def _check_same_topics(values: Mapping[str, Any], subscription: Subscription) -> None:
    topics = subscription.named_topics
    if topics is None:
        return
    for spec in (values["starting"], values["ending"]):
        strangers = spec.named_topics() - set(topics)
        if strangers:
            raise OptionError(
                f"Option '{spec.option}' names topics that '{subscription.option}' does not: "
                f"{', '.join(sorted(strangers))}."
            )
