"""The plain consumer beside kafka-python, confluent-kafka and aiokafka, in one run on one broker and one coordinator.

    make bench-consumer        or: uv run python -m benchmarks.consumer [--scale 0.05] [--rounds 5] [--only throughput]

Ratios above 1 say that kcoord is faster, against the fastest peer of a run, tuned or not; ours are at their defaults.
Of the corpora the one with the smallest ratio counts. No process is bound to a core: broker, coordinator and reader
share the machine with whatever else runs, which strikes all readers, who take turns. The last line is OK when every
figure is within its bar; at another scale than 1 it is said and nothing is judged.
"""

import argparse
import os
import platform
import statistics
import tempfile
from collections.abc import Mapping
from pathlib import Path

from benchmarks.consumer import group, idle, latency, memory, throughput
from benchmarks.consumer.children import Child
from benchmarks.consumer.corpus import Corpus, fill
from benchmarks.consumer.readers import READERS
from coordinator.local.errors import LocalServiceError
from coordinator.local.kafka.broker import LocalKafka
from coordinator.local.node import LocalCoordinator

PARTS = ("throughput", "latency", "idle", "memory", "group")
PARTITIONS = 8
RECORDS_EACH = {100: 150_000, 1_000: 40_000}
IDLE_PARTITIONS, IDLE_S = 1_000, 30.0
LARGE_PARTITIONS, LARGE_EACH, LARGE_BYTES = 64, 6, 1_000_000
MANY_TOPICS, MANY_EACH = 10, 3
COMMITS = 200
JOINS = 5
TIMEOUT_S = 600.0
JVM = ("-server", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20", "-XX:InitiatingHeapOccupancyPercent=35")
BROKER = {"num.network.threads": "3", "num.io.threads": "8"}
AT_LEAST = {"arrow_vs_best": 6.0, "rows_vs_best": 1.5, "async_vs_aiokafka": 1.5}
AT_MOST = {
    "latency_vs_confluent": 2.0,
    "idle_cores": 0.01,
    "idle_requests_per_s": 3.0,
    "peak_mib": 128.0,
    "join_to_first_ms": 500.0,
}
PEERS = tuple(name for name in READERS if not name.startswith(throughput.OURS))
ARROW, ROWS, ASYNC = "kcoord poll_arrow", "kcoord poll", "kcoord getmany"


class Bench:
    """The parts of the bench, on a broker and a coordinator that run."""

    def __init__(self, kafka: LocalKafka, node: LocalCoordinator, scale: float, rounds: int) -> None:
        self._kafka = kafka
        self._node = node
        self._scale = scale
        self._rounds = rounds

    def throughput(self) -> dict[str, float]:
        """Return our paces and their ratios to the peers'."""
        corpora = [
            Corpus(f"{size}-{codec}", PARTITIONS, self._scaled(each, 1_000), size, codec)
            for size, each in RECORDS_EACH.items()
            for codec in ("none", "lz4")
        ]
        for corpus in corpora:
            fill(self._kafka, corpus)
        measured = throughput.measure(self._kafka.bootstrap_servers, corpora, self._rounds)
        for corpus, rounds in measured.items():
            throughput.report(corpus, rounds)
        small = measured[corpora[0]]
        return {
            "arrow_vs_best": throughput.worst(measured, ARROW, PEERS),
            "rows_vs_best": throughput.worst(measured, ROWS, PEERS),
            "async_vs_aiokafka": throughput.worst(measured, ASYNC, [name for name in PEERS if "aiokafka" in name]),
            "arrow_rows_per_s": statistics.median(one.per_s for one in small[ARROW]),
            "rows_per_s": statistics.median(one.per_s for one in small[ROWS]),
        }

    def latency(self) -> dict[str, float]:
        """Return the time of a record to an idle consumer."""
        measured = latency.measure(self._kafka, self._rounds)
        latency.report(measured)
        pairs = zip(latency.medians(measured[ROWS]), latency.medians(measured["confluent"]), strict=True)
        each = sorted(ms for one in measured[ROWS] for ms in one)
        return {
            "latency_ms": statistics.median(each),
            "latency_p99_ms": each[min(len(each) - 1, int(len(each) * 0.99))],
            "latency_vs_confluent": statistics.median(ours / theirs for ours, theirs in pairs),
        }

    def idle(self) -> dict[str, float]:
        """Return the cost of having nothing to read."""
        corpus = Corpus("idle", self._scaled(IDLE_PARTITIONS, 50), 1, 100)
        fill(self._kafka, corpus)
        seconds = max(5.0, IDLE_S * min(1.0, self._scale))
        with Child() as child:
            arguments = (self._kafka.bootstrap_servers, self._node.address, corpus.topic, corpus.partitions, seconds)
            found = child.begin(idle.measure, *arguments)(TIMEOUT_S)
        shown = f"{found.cores:.4f} cores, {found.requests_per_s:.2f} requests/s"
        print(f"  {corpus.partitions} partitions: {shown}", flush=True)
        return {"idle_cores": found.cores, "idle_requests_per_s": found.requests_per_s}

    def memory(self) -> dict[str, float]:
        """Return the most memory that large records or many partitions take."""
        one = Corpus("one", 1, 1, 1)
        fill(self._kafka, one)
        cases = {
            "records of 1 MB": [Corpus("large", LARGE_PARTITIONS, self._scaled(LARGE_EACH, 1), LARGE_BYTES)],
            "many partitions": [
                Corpus(f"many-{number}", self._scaled(1_000, 20), MANY_EACH, 100) for number in range(MANY_TOPICS)
            ],
        }
        most = 0.0
        for name, corpora in cases.items():
            for corpus in corpora:
                fill(self._kafka, corpus)
            with Child() as child:
                rows, mib = child.begin(memory.measure, self._kafka.bootstrap_servers, one, corpora)(TIMEOUT_S)
            partitions = sum(corpus.partitions for corpus in corpora)
            print(f"  {name}, {rows} of them in {partitions} partitions: memory rose by {mib:.1f} MiB", flush=True)
            most = max(most, mib)
        return {"peak_mib": most}

    def group(self) -> dict[str, float]:
        """Return the time of a commit, and of a second consumer's first record."""
        corpus = Corpus("group", PARTITIONS, 5_000, 100)
        fill(self._kafka, corpus)
        servers, coordinator = self._kafka.bootstrap_servers, self._node.address
        with Child() as child:
            number = self._scaled(COMMITS, 20)
            waited = child.begin(group.commits, coordinator, corpus, "commits", number)(TIMEOUT_S)
            joined = [
                child.begin(group.joining, servers, coordinator, corpus.topic, PARTITIONS, f"joins-{at}")(TIMEOUT_S)
                for at in range(JOINS)
            ]
        print("  a second consumer's first record after " + ", ".join(f"{ms:.0f}" for ms in joined) + " ms", flush=True)
        return {"commit_ms": statistics.median(waited), "join_to_first_ms": statistics.median(joined)}

    def _scaled(self, number: int, least: int) -> int:
        return max(least, int(number * self._scale))


def missed(figures: Mapping[str, float]) -> list[str]:
    """Return the names of figures that are not within their bars."""
    low = [name for name, bar in AT_LEAST.items() if name in figures and figures[name] < bar]
    return low + [name for name, bar in AT_MOST.items() if name in figures and figures[name] > bar]


def _number(value: float) -> str:
    return f"{value:.{0 if value >= 1000 else 2 if value >= 0.1 else 4}f}"


def main() -> int:
    """Measure, and print the summary last."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scale", type=float, default=1.0, help="of records, partitions and seconds")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", choices=PARTS, action="append", help="one part, as often as wanted")
    arguments = parser.parse_args()
    load = ", ".join(f"{one:.1f}" for one in os.getloadavg())
    print(f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}, load before: {load}")
    figures: dict[str, float] = {}
    try:
        with tempfile.TemporaryDirectory(prefix="bench-consumer-") as name:
            broker = LocalKafka(Path(name, "kafka"), heap_mb=1024, config=BROKER, jvm_options=JVM)
            with broker as kafka, LocalCoordinator(kafka.bootstrap_servers, Path(name, "node")) as node:
                bench = Bench(kafka, node, arguments.scale, arguments.rounds)
                for part in arguments.only or PARTS:
                    print(f"{part}:", flush=True)
                    figures |= getattr(bench, part)()
    except (RuntimeError, LocalServiceError, OSError) as error:
        print(f"bench-consumer: FAILED {error}")
        return 1
    shown = " ".join(f"{name}={_number(value)}" for name, value in figures.items())
    short = missed(figures)
    if arguments.scale != 1.0:
        print(f"bench-consumer: TRIED {shown} scale={arguments.scale:g}")
        return 0
    print(f"bench-consumer: {'FAILED ' + ','.join(short) if short else 'OK'} {shown}")
    return 1 if short else 0
