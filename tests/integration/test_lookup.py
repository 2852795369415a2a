"""What a Spark driver asks a real broker about topics, times and sizes."""

from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest
from kafka import KafkaProducer

from coordinator.local.kafka.broker import LocalKafka
from spark_kcoord.fetch.offsets import KafkaLookup
from spark_kcoord.options.kafka_settings import KafkaSettings
from tests.helpers.kafka_topics import make_topic_of_offsets, produce
from tests.helpers.processes import eventually
from tests.helpers.record_batches import Row

pytestmark = pytest.mark.kafka


@pytest.fixture
def lookup(kafka: LocalKafka) -> Iterator[KafkaLookup]:
    made = KafkaLookup(KafkaSettings(servers=(kafka.bootstrap_servers,), client=(("client_id", "tests"),)))
    yield made
    made.close()


def test_names_are_those_of_all_topics_but_kafkas_own_which_may_be_read_by_name(
    kafka: LocalKafka, lookup: KafkaLookup, topic: Callable[..., str]
) -> None:
    name = topic()
    make_topic_of_offsets(kafka.bootstrap_servers)

    names = lookup.topic_names()

    assert name in names
    assert not any(one.startswith("__") for one in names)
    assert list(lookup.topics(["__consumer_offsets"])) == ["__consumer_offsets"]


def test_times_are_the_first_offset_as_late_or_unknown(
    kafka: LocalKafka, lookup: KafkaLookup, topic: Callable[..., str]
) -> None:
    name = topic(2)
    produce(kafka.bootstrap_servers, name, [(0, Row(b"k", b"v", 1_000 * number)) for number in range(1, 6)])

    found = lookup.offsets_at({(name, 0): 2_500, (name, 1): 2_500})

    assert found == {(name, 0): 2, (name, 1): None}
    assert lookup.offsets_at({(name, 0): 5_001}) == {(name, 0): None}


def test_sizes_are_those_of_the_records_at_a_position(
    kafka: LocalKafka, lookup: KafkaLookup, topic: Callable[..., str]
) -> None:
    name = topic(3)
    small = [(0, Row(None, b"s" * 10))] * 1_000
    large = [(1, Row(None, b"l" * 1_000))] * 100
    produce(kafka.bootstrap_servers, name, small + large)

    sizes = lookup.bytes_per_offset({(name, 0): 0, (name, 1): 0, (name, 2): 0})

    assert sizes.keys() == {(name, 0), (name, 1)}
    assert 10 < sizes[name, 0] < 100
    assert 1_000 < sizes[name, 1] < 1_100
    assert lookup.bytes_per_offset({(name, 0): 99_999}) == {}


def test_log_of_an_open_transaction_ends_behind_what_can_be_read(kafka: LocalKafka, topic: Callable[..., str]) -> None:
    name = topic()
    key = (name, 0)
    producer = KafkaProducer(bootstrap_servers=kafka.bootstrap_servers, transactional_id=f"tx-{name}")
    producer.init_transactions()
    producer.begin_transaction()
    for value in (b"1", b"2", b"3"):
        producer.send(name, value=value, partition=0)
    producer.flush()
    settings = KafkaSettings(servers=(kafka.bootstrap_servers,), client=(("client_id", "tests"),))
    committed = KafkaLookup(replace(settings, is_read_committed=True))
    everything = KafkaLookup(settings)
    try:
        assert (committed.end_offsets([key]), committed.high_watermarks([key])) == ({key: 0}, {key: 3})
        assert (everything.end_offsets([key]), everything.high_watermarks([key])) == ({key: 3}, {key: 3})
        assert committed.offsets_at({key: 0}) == {key: None}
        producer.commit_transaction()
        assert eventually(lambda: committed.end_offsets([key]) == {key: 4})
    finally:
        producer.close()
        committed.close()
        everything.close()
