"""What Spark's Python data source interface costs by itself: a source that hands out record batches made before.

It knows nothing of kcoord or Kafka: a task is a file of Arrow record batches in memory-backed storage, mapped and
yielded as they are. The time of this source is the floor of every source of the same rows in batches of the same size.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
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
