"""A node before a Kafka that is secured: log-ins, what is refused and in which words, rights, and exchanged secrets."""

import base64
import gc
import json
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import pkcs12
from kafka.admin import (
    ACL,
    ACLFilter,
    ACLOperation,
    ACLPermissionType,
    ACLResourcePatternType,
    KafkaAdminClient,
    ResourcePattern,
    ResourcePatternFilter,
    ResourceType,
)

from coordinator.cli.moving.kafka_groups import KafkaGroup, KafkaGroupError, kafka_groups, read_kafka_config
from coordinator.config import KafkaSettings
from coordinator.core.effects import MirroredTopic, MirrorOffsets, OffsetToResolve
from coordinator.core.events import EndOffsetsRead, KafkaFailed, OffsetsResolved, TopicsRead
from coordinator.core.mirror.events import MirrorAnswered, Outcome
from coordinator.local.kafka.topics import create_topic
from coordinator.local.process.ports import LOOPBACK
from coordinator.protocol.ids import LATEST
from coordinator.runtime.kafka.access import kafka_access_of
from coordinator.runtime.kafka.mirror_port import MirrorPort
from coordinator.runtime.kafka.port import KafkaPort
from kcoord import Consumer
from spark_kcoord.errors import KcoordError
from spark_kcoord.fetch.decoding.decode import COLUMNS
from spark_kcoord.fetch.pool import ClientPool
from spark_kcoord.fetch.ranges import read_ranges
from spark_kcoord.fetch.topic_range import TopicRange
from spark_kcoord.options.source_options import parse_options
from tests.helpers.certificates import Authority, Pair
from tests.helpers.kafka_topics import produce_numbers
from tests.helpers.loopback import RememberedLog
from tests.helpers.node_process import running_node
from tests.helpers.processes import eventually
from tests.helpers.secure_kafka import PASSWORD, STORE_PASSWORD, USER, SecureKafka, secure_kafka
from tests.integration.test_admin import asked
from tests.integration.test_kafka_port import Inbox

pytestmark = [
    pytest.mark.kafka,
    # Sockets whose TLS handshake fails are left to the garbage collector by kafka-python, as in test_receive_paths.
    pytest.mark.filterwarnings(
        r"ignore:Exception ignored in. <(ssl\.SSLSocket|socket\.socket) fd:pytest.PytestUnraisableExceptionWarning"
    ),
]

OPEN, HIDDEN = "open-topic", "hidden-topic"
RECORDS = 20
SCRAM = "SCRAM-SHA-512"
CANARY = "c4n4ry-p4ssw0rd"
LONG_MS = 60_000
"""A time-out that no test waits for: what is told was told for its own reason."""


@pytest.fixture(autouse=True)
def garbage_is_collected(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """Collect the sockets that a test left, so that the warning about them belongs to that test."""
    yield
    caplog.get_records("call").clear()
    gc.collect()


@dataclass(frozen=True)
class Secured:
    """The broker, and the file of another authority than its own."""

    kafka: SecureKafka
    authority: Authority

    def settings(self, listener: str, **more: Any) -> dict[str, Any]:
        port = self.kafka.broker.port if listener == "PLAINTEXT" else self.kafka.ports[listener]
        return {"bootstrap_servers": (f"{LOOPBACK}:{port}",)} | more

    def logged_in(self, **more: Any) -> dict[str, Any]:
        return (
            self.settings(
                "SASL_SSL",
                security_protocol="SASL_SSL",
                trusted_certificates=str(self.kafka.certificate),
                sasl_mechanism="SCRAM-SHA-512",
                sasl_username=USER,
                sasl_password=PASSWORD,
            )
            | more
        )


def keystore_of(pair: Pair, path: Path) -> Path:
    """Write a pair as a key store of a broker."""
    key = serialization.load_pem_private_key(pair.key.read_bytes(), None)
    assert isinstance(key, ec.EllipticCurvePrivateKey)
    certificate = x509.load_pem_x509_certificate(pair.certificate.read_bytes())
    locked = serialization.BestAvailableEncryption(STORE_PASSWORD.encode())
    path.write_bytes(pkcs12.serialize_key_and_certificates(b"broker", key, certificate, None, locked))
    return path


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    folder = tmp_path_factory.mktemp("secured")
    authority = Authority(folder, "another")
    elsewhere = keystore_of(authority.pair("elsewhere", "elsewhere.example"), folder / "elsewhere.p12")
    more = {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",  # the plain listeners: the broker itself, and whoever prepares a test
        "listener.name.ssl.ssl.keystore.location": str(elsewhere),
    }
    with secure_kafka(folder, more) as kafka:
        for topic in (OPEN, HIDDEN):
            create_topic(kafka.broker.bootstrap_servers, topic)
            produce_numbers(kafka.broker.bootstrap_servers, topic, 1, 0, RECORDS)
        with KafkaAdminClient(bootstrap_servers=kafka.broker.bootstrap_servers) as admin:
            pattern = ResourcePattern(ResourceType.TOPIC, OPEN)
            admin.create_acls(
                [
                    ACL(f"User:{USER}", "*", operation, ACLPermissionType.ALLOW, pattern)
                    for operation in (ACLOperation.DESCRIBE, ACLOperation.READ)
                ]
            )
            # The broker learns of them a moment after they are written, and a test is told of topics once.
            anything = ResourcePatternFilter(ResourceType.ANY, None, ACLResourcePatternType.ANY)
            written = ACLFilter(None, None, ACLOperation.ANY, ACLPermissionType.ANY, anything)
            assert eventually(lambda: len(admin.describe_acls(written)[0]) == 2)
        yield Secured(kafka, authority)


@contextmanager
def port_of(settings: dict[str, Any], log: RememberedLog) -> Iterator[tuple[KafkaPort, Inbox]]:
    inbox, made = Inbox(), KafkaSettings(topics_poll_ms=LONG_MS, ends_poll_ms=100, **settings)
    port = KafkaPort(made, inbox.post, log.logger, access=kafka_access_of(made, log.logger))
    port.start()
    try:
        yield port, inbox
    finally:
        port.close()


def token_for(user: str) -> str:
    """Return a token that nobody has signed, which a broker without a validator of its own takes."""

    def part(value: dict[str, object]) -> str:
        return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")

    now_s = int(time.time())
    return f"{part({'alg': 'none'})}.{part({'sub': user, 'iat': now_s, 'exp': now_s + 600})}."


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"])
def test_a_node_logs_in_and_sees_what_its_rights_show(secured: Secured, mechanism: str, tmp_path: Path) -> None:
    settings = secured.logged_in(sasl_mechanism=mechanism)
    if mechanism == "OAUTHBEARER":
        token = tmp_path / "token"
        token.write_text(token_for(USER) + "\n")
        settings |= {"sasl_username": "", "sasl_password": "", "sasl_token_file": str(token)}
    else:
        password = tmp_path / "password"
        password.write_text(PASSWORD + "\n")
        settings |= {"sasl_password": "", "sasl_password_file": str(password)}
    log = RememberedLog()
    with port_of(settings, log) as (port, inbox):
        port.watch_topics(frozenset({OPEN, HIDDEN}))
        read = inbox.wait_for(TopicsRead, lambda event: OPEN in event.topics)
        assert "needs the ACL Describe" in read.refused[HIDDEN]
        assert inbox.wait_for(EndOffsetsRead, lambda event: bool(event.ends)).ends == {(OPEN, 0): RECORDS}
        assert port.why_away == ""
        port.resolve_offsets(7, (OffsetToResolve(HIDDEN, 0, LATEST),))
        answer = inbox.wait_for(OffsetsResolved).offsets[0]
        assert answer.offset is None
        assert "needs the ACL Describe" in answer.why
    refused = [line for line in log.lines if line["event"] == "kafka-topic-refused"]
    assert [line["topic"] for line in refused] == [HIDDEN]
    assert PASSWORD not in str(log.lines)


def test_a_mirror_writes_with_the_rights_that_the_manual_names_and_says_which_are_missing(secured: Secured) -> None:
    made = KafkaSettings(**secured.logged_in())
    log, answers = RememberedLog(), list[MirrorAnswered]()
    port = MirrorPort("", made, answers.append, log.logger, access=kafka_access_of(made, log.logger))

    def written(group: str, *topics: str, deleted: bool = False) -> MirrorAnswered:
        """Have offset 5 written of partition 0 of topics, and one of the open topic deleted."""
        columns = ((0,), (5,), (None,), ("",))
        wanted = tuple(MirroredTopic(topic, *columns) for topic in topics)
        attempt = len(answers) + 1
        port.write(MirrorOffsets(0, group, attempt, wanted, ((OPEN, (0,)),) if deleted else ()))
        assert eventually(lambda: len(answers) == attempt, 60.0)
        return answers[-1]

    port.start()
    try:
        refused = written("mirrored", OPEN)
        assert (refused.outcome, "the ACL Read on group 'mirrored'" in refused.why) == (Outcome.REFUSED, True)
        with KafkaAdminClient(bootstrap_servers=secured.kafka.broker.bootstrap_servers) as admin:
            pattern = ResourcePattern(ResourceType.GROUP, "mirrored")
            admin.create_acls([ACL(f"User:{USER}", "*", ACLOperation.READ, ACLPermissionType.ALLOW, pattern)])
            assert eventually(lambda: written("mirrored", OPEN).outcome is Outcome.DONE, 60.0)
            ((topic, _, why),) = written("mirrored", OPEN, HIDDEN).refused
            assert (topic, "the ACL Read on the topic" in why) == (HIDDEN, True)
            ((topic, _, why),) = written("mirrored", deleted=True).refused
            assert (topic, "the ACL Delete on group 'mirrored'" in why) == (OPEN, True)
            admin.create_acls([ACL(f"User:{USER}", "*", ACLOperation.DELETE, ACLPermissionType.ALLOW, pattern)])
            assert eventually(lambda: not written("mirrored", deleted=True).refused, 60.0)
            (offsets,) = admin.list_group_offsets(["mirrored"]).values()
            assert not [part for part, each in offsets.items() if part.topic == OPEN and each.offset >= 0]
    finally:
        port.close()
    assert (log.of("bug"), PASSWORD in str(log.lines)) == ([], False)


REFUSED = {
    "a wrong password": ("SASL_SSL", {"sasl_password": CANARY}, "kafka.sasl_mechanism and what belongs to it"),
    "an unknown user": ("SASL_SSL", {"sasl_username": "nobody"}, "kafka.sasl_mechanism and what belongs to it"),
    "an untrusted authority": ("SASL_SSL", {"trusted_certificates": "another"}, "look at kafka.trusted_certificates"),
    "a wrong host name": ("SSL", {"trusted_certificates": "another"}, "IP address mismatch"),
    "no TLS to a port that speaks it": ("SASL_SSL", {"security_protocol": "SASL_PLAINTEXT"}, "closed the connection"),
    "TLS to a port that does not": ("SASL_PLAINTEXT", {}, "perhaps its port speaks no TLS"),
    "no log-in where one is asked for": ("SASL_SSL", {"security_protocol": "SSL"}, "asks for a log-in"),
    "a log-in where none is": ("PLAINTEXT", {"security_protocol": "SASL_PLAINTEXT"}, "asks for no log-in"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_a_broker_refuses_is_told_at_once_in_one_line(secured: Secured, case: str) -> None:
    listener, change, said = REFUSED[case]
    change = {name: str(secured.authority.trusted) if value == "another" else value for name, value in change.items()}
    settings = secured.logged_in() | secured.settings(listener) | change
    if settings["security_protocol"] == "SASL_PLAINTEXT":
        del settings["trusted_certificates"]
    if not settings["security_protocol"].startswith("SASL"):
        settings = {name: value for name, value in settings.items() if not name.startswith("sasl_")}
    log = RememberedLog()
    settings |= {"connect_timeout_ms": LONG_MS, "request_timeout_ms": LONG_MS}
    with port_of(settings, log) as (port, inbox):
        why = inbox.wait_for(KafkaFailed).why
        assert port.why_away == why
    assert said in why
    assert "kafka." in why
    assert [line["event"] for line in log.lines] == ["kafka-unreachable"]
    assert CANARY not in str(log.lines)
    assert PASSWORD not in str(log.lines)


def test_a_node_takes_a_new_password_without_a_restart_and_shows_none(secured: Secured, tmp_path: Path) -> None:
    password = tmp_path / "password"
    password.write_text(CANARY)
    settings = secured.logged_in(sasl_password_file=str(password))
    del settings["sasl_password"], settings["bootstrap_servers"]
    sets = [f"kafka.{name}={value}" for name, value in settings.items()]
    at = f"{LOOPBACK}:{secured.kafka.ports['SASL_SSL']}"
    told = []
    with running_node(tmp_path / "node", "admin.listen=127.0.0.1:0", "tls.look_ms=86400000", *sets, kafka=at) as node:
        node.wait_until_it_says("kafka-unreachable")
        http = node.wait_until_it_serves_http()
        assert eventually(lambda: asked(http, "/readyz")[0] == 200), "it listens before it says that it is ready"
        told.append(asked(http, "/readyz"))
        assert "kafka.sasl_mechanism and what belongs to it" in told[0][1]
        password.write_text(PASSWORD + "\n")
        node.send(signal.SIGHUP)
        node.wait_until_it_says("kafka-reachable")
        assert eventually(lambda: asked(http, "/readyz") == (200, "ready\n"))
        password.unlink()
        node.send(signal.SIGHUP)
        node.wait_until_it_says("file-refused")
        assert asked(http, "/readyz") == (200, "ready\n")
        assert node.stop() == 0
        told.append(node.said)
    assert [each for each in told if CANARY in str(each) or PASSWORD in str(each)] == []


def test_a_consumer_of_a_node_before_a_secured_kafka_reads_and_its_rights_are_told(
    secured: Secured, tmp_path: Path
) -> None:
    settings = secured.logged_in()
    del settings["bootstrap_servers"], settings["sasl_password"]
    sets = [f"kafka.{name}={value}" for name, value in settings.items()]
    at = f"{LOOPBACK}:{secured.kafka.ports['SASL_SSL']}"
    options = secured.kafka.options("SASL_SSL", "SCRAM-SHA-512")
    secret = {"KCOORD_KAFKA_SASL_PASSWORD": PASSWORD}
    with running_node(tmp_path / "node", *sets, kafka=at, environment=secret) as node:
        node.wait_until_it_says("kafka-reachable")
        consumer = Consumer(
            OPEN,
            coordinators=node.wait_until_it_serves(),
            group_id="g",
            auto_offset_reset="earliest",
            bootstrap_servers=at,
            security_protocol="SASL_SSL",
            ssl_cafile=str(secured.kafka.certificate),
            sasl_mechanism="SCRAM-SHA-512",
            sasl_plain_username=USER,
            sasl_plain_password=PASSWORD,
        )
        read = []
        deadline_s = time.monotonic() + 60
        while len(read) < RECORDS and time.monotonic() < deadline_s:
            read += [record.value for records in consumer.poll(500).values() for record in records]
        consumer.close()
        assert read == [b"%d" % number for number in range(RECORDS)]
    pool = ClientPool()
    wanted = TopicRange(HIDDEN, None, 0, 0, RECORDS)
    parsed = parse_options({"subscribe": HIDDEN, **options}, "batch")
    with pytest.raises(KcoordError, match=r"(?i)authoriz"):
        list(read_ranges(parsed.kafka, [wanted], columns=COLUMNS, fail_on_data_loss=True, timeout_s=20, pool=pool))
    pool.close_idle()


def test_a_tool_speaks_to_kafka_by_a_file_with_its_settings(secured: Secured, tmp_path: Path) -> None:
    file = tmp_path / "kafka.properties"
    options = {name.removeprefix("kafka."): text for name, text in secured.kafka.options("SASL_SSL", SCRAM).items()}

    def read(group: str, **changed: str) -> KafkaGroup | str:
        file.write_text("".join(f"{name}={text}\n" for name, text in (options | changed).items()))
        file.chmod(0o600)
        try:
            with kafka_groups((), read_kafka_config(file), 60) as groups:
                return groups.read(group)
        except KafkaGroupError as error:
            return str(error)

    assert "GroupAuthorizationFailed" in str(read("somebody's")), "it has logged in, and may not read the group"
    with KafkaAdminClient(bootstrap_servers=secured.kafka.broker.bootstrap_servers) as admin:
        pattern = ResourcePattern(ResourceType.GROUP, "mine")
        admin.create_acls([ACL(f"User:{USER}", "*", ACLOperation.DESCRIBE, ACLPermissionType.ALLOW, pattern)])
    assert eventually(lambda: isinstance(read("mine"), KafkaGroup))
    refused = str(read("mine", **{"sasl.password": CANARY}))
    assert any(words in refused for words in ("log-in of this node is refused", "logged in as reader")), refused
    assert CANARY not in refused
