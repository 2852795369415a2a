"""Fetching from a real broker: kafka-python's own consumer is the oracle."""

import gc
import json
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pytest
from kafka import KafkaAdminClient, KafkaProducer, TopicPartition

from coordinator.local.kafka.broker import LocalKafka
from spark_kcoord.errors import DataLossError, KcoordError, OptionError, UnknownTopicError
from spark_kcoord.fetch.offsets import KafkaLookup
from spark_kcoord.fetch.pool import ClientPool
from spark_kcoord.fetch.ranges import read_ranges
from spark_kcoord.fetch.topic_range import TopicRange
from spark_kcoord.options.source_options import SourceOptions, parse_options
from spark_kcoord.source.resolve import resolve_ranges
from tests.helpers.decoders import decoder as decoder
from tests.helpers.kafka_topics import consume, produce, write_batch
from tests.helpers.record_batches import COMPRESS, Row, record_batch
from tests.helpers.waiting import wait_until

pytestmark = pytest.mark.kafka

# A socket that cannot connect is left to the garbage collector (kafka.net.inet.KafkaNetSocket.sock_connect).
LEAKED_BY_KAFKA_PYTHON = pytest.mark.filterwarnings(
    r"ignore:Exception ignored in. <socket\.socket.*'0\.0\.0\.0':pytest.PytestUnraisableExceptionWarning"
)

MakeTopic = Callable[..., str]
NOW_MS = 1_790_000_000_000
ROWS = [
    (0, Row(b"k0", b"v0", NOW_MS, [("h", b"1"), ("h", b"2"), ("ключ", b"\x00")])),
    (1, Row(None, b"v1", NOW_MS + 1)),
    (0, Row(b"", b"", NOW_MS + 2)),
    (2, Row(b"k3", None, NOW_MS + 3, [("", b"x")])),
    *((index % 3, Row(b"%d" % index, b"v" * index, NOW_MS + index)) for index in range(4, 300)),
]


@pytest.fixture(autouse=True)
def garbage_is_collected(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """Collect what a test left, also what its log holds, so that a warning about it belongs to that test."""
    yield
    caplog.get_records("call").clear()
    gc.collect()


@pytest.fixture
def pool() -> Iterator[ClientPool]:
    """Return a pool of its own, so that a test sees the connections it made."""
    made = ClientPool()
    yield made
    made.close_idle()


def options(kafka: LocalKafka, name: str, **more: str) -> SourceOptions:
    given = {"kafka.bootstrap.servers": kafka.bootstrap_servers, "subscribe": name, "includeHeaders": "true"}
    return parse_options({**given, **{key.replace("__", "."): text for key, text in more.items()}}, "batch")


def plan(read: SourceOptions) -> tuple[TopicRange, ...]:
    lookup = KafkaLookup(read.kafka)
    try:
        return resolve_ranges(read, lookup)
    finally:
        lookup.close()


def fetch(
    read: SourceOptions, ranges: tuple[TopicRange, ...], pool: ClientPool, timeout_s: float = 60
) -> Iterator[pa.RecordBatch]:
    return read_ranges(
        read.kafka,
        ranges,
        columns=read.columns,
        fail_on_data_loss=read.fail_on_data_loss,
        timeout_s=timeout_s,
        pool=pool,
    )


def rows_of(batches: Iterator[pa.RecordBatch]) -> list[dict[str, Any]]:
    rows = []
    for batch in batches:
        assert batch.num_rows > 0
        times = batch.column("timestamp").cast(pa.int64()).to_pylist()
        rows += [
            row | {"timestamp": time // 1000}
            for row, time in zip(batch.drop_columns(["timestamp"]).to_pylist(), times, strict=True)
        ]
    return rows


def read_all(read: SourceOptions, pool: ClientPool) -> list[dict[str, Any]]:
    return rows_of(fetch(read, plan(read), pool))


def test_rows_are_those_of_kafka_pythons_consumer(kafka: LocalKafka, topic: MakeTopic, pool: ClientPool) -> None:
    name = topic(3)
    produce(kafka.bootstrap_servers, name, ROWS)

    rows = read_all(options(kafka, name, kafka__max__partition__fetch__bytes="3000"), pool)

    assert rows == consume(kafka.bootstrap_servers, name)
    assert len(rows) == len(ROWS)


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_brokers_compression_changes_no_row(kafka: LocalKafka, topic: MakeTopic, pool: ClientPool, codec: str) -> None:
    plain, packed = topic(3), topic(3, {"compression.type": codec})
    for name in (plain, packed):
        produce(kafka.bootstrap_servers, name, ROWS)

    rows = read_all(options(kafka, packed), pool)

    assert rows == [row | {"topic": packed} for row in consume(kafka.bootstrap_servers, plain)]


@pytest.mark.parametrize("codec", sorted(COMPRESS.keys() - {"lz4"}))  # Kafka wants independent LZ4 blocks
def test_rows_a_python_producer_cannot_write(kafka: LocalKafka, topic: MakeTopic, pool: ClientPool, codec: str) -> None:
    rows = [Row(), Row(b"k", None, NOW_MS, [("none", None), ("h", b""), ("h", None)]), Row(None, b"v" * 500)]
    plain, packed = topic(1), topic(1)
    write_batch(kafka.bootstrap_servers, plain, record_batch(rows))
    write_batch(kafka.bootstrap_servers, packed, record_batch(rows, codec=codec))

    seen = read_all(options(kafka, packed), pool)

    assert seen == [row | {"topic": packed} for row in consume(kafka.bootstrap_servers, plain)]
    assert len(seen) == len(rows)


def test_log_append_time_is_of_type_1(kafka: LocalKafka, topic: MakeTopic, pool: ClientPool) -> None:
    name = topic(1, {"message.timestamp.type": "LogAppendTime"})
    produce(kafka.bootstrap_servers, name, [(0, Row(b"k", b"v", 5))])

    rows = read_all(options(kafka, name), pool)

    assert rows == consume(kafka.bootstrap_servers, name)
    assert rows[0]["timestampType"] == 1


def test_any_range_is_exact(kafka: LocalKafka, topic: MakeTopic, pool: ClientPool) -> None:
    name = topic(1)
    produce(kafka.bootstrap_servers, name, [(0, Row(value=b"%d" % index)) for index in range(200)])
    read = options(kafka, name)
    (whole,) = plan(read)

    for start, end in ((0, 1), (17, 18), (50, 150), (199, 200)):
        ranges = (TopicRange(name, whole.topic_id, 0, start, end),)
        assert [row["offset"] for row in rows_of(fetch(read, ranges, pool))] == list(range(start, end))


def test_json_offsets_and_empty_partitions(kafka: LocalKafka, topic: MakeTopic) -> None:
    name = topic(3)
    produce(kafka.bootstrap_servers, name, ROWS)
    start = json.dumps({name: {"0": 5, "1": -2, "2": 20}})
    end = json.dumps({name: {"0": 9, "1": 0, "2": -1}})

    ranges = plan(options(kafka, name, startingOffsets=start, endingOffsets=end))

    assert [(one.partition, one.start) for one in ranges] == [(0, 5), (2, 20)]
    assert ranges[0].end == 9


@pytest.mark.parametrize(
    ("start", "said"),
    [
        ({"0": 1}, "leaves out 1 of topic"),
        ({"0": 1, "1": 1, "7": 0}, "names 7 of topic"),
        ({"0": 1, "1": 99}, "the start 99 lies after the end 0"),
    ],
)
def test_offsets_that_do_not_fit_the_topic_are_explained(
    kafka: LocalKafka, topic: MakeTopic, start: dict[str, int], said: str
) -> None:
    name = topic(2)
    produce(kafka.bootstrap_servers, name, [(0, Row(b"k"))] * 2)

    with pytest.raises((OptionError, KcoordError), match=said):
        plan(options(kafka, name, startingOffsets=json.dumps({name: start})))


def transactional(kafka: LocalKafka, name: str) -> KafkaProducer:
    producer = KafkaProducer(bootstrap_servers=kafka.bootstrap_servers, transactional_id=f"tx-{name}")
    producer.init_transactions()
    return producer


@pytest.mark.parametrize("isolation", ["read_committed", "read_uncommitted"])
def test_transactions_are_seen_as_by_the_consumer(
    kafka: LocalKafka, topic: MakeTopic, pool: ClientPool, isolation: str
) -> None:
    name = topic(1)
    producer = transactional(kafka, name)
    for round_ in range(4):
        producer.begin_transaction()
        for index in range(5):
            producer.send(name, value=b"%d/%d" % (round_, index), partition=0)
        producer.flush()
        producer.abort_transaction() if round_ % 2 else producer.commit_transaction()
    producer.begin_transaction()
    producer.send(name, value=b"open", partition=0)
    producer.flush()
    read = options(kafka, name, kafka__isolation__level=isolation)

    rows = read_all(read, pool)
    (whole,) = plan(read)
    producer.abort_transaction()
    producer.close()

    is_committed = isolation == "read_committed"
    assert len(rows) == (10 if is_committed else 21)
    assert whole.end == (24 if is_committed else 25)
    seen = consume(kafka.bootstrap_servers, name, isolation_level=isolation)
    assert rows == [row for row in seen if row["offset"] < whole.end]


def test_deleted_offsets_are_data_loss_or_skipped_with_a_warning(
    kafka: LocalKafka, topic: MakeTopic, pool: ClientPool, caplog: pytest.LogCaptureFixture
) -> None:
    name = topic(1)
    produce(kafka.bootstrap_servers, name, [(0, Row(b"k"))] * 20)
    read = options(kafka, name)
    ranges = plan(read)
    with KafkaAdminClient(bootstrap_servers=kafka.bootstrap_servers) as admin:
        admin.delete_records({TopicPartition(name, 0): 12})

    with pytest.raises(DataLossError, match=rf"'{name}' partition 0: offset 0 of \[0, 20\) is gone; .* \[12, 20\)"):
        rows_of(fetch(read, ranges, pool))
    rows = rows_of(fetch(options(kafka, name, failOnDataLoss="false"), ranges, pool))

    assert [row["offset"] for row in rows] == list(range(12, 20))
    assert "data loss: offset 0 of [0, 20) is gone" in caplog.text


def test_topic_made_again_is_data_loss(
    kafka: LocalKafka, topic: MakeTopic, pool: ClientPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("spark_kcoord.fetch.progress._TOPIC_GRACE_S", 0.5)
    name = topic(1)
    produce(kafka.bootstrap_servers, name, [(0, Row(b"old"))] * 5)
    read = options(kafka, name)
    ranges = plan(read)
    with KafkaAdminClient(bootstrap_servers=kafka.bootstrap_servers) as admin:
        admin.delete_topics([name])
    wait_until(lambda: name not in known_topics(kafka))
    kafka.create_topic(name)
    produce(kafka.bootstrap_servers, name, [(0, Row(b"new"))] * 5)

    with pytest.raises(DataLossError, match=rf"'{name}' partition 0: the topic was deleted or made again"):
        rows_of(fetch(read, ranges, pool))
    assert rows_of(fetch(options(kafka, name, failOnDataLoss="false"), ranges, pool, timeout_s=2)) == []


def test_partitions_of_a_topic_made_again_with_fewer_are_left_out(kafka: LocalKafka, topic: MakeTopic) -> None:
    name = topic(3)
    lookup = KafkaLookup(options(kafka, name).kafka)
    keys = [(name, number) for number in range(3)]
    assert lookup.end_offsets(keys) == dict.fromkeys(keys, 0)
    with KafkaAdminClient(bootstrap_servers=kafka.bootstrap_servers) as admin:
        admin.delete_topics([name])
    wait_until(lambda: name not in known_topics(kafka))
    kafka.create_topic(name, 1)
    produce(kafka.bootstrap_servers, name, [(0, Row(b"new"))] * 5)

    assert lookup.end_offsets(keys) == {(name, 0): 5}
    assert lookup.earliest_offsets(keys) == {(name, 0): 0}
    lookup.close()


def known_topics(kafka: LocalKafka) -> set[str]:
    with KafkaAdminClient(bootstrap_servers=kafka.bootstrap_servers) as admin:
        return set(admin.list_topics())


def test_connections_are_kept_between_reads_and_dropped_after_a_failure(
    kafka: LocalKafka, topic: MakeTopic, pool: ClientPool
) -> None:
    name = topic(1)
    produce(kafka.bootstrap_servers, name, [(0, Row(value=b"x" * 1000))] * 100, batch_size=2000)
    read = options(kafka, name, kafka__max__partition__fetch__bytes="4000")
    ranges = plan(read)

    rows_of(fetch(read, ranges, pool))
    rows_of(fetch(read, ranges, pool))
    assert len(pool) == 1
    abandoned = fetch(read, ranges, pool)
    next(abandoned)
    assert len(pool) == 0
    abandoned.close()  # type: ignore[attr-defined]  # it is a generator
    assert len(pool) == 0


def test_offsets_of_many_partitions(kafka: LocalKafka, topic: MakeTopic) -> None:
    name = topic(3)
    produce(kafka.bootstrap_servers, name, ROWS)
    lookup = KafkaLookup(options(kafka, name).kafka)
    keys = [(name, number) for number in range(3)]

    assert lookup.topics([name])[name].partitions == (0, 1, 2)
    assert lookup.earliest_offsets(keys) == dict.fromkeys(keys, 0)
    assert sum(lookup.end_offsets(keys).values()) == len(ROWS)
    assert lookup.offsets_at({keys[0]: NOW_MS + 1, keys[1]: NOW_MS + 10**9, keys[2]: 0}) == {
        keys[0]: 1,
        keys[1]: None,
        keys[2]: 0,
    }
    assert lookup.end_offsets([]) == {}
    lookup.close()


def test_unknown_topic_is_named_and_not_created(kafka: LocalKafka, topic_name: Callable[[], str]) -> None:
    name = topic_name()
    lookup = KafkaLookup(options(kafka, name).kafka)

    for _ in range(2):
        with pytest.raises(UnknownTopicError, match=rf"has no topic {name} \(option 'subscribe'\)") as raised:
            lookup.topics([name])
        assert raised.value.topics == (name,)
    lookup.close()


@LEAKED_BY_KAFKA_PYTHON
def test_unreachable_broker_is_a_clear_error_in_time() -> None:
    read = parse_options({"kafka.bootstrap.servers": "127.0.0.1:1", "subscribe": "t"}, "batch")
    lookup = KafkaLookup(read.kafka, timeout_s=1)

    with pytest.raises(KcoordError, match=r"Kafka at 127\.0\.0\.1:1 gave no answer in 1 s .*'kafka.bootstrap.servers'"):
        lookup.topics(["t"])
    lookup.close()
