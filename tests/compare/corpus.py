"""Topics with everything a topic can hold, from three producers: Java's (Spark's Kafka sink), librdkafka, kafka-python.

Each function fills one topic that exists. Times are fixed where the producer can be told the time (Spark's sink
cannot), in one topic two seconds apart, so that cases can start and end in between.
"""

import itertools
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from confluent_kafka import Producer
from kafka import KafkaAdminClient, KafkaProducer, TopicPartition
from pyspark.sql import Row as SparkRow
from pyspark.sql import SparkSession
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    IntegerType,
    StringType,
    StructType,
)

from coordinator.local.kafka.broker import LocalKafka
from tests.helpers.kafka_topics import consume, produce
from tests.helpers.record_batches import Row
from tests.helpers.waiting import wait_until

FIRST_MS = 1_790_000_000_000
STEP_MS = 2_000
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
OLD = "old"
"""The topic whose logs are laid into the broker's directory, see `tests/helpers/old_logs.py`."""
FLUSH_S = 30.0
SINK_SCHEMA = (
    StructType()
    .add("key", BinaryType())
    .add("value", BinaryType())
    .add("partition", IntegerType())
    .add("headers", ArrayType(StructType().add("key", StringType()).add("value", BinaryType())))
)
ODD_ROWS = (
    Row(b"k0", b"v0", FIRST_MS, [("h", b"1"), ("h", b"2"), ("ключ", b"\x00")]),
    Row(None, b"no key", FIRST_MS + 1),
    Row(b"no value", None, FIRST_MS + 2, [("only", b"header")]),
    Row(b"", b"", FIRST_MS + 4, [("", b""), ("empty", b"")]),
    Row(b"earlier than the one before", bytes(range(256)), FIRST_MS - 500),
    Row(b"long", b"x" * 70_000, FIRST_MS + 5, [(f"h{number}", b"%d" % number) for number in range(40)]),
)
NULLS = (
    Row(None, None, FIRST_MS + 3),
    Row(b"null header", b"v", FIRST_MS + 6, [("none", None), ("none", b"some"), ("none", None)]),
)
"""Which kafka-python's producer refuses to write."""


@dataclass(frozen=True)
class Place:
    """Where topics are written."""

    spark: SparkSession
    kafka: LocalKafka

    @property
    def servers(self) -> str:
        """The broker's address."""
        return self.kafka.bootstrap_servers


def write_by_spark(place: Place, topic: str, rows: list[tuple[int, Row]], codec: str) -> None:
    """Write through Spark's Kafka sink, which is Java's producer."""
    data = [
        SparkRow(
            key=row.key,
            value=row.value,
            partition=partition,
            headers=[SparkRow(key=key, value=value) for key, value in row.headers] or None,
        )
        for partition, row in rows
    ]
    frame = place.spark.createDataFrame(data, SINK_SCHEMA).coalesce(1)
    sink = frame.write.format("kafka").option("kafka.bootstrap.servers", place.servers).option("topic", topic)
    sink.option("includeHeaders", "true").option("kafka.compression.type", codec).save()


def write_by_librdkafka(place: Place, topic: str, rows: list[tuple[int, Row]], codec: str) -> None:
    producer = Producer({"bootstrap.servers": place.servers, "compression.type": codec, "linger.ms": 5})
    for partition, row in rows:
        headers = list(row.headers) or None
        producer.produce(topic, row.value, row.key, partition=partition, timestamp=row.timestamp, headers=headers)
    assert producer.flush(FLUSH_S) == 0


def write_by_kafka_python(place: Place, topic: str, rows: list[tuple[int, Row]], codec: str) -> None:
    produce(place.servers, topic, rows, compression_type=None if codec == "none" else codec)


def codecs(place: Place, topic: str) -> None:
    """Fill partition 0 by Java, 1 by librdkafka and 2 by kafka-python, in every codec that each knows."""
    writers = ((write_by_spark, CODECS), (write_by_librdkafka, CODECS), (write_by_kafka_python, ("none", "gzip")))
    for partition, (write, names) in enumerate(writers):
        for codec in names:
            values = (f"{codec} {number} ".encode() * 50 for number in range(40))
            write(
                place, topic, [(partition, Row(b"k", value, FIRST_MS + at)) for at, value in enumerate(values)], codec
            )


def shapes(place: Place, topic: str) -> None:
    """Fill three partitions by the three producers with odd keys, values and headers."""
    write_by_spark(place, topic, [(0, row) for row in (*ODD_ROWS, *NULLS)], "lz4")
    write_by_librdkafka(place, topic, [(1, row) for row in (*ODD_ROWS, *NULLS)], "none")
    write_by_kafka_python(place, topic, [(2, row) for row in ODD_ROWS], "gzip")


def timed(place: Place, topic: str) -> None:
    """Fill two of three partitions with one record every two seconds, the second one ending earlier."""
    write_by_librdkafka(
        place,
        topic,
        [
            *((0, Row(b"%d" % number, b"a", FIRST_MS + number * STEP_MS)) for number in range(100)),
            *((1, Row(b"%d" % number, b"b", FIRST_MS + number * STEP_MS)) for number in range(40)),
        ],
        "none",
    )


def appended(place: Place, topic: str) -> None:
    """Let the broker stamp the records of all three producers."""
    rows = [(index % 2, Row(b"%d" % index, b"v", FIRST_MS)) for index in range(20)]
    write_by_spark(place, topic, rows, "none")
    write_by_librdkafka(place, topic, rows, "zstd")
    write_by_kafka_python(place, topic, rows, "gzip")


def sparse(place: Place, topic: str) -> None:
    """Fill one of five partitions."""
    write_by_kafka_python(place, topic, [(3, Row(b"k", b"v", FIRST_MS + number)) for number in range(25)], "none")


def transactions(place: Place, topic: str) -> None:
    """Commit and abort transactions of two producers in turn, and leave one open in partition 1, whose producer goes.

    A range of partition 0 ends with a control record; partition 1 has records after its last stable offset.
    """
    first = Producer({"bootstrap.servers": place.servers, "transactional.id": f"{topic}-a", "compression.type": "lz4"})
    second = KafkaProducer(bootstrap_servers=place.servers, transactional_id=f"{topic}-b")
    first.init_transactions(FLUSH_S)
    second.init_transactions()
    for turn in range(6):
        first.begin_transaction()
        second.begin_transaction()
        for number in range(10):
            first.produce(topic, b"a%d.%d" % (turn, number), partition=turn % 2, timestamp=FIRST_MS + turn)
            if number % 3 == 0:
                assert first.flush(FLUSH_S) == 0
                second.send(topic, b"b%d.%d" % (turn, number), partition=0, timestamp_ms=FIRST_MS + turn)
                second.flush()
        _ = first.abort_transaction(FLUSH_S) if turn % 2 else first.commit_transaction(FLUSH_S)
        _ = second.commit_transaction() if turn % 3 else second.abort_transaction()
    second.close()
    write_by_librdkafka(place, topic, [(1, Row(b"k", b"plain", FIRST_MS))], "none")
    patient = {"transactional.id": f"{topic}-open", "transaction.timeout.ms": 900_000}
    left_open = Producer({"bootstrap.servers": place.servers, **patient})
    left_open.init_transactions(FLUSH_S)
    left_open.begin_transaction()
    left_open.produce(topic, b"unfinished", partition=1, timestamp=FIRST_MS)
    assert left_open.flush(FLUSH_S) == 0
    write_by_librdkafka(place, topic, [(1, Row(b"k", b"after", FIRST_MS))], "none")


def trimmed(place: Place, topic: str) -> None:
    """Delete the beginning of partition 0 and everything in partition 1."""
    rows = [(partition, Row(b"%d" % number, b"v", FIRST_MS + number)) for partition in (0, 1) for number in range(50)]
    write_by_librdkafka(place, topic, rows, "none")
    admin = KafkaAdminClient(bootstrap_servers=place.servers)
    try:
        admin.delete_records({TopicPartition(topic, 0): 20, TopicPartition(topic, 1): 50})
    finally:
        admin.close()


def compacted(place: Place, topic: str) -> None:
    """Write few keys again and again until the cleaner has made holes, tombstones among them.

    The broker must clean soon (log.cleaner.backoff.ms) and roll segments as `SETTINGS` says.
    """
    written = 0
    for turn in itertools.count():
        assert turn < 200, "the broker has not compacted anything"
        at = FIRST_MS + turn * STEP_MS  # segments roll by the time of their records
        rows = [(0, Row(b"%d" % (number % 7), None if number % 5 == 0 else b"v", at)) for number in range(50)]
        write_by_librdkafka(place, topic, rows, "gzip" if turn % 2 else "none")
        written += len(rows)
        time.sleep(0.1)
        if turn > 3 and len(consume(place.servers, topic)) < written - len(rows):
            break
    wait_until(lambda: _is_settled(place, topic), what="the cleaner to be done")


def _is_settled(place: Place, topic: str) -> bool:
    before = len(consume(place.servers, topic))
    time.sleep(1.0)
    return len(consume(place.servers, topic)) == before


def empty(place: Place, topic: str) -> None:
    """Write nothing."""


SETTINGS: Mapping[str, tuple[int, dict[str, str]]] = {
    "codecs": (3, {}),
    "shapes": (3, {}),
    "timed": (3, {}),
    "appended": (2, {"message.timestamp.type": "LogAppendTime", "compression.type": "snappy"}),
    "sparse": (5, {}),
    "transactions": (2, {}),
    "trimmed": (2, {}),
    "empty": (2, {}),
    "compacted": (
        1,
        {
            "cleanup.policy": "compact",
            "segment.ms": "100",
            "min.cleanable.dirty.ratio": "0.01",
            "delete.retention.ms": "100",
        },
    ),
}
WRITERS: Mapping[str, Callable[[Place, str], None]] = {
    "codecs": codecs,
    "shapes": shapes,
    "timed": timed,
    "appended": appended,
    "sparse": sparse,
    "transactions": transactions,
    "trimmed": trimmed,
    "empty": empty,
    "compacted": compacted,
}


def write_topic(place: Place, kind: str, prefix: str) -> str:
    """Make and fill the topic of one kind, and return its name."""
    partitions, config = SETTINGS[kind]
    name = f"{prefix}-{kind}"
    place.kafka.create_topic(name, partitions, config)
    WRITERS[kind](place, name)
    return name
