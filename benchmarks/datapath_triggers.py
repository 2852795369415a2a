"""The time of a trigger of a small micro-batch: kcoord with its commits through a coordinator, and the peer.

A producer writes a record to each of 8 partitions every 50 ms; each query writes to the noop sink and runs its next
micro-batch at once. The queries take turns in one Spark session, a new checkpoint and, for kcoord, a new group each
turn. A turn's figure is the median of its micro-batches after the first ones. When nothing is produced any more, each
query idles for some seconds, and what it takes of the processor is compared with a session without a query.
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

from benchmarks.datapath_processes import processor_times, used_since
from coordinator.local.kafka.broker import LocalKafka
from coordinator.local.node import LocalCoordinator

PARTITIONS = 8
INTERVAL_S = 0.05
SKIPPED = 4
_TURN_TIMEOUT_S = 120.0
_IDLE_S = 5.0
_POLL_S = 0.05
_TOPIC = "triggers"


@dataclass(frozen=True, slots=True)
class Turn:
    """The micro-batches of one query: medians in milliseconds of the whole trigger and of its parts by Spark's name."""

    trigger_ms: float
    parts_ms: Mapping[str, float]
    batches: int


@dataclass(frozen=True, slots=True)
class Triggers:
    """The turns of `kcoord` and `peer`, and the cores that an idle query takes, without what the session takes."""

    turns: Mapping[str, list[Turn]]
    idle_cores: Mapping[str, float]


def measure_triggers(
    spark: SparkSession, kafka: LocalKafka, scratch: Path, *, turns: int, batches: int, say: Callable[[str], None]
) -> Triggers:
    """Measure the triggers of `kcoord` and `peer`, which alternate."""
    found: dict[str, list[Turn]] = {"kcoord": [], "peer": []}
    kafka.create_topic(_TOPIC, PARTITIONS, {})
    with LocalCoordinator(kafka.bootstrap_servers, scratch / "node") as node:

        def options(name: str, turn: int) -> dict[str, str]:
            if name == "peer":
                return {"kafka.bootstrap.servers": kafka.bootstrap_servers}
            return {"kcoord.bootstrap.servers": node.address, "kcoord.group.id": f"triggers-{turn}"}

        with _produced(kafka.bootstrap_servers):
            for turn in range(turns):
                for name in list(found) if turn % 2 else list(found)[::-1]:
                    with _query(spark, name, options(name, turn), scratch / f"checkpoint-{name}-{turn}") as query:
                        found[name].append(_take_turn(query, batches))
                medians = ", ".join(f"{name} {found[name][-1].trigger_ms:.0f} ms" for name in found)
                say(f"triggers, turn {turn + 1} of {turns}: {medians}")
        idle: dict[str, float] = {}
        session = _cores_taken()
        for name in found:
            with _query(spark, name, options(name, turns), scratch / f"checkpoint-{name}-idle") as query:
                _wait_until_idle(query)
                idle[name] = max(0.0, _cores_taken() - session)
            say(f"an idle query of {name} takes {idle[name]:.2f} cores")
    return Triggers(found, idle)


@contextmanager
def _query(spark: SparkSession, name: str, options: Mapping[str, str], checkpoint: Path) -> Iterator[Any]:
    query = (
        spark.readStream.format("kcoord" if name == "kcoord" else "kafka")
        .options(subscribe=_TOPIC, startingOffsets="latest", **options)
        .load()
        .writeStream.format("noop")
        .option("checkpointLocation", str(checkpoint))
        .start()
    )
    try:
        yield query
    finally:
        query.stop()


def _take_turn(query: Any, batches: int) -> Turn:
    deadline = time.monotonic() + _TURN_TIMEOUT_S
    while len(done := _batches_of(query)) < SKIPPED + batches:
        if not query.isActive or time.monotonic() > deadline:
            raise RuntimeError(f"{len(done)} micro-batches only: {query.exception() or 'too slow'}")
        time.sleep(_POLL_S)
    measured = done[SKIPPED : SKIPPED + batches]
    parts = {name: statistics.median(one.get(name, 0) for one in measured) for name in measured[0]}
    return Turn(parts.pop("triggerExecution"), parts, len(measured))


def _wait_until_idle(query: Any) -> None:
    """Return when the query has looked for data and found none."""
    deadline = time.monotonic() + _TURN_TIMEOUT_S
    while query.lastProgress is None and query.status["message"] != "Waiting for data to arrive":
        if not query.isActive or time.monotonic() > deadline:
            raise RuntimeError(f"the query does not become idle: {query.exception() or query.status['message']}")
        time.sleep(_POLL_S)


def _cores_taken() -> float:
    """Return the processor's seconds in a second, of this process and all it started."""
    before = processor_times()
    time.sleep(_IDLE_S)
    return used_since(before) / _IDLE_S


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
