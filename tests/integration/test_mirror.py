"""Committed offsets of a group as Kafka's own tools, kafka-python's and confluent-kafka's see them."""

import re
from collections.abc import Iterator
from contextlib import closing, contextmanager
from http.client import HTTPConnection

import pytest
from confluent_kafka import Consumer as ConfluentConsumer
from confluent_kafka import ConsumerGroupTopicPartitions
from confluent_kafka.admin import AdminClient
from kafka import KafkaAdminClient

from coordinator.local.kafka.broker import LocalKafka
from coordinator.local.node import LocalCoordinator
from kcoord import Consumer
from tests.helpers.kafka_tools import consumer_groups_tool
from tests.helpers.kafka_topics import produce_numbers
from tests.helpers.processes import eventually

PATIENCE_S = 60.0
pytestmark = pytest.mark.kafka


@pytest.fixture(scope="module")
def mirroring(kafka: LocalKafka, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCoordinator]:
    settings = {"mirror.enabled": "true", "mirror.prefix": "seen-", "admin.listen": "127.0.0.1:0"}
    settings |= {"admin.lag_exporter": "true", "admin.cluster_name": "k"}
    with LocalCoordinator(kafka.bootstrap_servers, tmp_path_factory.mktemp("mirroring"), settings=settings) as node:
        yield node


@contextmanager
def reading(node: LocalCoordinator, group: str, topic: str) -> Iterator[Consumer]:
    with closing(
        Consumer(
            topic,
            coordinators=node.address,
            group_id=group,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
        )
    ) as consumer:
        yield consumer


def page(address: str, path: str) -> str:
    with closing(HTTPConnection(address, timeout=30)) as client:
        client.request("GET", path)
        return client.getresponse().read().decode()


def seen_by_confluent(servers: str, group: str) -> dict[tuple[str, int], int]:
    admin = AdminClient({"bootstrap.servers": servers})
    (answer,) = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)]).values()
    parts = answer.result(PATIENCE_S).topic_partitions or []
    return {(part.topic, part.partition): part.offset for part in parts}


def seen_by_kafka_python(servers: str, group: str) -> dict[tuple[str, int], int]:
    with closing(KafkaAdminClient(bootstrap_servers=servers)) as admin:
        (offsets,) = admin.list_group_offsets([group]).values()
        return {(part.topic, part.partition): each.offset for part, each in offsets.items()}


def test_tools_of_kafka_see_what_is_committed(kafka: LocalKafka, mirroring: LocalCoordinator, topic) -> None:
    name, servers = topic(partitions=2), kafka.bootstrap_servers
    group = f"group-{name}"
    produce_numbers(servers, name, 2, 0, 20)
    with reading(mirroring, group, name) as consumer:
        read = 0
        while read < 20:
            read += sum(map(len, consumer.poll(timeout_ms=500).values()))
        consumer.commit()
        expected = {(name, 0): 10, (name, 1): 10}
        with consumer_groups_tool(servers) as tool:
            assert eventually(lambda: tool.describe(f"seen-{group}").offsets == expected, PATIENCE_S)
            said = tool.describe(f"seen-{group}")
            assert "has no active members" in said.out + said.err
            assert f"seen-{group}" in tool.run("--list").out.split()
    assert seen_by_confluent(servers, f"seen-{group}") == expected
    assert seen_by_kafka_python(servers, f"seen-{group}") == expected


def test_a_group_with_members_in_kafka_keeps_its_own_offsets(
    kafka: LocalKafka, mirroring: LocalCoordinator, topic
) -> None:
    name, servers = topic(partitions=1), kafka.bootstrap_servers
    group = f"group-{name}"
    produce_numbers(servers, name, 1, 0, 10)
    theirs = ConfluentConsumer(
        {
            "bootstrap.servers": servers,
            "group.id": f"seen-{group}",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    theirs.subscribe([name])

    def has_read() -> bool:
        message = theirs.poll(0.5)
        return message is not None and message.error() is None

    assert eventually(has_read, PATIENCE_S), "Kafka's consumer reads"
    theirs.commit(asynchronous=False)
    before = seen_by_confluent(servers, f"seen-{group}")
    with reading(mirroring, group, name) as consumer:
        while not consumer.poll(timeout_ms=500):
            pass
        consumer.commit()
        assert eventually(lambda: "mirror-stopped" in mirroring.log_tail(lines=1000), PATIENCE_S)
        assert seen_by_confluent(servers, f"seen-{group}") == before != {(name, 0): 10}
    (line,) = re.findall(r".*mirror-stopped.*", mirroring.log_tail(lines=1000))
    assert "has members of its own" in line
    (admin,) = re.findall(r'"address":"([^"]*)","event":"admin-listening"', mirroring.log_tail(lines=1000))
    lacks = f"ready, but Kafka does not take the offsets of group '{group}'\n"
    assert eventually(lambda: page(admin, "/readyz") == lacks, PATIENCE_S), page(admin, "/readyz")
    assert eventually(lambda: "kcoord_mirror_groups_stopped 1\n" in page(admin, "/metrics"), PATIENCE_S)
    line = f'kafka_consumergroup_group_sum_lag{{cluster_name="k",group="{group}"}} 0\n'
    assert eventually(lambda: line in page(admin, "/metrics/lag-exporter"), PATIENCE_S)
    theirs.close()
    assert eventually(lambda: seen_by_confluent(servers, f"seen-{group}") == {(name, 0): 10}, PATIENCE_S)
    assert eventually(lambda: "mirror-goes-on" in mirroring.log_tail(lines=1000), PATIENCE_S)
