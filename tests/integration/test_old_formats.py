"""Logs in message formats 0 and 1 that a broker of today serves, read beside librdkafka; what a cleaner makes of them.

A broker of today writes neither format, so the logs are laid into its directory while it is stopped.
"""

from collections.abc import Iterator

import pytest

from coordinator.local.kafka import LocalKafka
from spark_kcoord.fetch.decode import COLUMNS
from spark_kcoord.fetch.offsets import KafkaLookup
from spark_kcoord.fetch.pool import ClientPool
from spark_kcoord.fetch.ranges import read_ranges
from spark_kcoord.kafka_options import KafkaSettings
from spark_kcoord.partition import TopicRange
from tests.helpers.confluent_reader import confluent_rows
from tests.helpers.decoders import decoder as decoder
from tests.helpers.memory_records import OracleRow, decoded_rows
from tests.helpers.old_logs import OLD_LOGS, SHAPES, serve_old_logs

pytestmark = pytest.mark.kafka

TOPIC = "from-before-0.11"
TIMEOUT_S = 30.0


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalKafka]:
    """Return a broker of its own, since it is stopped to get its logs."""
    with LocalKafka(tmp_path_factory.mktemp("old-kafka")) as kafka:
        serve_old_logs(kafka, [TOPIC])
        yield kafka


def settings(kafka: LocalKafka, **more: object) -> KafkaSettings:
    return KafkaSettings(servers=(kafka.bootstrap_servers,), client=(("client_id", "tests"),), **more)  # type: ignore[arg-type]  # of several kinds


def read(kafka: LocalKafka, partition: int, start: int, end: int, **more: object) -> list[OracleRow]:
    """Return the rows of a range as an executor reads them."""
    pool = ClientPool()
    try:
        batches = read_ranges(
            settings(kafka, **more),
            [TopicRange(TOPIC, None, partition, start, end)],
            columns=COLUMNS,
            fail_on_data_loss=True,
            timeout_s=TIMEOUT_S,
            pool=pool,
        )
        return [row for batch in batches for row in decoded_rows(batch)]
    finally:
        pool.close_idle()


def log_end(kafka: LocalKafka, partition: int) -> int:
    lookup = KafkaLookup(settings(kafka))
    try:
        return lookup.end_offsets([(TOPIC, partition)])[TOPIC, partition]
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
