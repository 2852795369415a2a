"""Brokers whose remote tier is slow answer fetches with nothing and without an error, again and again."""

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

import spark_kcoord
from coordinator.local.node import LocalCoordinator
from kcoord import Consumer
from tests.helpers.polled import polled
from tests.helpers.tiered_kafka import TieredKafka
from tests.promises.place import Place
from tests.promises.schedule import BrokenError, Schedule, must, must_have

RECORDS = 200
WITHHELD_S = 4.0
"""So long the tier gives nothing: the broker lets go of a remote read after half a second."""
PATIENCE_S = 60.0
SHORT_PATIENCE_MS = 3_000


@dataclass(frozen=True)
class Tiered:
    """A broker with a remote tier, a coordinator over it, and a topic that is in the tier but for its last record."""

    place: Place
    tier: TieredKafka
    node: LocalCoordinator
    topic: str

    def options(self, group: str, more: Mapping[str, str] | None = None) -> dict[str, str]:
        """Return what a member of a group reads the topic by."""
        return {
            "kcoord.bootstrap.servers": self.node.address,
            "kcoord.group.id": group,
            "subscribe": self.topic,
            "startingOffsets": "earliest",
            **(more or {}),
        }

    @property
    def snapshot_options(self) -> dict[str, str]:
        """Return what a batch read without a group reads the topic by."""
        return {"kafka.bootstrap.servers": self.tier.kafka.bootstrap_servers, "subscribe": self.topic}


@contextmanager
def tiered(place: Place) -> Iterator[Tiered]:
    """Start broker and coordinator, and write the records."""
    folder = place.folder("tiered")
    topic = place.name("tiered")
    with TieredKafka(folder).running() as tier:
        tier.write(topic, [b"%d" % number for number in range(RECORDS)])
        with LocalCoordinator(tier.kafka.bootstrap_servers, folder / "coordinator") as node:
            yield Tiered(place, tier, node, topic)


# ---- readers --------------------------------------------------------------------------------------------------------


def by_snapshot(where: Tiered, source: str) -> set[int]:
    frame = where.place.spark.read.format(source).options(**where.snapshot_options).load()
    return {row.offset for row in frame.select("offset").collect()}


def by_stream(where: Tiered) -> set[int]:
    sink, spark = where.place.name("sink").replace("-", "_"), where.place.spark
    stream = spark.readStream.format("kcoord").options(**where.options(where.place.name("stream"))).load()
    query = (
        stream.select("offset")
        .writeStream.format("memory")
        .queryName(sink)
        .option("checkpointLocation", str(where.place.folder("checkpoint")))
        .trigger(availableNow=True)
        .start()
    )
    must(query.awaitTermination(PATIENCE_S), "the query did not end", kind="stuck")
    return {row.offset for row in spark.table(sink).collect()}


def by_batch(where: Tiered) -> set[int]:
    with spark_kcoord.batch(where.place.spark, where.options(where.place.name("batch"))) as new:
        return {row.offset for row in new.rows.select("offset").collect()}


def by_consumer(where: Tiered) -> set[int]:
    settings = {"coordinators": where.node.address, "group_id": where.place.name("consumer")}
    found: set[int] = set()
    until_s = time.monotonic() + PATIENCE_S
    with Consumer(where.topic, **settings, auto_offset_reset="earliest") as consumer:
        while not found or max(found) < RECORDS - 1:
            must(time.monotonic() < until_s, f"the consumer got {len(found)} records only", kind="stuck")
            found.update(record.offset for record in polled(consumer))
    return found


READERS: Mapping[str, Callable[[Tiered], set[int]]] = {
    "format('kafka')": lambda where: by_snapshot(where, "kafka"),
    "a batch read": lambda where: by_snapshot(where, "kcoord"),
    "a stream": by_stream,
    "spark_kcoord.batch": by_batch,
    "a consumer": by_consumer,
}


# ---- schedules ------------------------------------------------------------------------------------------------------


def slow_for_a_while(place: Place) -> None:
    """Let each reader begin while the tier gives nothing, and give it everything some seconds later."""
    with tiered(place) as where:
        for name, read in READERS.items():
            read_while_withheld(where, name, read)


def read_while_withheld(where: Tiered, name: str, read: Callable[[Tiered], set[int]]) -> None:
    """Run one reader, the first seconds without the tier."""
    got: list[set[int]] = []
    failed: list[BaseException] = []

    def run_it() -> None:
        try:
            got.append(read(where))
        except BaseException as error:  # noqa: BLE001 - whatever ends a reader is its result
            failed.append(error)

    reader = threading.Thread(target=run_it, name=name, daemon=True)
    with where.tier.slow():
        reader.start()
        reader.join(WITHHELD_S)
    reader.join(PATIENCE_S)
    if failed:
        raise BrokenError("wrong", f"{name} failed: {failed[0]}") from failed[0]
    must(bool(got), f"{name} had not ended after {PATIENCE_S:g} s", kind="stuck")
    must_have(set(range(RECORDS)), got[0], what=name)


def slow_for_too_long(place: Place) -> None:
    """Read while the tier gives nothing at all: an error with all offsets, no commit, and all of it afterwards."""
    with tiered(place) as where:
        options = where.options(place.name("batch"), {"kafkaConsumer.pollTimeoutMs": str(SHORT_PATIENCE_MS)})
        with where.tier.slow():
            try:
                with spark_kcoord.batch(place.spark, options) as new:
                    got = new.rows.count()
            except Exception as error:  # noqa: BLE001 - Spark's own class around ours
                said = str(error)
            else:
                raise BrokenError("lost", f"a batch of which {got} of {RECORDS} records came was committed")
        for part in (
            f"topic '{where.topic}' partition 0",
            f"at offset 0 of [0, {RECORDS})",
            f"its log [0, {RECORDS}) can be read",
            "older ones are in the remote tier",
        ):
            must(part in said, f"the error does not say {part!r}: {said}")
        with spark_kcoord.batch(place.spark, options) as new:
            again = {row.offset for row in new.rows.select("offset").collect()}
    must_have(set(range(RECORDS)), again, what="the next batch")


SCHEDULES = (
    Schedule(
        "remote-tier-slow-for-a-while",
        "a remote tier that is slow loses nothing, by batch, stream and consumer as by format('kafka')",
        slow_for_a_while,
        timeout_s=300,
    ),
    Schedule(
        "remote-tier-slow-for-too-long",
        "a remote tier that gives nothing fails the read, with all offsets, and nothing is committed",
        slow_for_too_long,
        timeout_s=180,
    ),
)
