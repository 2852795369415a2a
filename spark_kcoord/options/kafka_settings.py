"""The ``kafka.*`` options: Kafka's names on the outside, kafka-python's settings on the inside.

Option names are those of Kafka's Java consumer, so a job that used ``format("kafka")`` keeps them; files of
keys and certificates are PEM (librdkafka's names for them are accepted too), because Python reads no Java key
stores. What has no counterpart here is an error, never ignored. Secrets stay out of every representation and
message. Pure, stdlib only.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from spark_kcoord.errors import OptionError
from spark_kcoord.options.kinds import BOOLEAN, SERVERS, TEXT, Kind, choice, identifier, integer

__all__ = [
    "KAFKA_OPTIONS",
    "KAFKA_WITHOUT_EFFECT",
    "REFUSED_KAFKA_OPTIONS",
    "KafkaOption",
    "KafkaSettings",
    "parse_kafka_options",
]

_MS: Final = integer(1, 2**31 - 1)
_BYTES: Final = integer(1, 2**30)


@dataclass(frozen=True, slots=True)
class KafkaOption:
    """One ``kafka.*`` option: its kind, where it goes, its default and what it means.

    ``client`` is the setting of kafka-python's connection manager it sets; None means kcoord reads it itself.
    """

    name: str
    kind: Kind
    client: str | None
    default: str
    meaning: str


_MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "GSSAPI", "AWS_MSK_IAM")
_PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
_STORE_TYPES: Final = ("PEM",)

KAFKA_OPTIONS: Final = tuple(
    KafkaOption(f"kafka.{name}", kind, client, default, meaning)
    for name, kind, client, default, meaning in (
        ("bootstrap.servers", SERVERS, None, "told by the coordinator", "Kafka brokers to ask first"),
        (
            "security.protocol",
            choice(_PROTOCOLS, upper=True),
            "security_protocol",
            "PLAINTEXT",
            "how to talk to the brokers",
        ),
        ("sasl.mechanism", choice(_MECHANISMS, upper=True), "sasl_mechanism", "none", "how to log in"),
        ("sasl.username", TEXT, "sasl_plain_username", "none", "user of PLAIN and SCRAM"),
        ("sasl.password", TEXT.as_secret(), "sasl_plain_password", "none", "password of PLAIN and SCRAM"),
        (
            "sasl.jaas.config",
            TEXT.as_secret(),
            None,
            "none",
            "user and password in Java's form (PlainLoginModule, ScramLoginModule)",
        ),
        (
            "sasl.kerberos.service.name",
            TEXT,
            "sasl_kerberos_service_name",
            "kafka",
            "service part of the brokers' principal",
        ),
        ("ssl.truststore.type", choice(_STORE_TYPES, upper=True), None, "none", "must be PEM"),
        ("ssl.truststore.location", TEXT, "ssl_cafile", "none", "PEM file of trusted certificates"),
        ("ssl.ca.location", TEXT, "ssl_cafile", "none", "the same, librdkafka's name"),
        ("ssl.keystore.type", choice(_STORE_TYPES, upper=True), None, "none", "must be PEM"),
        (
            "ssl.keystore.location",
            TEXT,
            "ssl_certfile",
            "none",
            "PEM file of the client's key and certificates",
        ),
        ("ssl.certificate.location", TEXT, "ssl_certfile", "none", "PEM file of the client's certificates"),
        ("ssl.key.location", TEXT, "ssl_keyfile", "none", "PEM file of the client's key"),
        ("ssl.key.password", TEXT.as_secret(), "ssl_password", "none", "password of the client's key"),
        ("ssl.crl.location", TEXT, "ssl_crlfile", "none", "PEM file of revoked certificates"),
        (
            "ssl.endpoint.identification.algorithm",
            choice(("https", "")),
            None,
            "https",
            "empty: do not check the broker's host name",
        ),
        ("client.id", identifier(250), "client_id", "kcoord", "name shown in the brokers' logs and quotas"),
        ("client.rack", identifier(250), None, "none", "rack of this client: read from a replica in it"),
        (
            "client.dns.lookup",
            choice(("use_all_dns_ips", "resolve_canonical_bootstrap_servers_only")),
            "client_dns_lookup",
            "use_all_dns_ips",
            "how host names are resolved",
        ),
        ("request.timeout.ms", _MS, "request_timeout_ms", "30000", "how long one request may take"),
        (
            "socket.connection.setup.timeout.ms",
            _MS,
            "socket_connection_setup_timeout_ms",
            "10000",
            "how long connecting may take",
        ),
        (
            "connections.max.idle.ms",
            _MS,
            "connections_max_idle_ms",
            "540000",
            "close an unused connection after this",
        ),
        ("reconnect.backoff.ms", _MS, "reconnect_backoff_ms", "50", "first wait before connecting again"),
        (
            "reconnect.backoff.max.ms",
            _MS,
            "reconnect_backoff_max_ms",
            "1000",
            "longest wait before connecting again",
        ),
        ("retry.backoff.ms", _MS, None, "100", "first wait before asking again; doubles up to 1 s"),
        ("metadata.max.age.ms", _MS, None, "300000", "look up partition leaders again after this"),
        ("receive.buffer.bytes", _BYTES, None, "the system's", "receive buffer of a socket"),
        ("send.buffer.bytes", _BYTES, None, "the system's", "send buffer of a socket"),
        ("fetch.max.bytes", _BYTES, None, "52428800", "the same bound; the smaller counts"),
        ("max.partition.fetch.bytes", _BYTES, None, "4194304", "most bytes of one answer, all its partitions together"),
        ("fetch.min.bytes", _BYTES, None, "1", "fewest bytes a broker waits for"),
        ("fetch.max.wait.ms", _MS, None, "500", "longest wait of a broker for fetch.min.bytes"),
        ("check.crcs", BOOLEAN, None, "true", "check every record batch's checksum"),
        (
            "isolation.level",
            choice(("read_uncommitted", "read_committed")),
            None,
            "read_uncommitted",
            "read_committed hides aborted and unfinished transactions; `latest` is then the last stable offset",
        ),
    )
)

_INSTEAD_STARTING: Final = "Use 'startingOffsets'"
_SPARK_DECODES: Final = "Keys and values are always binary; convert them with Spark functions"
REFUSED_KAFKA_OPTIONS: Final[Mapping[str, str]] = {
    "kafka.auto.offset.reset": _INSTEAD_STARTING,
    "kafka.key.deserializer": _SPARK_DECODES,
    "kafka.value.deserializer": _SPARK_DECODES,
    "kafka.enable.auto.commit": "Offsets are committed to the coordinator after each micro-batch; see 'kcoord.commit'",
    "kafka.interceptor.classes": "Consumer interceptors are Java classes and are not run here",
    "kafka.group.instance.id": "Use 'kcoord.instance.id'",
    "kafka.session.timeout.ms": "Use 'kcoord.session.timeout'",
    "kafka.max.poll.interval.ms": "Use 'kcoord.rebalance.timeout'",
    "kafka.partition.assignment.strategy": "Use 'kcoord.assignors'",
    "kafka.ssl.truststore.password": "Python reads PEM files, not Java key stores; a PEM trust store has no password",
    "kafka.ssl.keystore.password": "Python reads PEM files, not Java key stores; see 'kafka.ssl.key.password'",
}

_JAVA_METRICS: Final = "the Java client's metrics do not exist here"
KAFKA_WITHOUT_EFFECT: Final[Mapping[str, str]] = {
    "kafka.max.poll.records": "reads are bounded by kafka.max.partition.fetch.bytes",
    "kafka.auto.commit.interval.ms": "offsets are committed after each micro-batch",
    "kafka.heartbeat.interval.ms": "see kcoord.ping.interval",
    "kafka.default.api.timeout.ms": "see kafkaConsumer.pollTimeoutMs and fetchOffset.numRetries",
    "kafka.retry.backoff.max.ms": "waits double up to 1 s",
    "kafka.socket.connection.setup.timeout.max.ms": "connecting takes kafka.socket.connection.setup.timeout.ms at most",
    "kafka.allow.auto.create.topics": "reading never creates a topic",
    "kafka.exclude.internal.topics": "patterns never match Kafka's internal topics",
    "kafka.group.protocol": "the coordinator has its own",
    "kafka.metric.reporters": _JAVA_METRICS,
    "kafka.metrics.num.samples": _JAVA_METRICS,
    "kafka.metrics.recording.level": _JAVA_METRICS,
    "kafka.metrics.sample.window.ms": _JAVA_METRICS,
    "kafka.auto.include.jmx.reporter": _JAVA_METRICS,
    "kafka.enable.metrics.push": _JAVA_METRICS,
}
"""Settings of Java's consumer that can be left out without any change of meaning, and why."""

_JAVA_STORE_SUFFIXES: Final = (".jks", ".p12", ".pfx", ".keystore", ".truststore")
_JAAS_LOGIN: Final = re.compile(
    r"\s*org\.apache\.kafka\.common\.security\.(?:plain\.PlainLoginModule|scram\.ScramLoginModule)\s+required\b(.*);\s*",
    re.DOTALL,
)
_JAAS_FIELD: Final = re.compile(r"""(\w+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|'((?:[^'\\]|\\.)*)'|([^\s"';]+))""")


@dataclass(frozen=True, slots=True)
class KafkaSettings:
    """The settings to reach and read Kafka; hashable, so connections can be kept by it. Its repr shows no secret.

    ``client`` holds settings of kafka-python's connection manager as (name, value) pairs, and ``file_options`` the
    options that gave those that are files, for messages.
    """

    servers: tuple[str, ...] = ()
    client: tuple[tuple[str, Any], ...] = field(default=(), repr=False)
    is_read_committed: bool = False
    rack: str = ""
    check_crcs: bool = True
    fetch_max_bytes: int = 52_428_800
    max_partition_fetch_bytes: int = 4_194_304
    fetch_min_bytes: int = 1
    fetch_max_wait_ms: int = 500
    request_timeout_ms: int = 30_000
    retry_backoff_ms: int = 100
    metadata_max_age_ms: int = 300_000
    file_options: tuple[tuple[str, str], ...] = ()

    @property
    def isolation_level(self) -> str:
        """Kafka's word for up to where is read."""
        return "read_committed" if self.is_read_committed else "read_uncommitted"


_FILES: Final = frozenset({"ssl_cafile", "ssl_certfile", "ssl_keyfile", "ssl_crlfile"})
_FETCH_FIELDS: Final[Mapping[str, str]] = {
    "kafka.client.rack": "rack",
    "kafka.check.crcs": "check_crcs",
    "kafka.fetch.max.bytes": "fetch_max_bytes",
    "kafka.max.partition.fetch.bytes": "max_partition_fetch_bytes",
    "kafka.fetch.min.bytes": "fetch_min_bytes",
    "kafka.fetch.max.wait.ms": "fetch_max_wait_ms",
    "kafka.request.timeout.ms": "request_timeout_ms",
    "kafka.retry.backoff.ms": "retry_backoff_ms",
    "kafka.metadata.max.age.ms": "metadata_max_age_ms",
}


def parse_kafka_options(given: Mapping[str, str]) -> KafkaSettings:
    """Parse the ``kafka.*`` options, whose names are lower case and known; raises OptionError."""
    values = {option.name: option.kind.read(option.name, given[option.name]) for option in _given_options(given)}
    client: dict[str, Any] = {"client_id": "kcoord", "reconnect_backoff_max_ms": 1_000}
    for option in _given_options(given):
        if option.client is not None:
            client[option.client] = values[option.name]
    files = {option.client: option.name for option in _given_options(given) if option.client in _FILES}
    _refuse_java_stores(values)
    if values.get("kafka.ssl.endpoint.identification.algorithm") == "":
        client["ssl_check_hostname"] = False
    if "kafka.sasl.jaas.config" in values:
        client |= _parse_jaas(values["kafka.sasl.jaas.config"])
    _check_login(values, client)
    buffers = _socket_options(values)
    if buffers:
        client["socket_options"] = buffers
    fetch = {name: values[option] for option, name in _FETCH_FIELDS.items() if option in values}
    return KafkaSettings(
        servers=values.get("kafka.bootstrap.servers", ()),
        client=tuple(sorted(client.items())),
        is_read_committed=values.get("kafka.isolation.level") == "read_committed",
        file_options=tuple(sorted(files.items())),
        **fetch,
    )


def _given_options(given: Mapping[str, str]) -> list[KafkaOption]:
    return [option for option in KAFKA_OPTIONS if option.name in given]


def _refuse_java_stores(values: Mapping[str, Any]) -> None:
    for name in ("kafka.ssl.truststore", "kafka.ssl.keystore"):
        location = values.get(f"{name}.location")
        if location and f"{name}.type" not in values and location.lower().endswith(_JAVA_STORE_SUFFIXES):
            raise OptionError(
                f"Option '{name}.location' is {location!r}, a Java key store, which Python cannot read. "
                f"Convert it to PEM and set '{name}.type' to PEM."
            )


def _parse_jaas(text: str) -> dict[str, str]:
    login = _JAAS_LOGIN.fullmatch(text)
    found = {}
    if login:
        for match in _JAAS_FIELD.finditer(login[1]):
            quoted = match[2] if match[2] is not None else match[3]
            found[match[1]] = match[4] if quoted is None else re.sub(r"\\(.)", r"\1", quoted)
    if "username" not in found or "password" not in found:
        raise OptionError(
            "Option 'kafka.sasl.jaas.config' cannot be read (its value is not shown). Allowed: PlainLoginModule or "
            "ScramLoginModule with username and password; or use 'kafka.sasl.username' and 'kafka.sasl.password'."
        )
    return {"sasl_plain_username": found["username"], "sasl_plain_password": found["password"]}


def _check_login(values: Mapping[str, Any], client: Mapping[str, Any]) -> None:
    protocol = values.get("kafka.security.protocol", "PLAINTEXT")
    mechanism = values.get("kafka.sasl.mechanism")
    if protocol.startswith("SASL") and mechanism is None:
        raise OptionError(
            f"Option 'kafka.sasl.mechanism' is missing; 'kafka.security.protocol' is {protocol}. "
            f"Allowed: {', '.join(_MECHANISMS)}."
        )
    if not protocol.startswith("SASL") and (mechanism is not None or "sasl_plain_password" in client):
        raise OptionError(
            f"Options 'kafka.sasl.*' are given but 'kafka.security.protocol' is {protocol}, which does not log in. "
            "Set it to SASL_SSL (or SASL_PLAINTEXT)."
        )
    needs_password = mechanism is not None and (mechanism == "PLAIN" or mechanism.startswith("SCRAM"))
    if needs_password and not {"sasl_plain_username", "sasl_plain_password"} <= client.keys():
        raise OptionError(
            f"Option 'kafka.sasl.username' or 'kafka.sasl.password' is missing; {mechanism} needs both "
            "(or 'kafka.sasl.jaas.config')."
        )


def _socket_options(values: Mapping[str, Any]) -> tuple[tuple[int, int, int], ...]:
    sizes = (("kafka.receive.buffer.bytes", socket.SO_RCVBUF), ("kafka.send.buffer.bytes", socket.SO_SNDBUF))
    given = tuple((socket.SOL_SOCKET, code, values[name]) for name, code in sizes if name in values)
    if not given:
        return ()
    always = ((socket.IPPROTO_TCP, socket.TCP_NODELAY, 1), (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1))
    return (*always, *given)
