"""The Spark application whose classes are kept: it does what most applications of the tests do, without Kafka.

spark-submit warm_up.py
"""

from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition, SimpleDataSourceStreamReader
from pyspark.sql.types import StructType

_END = 2


class Numbers(DataSource):
    """A few numbers, as a batch and as a stream."""

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return "numbers"

    def schema(self) -> str:
        """Return the columns."""
        return "key binary, value binary, topic string, offset bigint, timestamp timestamp"

    def reader(self, schema: StructType) -> "Batch":
        """Return what reads all of them."""
        return Batch()

    def simpleStreamReader(self, schema: StructType) -> "Stream":  # noqa: N802 - Spark's name
        """Return what reads them one by one."""
        return Stream()


def _batch() -> pa.RecordBatch:
    now = pa.array([0], pa.timestamp("us", "UTC"))
    columns = [pa.array([b"k"]), pa.array([b"v"]), pa.array(["t"]), pa.array([0], pa.int64()), now]
    return pa.RecordBatch.from_arrays(columns, ["key", "value", "topic", "offset", "timestamp"])


class Batch(DataSourceReader):
    """The reader of a batch."""

    def partitions(self) -> list[InputPartition]:
        """Return two partitions."""
        return [InputPartition(0), InputPartition(1)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Return the number of a partition, as Arrow."""
        yield _batch()


class Stream(SimpleDataSourceStreamReader):
    """The reader of a stream."""

    def initialOffset(self) -> dict[str, int]:  # noqa: N802 - Spark's name
        """Return the first offset."""
        return {"at": 0}

    def read(self, start: dict[str, int]) -> tuple[Iterator[pa.RecordBatch], dict[str, int]]:
        """Return what comes after an offset."""
        return iter([_batch()] if start["at"] < _END else []), {"at": min(start["at"] + 1, _END)}

    def readBetweenOffsets(self, start: dict[str, int], end: dict[str, int]) -> Iterator[pa.RecordBatch]:  # noqa: N802
        """Return what is between two offsets."""
        return iter([_batch()])


def _written(frame: DataFrame, _: int) -> None:
    frame.selectExpr("cast(value as string) value", "offset").write.mode("append").parquet("sunk")


def main() -> None:
    """Read, write, count and stream in the folder that it is started in, and end."""
    with SparkSession.builder.getOrCreate() as session:
        session.dataSource.register(Numbers)
        frame = session.read.format("numbers").load()
        frame.groupBy("topic").count().write.mode("overwrite").parquet("counted")
        frame.where("offset >= 0").select("value").orderBy("value").collect()
        frame.toArrow()
        for name, sink in {"rows": None, "batches": _written}.items():
            stream = session.readStream.format("numbers").load().writeStream.option("checkpointLocation", f"c-{name}")
            query = (stream.foreachBatch(sink) if sink else stream.format("parquet").option("path", name)).start()
            query.processAllAvailable()
            query.stop()


if __name__ == "__main__":
    main()
