"""A log of a real broker whose last readable offsets were cleaned away, and what its leader says of its own part."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from kafka import KafkaProducer

from coordinator.local.kafka.broker import LocalKafka
from spark_kcoord.fetch.connection import KafkaClient
from spark_kcoord.fetch.offsets import KafkaLookup, local_log_starts
from spark_kcoord.fetch.pool import ClientPool
from spark_kcoord.fetch.ranges import read_ranges
from spark_kcoord.fetch.topic_range import TopicRange
from spark_kcoord.options.kafka_settings import KafkaSettings
from tests.helpers.kafka_topics import consume
from tests.helpers.waiting import wait_until

pytestmark = pytest.mark.kafka

TOPIC = "compacted"
CLEANED_AT_ONCE = {
    "cleanup.policy": "compact",
    "min.cleanable.dirty.ratio": "0.001",
    "delete.retention.ms": "0",
    "segment.ms": "100",
}
FIRST_MS = 1_790_000_000_000
NOTHING_CLEANED = "0\n0\n"
"""A checkpoint of the cleaner without any partition: the cleaner begins anew."""


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[LocalKafka]:
    """Return a broker that cleans all the time."""
    config = {"log.cleaner.backoff.ms": "50", "log.initial.task.delay.ms": "50"}
    with LocalKafka(tmp_path / "kafka", config=config) as kafka:
        yield kafka


def offsets(kafka: LocalKafka) -> list[int]:
    return [row["offset"] for row in consume(kafka.bootstrap_servers, TOPIC)]


def clean_anew(kafka: LocalKafka) -> None:
    """Have the cleaner look at everything once more: what it marks as deletable goes when it comes again."""
    (checkpoint,) = kafka.data_dir.glob("**/cleaner-offset-checkpoint")
    written = checkpoint.with_suffix(".written")
    written.write_text(NOTHING_CLEANED)
    written.replace(checkpoint)


def local_start(kafka: LocalKafka) -> int | None:
    client = KafkaClient(KafkaSettings(servers=(kafka.bootstrap_servers,), client=(("client_id", "tests"),)))

    async def ask() -> int | None:
        leader, epoch = (await client.refresh([TOPIC]))[TOPIC].leaders[0]
        return (await local_log_starts(client, leader, {(TOPIC, 0): epoch}) or {}).get((TOPIC, 0))

    try:
        return client.run(ask, 10)
    finally:
        client.close()


def test_cleaned_offsets_before_an_open_transaction_are_passed_soon(broker: LocalKafka) -> None:
    servers = broker.bootstrap_servers
    broker.create_topic(TOPIC, 1, CLEANED_AT_ONCE)
    plain = KafkaProducer(bootstrap_servers=servers, enable_idempotence=False)
    for value in (b"v", None):
        plain.send(TOPIC, value, key=b"k", partition=0, timestamp_ms=FIRST_MS)
        plain.flush()
    plain.close()
    open_one = KafkaProducer(bootstrap_servers=servers, transactional_id="open")
    open_one.init_transactions()
    open_one.begin_transaction()
    open_one.send(TOPIC, b"x", key=b"other", partition=0, timestamp_ms=FIRST_MS + 1_000)
    open_one.flush()
    wait_until(lambda: offsets(broker) == [1, 2], what="the value to be cleaned away")

    def is_tombstone_gone() -> bool:
        clean_anew(broker)  # each time: the cleaner notes how far it came when that shows already, and undoes it
        return offsets(broker) == [2]

    wait_until(is_tombstone_gone, what="the tombstone to be cleaned away")

    settings = KafkaSettings(servers=(servers,), client=(("client_id", "tests"),), is_read_committed=True)
    lookup, pool = KafkaLookup(settings), ClientPool()

    def read() -> list[int]:
        ends = lookup.end_offsets([(TOPIC, 0)])
        wanted = TopicRange(TOPIC, None, 0, 0, ends[TOPIC, 0])
        batches = read_ranges(settings, [wanted], columns=("offset",), fail_on_data_loss=True, timeout_s=120, pool=pool)
        return [wanted.end, *(offset for batch in batches for offset in batch.column("offset").to_pylist())]

    began = time.monotonic()
    assert read() == [2]
    assert time.monotonic() - began < 60, "half of what it may take: it waited for nothing"
    assert local_start(broker) == 0
    open_one.commit_transaction()
    open_one.close()
    wait_until(lambda: read() == [4, 2], what="the transaction to be readable")
    lookup.close()
    pool.close_idle()
