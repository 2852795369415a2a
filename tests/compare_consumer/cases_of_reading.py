"""Cases of what a poll and an iteration return."""

import json
from functools import partial
from typing import Any

from kafka import TopicPartition
from kafka.serializer import Deserializer

from tests.compare_consumer.case import Cases
from tests.compare_consumer.side import READ_S, Side

CASES = Cases()
case, each = CASES.case, CASES.each


# ---- records --------------------------------------------------------------------------------------------------------


@case("the fields of a record")
def case_1(side: Side) -> Any:
    return [tuple(record) for record in side.polled(side.by_hand(), 10)]


@case("the names of a record's fields")
def case_2(side: Side) -> Any:
    return side.polled(side.by_hand(), 1)[0]._fields


@case("keys, values and headers that are missing")
def case_3(side: Side) -> Any:
    topic = side.topic()
    for key, value, headers in (
        (None, None, []),
        (b"", b"", [("a", b"1"), ("a", b"2")]),
        (b"k", b"v", [("b", b"")]),
    ):
        side._producer.send(topic, value, key=key, headers=headers, timestamp_ms=1_700_000_000_000)
    side._producer.flush()
    return [tuple(record)[2:] for record in side.polled(side.by_hand(TopicPartition(topic, 0)), 3)]


@case("records of two partitions, each in order")
def case_4(side: Side) -> Any:
    return side.offsets(side.by_hand(*side.corpus.both), 20)


@case("the keys of what a poll returns")
def case_5(side: Side) -> Any:
    consumer = side.by_hand()
    found: dict[Any, Any] = {}
    while not found:
        found = consumer.poll(timeout_ms=200)
    return list(found)


@case("a poll without records")
def case_6(side: Side) -> Any:
    return side.by_hand(TopicPartition(side.corpus.none, 0)).poll(timeout_ms=200)


@case("max_records bounds a poll")
def case_7(side: Side) -> Any:
    consumer = side.by_hand()
    side.polled(consumer, 1, max_records=1)
    return [sum(map(len, consumer.poll(timeout_ms=2_000, max_records=4).values())) for _ in range(3)]


@case("max_poll_records bounds a poll")
def case_8(side: Side) -> Any:
    consumer = side.by_hand(max_poll_records=3)
    side.polled(consumer, 1)
    return [sum(map(len, consumer.poll(timeout_ms=2_000).values())) for _ in range(3)]


@case("deserializers that are functions")
def case_9(side: Side) -> Any:
    consumer = side.by_hand(value_deserializer=lambda data: int(data) * 2, key_deserializer=lambda data: data)
    return [(record.key, record.value, record.serialized_value_size) for record in side.polled(consumer, 10)]


@case("a deserializer that is an object")
def case_10(side: Side) -> Any:
    class Reads(Deserializer):
        def deserialize(self, topic: str, headers: Any, data: bytes) -> Any:
            return topic == side.corpus.one, json.loads(data)

    return [record.value for record in side.polled(side.by_hand(value_deserializer=Reads()), 10)]


@case("a deserializer that gets a value that is missing")
def case_11(side: Side) -> Any:
    topic = side.topic()
    side._producer.send(topic, None, key=b"k", partition=0)
    side._producer.flush()
    consumer = side.by_hand(TopicPartition(topic, 0), value_deserializer=lambda data: ("got", data))
    return [record.value for record in side.polled(consumer, 1)]


@case("a deserializer that raises ends the poll at its record")
def case_12(side: Side) -> Any:
    def read(data: bytes) -> int:
        if int(data) == 3:
            raise ValueError("three")
        return int(data)

    consumer = side.by_hand(value_deserializer=read)
    return side.raised(lambda: [record.value for record in side.polled(consumer, 3)])


def _codec(name: str, side: Side) -> Any:
    from kafka import KafkaProducer

    topic = side.topic()
    producer = KafkaProducer(bootstrap_servers=side.kafka.bootstrap_servers, compression_type=name, linger_ms=50)
    for number in range(50):
        producer.send(topic, b"%d" % number * 20, partition=0)
    producer.close()
    consumer = side.by_hand(TopicPartition(topic, 0))
    return [(record.offset, record.value) for record in side.polled(consumer, 50)]


each("records compressed by", {name: partial(_codec, name) for name in ("gzip", "snappy", "lz4", "zstd")})


@case("records larger than a fetch")
def case_13(side: Side) -> Any:
    topic = side.topic()
    for size in (10, 90_000, 10, 200_000, 10):
        side.produce(topic, 0, value=b"x" * size)
    consumer = side.by_hand(TopicPartition(topic, 0), max_partition_fetch_bytes=1_024, fetch_max_bytes=2_048)
    return [(record.offset, len(record.value)) for record in side.polled(consumer, 5)]


@case("no check of checksums gives the same records")
def case_14(side: Side) -> Any:
    return side.offsets(side.by_hand(check_crcs=False), 10)


@case("read_committed gives records without transactions")
def case_15(side: Side) -> Any:
    return side.offsets(side.by_hand(isolation_level="read_committed"), 10)


# ---- iteration ------------------------------------------------------------------------------------------------------


@case("an iteration ends after consumer_timeout_ms")
def case_16(side: Side) -> Any:
    return [record.offset for record in side.by_hand(consumer_timeout_ms=2_000)]


@case("an iteration goes on where a poll has ended")
def case_17(side: Side) -> Any:
    consumer = side.by_hand(consumer_timeout_ms=2_000)
    side.polled(consumer, 4, max_records=4)
    return [record.offset for record in consumer]


@case("a poll goes on where an iteration was left")
def case_18(side: Side) -> Any:
    consumer = side.by_hand()
    for record in consumer:
        if record.offset == 3:
            break
    return consumer.position(side.corpus.first), side.offsets(consumer, 6)


@case("the position within an iteration")
def case_19(side: Side) -> Any:
    consumer = side.by_hand(consumer_timeout_ms=2_000)
    return [(record.offset, consumer.position(side.corpus.first)) for record in consumer]


@case("a seek within an iteration")
def case_20(side: Side) -> Any:
    consumer, found = side.by_hand(consumer_timeout_ms=READ_S * 1_000), []
    for record in consumer:
        found.append(record.offset)
        if record.offset == 2:
            consumer.seek(side.corpus.first, 8)
        elif record.offset == 9:  # the last one: what comes next is the end of the patience
            break
    return found


@case("an iteration of a closed consumer")
def case_21(side: Side) -> Any:
    consumer = side.by_hand(consumer_timeout_ms=1_000)
    consumer.close()
    return side.raised(lambda: list(consumer))
