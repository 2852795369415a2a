"""Runs one case by both sources and says how they differ."""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from chispa import DataFramesNotEqualError
from chispa.rows_comparer import assert_basic_rows_equality
from chispa.schema_comparer import SchemasNotEqualError, assert_schema_equality
from kafka import KafkaAdminClient, TopicPartition
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.types import StructType

from coordinator.local.kafka.broker import LocalKafka
from coordinator.local.node import LocalCoordinator
from tests.compare.cases import Case
from tests.compare.corpus import FIRST_MS, STEP_MS, Place, write_by_librdkafka
from tests.helpers.record_batches import Row as KafkaRow
from tests.helpers.spark_limits import TRIES, try_until_spark_waits

STREAM_LIMIT_S = 120
METADATA_AGE_S = 7.0
"""More than the 5 s for which a coordinator believes what Kafka said about a topic."""
PEER = "kafka"
OURS = "kcoord"


@dataclass(frozen=True)
class Result:
    """What one source made of a case: sorted rows, or the error that it refused it with, and sizes of micro-batches."""

    schema: StructType | None = None
    rows: list[Row] | None = None
    error: str = ""
    batches: tuple[int, ...] = ()


@dataclass(frozen=True)
class Comparison:
    """Both sources over the same topics."""

    spark: SparkSession
    kafka: LocalKafka
    coordinator: LocalCoordinator
    prefix: str
    folder: Path

    def why_unequal(self, case: Case, number: int) -> str | None:
        """Run a case by both and say how they differ, or return None; `number` keeps what it writes apart."""
        if case.later:
            self.kafka.create_topic(self._topic(case), 2, {})
            self._write(case, 2, 0, 30)
        ours, theirs = (self._run(case, source, number) for source in (OURS, PEER))
        why = _difference(ours, theirs, refusal=case.refusal)
        if why is None and case.later:
            self._change(case)
            ours, theirs = (self._run(case, source, number) for source in (OURS, PEER))
            why = _difference(ours, theirs, refusal=case.refusal_later)
            why = f"run again: {why}" if why else None
        return why

    def _run(self, case: Case, source: str, number: int) -> Result:
        options = self._options(case, source, number)
        results: list[Result] = []

        def attempt(_number: int) -> str:
            results.append(self._try(case, source, options, self.folder / f"{number}-{source}"))
            return results[-1].error

        tried = try_until_spark_waits(attempt)
        assert tried.met < TRIES, f"{tried.told()}: {tried.why}"
        return results[-1]

    def _try(self, case: Case, source: str, options: Mapping[str, str], folder: Path) -> Result:
        try:
            if not case.is_stream:
                return _collect(self.spark.read.format(source).options(**options).load())
            return self._run_stream(source, options, folder)
        except (PySparkException, Py4JJavaError) as error:
            return Result(error=str(error) or type(error).__name__)

    def _run_stream(self, source: str, options: Mapping[str, str], folder: Path) -> Result:
        frame = self.spark.readStream.format(source).options(**options).load()
        writer = frame.writeStream.format("parquet").option("path", str(folder / "rows"))
        query = writer.option("checkpointLocation", str(folder / "checkpoint")).trigger(availableNow=True).start()
        try:
            assert query.awaitTermination(STREAM_LIMIT_S), f"{source} did not end within {STREAM_LIMIT_S} s"
            sizes = tuple(progress["numInputRows"] for progress in query.recentProgress)
        finally:
            query.stop()
        rows = _collect(self.spark.read.schema(frame.schema).parquet(str(folder / "rows"))).rows
        return Result(frame.schema, rows, batches=tuple(size for size in sizes if size))

    def _options(self, case: Case, source: str, number: int) -> dict[str, str]:
        options = {name: text.replace("{}", self.prefix) for name, text in case.options.items()}
        options["kafka.bootstrap.servers"] = self.kafka.bootstrap_servers
        if source == OURS and case.is_stream:
            options["kcoord.bootstrap.servers"] = self.coordinator.address
            options["kcoord.group.id"] = f"{self.prefix}-{number}"
        return options

    def _change(self, case: Case) -> None:
        name = self._topic(case)
        admin = KafkaAdminClient(bootstrap_servers=self.kafka.bootstrap_servers)
        try:
            if case.later == "more":
                admin.create_partitions({name: 3})
                self._write(case, 3, 30, 60)
                # A run reads the partitions that the coordinator knows when it begins, and nothing tells from outside
                # when it has looked again.
                time.sleep(METADATA_AGE_S)
            else:
                self._write(case, 2, 30, 60)
                admin.delete_records({TopicPartition(name, 0): 20})
        finally:
            admin.close()

    def _write(self, case: Case, partitions: int, first: int, end: int) -> None:
        rows = [(at % partitions, KafkaRow(b"%d" % at, b"v", FIRST_MS + at * STEP_MS)) for at in range(first, end)]
        write_by_librdkafka(Place(self.spark, self.kafka), self._topic(case), rows, "none")

    def _topic(self, case: Case) -> str:
        return case.options["subscribe"].replace("{}", self.prefix)


def _collect(frame: DataFrame) -> Result:
    # Sorted here, because Spark would read everything twice to sort it.
    rows = sorted(frame.collect(), key=lambda row: (row["topic"], row["partition"], row["offset"]))
    return Result(frame.schema, rows)


def _difference(ours: Result, theirs: Result, *, refusal: str) -> str | None:
    if refusal and refusal in ours.error and theirs.error:
        return None
    if refusal or ours.error or theirs.error:
        expected = f"both must refuse it, kcoord saying {refusal!r}. " if refusal else ""
        return f"{expected}kcoord: {_brief(ours)}\nspark-sql-kafka: {_brief(theirs)}"
    try:
        assert_schema_equality(ours.schema, theirs.schema)
        assert_basic_rows_equality(ours.rows, theirs.rows)
    except (DataFramesNotEqualError, SchemasNotEqualError) as error:
        return _first_differences(ours, theirs) or str(error)[:2_000]
    if ours.batches != theirs.batches:
        return f"micro-batches of {ours.batches} rows; spark-sql-kafka's have {theirs.batches}"
    return None


def _brief(result: Result) -> str:
    return result.error[:600] or "rows"


def _first_differences(ours: Result, theirs: Result) -> str:
    lines = []
    for whose, some, others in (("kcoord", ours.rows, theirs.rows), ("spark-sql-kafka", theirs.rows, ours.rows)):
        only = [row for row in some or [] if row not in (others or [])]
        if only:
            lines.append(f"only {whose} has {len(only)} rows, such as " + "; ".join(str(row)[:300] for row in only[:3]))
    return "\n".join(lines)
