"""The batch read: a snapshot of topics, planned once in the Spark driver, read by the executors.

The reader is pickled to the executors with its options (secrets included), and each task gets its ranges and
the Kafka servers with its input partition. Nothing is committed.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import closing
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceReader, InputPartition

from spark_kcoord.fetch.topic_range import TopicRange
from spark_kcoord.options.source_options import SourceOptions
from spark_kcoord.planning.input_partition import KcoordInputPartition
from spark_kcoord.planning.narrowing import Narrowing
from spark_kcoord.planning.tasks import plan_partitions

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.datasource import Filter

__all__ = ["FilteringBatchReader", "KcoordBatchReader", "read_input_partition"]


class KcoordBatchReader(DataSourceReader):  # type: ignore[misc]  # pyspark is untyped
    """Reads each partition's range from its start to its end, both fixed when the read is planned."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._narrowing = Narrowing()

    def partitions(self) -> list[InputPartition]:
        """Resolve the ranges and plan the tasks. Runs in the planning process of the Spark driver."""
        from spark_kcoord.source.resolve import open_lookup, resolve_kafka, resolve_ranges

        settings = resolve_kafka(self._options)
        with closing(open_lookup(self._options, settings)) as lookup:
            ranges = resolve_ranges(self._options, lookup, self._narrowing)
        return list(plan_input_partitions(self._options, ranges, settings.servers))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the records of one input partition. Runs in a Python worker of an executor."""
        return read_input_partition(self._options, partition)


class FilteringBatchReader(KcoordBatchReader):
    """A batch reader that also reads less by the filters of the one scan of its load().

    Spark keeps what it planned with filters for all scans of a load(), each of which reads what was planned last
    (decision 0068).
    A class of its own, because Spark fails every read whose reader takes filters while its configuration
    `spark.sql.python.filterPushdown.enabled` is false, which it is by default.
    """

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802  # Spark's name
        """Narrow the ranges by filters on topic, partition, offset and timestamp; return those Spark has to apply."""
        from spark_kcoord.source.pushed_filters import take_filters

        self._narrowing, left = take_filters(filters)
        return left


def plan_input_partitions(
    options: SourceOptions, ranges: Iterable[TopicRange], servers: tuple[str, ...]
) -> list[KcoordInputPartition]:
    """Return the tasks of a batch read or of one micro-batch.

    Spark tells the processes of a Python data source nothing of the application, neither by their environment nor by
    options, so that how many tasks it can run at once is not known here: ``kcoord.streams`` says it where it is given,
    else the cores of this machine are taken for it, which is right in local mode.
    """
    return plan_partitions(
        ranges,
        servers=servers,
        parallelism=options.streams or os.cpu_count() or 1,
        min_partitions=options.min_partitions,
        max_records_per_partition=options.max_records_per_partition,
        may_split=options.mode != "stream",
    )


def read_input_partition(options: SourceOptions, partition: InputPartition) -> Iterator[pa.RecordBatch]:
    """Yield the records of one input partition, of a batch or a streaming read, in a Python worker of an executor."""
    from spark_kcoord.fetch.ranges import read_ranges

    # Spark hands out one plain InputPartition when there is nothing to read.
    if not isinstance(partition, KcoordInputPartition):
        return iter(())
    return read_ranges(
        options.kafka_at(partition.servers),
        partition.ranges,
        columns=options.columns,
        fail_on_data_loss=options.fail_on_data_loss,
        timeout_s=options.fetch_timeout_ms / 1000,
    )
