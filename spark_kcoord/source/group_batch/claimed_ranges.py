"""The rows of ranges that somebody has claimed: a data source for ``spark_kcoord.batch`` alone.

It reads exactly the ranges that its options name, under their topics' ids, with the columns and settings of
``format("kcoord")``. It joins no group: who makes it has joined, and commits. Planning it tells the coordinator that
the claims of that member run, and fails when they are not open any more; a task reads nothing once the block has ended.
Registered with a session by ``spark_kcoord.batch``; not found by its name otherwise.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from spark_kcoord.fetch.topic_range import TopicRange
from spark_kcoord.options.source_options import SourceOptions, parse_options
from spark_kcoord.source.batch_reader import plan_input_partitions, read_input_partition
from spark_kcoord.source.data_source import KcoordDataSource
from spark_kcoord.source.group_batch.blocks import must_not_have_ended

if TYPE_CHECKING:
    import pyarrow as pa

    from coordinator.protocol.parts import Claim

__all__ = ["ClaimedRangesSource", "claim_options"]

_RANGES: Final = "claimedRanges"
_BLOCK: Final = "claimedInBlock"
_MEMBER: Final = "claimedBy"
_OWN: Final = frozenset(name.lower() for name in (_RANGES, _BLOCK, _MEMBER))
_WITHOUT_EFFECT: Final = frozenset({"kcoord.push.filters"})
"""Options that `spark_kcoord.batch` has warned about: no filter is pushed into the rows of a block."""


def claim_options(claims: Sequence[Claim], *, block: str, member_id: str | None) -> dict[str, str]:
    """Return the options that name claims, the block they are read in and whose they are; no member, no questions."""
    ranges = [[c.topic, c.topic_id, c.partition, c.owner_epoch, c.from_offset, c.until_offset] for c in claims]
    return {_RANGES: json.dumps(ranges), _BLOCK: block} | ({} if member_id is None else {_MEMBER: member_id})


@dataclass(frozen=True, slots=True)
class _Claimed:
    """The source's own options, read; executors get it, so that it holds no message of the coordinator's."""

    ranges: tuple[tuple[str, str, int, int, int, int], ...]
    """The fields of each claim, in their order."""
    block: str
    member_id: str | None


class ClaimedRangesSource(DataSource):  # type: ignore[misc]  # pyspark is untyped
    """``format("kcoord-claimed-ranges")``: the options of `claim_options` and those of ``spark_kcoord.batch``.

    'kafka.bootstrap.servers' must be given: the coordinator is asked about claims alone.
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
        return _Reader(parse_options(self._source_options(), "group batch"), _claimed(self.options))

    def _source_options(self) -> dict[str, Any]:
        return {name: text for name, text in self.options.items() if name.lower() not in _OWN | _WITHOUT_EFFECT}


def _claimed(options: Mapping[str, str]) -> _Claimed:
    own = {name.lower(): text for name, text in options.items()}
    ranges = tuple(tuple(fields) for fields in json.loads(own[_RANGES.lower()]))
    return _Claimed(ranges, own[_BLOCK.lower()], own.get(_MEMBER.lower()))


class _Reader(DataSourceReader):  # type: ignore[misc]  # pyspark is untyped
    def __init__(self, options: SourceOptions, claimed: _Claimed) -> None:
        self._options = options
        self._claimed = claimed

    def partitions(self) -> list[InputPartition]:
        """Plan the tasks. Runs in the planning process of the Spark driver, for the first action on the rows."""
        claimed = self._claimed
        if claimed.member_id is not None and claimed.ranges:
            from coordinator.protocol.parts import Claim
            from spark_kcoord.source.group_batch.planned_claims import begin_to_read

            begin_to_read(self._options, claimed.member_id, [Claim(*fields) for fields in claimed.ranges])
        ranges = (
            TopicRange(topic, topic_id or None, partition, start, end)
            for topic, topic_id, partition, _, start, end in claimed.ranges
        )
        return list(plan_input_partitions(self._options, ranges, self._options.kafka.servers))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the records of a task's ranges. Runs in a Python worker of an executor."""
        must_not_have_ended(self._claimed.block)
        return read_input_partition(self._options, partition)
