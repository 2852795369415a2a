"""An old copy of the coordinator's data directory that is put back under members that have gone on since."""

import shutil
from functools import partial
from pathlib import Path
from typing import Any

from coordinator.local.node import LocalCoordinator
from kcoord import Consumer
from tests.helpers.group_view import GroupView
from tests.helpers.kafka_topics import produce_numbers
from tests.promises.place import Place
from tests.promises.schedule import Schedule, must, must_have
from tests.promises.schedules.forgotten_group import SESSION_MS, poll_until


def copy_data(node: LocalCoordinator, copy: Path) -> None:
    """Kill a node, copy its data as a backup does, and start it again."""
    node.kill()
    shutil.copytree(node.data_dir / "data", copy)
    node.start()


def put_back(node: LocalCoordinator, copy: Path) -> None:
    """Kill a node and put a copy in the place of its data."""
    node.kill()
    shutil.rmtree(node.data_dir / "data")
    shutil.copytree(copy, node.data_dir / "data")


def old_copy_under_running_members(place: Place) -> None:
    """Put back what a node was before a partition changed hands twice, twice, with records that come in between."""
    servers, group, topic = place.kafka.bootstrap_servers, place.name("copied"), place.topic("copied", 4)
    folder = place.folder("copied")
    numbers: set[int] = set()
    produced = 0

    def take(records: list[Any]) -> None:
        numbers.update(int(record.value) for record in records)

    def produce() -> None:
        nonlocal produced
        produce_numbers(servers, topic, 4, produced, 40)
        produced += 40

    def must_read_all(consumers: tuple[Consumer, ...], when: str) -> None:
        poll_until(consumers, lambda: len(numbers) == produced, take)
        must_have(set(range(produced)), numbers, what=when)

    with LocalCoordinator(servers, folder) as node:
        settings = {"coordinators": node.address, "group_id": group, "session_timeout_ms": SESSION_MS}
        a_consumer = partial(Consumer, topic, auto_offset_reset="latest", **settings)
        view = GroupView(node.address, group)

        def epochs() -> dict[int, int]:
            parts = view.describe().partitions
            return {part.partition: part.owner_epoch for part in parts if part.owner_epoch is not None}

        def must_be_above(consumers: tuple[Consumer, ...], before: dict[int, int]) -> None:
            # Until they are back the node shows what the copy has.
            poll_until(consumers, lambda: all(epochs().get(number, 0) > before[number] for number in before), take)
            after = epochs()
            again = [number for number in before if after.get(number, 0) <= before[number]]
            must(not again, f"owner epochs of {again} were {before} and are {after}")

        with a_consumer() as one, a_consumer() as other:
            both = (one, other)
            poll_until(both, lambda: sorted(view.owners().values()) == [2, 2], take)
            produce()
            must_read_all(both, "before the copy")
            copy_data(node, folder / "copy")
            poll_until(both, lambda: sorted(view.owners().values()) == [2, 2], take)
            for _ in range(2):
                before = epochs()
                with a_consumer() as third:
                    poll_until((*both, third), lambda: sorted(view.owners().values()) == [1, 1, 2], take)
                    produce()
                    must_read_all((*both, third), "while a third one is there")
                    before = {number: max(before[number], epoch) for number, epoch in epochs().items()}
                poll_until(both, lambda: sorted(view.owners().values()) == [2, 2], take)
                before = {number: max(before[number], epoch) for number, epoch in epochs().items()}
                put_back(node, folder / "copy")
                produce()
                node.start()
                must_read_all(both, "after the copy was put back")
                must_be_above(both, before)
                must(bool(view.events("log-went-back")), "no event says that the log went back")
        must("log-went-back" in node.log_path.read_text(), "no line of the log says that the log went back")


SCHEDULES = [
    Schedule(
        "old-copy-put-back",
        "an old copy of the data directory is noticed, passes over nothing, and grants no owner epoch again",
        old_copy_under_running_members,
        timeout_s=170,
    ),
]
