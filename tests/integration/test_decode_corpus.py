"""Batches as three producers write them and a broker keeps them, decoded beside kafka-python and confluent-kafka.

The record sets are the broker's own segment files. Transactions are read from the broker, because only its answers
name the aborted ones.
"""

import random
from collections.abc import Callable, Iterator

import pyarrow as pa
import pytest
from confluent_kafka import Producer

from coordinator.local.kafka.broker import LocalKafka
from spark_kcoord.fetch.decoding.columns import header_keys
from spark_kcoord.fetch.decoding.decode import COLUMNS, DecodedBatch, load_decoder
from spark_kcoord.fetch.offsets import KafkaLookup
from spark_kcoord.fetch.pool import ClientPool
from spark_kcoord.fetch.ranges import read_ranges
from spark_kcoord.fetch.topic_range import TopicRange
from spark_kcoord.options.kafka_settings import KafkaSettings
from spark_kcoord.options.source_options import parse_options
from tests.helpers.confluent_reader import confluent_rows
from tests.helpers.decoders import available_decoders, decoding_with
from tests.helpers.java_producer import JavaProducers, java_producers
from tests.helpers.kafka_topics import produce
from tests.helpers.memory_records import OracleRow, decoded_rows, oracle_rows
from tests.helpers.record_batches import Row
from tests.helpers.waiting import wait_until

pytestmark = pytest.mark.kafka

MakeTopic = Callable[..., str]
NOW_MS = 1_790_000_000_000
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
ROWS = [
    Row(b"k0", b"v0", NOW_MS, [("h", b"1"), ("h", b"2"), ("ключ", b"\x00")]),
    Row(None, b"v1", NOW_MS + 1),
    Row(b"", b"", NOW_MS + 2),
    Row(b"k3", None, NOW_MS - 3, [("", b"x"), ("empty", b"")]),
    *(Row(b"%d" % n, b"v" * (n * n), NOW_MS + n, [("n", b"%d" % n)] if n % 7 == 0 else []) for n in range(4, 300)),
    Row(b"large", bytes(range(256)) * 2_000, NOW_MS + 300),
]
READ_TIMEOUT_S = 30.0


@pytest.fixture(scope="module")
def java() -> Iterator[JavaProducers]:
    with java_producers() as producers:
        yield producers


NULL_HEADER = Row(b"last", b"v", NOW_MS + 301, [("none", None)])
"""Which kafka-python's producer refuses to write."""


def write_by_java(java: JavaProducers, servers: str, topic: str, rows: list[Row], codec: str) -> None:
    producer = java.producer(servers, {"compression.type": codec})
    try:
        for row in rows:
            java.send(producer, topic, row)
    finally:
        producer.close()


def write_by_librdkafka(_: JavaProducers, servers: str, topic: str, rows: list[Row], codec: str) -> None:
    producer = Producer({"bootstrap.servers": servers, "compression.type": codec, "linger.ms": 5})
    for row in rows:
        producer.produce(
            topic, row.value, row.key, partition=0, timestamp=row.timestamp, headers=list(row.headers) or None
        )
    assert producer.flush(READ_TIMEOUT_S) == 0


def write_by_kafka_python(_: JavaProducers, servers: str, topic: str, rows: list[Row], codec: str) -> None:
    produce(servers, topic, ((0, row) for row in rows), compression_type=None if codec == "none" else codec)


def segment(kafka: LocalKafka, topic: str) -> bytes:
    """Return the record batches of partition 0 as the broker keeps them."""
    return b"".join(path.read_bytes() for path in sorted(kafka.data_dir.rglob(f"{topic}-0/*.log")))


def read(kafka: LocalKafka, topic: str, end: int, isolation: str) -> list[OracleRow]:
    """Return offsets [0, end) of partition 0 as an executor reads them."""
    given = {"kafka.bootstrap.servers": kafka.bootstrap_servers, "subscribe": topic, "includeHeaders": "true"}
    options = parse_options(given | {"kafka.isolation.level": isolation}, "batch")
    pool = ClientPool()
    try:
        batches = read_ranges(
            options.kafka,
            [TopicRange(topic, None, 0, 0, end)],
            columns=COLUMNS,
            fail_on_data_loss=True,
            timeout_s=READ_TIMEOUT_S,
            pool=pool,
        )
        return [row for batch in batches for row in decoded_rows(batch)]
    finally:
        pool.close_idle()


def ends(kafka: LocalKafka, topic: str) -> list[int]:
    """Return where partition 0 ends for who reads what is committed, and for who reads all."""
    found = []
    for is_read_committed in (True, False):
        client = (("client_id", "tests"),)
        lookup = KafkaLookup(KafkaSettings((kafka.bootstrap_servers,), client, is_read_committed=is_read_committed))
        try:
            found.append(lookup.end_offsets([(topic, 0)])[topic, 0])
        finally:
            lookup.close()
    return found


def decoded_by_all(record_set: bytes, topic: str) -> DecodedBatch:
    """Return what each decoder makes of a record set, after comparing them."""
    first, *others = (
        load_decoder(name).decode(record_set, topic, 0, 0, 1 << 40, columns=COLUMNS) for name in available_decoders()
    )
    for other in others:
        assert (other.next_offset, other.rows) == (first.next_offset, first.rows)
    return first


@pytest.mark.parametrize(
    ("write", "codec"),
    [
        *((write_by_java, codec) for codec in CODECS),
        *((write_by_librdkafka, codec) for codec in CODECS),
        *((write_by_kafka_python, codec) for codec in ("none", "gzip")),
    ],
)
def test_what_a_producer_writes_is_what_both_oracles_read(
    kafka: LocalKafka, topic: MakeTopic, java: JavaProducers, write: Callable[..., None], codec: str
) -> None:
    name = topic()
    written = ROWS if write is write_by_kafka_python else [*ROWS, NULL_HEADER]
    write(java, kafka.bootstrap_servers, name, written, codec)
    record_set = segment(kafka, name)

    decoded = decoded_by_all(record_set, name)

    rows = decoded_rows(decoded.rows)
    assert rows == oracle_rows(record_set) == confluent_rows(kafka.bootstrap_servers, name)
    assert [row[3:] for row in rows] == [(row.key, row.value, row.headers or None) for row in written]
    assert decoded.next_offset == len(written)


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_broker_that_stamps_and_compresses_anew_is_read_as_the_oracles_do(
    kafka: LocalKafka, topic: MakeTopic, codec: str
) -> None:
    name = topic(1, {"message.timestamp.type": "LogAppendTime", "compression.type": codec})
    produce(kafka.bootstrap_servers, name, ((0, row) for row in ROWS))
    record_set = segment(kafka, name)

    rows = decoded_rows(decoded_by_all(record_set, name).rows)

    assert rows == oracle_rows(record_set) == confluent_rows(kafka.bootstrap_servers, name)
    assert {row[2] for row in rows} == {1}


def test_header_keys_that_are_not_utf8_are_replaced_as_java_does(java: JavaProducers) -> None:
    chance = random.Random(11)
    pieces = [
        b"a",
        b"\xc3\xa9",
        b"\xe2\x82\xac",
        b"\xf0\x9f\x98\x80",
        b"\xed\xa0\x80",
        b"\xc0\x80",
        b"\xf4\x90\x80\x80",
    ]
    leads = [bytes([byte]) for byte in (0x80, 0xBF, 0xC3, 0xE0, 0xE2, 0xED, 0xEF, 0xF0, 0xF1, 0xF4, 0xF8, 0xFF)]
    keys = [b"".join(chance.choices([*pieces, *leads, *leads], k=chance.randint(1, 6))) for _ in range(500)]

    texts = header_keys(pa.array(keys, pa.binary())).to_pylist()

    assert dict(zip(keys, texts, strict=True)) == {key: java.decode_utf8(key) for key in keys}


def write_transactions_by_java(java: JavaProducers, servers: str, topic: str) -> None:
    producer = java.producer(servers, {"transactional.id": topic, "compression.type": "lz4"})
    try:
        producer.initTransactions()
        for number in range(6):
            producer.beginTransaction()
            for row in ROWS[number * 20 : number * 20 + 20]:
                java.send(producer, topic, row)
            producer.flush()
            _ = producer.abortTransaction() if number % 2 else producer.commitTransaction()
    finally:
        producer.close()


def write_transactions_by_librdkafka(_: JavaProducers, servers: str, topic: str) -> None:
    config = {"bootstrap.servers": servers, "compression.type": "zstd"}
    first, second = (Producer({**config, "transactional.id": f"{topic}-{name}"}) for name in ("a", "b"))
    for producer in (first, second):
        producer.init_transactions(READ_TIMEOUT_S)
        producer.begin_transaction()
    for turn in range(3):
        for producer in (first, second):
            for row in ROWS[turn * 20 : turn * 20 + 20]:
                producer.produce(topic, row.value, row.key, partition=0, timestamp=row.timestamp)
            assert producer.flush(READ_TIMEOUT_S) == 0
    first.abort_transaction(READ_TIMEOUT_S)
    second.commit_transaction(READ_TIMEOUT_S)


@pytest.mark.parametrize("write", [write_transactions_by_java, write_transactions_by_librdkafka])
def test_transactions_are_read_as_confluent_kafka_reads_them(
    kafka: LocalKafka, topic: MakeTopic, java: JavaProducers, write: Callable[..., None]
) -> None:
    name = topic()
    write(java, kafka.bootstrap_servers, name)
    # Whoever ends a transaction is answered before its marker is in the partition, and it counts as open until then.
    wait_until(lambda: len(set(ends(kafka, name))) == 1, what="the end of the last transaction")
    record_set = segment(kafka, name)
    end = decoded_by_all(record_set, name).next_offset
    committed = confluent_rows(kafka.bootstrap_servers, name)
    uncommitted = confluent_rows(kafka.bootstrap_servers, name, "read_uncommitted")

    for decoder in available_decoders():
        with decoding_with(decoder):
            assert read(kafka, name, end, "read_committed") == committed
            assert read(kafka, name, end, "read_uncommitted") == uncommitted

    assert uncommitted == oracle_rows(record_set)
    assert (len(committed), len(uncommitted)) == (60, 120)
