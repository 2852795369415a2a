"""A backup of a real coordinator goes into another one that is empty, and a consumer goes on there."""

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kcoord import Consumer
from tests.helpers.kafka_topics import produce_numbers
from tests.helpers.kcoord_command import kcoord
from tests.helpers.processes import eventually

if TYPE_CHECKING:
    from coordinator.local.kafka.broker import LocalKafka
    from coordinator.local.node import LocalCoordinator

pytestmark = pytest.mark.kafka


def read(node: "LocalCoordinator", topic: str, count: int) -> list[int]:
    found: list[int] = []
    consumer = Consumer(topic, coordinators=node.address, group_id=topic, auto_offset_reset="earliest")
    with consumer:

        def are_there() -> bool:
            for records in consumer.poll(timeout_ms=200, max_records=count - len(found)).values():
                found.extend(int(record.value) for record in records)
            return len(found) == count

        assert eventually(are_there), found
        consumer.commit()
    return found


def test_consumer_goes_on_in_an_empty_coordinator_where_the_backup_has_its_group(
    kafka: "LocalKafka",
    topic: Callable[..., str],
    coordinator: "LocalCoordinator",
    own_coordinator: "LocalCoordinator",
    tmp_path: Path,
) -> None:
    name, file = topic(2), tmp_path / "backup.json"
    produce_numbers(kafka.bootstrap_servers, name, 2, 0, 20)
    seen = Counter(read(coordinator, name, 11))
    kcoord(coordinator, "group", "pause", name, "--topic", f"{name}:1", "--execute", "--why", "broken sink")
    assert f"{file} has " in kcoord(coordinator, "cluster", "backup", str(file)).stderr

    words = ("cluster", "restore", str(file), "--match", name, "-o", "json")
    shown = kcoord(own_coordinator, *words).data
    assert sum(row["new_offset"] for row in shown["offsets"]) == 11
    kcoord(own_coordinator, "group", "describe", name, exit_code=3)
    kcoord(own_coordinator, *words, "--execute", "--why", "a new disk")
    described = kcoord(own_coordinator, "group", "describe", name, "-o", "json").data
    assert [(control["kind"], control["partition"]) for control in described["controls"]] == [("partition-paused", 1)]

    def lag() -> int:
        partitions = kcoord(own_coordinator, "group", "describe", name, "-o", "json").data["partitions"]
        return sum(partition["lag"] or 0 for partition in partitions)

    assert eventually(lambda: lag() == 9), "of a group that nobody has joined"
    own_coordinator.kill()
    own_coordinator.start()
    assert eventually(lambda: lag() == 9), "also after a restart"
    kcoord(own_coordinator, "group", "resume", name, "--topic", f"{name}:1", "--execute")
    assert seen + Counter(read(own_coordinator, name, 9)) == Counter(range(20)), "each record is read once"
