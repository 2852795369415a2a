"""The time of a stream from `load()` to the end of its first micro-batch: kcoord, the peer and the floor.

Each start is of a Spark session of its own, a process that takes the queries of one side one after another: the first
waits for all that a session does once, the later ones do not. A query reads what is in the topic, into the noop sink,
with a new checkpoint and, for kcoord, a new group; it is stopped when its first micro-batch has ended. The floor is a
stream of Spark's Python interface that knows where it ends and hands out one batch made before.

`python -m benchmarks.datapath_starts SIDE BOOTSTRAP NODE GROUP FOLDER` is such a session; its last line is JSON.
"""

import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from benchmarks.datapath_floor import StreamOfNothing
from benchmarks.datapath_spark import ROOT, start_spark
from coordinator.local.java.jars import JarProgress
from coordinator.local.kafka.broker import LocalKafka
from coordinator.local.node import LocalCoordinator
from tests.helpers.kafka_topics import produce_numbers

SIDES = ("kcoord", "peer", "floor")
PARTITIONS = 8
RECORDS = 800
LATER = 4
_TOPIC = "starts"
_SESSION_TIMEOUT_S = 300.0
_QUERY_TIMEOUT_S = 120.0
_POLL_S = 0.005


@dataclass(frozen=True, slots=True)
class Start:
    """A query until its first micro-batch has ended: the seconds, those of `load()`, and the trigger's parts in ms."""

    seconds: float
    load_seconds: float
    parts_ms: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class SessionStarts:
    """The queries of one session in their order."""

    starts: tuple[Start, ...]

    def first(self) -> float:
        """Return the seconds of the session's first query."""
        return self.starts[0].seconds

    def later(self) -> float:
        """Return the median of the seconds of the later queries."""
        return statistics.median(start.seconds for start in self.starts[1:])


def measure_starts(
    kafka: LocalKafka, scratch: Path, *, turns: int, say: Callable[[str], None]
) -> dict[str, list[SessionStarts]]:
    """Start a session of each side in turns and return what each found."""
    found: dict[str, list[SessionStarts]] = {side: [] for side in SIDES}
    kafka.create_topic(_TOPIC, PARTITIONS, {})
    produce_numbers(kafka.bootstrap_servers, _TOPIC, PARTITIONS, 0, RECORDS)
    with LocalCoordinator(kafka.bootstrap_servers, scratch / "starts-node") as node:
        for turn in range(turns):
            shift = turn % len(SIDES)
            for side in (*SIDES[shift:], *SIDES[:shift]):
                folder = scratch / f"starts-{side}-{turn}"
                folder.mkdir()
                found[side].append(_session(side, kafka.bootstrap_servers, node.address, f"starts-{turn}", folder))
            last = {side: sessions[-1] for side, sessions in found.items()}
            said = ", ".join(f"{side} {one.first():.1f} s, later {one.later():.2f} s" for side, one in last.items())
            say(f"first micro-batches, turn {turn + 1} of {turns}: {said}")
    return found


def _session(side: str, bootstrap: str, node: str, group: str, folder: Path) -> SessionStarts:
    """Run the queries of one side in a process of their own."""
    command = [sys.executable, "-m", "benchmarks.datapath_starts", side, bootstrap, node, group, str(folder)]
    told = subprocess.run(command, cwd=ROOT, capture_output=True, timeout=_SESSION_TIMEOUT_S, check=False)
    if told.returncode != 0:
        raise RuntimeError(f"the session of {side} ended with {told.returncode}: {told.stderr.decode()[-2000:]}")
    return SessionStarts(tuple(Start(*start) for start in json.loads(told.stdout.splitlines()[-1])))


def _take(spark: SparkSession, source: str, options: Mapping[str, str], checkpoint: Path) -> Start:
    began = time.perf_counter()
    rows = spark.readStream.format(source).options(**options).load()
    loaded = time.perf_counter()
    query = rows.writeStream.format("noop").option("checkpointLocation", str(checkpoint)).start()
    try:
        parts = _first_batch(query)
        return Start(time.perf_counter() - began, loaded - began, parts)
    finally:
        query.stop()


def _first_batch(query: Any) -> Mapping[str, float]:
    """Wait until a micro-batch has ended, and return Spark's durations of it."""
    deadline = time.monotonic() + _QUERY_TIMEOUT_S
    while True:
        progress = query.lastProgress
        if progress is not None and "addBatch" in progress["durationMs"]:
            return dict(progress["durationMs"])
        if not query.isActive or time.monotonic() > deadline:
            raise RuntimeError(f"no micro-batch ended: {query.exception() or 'too slow'}")
        time.sleep(_POLL_S)


def main() -> None:
    """Start a session, take its queries, and print them."""
    side, bootstrap, node, group, folder = sys.argv[1:]
    spark = start_spark(Path(folder) / "spark", _pass_over)
    spark.dataSource.register(StreamOfNothing)
    kafka = {"subscribe": _TOPIC, "startingOffsets": "earliest"}
    starts = []
    for number in range(1 + LATER):
        source, options = {
            "kcoord": ("kcoord", kafka | {"kcoord.bootstrap.servers": node, "kcoord.group.id": f"{group}-{number}"}),
            "peer": ("kafka", kafka | {"kafka.bootstrap.servers": bootstrap}),
            "floor": (StreamOfNothing.name(), {}),
        }[side]
        start = _take(spark, source, options, Path(folder) / f"checkpoint-{number}")
        starts.append((start.seconds, start.load_seconds, start.parts_ms))
    spark.stop()
    print(json.dumps(starts))


def _pass_over(_progress: JarProgress) -> None:
    """Show nothing: the jars are there."""


if __name__ == "__main__":
    main()
