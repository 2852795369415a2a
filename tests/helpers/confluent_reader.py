"""Reads a partition with librdkafka's consumer: an oracle of another make than Kafka's own and ours."""

import time

from confluent_kafka import Consumer, TopicPartition

from tests.helpers.memory_records import OracleRow

READ_TIMEOUT_S = 30.0


def confluent_rows(servers: str, topic: str, isolation: str = "read_committed", partition: int = 0) -> list[OracleRow]:
    """Return a partition as librdkafka's consumer reads it; -1 is the time, and its type, of a record without one."""
    consumer = Consumer(
        {"bootstrap.servers": servers, "group.id": "oracle", "isolation.level": isolation, "check.crcs": True}
    )
    wanted = TopicPartition(topic, partition, 0)
    rows: list[OracleRow] = []
    try:
        _, end = consumer.get_watermark_offsets(wanted, READ_TIMEOUT_S)
        consumer.assign([wanted])
        deadline = time.monotonic() + READ_TIMEOUT_S
        while (position := consumer.position([wanted])[0].offset) < end:
            assert time.monotonic() < deadline, f"read up to {position} of {end}"
            for message in consumer.consume(1_000, 0.05):
                assert message.error() is None
                kind, time_ms = message.timestamp()
                rows.append(
                    (
                        message.offset(),
                        time_ms if kind else -1,
                        kind - 1,
                        message.key(),
                        message.value(),
                        message.headers() or None,
                    )
                )
    finally:
        consumer.close()
    return rows
