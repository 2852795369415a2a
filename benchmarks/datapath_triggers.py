"""How long a trigger of a small micro-batch takes: kcoord with its commits through a coordinator, and the peer.

A producer writes a record to each of 8 partitions every 50 ms; each query writes to the noop sink and runs its next
micro-batch at once. The queries take turns in one Spark session, a new checkpoint and, for kcoord, a new group each
turn. A turn's figure is the median of its micro-batches after the first ones.
"""

import statistics
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from confluent_kafka import Producer
from pyspark.sql import SparkSession

from coordinator.local.kafka import LocalKafka
from coordinator.local.node import LocalCoordinator

PARTITIONS = 8
INTERVAL_S = 0.05
SKIPPED = 4
_TURN_TIMEOUT_S = 60.0
_POLL_S = 0.05
_TOPIC = "triggers"


@dataclass(frozen=True, slots=True)
class Turn:
    """The micro-batches of one query: medians in milliseconds of the whole trigger and of its parts by Spark's name."""

    trigger_ms: float
    parts_ms: Mapping[str, float]
    batches: int


def measure_triggers(
    spark: SparkSession, kafka: LocalKafka, scratch: Path, *, turns: int, batches: int, say: Callable[[str], None]
) -> dict[str, list[Turn]]:
    """Return the turns of `kcoord` and `peer`, which alternate."""
    found: dict[str, list[Turn]] = {"kcoord": [], "peer": []}
    kafka.create_topic(_TOPIC, PARTITIONS, {})
    with LocalCoordinator(kafka.bootstrap_servers, scratch / "node") as node, _produced(kafka.bootstrap_servers):
        options = {
            "kcoord": lambda turn: {
                "kcoord.bootstrap.servers": node.address,
                "kcoord.group.id": f"triggers-{turn}",
            },
            "peer": lambda _turn: {"kafka.bootstrap.servers": kafka.bootstrap_servers},
        }
        for turn in range(turns):
            names = list(found) if turn % 2 else list(found)[::-1]
            for name in names:
                source = "kcoord" if name == "kcoord" else "kafka"
                checkpoint = scratch / f"checkpoint-{name}-{turn}"
                found[name].append(_take_turn(spark, source, options[name](turn), checkpoint, batches))
            medians = ", ".join(f"{name} {found[name][-1].trigger_ms:.0f} ms" for name in found)
            say(f"triggers, turn {turn + 1} of {turns}: {medians}")
    return found


def _take_turn(spark: SparkSession, source: str, options: Mapping[str, str], checkpoint: Path, batches: int) -> Turn:
    query = (
        spark.readStream.format(source)
        .options(subscribe=_TOPIC, startingOffsets="latest", **options)
        .load()
        .writeStream.format("noop")
        .option("checkpointLocation", str(checkpoint))
        .start()
    )
    try:
        deadline = time.monotonic() + _TURN_TIMEOUT_S
        while len(done := _batches_of(query)) < SKIPPED + batches:
            if not query.isActive or time.monotonic() > deadline:
                raise RuntimeError(f"{source}: {len(done)} micro-batches only, {query.exception() or 'too slow'}")
            time.sleep(_POLL_S)
    finally:
        query.stop()
    measured = done[SKIPPED : SKIPPED + batches]
    parts = {name: statistics.median(one.get(name, 0) for one in measured) for name in measured[0]}
    return Turn(parts.pop("triggerExecution"), parts, len(measured))


def _batches_of(query: Any) -> list[Mapping[str, int]]:
    """Return the durations of the triggers that ran a micro-batch."""
    return [one["durationMs"] for one in query.recentProgress if "addBatch" in one["durationMs"]]


@contextmanager
def _produced(bootstrap: str) -> Iterator[None]:
    """Write to every partition now and then while the block runs."""
    is_over = threading.Event()

    def produce() -> None:
        producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0})
        while not is_over.wait(INTERVAL_S):
            for partition in range(PARTITIONS):
                producer.produce(_TOPIC, bytes(100), key=b"%08d" % partition, partition=partition)
            producer.poll(0)
        producer.flush(10)

    thread = threading.Thread(target=produce, name="producer", daemon=True)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()
