"""kcoord as an install without a compiler runs it, and the record batches that kcoord yields, kept in files."""

import os
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from spark_kcoord.fetch.decoding.decode import chosen_decoder
from spark_kcoord.fetch.pool import POOL
from spark_kcoord.options.source_options import parse_options
from spark_kcoord.source.batch_reader import KcoordBatchReader
from spark_kcoord.source.data_source import KcoordDataSource

FALLBACK = {"KCOORD_DECODER": "numpy", "KCOORD_RECEIVE_PATH": "stock"}
"""The decoder that needs no compiler, and kafka-python's own way of receiving."""


class FallbackReader(KcoordBatchReader):
    """Reads by the slow receive path in workers that the fast one uses before and after it."""

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the records of one input partition."""
        os.environ |= FALLBACK
        _choose_again()
        try:
            yield from super().read(partition)
        finally:
            for name in FALLBACK:
                del os.environ[name]
            _choose_again()


class FallbackSource(KcoordDataSource):
    """Format `kcoord-fallback`."""

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return "kcoord-fallback"

    def reader(self, schema: StructType) -> DataSourceReader:  # noqa: ARG002 (Spark gives it)
        """Return the reader."""
        return FallbackReader(parse_options(self.options, "batch"))


def _choose_again() -> None:
    chosen_decoder.cache_clear()
    POOL.close_idle()


def keep_batches(bootstrap: str, topic: str, directory: Path) -> int:
    """Read a topic as kcoord's tasks do, write each task's batches to a file; return the number of batches."""
    reader = KcoordBatchReader(parse_options({"kafka.bootstrap.servers": bootstrap, "subscribe": topic}, "batch"))
    kept = 0
    for number, partition in enumerate(reader.partitions()):
        batches = list(reader.read(partition))
        with (
            pa.OSFile(str(directory / f"{number:03}.arrow"), "wb") as file,
            pa.ipc.new_file(file, batches[0].schema) as writer,
        ):
            for batch in batches:
                writer.write_batch(batch)
        kept += len(batches)
    return kept
