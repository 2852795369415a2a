"""The settings of a consumer: kafka-python's names where it has them, and kcoord's own; each checked when it is given.

The tables here are the documentation's too. A setting of kafka-python that means nothing here is refused or has no
effect, each by name and with its reason. Defaults of the group's own rules are None: as the group has it. Secrets stay
out of every representation and message.
"""

from __future__ import annotations

import difflib
import math
import os
import re
import socket
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from coordinator.protocol.text.addresses import Address
from coordinator.protocol.vocabulary import AssignorName, Handover
from spark_kcoord.consumer.errors import SettingError, translated
from spark_kcoord.errors import KcoordError, OptionError
from spark_kcoord.fetch.decoding.columns import COLUMNS
from spark_kcoord.options.kafka_settings import KafkaSettings, parse_kafka_options
from spark_kcoord.options.source_options import coordinators_at

__all__ = ["NOT_HERE", "SETTINGS", "WITHOUT_EFFECT", "Setting", "Settings", "own_error", "parse_settings"]

_NEEDED: Final = ("topic", "partition", "offset")


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting: its name, how its value is read, its default and what it means.

    `kafka` is the `kafka.*` option that it stands for, `client` the setting of kafka-python's connections.
    """

    name: str
    read: Callable[[Any], Any]
    default: Any
    meaning: str
    kafka: str | None = None
    client: str | None = None
    is_secret: bool = False


def _integer(least: int, most: int = 2**31 - 1, *, or_none: bool = False) -> Callable[[Any], Any]:
    allowed = f"a whole number from {least} to {most}" + (" or None" if or_none else "")

    def read(value: Any) -> Any:
        if or_none and value is None:
            return None
        if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
            raise ValueError(allowed)
        return value

    return read


def _milliseconds_or_forever(value: Any) -> Any:
    is_number = isinstance(value, int | float) and not isinstance(value, bool) and not math.isnan(value)
    if not is_number or value < 0:
        raise ValueError("milliseconds from 0 on, or float('inf')")
    return value


def _flag(value: Any) -> Any:
    if not isinstance(value, bool):
        raise ValueError("True or False")  # noqa: TRY004 - one error names setting, value and what is allowed
    return value


def _text(value: Any) -> Any:
    if not isinstance(value, str) or not value.strip():
        raise ValueError("a text that is not empty")
    return value


def _text_or_none(value: Any) -> Any:
    return None if value is None else _text(value)


def _one_of(*words: str, or_none: bool = False) -> Callable[[Any], Any]:
    allowed = ", ".join(words) + (" or None" if or_none else "")

    def read(value: Any) -> Any:
        if or_none and value is None:
            return None
        if value not in words:
            raise ValueError(allowed)
        return value

    return read


def _texts(value: Any) -> Any:
    found = tuple(part.strip() for part in value.split(",")) if isinstance(value, str) else value
    if isinstance(found, set | frozenset):
        found = sorted(found)
    if not isinstance(found, Sequence) or not all(isinstance(part, str) and part for part in found):
        raise ValueError("texts, as a list or with commas between them")
    return tuple(found)


def _texts_or_none(value: Any) -> Any:
    return None if value is None else _texts(value)


def _columns(value: Any) -> Any:
    found = _texts(value)
    if not set(found) <= set(COLUMNS) or not set(_NEEDED) <= set(found):
        raise ValueError(f"some of {', '.join(COLUMNS)}, among them {', '.join(_NEEDED)}")
    return found


def _deserializer(value: Any) -> Any:
    if value is not None and not callable(value) and not hasattr(value, "deserialize"):
        raise ValueError("a function of the bytes, an object with deserialize(topic, headers, bytes), or None")
    return value


def _security_or_none(value: Any) -> Any:
    if value is None:
        return None
    if not isinstance(value, Mapping) or not all(isinstance(part, str) for pair in value.items() for part in pair):
        raise ValueError("texts by name, such as {'kcoord.security.protocol': 'SSL'}")
    return dict(value)


def _anything(value: Any) -> Any:
    return value


def _policy(value: Any) -> Any:
    known = {"smallest": "earliest", "largest": "latest"}
    return _one_of("earliest", "latest", "none", or_none=True)(known.get(value, value) if value else value)


_MS = _integer(1)
_BYTES = _integer(1, 2**30)

SETTINGS: Final[Mapping[str, Setting]] = {
    setting.name: setting
    for setting in (
        # ---- the group
        Setting("coordinators", _texts_or_none, None, "`host:port` of kcoord nodes; needed by a member of a group"),
        Setting(
            "coordinator_security",
            _security_or_none,
            None,
            "how kcoord nodes are spoken to: options such as `kcoord.ssl.ca.location` and `kcoord.auth.token`, by name",
            is_secret=True,
        ),
        Setting("group_id", _text_or_none, None, "the group; None reads without one"),
        Setting(
            "group_instance_id",
            _text_or_none,
            None,
            "a static member: closed or killed, it keeps its place until its session times out; `close` commits "
            "and does not leave",
        ),
        Setting("client_id", _text, "kcoord-python-HOST-PID", "the name that operators see"),
        Setting("session_timeout_ms", _MS, 10_000, "without a sign of life for this long the member is gone"),
        Setting("heartbeat_interval_ms", _MS, 3_000, "the time between two pings; at most a third of the above"),
        Setting("rebalance_timeout_ms", _MS, 300_000, "for how long partitions that are asked back may be kept"),
        Setting(
            "max_poll_interval_ms",
            _integer(1_000, or_none=True),
            300_000,
            "a consumer that is not polled for this long leaves its group; None: never",
        ),
        Setting("auto_offset_reset", _policy, None, "earliest, latest or none, where the group has no offset"),
        Setting("enable_auto_commit", _flag, True, "commit what earlier polls returned, with the pings"),
        Setting("auto_commit_interval_ms", _MS, 5_000, "the longest time between two such commits"),
        Setting("handover", _one_of(*Handover, or_none=True), None, "takeover or hold, as the group has it"),
        Setting("streams", _integer(1, 10_000), 1, "the capacity of this member: it gets partitions accordingly"),
        Setting(
            "assignors", _texts, (str(AssignorName.STICKY), str(AssignorName.RANGE)), "by name, the preferred first"
        ),
        Setting("exclude", _texts, (), "topics that a subscription leaves out"),
        Setting("wait_for_topics", _flag, False, "subscribe also to topics that do not exist yet"),
        Setting("coordinator_timeout_ms", _MS, 120_000, "for how long a coordinator may be away before calls fail"),
        Setting("otel", _flag, False, "record spans and metrics by OpenTelemetry; needs the extra `otel`"),
        # ---- reading
        Setting("max_poll_records", _integer(1), 500, "records of one poll"),
        Setting("consumer_timeout_ms", _milliseconds_or_forever, math.inf, "iteration ends when none came for so long"),
        Setting("max_buffered_bytes", _integer(1 << 20, 2**40), 64 << 20, "of all that is fetched and not returned"),
        Setting("columns", _columns, tuple(name for name in COLUMNS if name != "headers"), "those of `poll_arrow`"),
        Setting("key_deserializer", _deserializer, None, "makes the key of a record"),
        Setting("value_deserializer", _deserializer, None, "makes the value of a record"),
        Setting("fetch_min_bytes", _BYTES, 1, "fewest bytes a broker waits for", "kafka.fetch.min.bytes"),
        Setting("fetch_max_wait_ms", _MS, 500, "longest wait of a broker for them", "kafka.fetch.max.wait.ms"),
        Setting("fetch_max_bytes", _BYTES, 52_428_800, "most bytes of one answer", "kafka.fetch.max.bytes"),
        Setting(
            "max_partition_fetch_bytes", _BYTES, 4 << 20, "of one partition in it", "kafka.max.partition.fetch.bytes"
        ),
        Setting(
            "isolation_level",
            _one_of("read_uncommitted", "read_committed"),
            "read_uncommitted",
            "read_committed hides aborted and unfinished transactions",
            "kafka.isolation.level",
        ),
        Setting("check_crcs", _flag, True, "check the checksum of every record batch", "kafka.check.crcs"),
        Setting("client_rack", _text_or_none, None, "read from a replica in this rack", "kafka.client.rack"),
        # ---- Kafka
        Setting(
            "bootstrap_servers", _texts_or_none, None, "told by the coordinator; else needed", "kafka.bootstrap.servers"
        ),
        Setting("request_timeout_ms", _MS, 30_000, "how long one request may take", "kafka.request.timeout.ms"),
        Setting("retry_backoff_ms", _MS, 100, "first wait before asking again", "kafka.retry.backoff.ms"),
        Setting("reconnect_backoff_ms", _MS, 50, "first wait to connect again", "kafka.reconnect.backoff.ms"),
        Setting("reconnect_backoff_max_ms", _MS, 1_000, "longest such wait", "kafka.reconnect.backoff.max.ms"),
        Setting("metadata_max_age_ms", _MS, 300_000, "look up leaders again after this", "kafka.metadata.max.age.ms"),
        Setting("connections_max_idle_ms", _MS, 540_000, "close unused connections", "kafka.connections.max.idle.ms"),
        Setting(
            "receive_buffer_bytes", _integer(1, 2**30, or_none=True), None, "of a socket", "kafka.receive.buffer.bytes"
        ),
        Setting("send_buffer_bytes", _integer(1, 2**30, or_none=True), None, "of a socket", "kafka.send.buffer.bytes"),
        Setting("client_dns_lookup", _text_or_none, None, "how names are resolved", "kafka.client.dns.lookup"),
        Setting("security_protocol", _text, "PLAINTEXT", "how to talk to brokers", "kafka.security.protocol"),
        Setting("sasl_mechanism", _text_or_none, None, "how to log in", "kafka.sasl.mechanism"),
        Setting("sasl_plain_username", _text_or_none, None, "of PLAIN and SCRAM", "kafka.sasl.username"),
        Setting(
            "sasl_plain_password", _text_or_none, None, "of PLAIN and SCRAM", "kafka.sasl.password", is_secret=True
        ),
        Setting(
            "sasl_kerberos_service_name",
            _text,
            "kafka",
            "of the brokers' principal",
            "kafka.sasl.kerberos.service.name",
        ),
        Setting("sasl_kerberos_name", _anything, None, "of GSSAPI", client="sasl_kerberos_name"),
        Setting("sasl_kerberos_domain_name", _text_or_none, None, "of GSSAPI", client="sasl_kerberos_domain_name"),
        Setting("ssl_context", _anything, None, "an ssl.SSLContext in place of files", client="ssl_context"),
        Setting("ssl_check_hostname", _flag, True, "check the broker's name", client="ssl_check_hostname"),
        Setting("ssl_cafile", _text_or_none, None, "PEM file of trusted certificates", "kafka.ssl.ca.location"),
        Setting("ssl_certfile", _text_or_none, None, "PEM file of own certificates", "kafka.ssl.certificate.location"),
        Setting("ssl_keyfile", _text_or_none, None, "PEM file of the own key", "kafka.ssl.key.location"),
        Setting("ssl_password", _text_or_none, None, "of the own key", "kafka.ssl.key.password", is_secret=True),
        Setting("ssl_crlfile", _text_or_none, None, "PEM file of revoked certificates", "kafka.ssl.crl.location"),
        Setting("proxy_url", _text_or_none, None, "socks5 or http proxy", client="proxy_url", is_secret=True),
    )
}
"""Every setting by its name."""

NOT_HERE: Final[Mapping[str, str]] = {
    "partition_assignment_strategy": "the coordinator assigns, by name: use 'assignors'",
    "group_protocol": "a kcoord coordinator has its own protocol",
    "default_offset_commit_callback": "give commit_async a callback",
    "kafka_client": "the connections are kcoord's own",
    "ssl_ciphers": "set them in an 'ssl_context'",
    "sasl_oauth_token_provider": "OAUTHBEARER is not supported",
    "socks5_proxy": "use 'proxy_url'",
    "selector": "the connections are kcoord's own",
    "socket_options": "use 'receive_buffer_bytes' and 'send_buffer_bytes'",
}
"""Settings of kafka-python that are refused, and why."""

WITHOUT_EFFECT: Final[Mapping[str, str]] = {
    "api_version": "the versions are agreed on with each broker",
    "bootstrap_timeout_ms": "every call has a time-out of its own",
    "max_in_flight_requests_per_connection": "one fetch is under way on a connection, and one answer is decoded",
    "receive_message_max_bytes": "an answer is as large as its limits and one record batch allow",
    "enable_incremental_fetch_sessions": "they are used where a broker has them",
    "allow_auto_create_topics": "reading never creates a topic",
    "exclude_internal_topics": "patterns never match Kafka's internal topics",
    "metric_reporters": "ask metrics() when they are wanted",
    "metrics_enabled": "counting costs nothing",
    "metrics_num_samples": "metrics() has totals and no samples",
    "metrics_sample_window_ms": "metrics() has totals and no samples",
    "metric_group_prefix": "the groups of metrics() are named as by default",
}
"""Settings of kafka-python that may be given and change nothing, and why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """All that a consumer was told, read and checked; times in milliseconds. Its repr shows no secret."""

    values: Mapping[str, Any] = field(repr=False)
    kafka: KafkaSettings
    coordinators: tuple[Address, ...]
    group_id: str | None
    client_id: str

    def __getitem__(self, name: str) -> Any:
        """Return the value of a setting."""
        return self.values[name]

    @property
    def is_member(self) -> bool:
        """True if it has a group."""
        return self.group_id is not None

    @property
    def auto_commits(self) -> bool:
        """True if what is done is committed by itself."""
        return self.is_member and bool(self.values["enable_auto_commit"])

    @property
    def reset_policy(self) -> str:
        """The way to begin where nobody has said how, for one without a group: earliest, latest or none."""
        policy: str | None = self.values["auto_offset_reset"]
        return policy or "latest"

    @property
    def ping_interval_ms(self) -> int:
        """The time between two pings: with auto commit they come at least as often as its interval."""
        heartbeat_ms: int = self.values["heartbeat_interval_ms"]
        return min(heartbeat_ms, self.values["auto_commit_interval_ms"]) if self.auto_commits else heartbeat_ms

    def kafka_at(self, told: Sequence[str]) -> KafkaSettings:
        """Return how to reach Kafka, at `told` where no servers were given; raises SettingError without any."""
        servers = self.kafka.servers or tuple(told)
        if not servers:
            raise SettingError(
                "Setting 'bootstrap_servers' is missing: without a coordinator nobody says where Kafka is."
            )
        return replace(self.kafka, servers=servers)


def parse_settings(given: Mapping[str, Any]) -> Settings:
    """Read settings by their names; raises SettingError that names the setting, its value and what is allowed."""
    for name in given:
        _must_be_known(name)
    values = {name: _read(setting, given) for name, setting in SETTINGS.items()}
    if values["client_id"] == SETTINGS["client_id"].default:
        values["client_id"] = f"kcoord-python-{socket.gethostname()}-{os.getpid()}"
    group_id = values["group_id"]
    if group_id is not None and not values["coordinators"]:
        raise SettingError(
            f"Setting 'coordinators' is missing: group '{group_id}' is known to kcoord nodes alone. Give `host:port` "
            "of one or more of them."
        )
    if values["group_instance_id"] is not None and group_id is None:
        raise SettingError("Setting 'group_instance_id' needs a 'group_id'.")
    if "heartbeat_interval_ms" not in given:
        values["heartbeat_interval_ms"] = min(values["heartbeat_interval_ms"], values["session_timeout_ms"] // 3)
    if values["heartbeat_interval_ms"] > values["session_timeout_ms"] // 2:
        raise SettingError(
            f"Setting 'heartbeat_interval_ms' is {values['heartbeat_interval_ms']} and must be at most half of "
            f"'session_timeout_ms', which is {values['session_timeout_ms']}."
        )
    try:
        coordinators = (
            coordinators_at(values["coordinators"], values["coordinator_security"] or {})
            if values["coordinators"]
            else ()
        )
    except OptionError as error:
        raise SettingError(f"Setting 'coordinator_security' cannot be used: {error}") from None
    except ValueError as error:
        raise SettingError(f"Setting 'coordinators' cannot be {values['coordinators']!r}: {error}.") from None
    return Settings(
        values=values,
        kafka=_kafka_settings(values, given),
        coordinators=coordinators,
        group_id=group_id,
        client_id=values["client_id"],
    )


def _must_be_known(name: str) -> None:
    if name in NOT_HERE:
        raise SettingError(f"Setting '{name}' is not supported: {NOT_HERE[name]}.")
    if name in SETTINGS or name in WITHOUT_EFFECT:
        return
    nearest = difflib.get_close_matches(name, SETTINGS, n=1, cutoff=0.5)
    hint = f"; did you mean '{nearest[0]}'?" if nearest else "."
    raise SettingError(f"Setting '{name}' is not known{hint}")


def _read(setting: Setting, given: Mapping[str, Any]) -> Any:
    if setting.name not in given:
        return setting.default
    value = given[setting.name]
    try:
        return setting.read(value)
    except (ValueError, TypeError) as error:
        shown = "the given value" if setting.is_secret else repr(value)
        raise SettingError(f"Setting '{setting.name}' cannot be {shown}. Allowed: {error}.") from None


def _kafka_settings(values: Mapping[str, Any], given: Mapping[str, Any]) -> KafkaSettings:
    options = {
        setting.kafka: _as_option(values[name])
        for name, setting in SETTINGS.items()
        if setting.kafka is not None and values[name] is not None and name in given
    }
    options["kafka.client.id"] = re.sub(r"[^A-Za-z0-9._-]", "-", values["client_id"])[:200]
    try:
        settings = parse_kafka_options(options)
    except OptionError as error:
        raise SettingError(_in_own_names(str(error))) from None
    objects = {
        setting.client: values[name]
        for name, setting in SETTINGS.items()
        if setting.client is not None and name in given and values[name] is not None
    }
    return replace(settings, client=tuple(sorted((dict(settings.client) | objects).items())))


def _as_option(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return ",".join(value) if isinstance(value, tuple) else str(value)


def own_error(error: KcoordError) -> KcoordError:
    """Return an error as the consumer's own: that of an option names the setting that stands for it."""
    return SettingError(_in_own_names(str(error))) if isinstance(error, OptionError) else translated(error)


def _in_own_names(message: str) -> str:
    named = {setting.kafka: name for name, setting in SETTINGS.items() if setting.kafka is not None}
    for option in sorted(named, key=len, reverse=True):
        message = message.replace(option, named[option])
    return message.replace("Option ", "Setting ").replace("Options ", "Settings ")
