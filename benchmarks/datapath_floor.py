"""The cost of Spark's Python data source interface by itself: a source that hands out record batches made before.

It knows nothing of kcoord or Kafka: a task is a file of Arrow record batches in memory-backed storage, mapped and
yielded as they are. The time of this source is the floor of every source of the same rows in batches of the same size.
A stream that asks nobody anything is the floor of a stream's start.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

COLUMNS = "key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp, timestampType int"


@dataclass(frozen=True)
class PrebuiltTask(InputPartition):  # type: ignore[misc]  # pyspark is untyped
    """One file of record batches."""

    path: str


class PrebuiltReader(DataSourceReader):  # type: ignore[misc]  # pyspark is untyped
    """Yields the record batches of each file of a directory."""

    def __init__(self, directory: str) -> None:
        self._directory = directory

    def partitions(self) -> list[InputPartition]:
        """Return a task for each file."""
        return [PrebuiltTask(str(path)) for path in sorted(Path(self._directory).glob("*.arrow"))]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the batches of one file."""
        assert isinstance(partition, PrebuiltTask)
        batches = pa.ipc.open_file(pa.memory_map(partition.path))
        for number in range(batches.num_record_batches):
            yield batches.get_batch(number)


class PrebuiltSource(DataSource):  # type: ignore[misc]  # pyspark is untyped
    """Format `prebuilt`; the option `path` is the directory."""

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return "prebuilt"

    def schema(self) -> StructType | str:
        """Return the columns of spark-sql-kafka."""
        return COLUMNS

    def reader(self, schema: StructType) -> DataSourceReader:  # noqa: ARG002 (Spark gives it)
        """Return the reader."""
        return PrebuiltReader(self.options["path"])


class ReaderOfNothing(DataSourceStreamReader):  # type: ignore[misc]  # pyspark is untyped
    """A stream of one micro-batch, a row for each of two tasks."""

    def initialOffset(self) -> dict[str, int]:  # noqa: N802 (Spark's name)
        """Return the start."""
        return {"end": 0}

    def latestOffset(self, start: dict[str, int], limit: object) -> dict[str, int]:  # noqa: ARG002, N802
        """Return the end, which is always the same."""
        return {"end": 1}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[InputPartition]:  # noqa: ARG002
        """Return two tasks."""
        return [InputPartition(0), InputPartition(1)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield a row."""
        columns: list[pa.Array[Any]] = [
            pa.array([None], pa.binary()),
            pa.array([b"0"], pa.binary()),
            pa.array(["topic"], pa.string()),
            pa.array([partition.value], pa.int32()),
            pa.array([0], pa.int64()),
            pa.array([0], pa.timestamp("us", tz="UTC")),
            pa.array([0], pa.int32()),
        ]
        yield pa.record_batch(columns, [column.split()[0] for column in COLUMNS.split(", ")])


class StreamOfNothing(DataSource):  # type: ignore[misc]  # pyspark is untyped
    """Format `nothing`: a stream of the simplest kind."""

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return "nothing"

    def schema(self) -> StructType | str:
        """Return the columns of spark-sql-kafka."""
        return COLUMNS

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: ARG002, N802
        """Return the reader."""
        return ReaderOfNothing()
