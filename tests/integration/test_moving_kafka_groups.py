"""docs/MIGRATION.md: a consumer group of Kafka becomes ours and goes back, and no record is missed or read twice."""

import csv
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Consumer as NewerConsumer
from confluent_kafka import Producer, TopicPartition
from kafka import KafkaConsumer

from coordinator.cli.moving.kafka_groups import Committed, kafka_groups
from coordinator.local.kafka.broker import LocalKafka
from kcoord import Consumer
from tests.helpers.kafka_topics import produce_numbers
from tests.helpers.kcoord_command import kcoord
from tests.helpers.processes import eventually

if TYPE_CHECKING:
    from coordinator.local.node import LocalCoordinator

pytestmark = pytest.mark.kafka


def read(consumer: Any, count: int) -> list[int]:
    """Return the next values, and commit them."""
    found: list[int] = []

    def are_there() -> bool:
        polled = consumer.poll(timeout_ms=200, max_records=count - len(found))
        found.extend(int(record.value) for records in polled.values() for record in records)
        return len(found) >= count

    assert eventually(are_there), f"{len(found)} of {count}"
    assert consumer.assignment(), "in the moment of a rebalance Kafka's consumer commits nothing, and says nothing"
    consumer.commit()
    return found


def of_kafka(kafka: LocalKafka, topic: str, group: str) -> KafkaConsumer:
    # A group that begins at the end would miss what it was not told of, and one that began anew would read it twice.
    consumer = KafkaConsumer(
        bootstrap_servers=kafka.bootstrap_servers,
        group_id=group,
        enable_auto_commit=False,
        auto_offset_reset="earliest",
    )
    # A partition that is known later would be a rebalance.
    assert eventually(lambda: len(consumer.partitions_for_topic(topic) or ()) == 2)
    consumer.subscribe([topic])
    return consumer


def ours(node: "LocalCoordinator", topic: str, group: str) -> Consumer:
    return Consumer(
        topic, coordinators=node.address, group_id=group, enable_auto_commit=False, auto_offset_reset="earliest"
    )


def test_kafka_group_becomes_ours_and_goes_back(
    kafka: LocalKafka, topic: Callable[..., str], coordinator: "LocalCoordinator"
) -> None:
    name, node, seen = topic(2), coordinator, Counter[int]()
    group = f"{name}-group"
    produce_numbers(kafka.bootstrap_servers, name, 2, 0, 40)
    words = ("import", "kafka-group", group, "-o", "json")
    with_kafka = of_kafka(kafka, name, group)
    seen.update(read(with_kafka, 15))
    shown = kcoord(node, *words, exit_code=4)
    assert "has 1 member and is Stable" in shown.stderr
    assert {row["state"] for row in shown.data} == {"would-set"}, "a dry run shows what its members have committed"
    assert kcoord(node, *words, "--execute", exit_code=4).data is None
    with_kafka.close()

    dry = kcoord(node, *words)
    assert [row["current_offset"] for row in dry.data] == [None] * len(dry.data)
    assert sum(row["new_offset"] for row in dry.data) == 15
    kcoord(node, "group", "describe", group, exit_code=3)
    done = kcoord(node, *words, "--execute", "--why", "one group for Spark and Python")
    assert {row["state"] for row in done.data} == {"set"}
    with ours(node, name, group) as consumer:
        seen.update(read(consumer, 12))
        back = ("export", group, "--as", "kafka-group")
        assert "stop the members" in kcoord(node, *back, "--execute", exit_code=4).stderr
    produce_numbers(kafka.bootstrap_servers, name, 2, 40, 10)

    shown = kcoord(node, *back, "-o", "json")
    assert [(row["delta"] >= 0, row["state"]) for row in shown.data] == [(True, "would-set")] * 2
    assert sum(row["new_offset"] for row in shown.data) == 27
    written = kcoord(node, *back, "-o", "json", "--execute", "--why", "and back")
    assert {row["state"] for row in written.data} == {"set"}
    with_kafka = of_kafka(kafka, name, group)
    seen.update(read(with_kafka, 23))
    with_kafka.close()
    assert seen == Counter(range(50)), "each record is read once"

    kept = kcoord(node, *back, "-o", "json", "--execute", exit_code=4)
    assert {row["state"] for row in kept.data} == {"refused"}
    assert "would move back" in kept.stderr
    with_csv = list(csv.reader(kcoord(node, "export", group, "--as", "csv").stdout.splitlines()))
    assert [row[:2] for row in with_csv] == [[name, "0"], [name, "1"]]
    assert sum(int(offset) for *_, offset in with_csv) == 27


def test_offsets_in_a_transaction_are_waited_for(
    kafka: LocalKafka, topic: Callable[..., str], coordinator: "LocalCoordinator"
) -> None:
    name = topic(1)
    group = f"{name}-group"
    servers = {"bootstrap.servers": kafka.bootstrap_servers}
    produce_numbers(kafka.bootstrap_servers, name, 1, 0, 20)
    producer = Producer({**servers, "transactional.id": name})
    producer.init_transactions(60)
    consumer = NewerConsumer({**servers, "group.id": group, "enable.auto.commit": False})

    def send(offset: int) -> None:
        producer.begin_transaction()
        producer.send_offsets_to_transaction([TopicPartition(name, 0, offset)], consumer.consumer_group_metadata(), 60)

    send(5)
    producer.commit_transaction(60)
    send(12)
    consumer.close()
    words = ("import", "kafka-group", group, "-o", "json", "--execute", "--why", "moved")
    early = kcoord(coordinator, *words, "--timeout", "2s", exit_code=1)
    assert "in a transaction that is not over yet" in early.stderr
    assert "--kafka-config" not in early.stderr
    kcoord(coordinator, "group", "describe", group, exit_code=3)
    producer.commit_transaction(60)
    assert [row["new_offset"] for row in kcoord(coordinator, *words).data] == [12]


def test_group_of_the_newer_protocol_is_seen_to_have_members_and_is_taken_over_without(
    kafka: LocalKafka, topic: Callable[..., str], coordinator: "LocalCoordinator"
) -> None:
    name = topic(1)
    produce_numbers(kafka.bootstrap_servers, name, 1, 0, 10)
    servers = {"bootstrap.servers": kafka.bootstrap_servers, "auto.offset.reset": "earliest"}
    consumer = NewerConsumer(servers | {"group.id": name, "group.protocol": "consumer", "enable.auto.commit": False})
    consumer.subscribe([name])
    found: list[Any] = []

    def are_there() -> bool:
        found.extend(each for each in consumer.consume(7 - len(found), 0.5) if each.error() is None)
        return len(found) == 7

    assert eventually(are_there)
    consumer.commit(asynchronous=False)
    words = ("import", "kafka-group", name, "-o", "json")
    # It may read before Kafka has heard that it took its partitions over.
    stable = f"Kafka's group '{name}' has members and is Stable"
    assert eventually(lambda: stable in kcoord(coordinator, *words, exit_code=4).stderr)
    consumer.close()
    taken = kcoord(coordinator, *words, "--execute")
    assert [(row["new_offset"], row["state"]) for row in taken.data] == [(7, "set")]


def test_group_that_kafka_does_not_have_is_not_found(coordinator: "LocalCoordinator") -> None:
    said = kcoord(coordinator, "import", "kafka-group", "no-\x1b[31msuch", "--as", "g", exit_code=3)
    assert said.stderr.splitlines()[-1] == r"Consumer group 'no-\x1b[31msuch' does not exist in Kafka."


def test_offsets_for_which_one_commit_has_no_room_go_in_several(tmp_path: Path) -> None:
    partitions = 300
    offsets = {("t", number): Committed(number, None, "x" * 4_096) for number in range(partitions)}
    # A broker of its own: those that tests share take larger batches than Kafka does by default.
    with LocalKafka(tmp_path / "kafka", config={"message.max.bytes": str(1024 * 1024 + 12)}) as kafka:
        kafka.create_topic("t", partitions)
        with kafka_groups([kafka.bootstrap_servers], {}, 30.0) as groups:
            assert all(groups._write_some("at-once", offsets).values()), "Kafka takes it: the test proves nothing"
            assert groups.read("at-once").offsets == {}

            assert groups.write("in-parts", offsets) == dict.fromkeys(offsets, "")
            assert groups.read("in-parts").offsets == offsets
