"""Logs in message formats 0 and 1 that a broker of today serves, read beside librdkafka; what a cleaner makes of them.

A broker of today writes neither format, so the logs are laid into its directory while it is stopped.
"""

from collections.abc import Iterator

import pytest

from coordinator.local.kafka.broker import LocalKafka
from spark_kcoord.fetch.decoding.decode import COLUMNS
from spark_kcoord.fetch.offsets import KafkaLookup
from spark_kcoord.fetch.pool import ClientPool
from spark_kcoord.fetch.ranges import read_ranges
from spark_kcoord.fetch.topic_range import TopicRange
from spark_kcoord.options.kafka_settings import KafkaSettings
from tests.helpers.confluent_reader import confluent_rows
from tests.helpers.decoders import decoder as decoder
from tests.helpers.kafka_topics import produce
from tests.helpers.memory_records import OracleRow, decoded_rows
from tests.helpers.old_logs import FIRST_MS, OLD_LOGS, SHAPES, STEP_MS, serve_old_logs
from tests.helpers.old_messages import OldSet
from tests.helpers.record_batches import Row
from tests.helpers.waiting import wait_until

pytestmark = pytest.mark.kafka

TOPIC = "from-before-0.11"
COMPACTED = "compacted-today"
OLD_ROWS = 60
"""Old messages of the compacted topic, of seven keys."""
CLEANING = {"log.cleaner.backoff.ms": "100", "log.cleaner.threads": "1"}
COMPACTING = {
    "cleanup.policy": "compact",
    "segment.ms": "100",
    "min.cleanable.dirty.ratio": "0.01",
    "delete.retention.ms": "100",
}
TIMEOUT_S = 30.0


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalKafka]:
    """Return a broker of its own, since it is stopped to get its logs."""
    rows = {at: Row(b"%d" % (at % 7), b"%d" % at * 50, FIRST_MS + at) for at in range(OLD_ROWS)}
    sets = [OldSet(1, dict(list(rows.items())[at : at + 20]), "gzip").to_bytes() for at in range(0, OLD_ROWS, 20)]
    with LocalKafka(tmp_path_factory.mktemp("old-kafka"), config=CLEANING) as kafka:
        kafka.create_topic(COMPACTED, 1, COMPACTING)
        serve_old_logs(kafka, [TOPIC], {(COMPACTED, 0): b"".join(sets)})
        yield kafka


def settings(kafka: LocalKafka, **more: object) -> KafkaSettings:
    return KafkaSettings(servers=(kafka.bootstrap_servers,), client=(("client_id", "tests"),), **more)  # type: ignore[arg-type]  # of several kinds


def read(
    kafka: LocalKafka, partition: int, start: int, end: int, topic: str = TOPIC, **more: object
) -> list[OracleRow]:
    """Return the rows of a range as an executor reads them."""
    pool = ClientPool()
    try:
        batches = read_ranges(
            settings(kafka, **more),
            [TopicRange(topic, None, partition, start, end)],
            columns=COLUMNS,
            fail_on_data_loss=True,
            timeout_s=TIMEOUT_S,
            pool=pool,
        )
        return [row for batch in batches for row in decoded_rows(batch)]
    finally:
        pool.close_idle()


def log_end(kafka: LocalKafka, partition: int, topic: str = TOPIC) -> int:
    lookup = KafkaLookup(settings(kafka))
    try:
        return lookup.end_offsets([(topic, partition)])[topic, partition]
    finally:
        lookup.close()


@pytest.mark.parametrize("partition", OLD_LOGS)
def test_old_log_is_read_as_librdkafka_reads_it(broker: LocalKafka, partition: int) -> None:
    end = log_end(broker, partition)
    expected = confluent_rows(broker.bootstrap_servers, TOPIC, partition=partition)
    assert len(expected) > 100

    assert read(broker, partition, 0, end) == expected


@pytest.mark.parametrize("partition", [3, 5])
def test_range_may_begin_and_end_within_a_compressed_set(broker: LocalKafka, partition: int) -> None:
    end = log_end(broker, partition)
    whole = read(broker, partition, 0, end)
    step = len(SHAPES)

    for first, last in ((step + 3, step + 9), (2 * step - 1, 2 * step + 2), (3, end - 3), (end - 1, end)):
        assert read(broker, partition, first, last) == [row for row in whole if first <= row[0] < last]


def test_small_answers_are_read_to_the_end(broker: LocalKafka) -> None:
    end = log_end(broker, 5)

    assert read(broker, 5, 0, end, max_partition_fetch_bytes=2_000) == read(broker, 5, 0, end)


def test_sizes_of_old_messages_are_sampled(broker: LocalKafka) -> None:
    lookup = KafkaLookup(settings(broker))
    try:
        sizes = lookup.bytes_per_offset({(TOPIC, partition): 0 for partition in OLD_LOGS})
    finally:
        lookup.close()

    assert set(sizes) == {(TOPIC, partition) for partition in OLD_LOGS}
    assert all(20 < size < 5_000 for size in sizes.values()), sizes


def test_old_log_that_todays_cleaner_compacted_is_read_as_librdkafka_reads_it(broker: LocalKafka) -> None:
    def is_compacted() -> bool:
        end = log_end(broker, 0, COMPACTED)
        row = Row(b"new", b"v", FIRST_MS + end * STEP_MS)  # rolls the segment before it, by its time
        produce(broker.bootstrap_servers, COMPACTED, [(0, row)])
        return len(confluent_rows(broker.bootstrap_servers, COMPACTED)) <= end - 40

    wait_until(is_compacted, timeout_s=60, what="the cleaner to take most of the old messages")
    found = read(broker, 0, 0, log_end(broker, 0, COMPACTED), topic=COMPACTED)
    beside = confluent_rows(broker.bootstrap_servers, COMPACTED)

    # The cleaner may go on between two reads, but leaves the last of each key.
    assert {row[3]: row for row in found} == {row[3]: row for row in beside}
    assert {row[0] for row in found if row[0] < OLD_ROWS} < set(range(OLD_ROWS))
