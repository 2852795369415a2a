"""Groups that the coordinator forgot while queries remember them, topics that are added, offsets that are deleted."""

import shutil
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from coordinator.client.request import ask
from coordinator.local.node import LocalCoordinator
from coordinator.protocol.messages import Request
from coordinator.protocol.messages.operators import ChangePause, DeleteOffsets
from coordinator.protocol.text.addresses import parse_addresses
from kcoord import Consumer
from tests.helpers.group_view import GroupView
from tests.helpers.kafka_topics import produce_numbers
from tests.helpers.parquet_stream import a_stream, to_parquet, values_in
from tests.helpers.polled import polled
from tests.promises.place import Place
from tests.promises.schedule import Schedule, must, must_have

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

PATIENCE_S = 40.0
SESSION_MS = 3_000
SHARED = {"kcoord.share.within.application": "true", "kcoord.session.timeout": "3s"}


def wipe(node: LocalCoordinator) -> None:
    """Kill a node and take its data away."""
    node.kill()
    shutil.rmtree(node.data_dir / "data")


def poll_until(consumers: Sequence[Consumer], holds: Callable[[], bool], take: Callable[[Any], None]) -> None:
    """Have consumers poll in turn until something is so, or for as long as that may take."""
    until_s = time.monotonic() + PATIENCE_S
    while not holds() and time.monotonic() < until_s:
        for consumer in consumers:
            take(polled(consumer, 100))


def wiped_under_running_members(place: Place) -> None:
    """Wipe the coordinator's disk under two members that share a topic, and produce before it is back."""
    servers, group, topic = place.kafka.bootstrap_servers, place.name("wiped"), place.topic("wiped", 4)
    numbers: set[int] = set()

    def take(records: list[Any]) -> None:
        numbers.update(int(record.value) for record in records)

    with LocalCoordinator(servers, place.folder("wiped")) as node:
        settings = {"coordinators": node.address, "group_id": group, "session_timeout_ms": SESSION_MS}
        a_consumer = partial(Consumer, topic, auto_offset_reset="latest", **settings)
        view = GroupView(node.address, group)
        with a_consumer() as one, a_consumer() as other:
            poll_until((one, other), lambda: sorted(view.owners().values()) == [2, 2], take)
            produce_numbers(servers, topic, 4, 0, 40)
            poll_until((one, other), lambda: len(numbers) == 40, take)
            must_have(set(range(40)), numbers, what="before the disk was lost")
            wipe(node)
            produce_numbers(servers, topic, 4, 40, 40)
            node.start()
            poll_until((one, other), lambda: len(numbers) == 80, take)
        must_have(set(range(80)), numbers, what="after the disk was lost")


def read_to_the_end(frame: "DataFrame", folder: Path) -> None:
    """Run a query once to the ends of its topics."""
    query = to_parquet(frame, folder).trigger(availableNow=True).start()
    must(bool(query.awaitTermination(60)), "the run did not end", kind="stuck")


def two_checkpoints_of_a_forgotten_group(place: Place) -> None:
    """Wipe the disk while two queries are stopped, and start one after the other again, at latest."""
    spark, servers, group = place.spark, place.kafka.bootstrap_servers, place.name("forgotten")
    topic, folders = place.topic("forgotten", 4), [place.folder("one"), place.folder("other")]
    produce_numbers(servers, topic, 4, 0, 40)

    def rows() -> set[int]:
        return {number for folder in folders for number in values_in(spark, folder)}

    with LocalCoordinator(servers, place.folder("node")) as node:
        read = {"subscribe": topic, **SHARED}
        queries = [
            to_parquet(a_stream(spark, node, group, startingOffsets="earliest", **read), folder).start()
            for folder in folders
        ]
        view, until_s = GroupView(node.address, group), time.monotonic() + PATIENCE_S
        while not (sorted(view.owners().values()) == [2, 2] and view.committed() == 40):
            must(time.monotonic() < until_s, "the queries did not share the topic", kind="stuck")
            produce_numbers(servers, topic, 4, 0, 0)
        for query in queries:
            query.stop()
        wipe(node)
        produce_numbers(servers, topic, 4, 40, 40)
        node.start()
        for folder in folders:
            read_to_the_end(a_stream(spark, node, group, startingOffsets="latest", **read), folder)
    must_have(set(range(80)), rows(), what="two checkpoints of a forgotten group")


def added_topic(place: Place) -> None:
    """Restart a query with one more topic, beside format("kafka")."""
    spark, servers, group = place.spark, place.kafka.bootstrap_servers, place.name("added")
    first, second = place.topic("added", 1), place.topic("added", 2)
    ours, theirs = place.folder("ours"), place.folder("theirs")
    produce_numbers(servers, second, 2, 100, 20)

    def kafka(topics: str) -> "DataFrame":
        options = {"kafka.bootstrap.servers": servers, "subscribe": topics, "startingOffsets": "latest"}
        return spark.readStream.format("kafka").options(**options).load()

    for topics in (first, f"{first},{second}"):
        stream = a_stream(spark, place.coordinator, group, subscribe=topics, startingOffsets="latest")
        read_to_the_end(stream, ours)
        read_to_the_end(kafka(topics), theirs)
        produce_numbers(servers, first, 1, 0, 10)
    expected = set(values_in(spark, theirs))
    must(set(range(100, 120)) <= expected, f"format('kafka') reads otherwise: {sorted(expected)}")
    must_have(expected, set(values_in(spark, ours)), what="a topic that was added")


def deleted_offset(place: Place) -> None:
    """Delete the offset of a partition under a member that had registered again on the way."""
    servers, group, topic = place.kafka.bootstrap_servers, place.name("deleted"), place.topic("deleted")
    offsets: list[int] = []

    def take(records: list[Any]) -> None:
        offsets.extend(record.offset for record in records)

    def must_read_to(last: int) -> None:
        poll_until((consumer,), lambda: bool(offsets) and offsets[-1] == last, take)
        must(bool(offsets) and offsets[-1] == last, f"offset {last} is not read: {offsets[-3:]}", kind="stuck")

    with LocalCoordinator(servers, place.folder("deleted")) as node:

        def operate(request: Request) -> None:
            ask(parse_addresses(node.address), request, 5)

        view = GroupView(node.address, group)
        with Consumer(topic, coordinators=node.address, group_id=group, auto_offset_reset="earliest") as consumer:
            produce_numbers(servers, topic, 1, 0, 10)
            must_read_to(9)
            consumer.commit()
            node.restart()
            produce_numbers(servers, topic, 1, 10, 10)
            must_read_to(19)
            operate(ChangePause(group, ((topic, 0),), is_paused=True, who="ann", why="", is_dry_run=False))
            poll_until((consumer,), lambda: all(one.member_id is None for one in view.describe().partitions), take)
            operate(DeleteOffsets(group, ((topic, 0),), who="ann", why="", is_dry_run=False))
            must(view.committed() == 0, "the offset is not deleted")
            offsets.clear()
            operate(ChangePause(group, ((topic, 0),), is_paused=False, who="ann", why="", is_dry_run=False))
            must_read_to(19)
    must_have(set(range(20)), set(offsets), what="after the offset was deleted, by policy earliest")


SCHEDULES = [
    Schedule(
        "disk-wiped-under-members",
        "when the coordinator's disk is lost, running members go on where they are and nothing is passed over",
        wiped_under_running_members,
    ),
    Schedule(
        "forgotten-group",
        "when a group was forgotten, the first query back passes over nothing that another one's checkpoint shows",
        two_checkpoints_of_a_forgotten_group,
        timeout_s=170,
    ),
    Schedule(
        "added-topic",
        'a topic that a query with a checkpoint adds starts at earliest, as with format("kafka")',
        added_topic,
        timeout_s=170,
    ),
    Schedule(
        "delete-offsets-then-policy",
        "an offset that an operator deleted starts again by the policy, and not where a process began",
        deleted_offset,
    ),
]
