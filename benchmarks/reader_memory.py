"""The memory that a worker needs to read large records, and to read very many partitions in one task.

    make bench-memory         or: uv run python -m benchmarks.reader_memory [--partitions 10000]

A real broker holds records of 1 MB in one partition, and topics of very many partitions with a few records each. A
process of its own reads each as one task does, and says how far its resident memory rose over what it was after a read
of a single record, Kafka connections and pyarrow loaded. Figures are MiB at the peak, rows dropped as Spark drops them
once written. The last line is OK when both stay within what ARCHITECTURE.md promises.
"""

import argparse
import multiprocessing
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka import Producer

from coordinator.local.kafka.broker import LocalKafka
from spark_kcoord.fetch.ranges import read_ranges
from spark_kcoord.fetch.topic_range import TopicRange
from spark_kcoord.options.kafka_settings import parse_kafka_options

LARGE, MANY = "large", "many"
LARGE_RECORDS, LARGE_BYTES = 300, 1_000_000
RECORDS_EACH = 3
PARTITIONS_A_TOPIC = 1_000
TIMEOUT_S = 120.0
BAR_MIB = {LARGE: 64, MANY: 64}
COLUMNS = ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType")
_PROC = Path("/proc/self")
_RESET_PEAK = "5"


def memory_mib(name: str) -> float:
    """Return this process's resident memory: VmRSS, or VmHWM, its highest since the last reset."""
    (line,) = (line for line in (_PROC / "status").read_text().splitlines() if line.startswith(f"{name}:"))
    return int(line.split()[1]) / 1024


@dataclass(frozen=True, slots=True)
class Corpus:
    """Topics of so many partitions each, with so many records of so many bytes in each of these."""

    topics: tuple[str, ...]
    partitions: int
    records: int
    value_bytes: int

    @property
    def rows(self) -> int:
        """Return the number of all records."""
        return len(self.topics) * self.partitions * self.records


def corpora(partitions: int) -> dict[str, Corpus]:
    """Return what is read; a broker takes some thousands of partitions in a topic at once, so many are in several."""
    topics = tuple(f"{MANY}-{number}" for number in range(partitions // PARTITIONS_A_TOPIC))
    return {
        LARGE: Corpus((LARGE,), 1, LARGE_RECORDS, LARGE_BYTES),
        MANY: Corpus(topics, PARTITIONS_A_TOPIC, RECORDS_EACH, 100),
    }


ONE = Corpus(("one",), 1, 1, 1)


def read_all(servers: str, corpus: Corpus) -> int:
    """Read everything in one task, and return the number of rows."""
    settings = parse_kafka_options({"kafka.bootstrap.servers": servers})
    ranges = [
        TopicRange(topic, None, number, 0, corpus.records)
        for topic in corpus.topics
        for number in range(corpus.partitions)
    ]
    read = read_ranges(settings, ranges, columns=COLUMNS, fail_on_data_loss=True, timeout_s=TIMEOUT_S)
    return sum(batch.num_rows for batch in read)


def measure(servers: str, corpus: Corpus) -> tuple[int, float]:
    """Return the rows that were read and by how many MiB memory rose; to be called in a new process."""
    read_all(servers, ONE)
    base = memory_mib("VmRSS")
    (_PROC / "clear_refs").write_text(_RESET_PEAK)
    rows = read_all(servers, corpus)
    return rows, memory_mib("VmHWM") - base


def fill(kafka: LocalKafka, corpus: Corpus) -> None:
    """Make the topics and write the records, the partitions of a topic in turns."""
    settings = {"message.max.bytes": 2 * LARGE_BYTES, "linger.ms": 100}
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers, **settings})
    value = b"v" * corpus.value_bytes
    for topic in corpus.topics:
        kafka.create_topic(topic, corpus.partitions, {"max.message.bytes": str(2 * LARGE_BYTES)})
        for number in range(corpus.records * corpus.partitions):
            while True:
                try:
                    producer.produce(topic, value, partition=number % corpus.partitions)
                    break
                except BufferError:
                    producer.poll(0.1)
        producer.flush()


def main() -> int:
    """Measure and print the summary last."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--partitions", type=int, default=10_000)
    partitions = parser.parse_args().partitions
    if partitions < PARTITIONS_A_TOPIC or partitions % PARTITIONS_A_TOPIC:
        parser.error(f"--partitions must be a multiple of {PARTITIONS_A_TOPIC}")
    rose: dict[str, float] = {}
    missed: list[str] = []
    with (
        tempfile.TemporaryDirectory(prefix="bench-memory-") as scratch,
        LocalKafka(Path(scratch, "kafka"), heap_mb=1024) as kafka,
    ):
        fill(kafka, ONE)
        for name, corpus in corpora(partitions).items():
            started = time.perf_counter()
            fill(kafka, corpus)
            print(f"{name}: {corpus.rows} records written in {time.perf_counter() - started:.0f} s", flush=True)
            started = time.perf_counter()
            with multiprocessing.get_context("spawn").Pool(1) as pool:
                rows, rose[name] = pool.apply(measure, (kafka.bootstrap_servers, corpus))
            seconds = time.perf_counter() - started
            print(f"{name}: {rows} rows read in {seconds:.1f} s, memory rose by {rose[name]:.1f} MiB", flush=True)
            if rows != corpus.rows:
                missed.append(f"{name}_rows")
            if rose[name] > BAR_MIB[name]:
                missed.append(f"{name}_mib")
    result = f"FAILED {','.join(missed)}" if missed else "OK"
    print(f"bench-memory: {result} large_mib={rose[LARGE]:.1f} partitions={partitions} many_mib={rose[MANY]:.1f}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
