"""The rows of ranges that somebody has claimed: a data source for ``spark_kcoord.batch`` alone.

It reads exactly the ranges that its option names, under their topics' ids, with the columns and settings of
``format("kcoord")``. It knows nothing of groups: who makes it has joined, and commits. Registered with a session by
``spark_kcoord.batch``; not found by its name otherwise.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from spark_kcoord.batch_reader import plan_input_partitions, read_input_partition
from spark_kcoord.options import SourceOptions, parse_options
from spark_kcoord.partition import TopicRange
from spark_kcoord.source import KcoordDataSource

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["RANGES_OPTION", "ClaimedRangesSource", "show_ranges"]

RANGES_OPTION: Final = "claimedRanges"


def show_ranges(ranges: Iterable[TopicRange]) -> str:
    """Return ranges as the text of the option."""
    return json.dumps([[one.topic, one.topic_id, one.partition, one.start, one.end] for one in ranges])


class ClaimedRangesSource(DataSource):  # type: ignore[misc]  # pyspark is untyped
    """``format("kcoord-claimed-ranges")``: option `claimedRanges` and those of ``spark_kcoord.batch``.

    'kafka.bootstrap.servers' must be given: no coordinator is asked.
    """

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return "kcoord-claimed-ranges"

    def schema(self) -> StructType:
        """Return the columns of ``format("kcoord")``."""
        return KcoordDataSource(self._source_options()).schema()

    def reader(self, schema: StructType) -> DataSourceReader:  # noqa: ARG002 (the columns are fixed)
        """Return the reader of the ranges."""
        return _Reader(parse_options(self._source_options(), "group batch"), self._ranges())

    def _source_options(self) -> dict[str, Any]:
        return {name: text for name, text in self.options.items() if name.lower() != RANGES_OPTION.lower()}

    def _ranges(self) -> tuple[TopicRange, ...]:
        (text,) = (text for name, text in self.options.items() if name.lower() == RANGES_OPTION.lower())
        return tuple(TopicRange(*fields) for fields in json.loads(text))


class _Reader(DataSourceReader):  # type: ignore[misc]  # pyspark is untyped
    def __init__(self, options: SourceOptions, ranges: tuple[TopicRange, ...]) -> None:
        self._options = options
        self._ranges = ranges

    def partitions(self) -> list[InputPartition]:
        return list(plan_input_partitions(self._options, self._ranges, self._options.kafka.servers))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return read_input_partition(self._options, partition)
