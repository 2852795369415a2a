"""Writes records to a real topic and reads them back with kafka-python's own consumer, the oracle for rows."""

import time
from collections.abc import Iterable
from typing import Any

from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.protocol.producer import ProduceRequest

from spark_kcoord.fetch.connection import KafkaClient
from spark_kcoord.options.kafka_settings import KafkaSettings
from tests.helpers.record_batches import Row

POLL_MS = 200
READ_TIMEOUT_S = 30.0


def produce(servers: str, topic: str, rows: Iterable[tuple[int, Row]], **config: Any) -> None:
    """Write (partition, row) in order and return when the broker has acknowledged all."""
    producer = KafkaProducer(bootstrap_servers=servers, linger_ms=5, **config)
    try:
        sent = [
            producer.send(
                topic,
                key=row.key,
                value=row.value,
                headers=row.headers,
                partition=partition,
                timestamp_ms=row.timestamp,
            )
            for partition, row in rows
        ]
        producer.flush()
        for future in sent:
            future.get(timeout=30)
    finally:
        producer.close()


def produce_numbers(servers: str, topic: str, partitions: int, first: int, count: int) -> None:
    """Write the numbers from `first` on as values, dealt to the partitions in turn."""
    producer = KafkaProducer(bootstrap_servers=servers, linger_ms=5)
    try:
        for number in range(first, first + count):
            producer.send(topic, str(number).encode(), partition=number % partitions)
        producer.flush()
    finally:
        producer.close()


def write_batch(servers: str, topic: str, batch: bytes) -> None:
    """Write one raw record batch to partition 0, as a producer of another language might make it."""
    client = KafkaClient(KafkaSettings(servers=(servers,), client=(("client_id", "tests"),)))

    async def write() -> Any:
        leader, _ = (await client.refresh([topic]))[topic].leaders[0]
        data = ProduceRequest.TopicProduceData
        partition = data.PartitionProduceData(index=0, records=batch)
        request = ProduceRequest(
            acks=-1, timeout_ms=5_000, topic_data=[data(name=topic, partition_data=[partition])], max_version=9
        )
        return await client.send(leader, request)

    try:
        answer = client.run(write, 10).responses[0].partition_responses[0]
        assert answer.error_code == 0, answer
    finally:
        client.close()


def consume(servers: str, topic: str, **config: Any) -> list[dict[str, Any]]:
    """Read a whole topic as rows in Spark's shape, ordered by partition and offset; timestamps in ms."""
    consumer = KafkaConsumer(bootstrap_servers=servers, auto_offset_reset="earliest", group_id=None, **config)
    try:
        partitions = [TopicPartition(topic, number) for number in consumer.partitions_for_topic(topic) or ()]
        consumer.assign(partitions)
        ends = consumer.end_offsets(partitions)
        deadline = time.monotonic() + READ_TIMEOUT_S
        rows = []
        while any(consumer.position(partition) < end for partition, end in ends.items()):
            assert time.monotonic() < deadline, f"the oracle did not reach {ends}"
            for records in consumer.poll(timeout_ms=POLL_MS).values():
                rows += [
                    {
                        "key": record.key,
                        "value": record.value,
                        "topic": record.topic,
                        "partition": record.partition,
                        "offset": record.offset,
                        "timestamp": record.timestamp,
                        "timestampType": record.timestamp_type,
                        "headers": [{"key": k, "value": v} for k, v in record.headers] or None,
                    }
                    for record in records
                ]
        return sorted(rows, key=lambda row: (row["partition"], row["offset"]))
    finally:
        consumer.close()


def make_topic_of_offsets(servers: str) -> None:
    """Ask for a commit of one of Kafka's own groups, which makes its topic `__consumer_offsets` where there is none."""
    consumer = KafkaConsumer(bootstrap_servers=servers, group_id="makes-the-topic-of-offsets")
    try:
        consumer.committed(TopicPartition("any", 0))
    finally:
        consumer.close()
