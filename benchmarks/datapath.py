"""The speed of Spark reading Kafka through kcoord, beside spark-sql-kafka at its defaults and tuned, and the floor.

    make bench-datapath       or: uv run python -m benchmarks.datapath [--scale 0.02] [--reps 5] [--keep]

All sides read the same topics (8 partitions, written by the Java producer) from one broker in one Spark session of two
cores, in turns; a ratio is of two runs of the same turn, and a figure the median of its turns. The floor is a source
that hands out kcoord's own record batches, made before. Sessions of their own take the starts of streams, which have a
floor too. A last session, in which Spark talks to its Python workers
through Unix sockets, has kcoord, the tuned side and the floor once more. Rows are compared by a hash of all columns,
and a damaged topic shows that kcoord checks checksums. The last line is OK when every bar holds; results go to
build/benchmarks, which git ignores, and with `--keep` to benchmarks/, in place of those that are told there.
"""

import argparse
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from confluent_kafka import Producer
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from benchmarks.datapath_corpus import Corpus, corpora, write
from benchmarks.datapath_floor import PrebuiltSource
from benchmarks.datapath_processes import processor_times, used_since
from benchmarks.datapath_report import Results, Run, Runs, destination, judge, save, table
from benchmarks.datapath_sources import FallbackSource, keep_batches
from benchmarks.datapath_spark import ROOT, TUNED, load_ours, load_peer, start_spark
from benchmarks.datapath_starts import measure_starts
from benchmarks.datapath_triggers import measure_triggers
from coordinator.local.errors import LocalServiceError
from coordinator.local.java.jars import JarProgress
from coordinator.local.kafka.broker import LocalKafka

SIDES = ("kcoord", "default", "tuned")
SIDES_WITH_SOCKETS = ("kcoord", "tuned", "floor")
MEMORY_BACKED = Path("/dev/shm")
PREBUILT_BYTES = 3 << 30
BROKER = ("-XX:+UseG1GC",)
_FLUSH_TIMEOUT_S = 30.0


def noop(frame: DataFrame) -> None:
    """Read every row of every column."""
    frame.write.format("noop").mode("overwrite").save()


ACTIONS: Mapping[str, Callable[[DataFrame], object]] = {
    "noop": noop,
    "count": DataFrame.count,
    "sum of lengths": lambda frame: frame.selectExpr("sum(length(value))").collect(),
    "value only": lambda frame: noop(frame.select("value")),
}


@dataclass(frozen=True, slots=True)
class Case:
    """One topic, one action, and the sides that take part."""

    corpus: Corpus
    action: str
    extra: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """Return how reports call it."""
        return f"{self.corpus.topic} {self.action}"


def cases(all_corpora: Sequence[Corpus]) -> tuple[Case, ...]:
    """Return what is measured: all actions without compression, noop with it."""
    chosen = []
    for corpus in all_corpora:
        for action in ACTIONS if corpus.compression == "none" else ("noop",):
            is_plain = corpus.compression == "none" and action == "noop"
            extra = ("floor", *(("fallback",) if corpus.value_bytes < 1000 else ())) if is_plain else ()
            chosen.append(Case(corpus, action, extra))
    return tuple(chosen)


@dataclass(slots=True)
class Bench:
    """The session, the broker, and where the prebuilt batches are."""

    spark: SparkSession
    bootstrap: str
    prebuilt: dict[str, Path] = field(default_factory=dict)

    def load(self, case: Case, side: str) -> DataFrame:
        """Return the topic as a side reads it."""
        topic = case.corpus.topic
        match side:
            case "default" | "tuned":
                return load_peer(self.spark, self.bootstrap, topic, TUNED if side == "tuned" else {})
            case "floor":
                return self.spark.read.format("prebuilt").load(str(self.prebuilt[topic]))
            case "fallback":
                return load_ours(self.spark, self.bootstrap, topic, {}, FallbackSource.name())
            case _:
                options = {"kcoord.columns": "value"} if case.action == "value only" else {}
                return load_ours(self.spark, self.bootstrap, topic, options)

    def run(self, case: Case, side: str) -> Run:
        """Run one case on one side, from `load` to the last row."""
        before, started = processor_times(), time.perf_counter()
        ACTIONS[case.action](self.load(case, side))
        return Run(time.perf_counter() - started, used_since(before))

    def are_rows_equal(self, corpus: Corpus) -> bool:
        """Compare the number of rows and the sum of their hashes between kcoord and the JVM connector."""
        case = Case(corpus, "noop")
        found = []
        for side in ("kcoord", "default"):
            frame = self.load(case, side)
            hashed = f"sum(cast(xxhash64({', '.join(frame.columns)}) as decimal(38, 0)))"
            found.append(tuple(frame.selectExpr("count(*)", hashed).collect()[0]))
        return found[0] == found[1] and found[0][0] == corpus.records


def are_checksums_checked(bench: Bench, kafka: LocalKafka) -> bool:
    """Change a byte of a record on the broker's disk; say whether kcoord refuses to read it."""
    topic = "damaged"
    kafka.create_topic(topic, 1, {})
    producer = Producer({"bootstrap.servers": bench.bootstrap})
    producer.produce(topic, b"v" * 100)
    producer.flush(_FLUSH_TIMEOUT_S)
    frame = load_ours(bench.spark, bench.bootstrap, topic, {})
    if frame.count() != 1:
        raise RuntimeError("the record that is to be damaged cannot be read before it is")
    (segment,) = kafka.data_dir.rglob(f"{topic}-0/*.log")
    data = segment.read_bytes()
    with segment.open("r+b") as file:
        file.seek(data.index(b"v" * 100))
        file.write(b"w")
    try:
        frame.count()
    except PySparkException as error:
        return "checksum" in str(error).lower() or "crc" in str(error).lower()
    return False


def run(scale: float, reps: int, turns: int, results: Results) -> None:
    """Measure everything into `results`."""
    with ExitStack() as stack:
        scratch = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="bench-datapath-")))
        has_memory = MEMORY_BACKED.is_dir() and shutil.disk_usage(MEMORY_BACKED).free > PREBUILT_BYTES * scale
        memory = stack.enter_context(
            tempfile.TemporaryDirectory(prefix="bench-datapath-", dir=MEMORY_BACKED if has_memory else None)
        )
        kafka = stack.enter_context(LocalKafka(scratch / "kafka", heap_mb=1024, jvm_options=BROKER, report=report_jars))
        spark = start_spark(scratch / "spark", report_jars)
        stack.callback(spark.stop)
        for source in (PrebuiltSource, FallbackSource):
            spark.dataSource.register(source)
        bench = Bench(spark, kafka.bootstrap_servers)
        todo = cases(corpora(scale))
        for corpus in corpora(scale):
            started = time.perf_counter()
            write(spark, kafka, corpus)
            say(f"wrote {corpus.records} records to {corpus.topic} in {time.perf_counter() - started:.1f} s")
        for case in todo:
            if "floor" in case.extra:
                bench.prebuilt[case.corpus.topic] = directory = Path(memory, case.corpus.topic)
                directory.mkdir()
                batches = keep_batches(bench.bootstrap, case.corpus.topic, directory)
                say(f"the floor of {case.name} has {case.corpus.records / batches:.0f} rows a batch")
        results.rows_equal = all(
            _said(f"rows of {corpus.topic} equal", bench.are_rows_equal(corpus)) for corpus in corpora(scale)
        )
        results.crc = _said("damaged record refused", are_checksums_checked(bench, kafka))
        for turn in range(reps):
            for case in todo:
                measure(bench, case, turn, (*SIDES, *case.extra), results.runs)
        triggers = measure_triggers(
            spark, kafka, scratch, turns=turns, batches=max(5, int(20 * min(1.0, scale * 10))), say=say
        )
        results.triggers, results.idle_cores = dict(triggers.turns), dict(triggers.idle_cores)
        spark.stop()
        results.starts = measure_starts(kafka, scratch, turns=turns, say=say)
        bench.spark = start_spark(scratch / "spark-with-sockets", report_jars, has_sockets=True)
        stack.callback(bench.spark.stop)
        bench.spark.dataSource.register(PrebuiltSource)
        say("the next turns are of a session with Unix sockets")
        for turn in range(reps):
            for case in todo:
                sides = tuple(side for side in (*SIDES, *case.extra) if side in SIDES_WITH_SOCKETS)
                measure(bench, case, turn, sides, results.sockets)


def measure(bench: Bench, case: Case, turn: int, sides: Sequence[str], runs: Runs) -> None:
    """Take one turn of one case; the order of the sides changes with the turn."""
    shift = turn % len(sides)
    for side in (*sides[shift:], *sides[:shift]):
        runs.add(case.name, side, bench.run(case, side))
    taken = ", ".join(f"{side} {runs[case.name][side][-1].seconds:.2f} s" for side in sides)
    say(f"turn {turn + 1}, {case.name}: {taken}")


def say(text: str) -> None:
    """Show progress."""
    print(f"{time.perf_counter() - _STARTED:6.0f} s  {text}", flush=True)


def report_jars(progress: JarProgress) -> None:
    """Show the download of jars."""
    say(f"jars: {progress.doing} {progress.done}/{progress.total} {progress.what}")


def _said(what: str, is_so: bool) -> bool:  # noqa: FBT001
    say(f"{what}: {'yes' if is_so else 'NO'}")
    return is_so


def main() -> int:
    """Measure, report, and print the summary last."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scale", type=float, default=1.0, help="share of the records, to try things out")
    parser.add_argument("--reps", type=int, default=5)
    parser.add_argument("--turns", type=int, default=5, help="turns of the queries with small micro-batches")
    parser.add_argument("--keep", action="store_true", help="put the results in place of those in benchmarks/")
    arguments = parser.parse_args()
    if arguments.keep and arguments.scale != 1.0:
        parser.error("only results of the whole scale are kept")
    results = Results(scale=arguments.scale)
    try:
        run(arguments.scale, arguments.reps, arguments.turns, results)
    except (PySparkException, Py4JJavaError, LocalServiceError, RuntimeError) as error:
        print(f"bench-datapath: FAILED {type(error).__name__}: {' '.join(str(error).split())[:500]}")
        return 1
    print(table(results))
    save(results, destination(ROOT, is_kept=arguments.keep))
    missed, summary = judge(results)
    print(f"bench-datapath: {'FAILED ' + ','.join(missed) if missed else 'OK'} {summary}")
    return 1 if missed else 0


_STARTED = time.perf_counter()

if __name__ == "__main__":
    sys.exit(main())
