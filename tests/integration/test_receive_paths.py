"""Each receive path from a broker's socket passes the same tests: TLS, log-in and log-in again, time-outs, restarts."""

import gc
import logging
import os
import signal
import time
from collections.abc import Iterator

import pytest

from coordinator.local.kafka.broker import LocalKafka
from spark_kcoord.errors import KcoordError
from spark_kcoord.fetch.decoding.decode import COLUMNS
from spark_kcoord.fetch.offsets import KafkaLookup
from spark_kcoord.fetch.pool import ClientPool
from spark_kcoord.fetch.ranges import read_ranges
from spark_kcoord.fetch.topic_range import TopicRange
from spark_kcoord.options.source_options import parse_options
from tests.helpers.kafka_topics import produce
from tests.helpers.record_batches import Row
from tests.helpers.secure_kafka import REAUTHENTICATE_MS, SecureKafka, secure_kafka
from tests.helpers.waiting import wait_until

pytestmark = [
    pytest.mark.kafka,
    # A socket whose connecting or TLS handshake fails or is cut short is left to the garbage collector by kafka-python
    # (kafka.net.inet.KafkaNetSocket.sock_connect, kafka.net.manager.KafkaConnectionManager._build_transport).
    pytest.mark.filterwarnings(
        r"ignore:Exception ignored in. <(ssl\.SSLSocket|socket\.socket) fd:pytest.PytestUnraisableExceptionWarning"
    ),
]

RECORDS = 3_000
WANTED = TopicRange("t", None, 0, 0, RECORDS)
VALUES = [b"%d " % number * 200 for number in range(RECORDS)]
LOGGED_IN_AGAIN = "Beginning SASL re-authentication"
PATIENCE_S = 60.0


@pytest.fixture(scope="module")
def secure(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureKafka]:
    with secure_kafka(tmp_path_factory.mktemp("secure")) as made:
        fill(made.broker)
        yield made


@pytest.fixture(params=["stock", "large"])
def receive_path(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("KCOORD_RECEIVE_PATH", request.param)
    return str(request.param)


@pytest.fixture
def pool() -> Iterator[ClientPool]:
    made = ClientPool()
    yield made
    made.close_idle()
    gc.collect()


def fill(broker: LocalKafka) -> None:
    broker.create_topic("t")
    produce(broker.bootstrap_servers, "t", [(0, Row(value=value)) for value in VALUES], batch_size=60_000)


def read(given: dict[str, str], pool: ClientPool, *, timeout_s: float = 20, size: int = 300_000) -> Iterator[bytes]:
    options = parse_options({"subscribe": "t", "kafka.max.partition.fetch.bytes": str(size), **given}, "batch")
    for batch in read_ranges(
        options.kafka, [WANTED], columns=COLUMNS, fail_on_data_loss=True, timeout_s=timeout_s, pool=pool
    ):
        yield from batch.column("value").to_pylist()


def patience_s(given: dict[str, str], least_s: float = 1) -> float:
    """Return a time-out that a broker which is asked plainly keeps with ease, on this machine now."""
    lookup = KafkaLookup(parse_options({"subscribe": "t", **given}, "batch").kafka)
    try:
        began_s = time.monotonic()
        assert lookup.end_offsets([("t", 0)]) == {("t", 0): RECORDS}
        return max(least_s, float(round(20 * (time.monotonic() - began_s))))
    finally:
        lookup.close()


@pytest.mark.parametrize(
    ("protocol", "mechanism"),
    [
        ("PLAINTEXT", None),
        ("SSL", None),
        ("SASL_PLAINTEXT", "PLAIN"),
        ("SASL_PLAINTEXT", "SCRAM-SHA-256"),
        ("SASL_SSL", "PLAIN"),
        ("SASL_SSL", "SCRAM-SHA-256"),
    ],
)
def test_every_listener_gives_every_row(
    secure: SecureKafka, pool: ClientPool, receive_path: str, protocol: str, mechanism: str | None
) -> None:
    given = secure.options(protocol, mechanism)

    for size in (20_000, 4_000_000):
        assert list(read(given, pool, size=size)) == VALUES


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256"])
def test_log_in_is_repeated_on_the_same_connection(
    secure: SecureKafka, pool: ClientPool, receive_path: str, mechanism: str, caplog: pytest.LogCaptureFixture
) -> None:
    given = secure.options("SASL_SSL", mechanism)
    deadline = time.monotonic() + PATIENCE_S

    def logged_in_again() -> int:
        """Count on one connection: who stands still for too long has to connect anew, and then begins anew."""
        said = [record.getMessage() for record in caplog.records]
        newest = max(at for at, line in enumerate(said) if ": Connected" in line)
        return sum(LOGGED_IN_AGAIN in line for line in said[newest:])

    with caplog.at_level(logging.DEBUG, "kafka.net.connection"):
        assert list(read(given, pool)) == VALUES
        while logged_in_again() < 3:
            assert time.monotonic() < deadline
            assert list(read(given, pool)) == VALUES


def test_log_in_that_ran_out_in_the_middle_loses_and_repeats_nothing(
    secure: SecureKafka, pool: ClientPool, receive_path: str, caplog: pytest.LogCaptureFixture
) -> None:
    # A task that is slow to take its rows keeps the client from logging in again in time.
    seen = []
    with caplog.at_level(logging.DEBUG, "kafka.net.connection"):
        rows = read(secure.options("SASL_SSL", "PLAIN"), pool)
        seen.append(next(rows))
        expired_at = time.monotonic() + 2 * REAUTHENTICATE_MS / 1000
        wait_until(lambda: time.monotonic() > expired_at)
        seen += rows

    assert seen == VALUES


def test_certificate_that_is_not_trusted_is_a_clear_error(
    secure: SecureKafka, pool: ClientPool, receive_path: str
) -> None:
    given = secure.options("SSL")
    timeout_s = patience_s(given)
    del given["kafka.ssl.ca.location"]

    with pytest.raises(KcoordError, match=rf"gave no answer in {timeout_s:g} s .*(certificate|Handshake)"):
        list(read(given, pool, timeout_s=timeout_s))


def test_password_that_is_wrong_is_a_clear_error(secure: SecureKafka, pool: ClientPool, receive_path: str) -> None:
    given = secure.options("SASL_SSL", "SCRAM-SHA-256")
    timeout_s = patience_s(given, 2)
    given["kafka.sasl.password"] = "not-the-password"

    # kafka-python's own path may lose what a broker said just before it hung up.
    lost = rf"|gave no answer in {timeout_s:g} s \(KafkaConnectionError: socket disconnected"
    with pytest.raises(KcoordError, match="refused: SaslAuthenticationFailedError" + lost * (receive_path == "stock")):
        list(read(given, pool, timeout_s=timeout_s))


@pytest.mark.parametrize("protocol", ["PLAINTEXT", "SSL"])
def test_broker_that_says_nothing_is_a_time_out_and_then_read_on(
    secure: SecureKafka, pool: ClientPool, receive_path: str, protocol: str
) -> None:
    timeout_s = patience_s(secure.options(protocol))
    given = {**secure.options(protocol), "kafka.request.timeout.ms": f"{300 * timeout_s:.0f}"}
    rows = read(given, pool, timeout_s=timeout_s)
    seen = [next(rows)]
    os.killpg(secure.broker.process_group_id, signal.SIGSTOP)
    try:
        with pytest.raises(KcoordError, match=f"gave no answer in {timeout_s:g} s"):
            seen += rows
    finally:
        os.killpg(secure.broker.process_group_id, signal.SIGCONT)

    assert len(seen) < RECORDS
    assert seen == VALUES[: len(seen)]
    assert list(read(secure.options(protocol), pool)) == VALUES


def test_broker_that_restarts_loses_and_repeats_nothing(secure: SecureKafka, monkeypatch: pytest.MonkeyPatch) -> None:
    # One restart for readers of each kind: every pool connects for itself, by the path that is set when it does.
    kinds = [(path, mechanism) for path in ("stock", "large") for mechanism in (None, "PLAIN")]
    pools = [ClientPool() for _ in kinds]
    lookup = KafkaLookup(parse_options({"subscribe": "t", **secure.options("PLAINTEXT")}, "batch").kafka)
    assert lookup.end_offsets([("t", 0)]) == {("t", 0): RECORDS}
    readers, seen = [], []
    for (path, mechanism), pool in zip(kinds, pools, strict=True):
        monkeypatch.setenv("KCOORD_RECEIVE_PATH", path)
        rows = read(secure.options("SASL_SSL" if mechanism else "PLAINTEXT", mechanism), pool)
        seen.append([next(rows)])
        readers.append(rows)

    secure.broker.restart()

    for (path, _), rows, begun in zip(kinds, readers, seen, strict=True):
        monkeypatch.setenv("KCOORD_RECEIVE_PATH", path)
        begun += rows
    assert {kind: rows == VALUES for kind, rows in zip(kinds, seen, strict=True)} == dict.fromkeys(kinds, True)
    assert lookup.end_offsets([("t", 0)]) == {("t", 0): RECORDS}
    lookup.close()
    for pool in pools:
        pool.close_idle()
    gc.collect()


def messages(caplog: pytest.LogCaptureFixture, text: str) -> int:
    return sum(text in record.getMessage() for record in caplog.records)
