"""The records of a plain consumer's partitions, a batch at a time and partition by partition in turn.

A partition is read from its position to where it ends when it has its turn, so that none keeps the others waiting for
ever. It opens connections to Kafka for its own use and knows nothing of groups.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, Protocol

import pyarrow as pa

from coordinator.protocol.ids import TopicPartition
from spark_kcoord.errors import KafkaAwayError, UnknownTopicError
from spark_kcoord.fetch.offsets import KafkaLookup
from spark_kcoord.fetch.pool import ClientPool
from spark_kcoord.fetch.ranges import read_ranges
from spark_kcoord.fetch.topic_range import TopicRange
from spark_kcoord.options.kafka_settings import KafkaSettings

__all__ = ["KafkaRecords", "Position", "Records", "Turns"]

_log = logging.getLogger(__name__)

LOOK_INTERVAL_S: Final = 0.05
"""The time between two requests for new records while there are none."""


@dataclass(frozen=True, slots=True)
class Position:
    """From where a partition of this very topic is to be read, under one owner epoch."""

    topic_id: str
    owner_epoch: int
    offset: int


class Records(Protocol):
    """Kafka as a plain consumer needs it; methods raise KcoordError, KafkaAwayError when there is no answer."""

    def end_offsets(self, partitions: Collection[TopicPartition]) -> Mapping[TopicPartition, int]:
        """Return the exclusive end of each partition; raises UnknownTopicError naming topics that are gone."""

    def high_watermarks(self, partitions: Collection[TopicPartition]) -> Mapping[TopicPartition, int]:
        """Return where the log of each partition ends, whatever the isolation level; raises as `end_offsets`."""

    def earliest_offsets(self, partitions: Collection[TopicPartition]) -> Mapping[TopicPartition, int]:
        """Return the first offset of each partition; raises as `end_offsets`."""

    def read(self, wanted: TopicRange) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a range, with their offsets; raises DataLossError when the range is not there."""

    def close(self) -> None:
        """Close the connections."""


class KafkaRecords:
    """Records by the fetch room, with connections of its own."""

    def __init__(self, settings: KafkaSettings, columns: tuple[str, ...], timeout_s: float) -> None:
        self._settings = settings
        self._columns = columns
        self._timeout_s = timeout_s
        self._lookup = KafkaLookup(settings)
        self._pool = ClientPool()

    def end_offsets(self, partitions: Collection[TopicPartition]) -> Mapping[TopicPartition, int]:
        """Return the exclusive end of each partition."""
        return self._lookup.end_offsets(partitions)

    def high_watermarks(self, partitions: Collection[TopicPartition]) -> Mapping[TopicPartition, int]:
        """Return where the log of each partition ends, whatever the isolation level."""
        return self._lookup.high_watermarks(partitions)

    def earliest_offsets(self, partitions: Collection[TopicPartition]) -> Mapping[TopicPartition, int]:
        """Return the first offset of each partition."""
        return self._lookup.earliest_offsets(partitions)

    def read(self, wanted: TopicRange) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a range as Arrow record batches."""
        return read_ranges(
            self._settings,
            (wanted,),
            columns=self._columns,
            fail_on_data_loss=True,
            timeout_s=self._timeout_s,
            pool=self._pool,
        )

    def close(self) -> None:
        """Close the connections."""
        self._lookup.close()
        self._pool.close_idle()


@dataclass(slots=True)
class _Reading:
    """The range under way: its rows, what of a batch is left, and where it ends."""

    key: TopicPartition
    owner_epoch: int
    rows: Iterator[pa.RecordBatch]
    rest: pa.RecordBatch | None
    end: int


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows of one partition and the offset after them; without rows only the offset has moved, over a gap."""

    key: TopicPartition
    batch: pa.RecordBatch
    next_offset: int


class Turns:
    """Reads partitions in turn; `clock` returns monotonic seconds."""

    def __init__(self, records: Records, most_rows: int, empty: pa.RecordBatch, clock: Callable[[], float]) -> None:
        self._records = records
        self._most_rows = most_rows
        self._empty = empty
        self._clock = clock
        self._reading: _Reading | None = None
        self._ends: Mapping[TopicPartition, int] = {}
        self._epochs: dict[TopicPartition, int] = {}
        self._order: deque[TopicPartition] = deque()
        self._looked_at = float("-inf")
        self._said: str | None = None

    def next_rows(self, positions: Mapping[TopicPartition, Position]) -> Rows | None:
        """Return the next rows of one of these partitions, or None when none has any now.

        Raises DataLossError when a position is not there, KcoordError for what no retry helps.
        """
        self._forget_old_ends(positions)
        reading = self._reading
        if reading is not None and not _is_at(reading, positions):
            self.forget()
            reading = None
        while reading is None:
            key = self._next_turn(positions)
            if key is None:
                return None
            reading = self._begin(key, positions[key])
        try:
            batch = reading.rest if reading.rest is not None else next(reading.rows, None)
        except BaseException:
            self.forget()
            raise
        if batch is None:
            self._reading = None
            return Rows(reading.key, self._empty, reading.end)
        reading.rest = batch.slice(self._most_rows) if batch.num_rows > self._most_rows else None
        batch = batch.slice(0, self._most_rows)
        return Rows(reading.key, batch, batch.column("offset")[-1].as_py() + 1)

    @property
    def ends(self) -> Mapping[TopicPartition, int]:
        """The ends of partitions when the brokers were asked last; another mapping each time."""
        return self._ends

    def look_again_in_s(self) -> float:
        """Return how long to wait before it is worth asking again, when there was nothing."""
        return max(LOOK_INTERVAL_S / 50, self._looked_at + LOOK_INTERVAL_S - self._clock())

    def forget(self) -> None:
        """Drop what was read ahead."""
        reading, self._reading = self._reading, None
        close = getattr(reading.rows, "close", None) if reading is not None else None
        if close is not None:
            close()

    def _forget_old_ends(self, positions: Mapping[TopicPartition, Position]) -> None:
        """Forget where partitions ended that were granted anew since: their topic may be another one by now."""
        epochs = {key: position.owner_epoch for key, position in positions.items()}
        if epochs != self._epochs:
            self._ends = {key: end for key, end in self._ends.items() if epochs.get(key) == self._epochs.get(key)}
            self._epochs = epochs

    def _begin(self, key: TopicPartition, position: Position) -> _Reading:
        end = self._ends[key]
        wanted = TopicRange(key[0], position.topic_id or None, key[1], position.offset, end)
        self._reading = _Reading(key, position.owner_epoch, self._records.read(wanted), None, end)
        return self._reading

    def _next_turn(self, positions: Mapping[TopicPartition, Position]) -> TopicPartition | None:
        """Return the next partition that has records as far as is known, asking when none has."""
        key = self._first_with_backlog(positions)
        if key is None and positions and self._clock() - self._looked_at >= LOOK_INTERVAL_S:
            self._look(sorted(positions))
            key = self._first_with_backlog(positions)
        return key

    def _first_with_backlog(self, positions: Mapping[TopicPartition, Position]) -> TopicPartition | None:
        known = set(self._order)
        self._order.extend(key for key in sorted(positions) if key not in known)
        for _ in range(len(self._order)):
            key = self._order.popleft()
            if key not in positions:
                continue
            self._order.append(key)
            if self._ends.get(key, 0) > positions[key].offset:
                return key
        return None

    def _look(self, keys: list[TopicPartition]) -> None:
        self._looked_at = self._clock()
        try:
            self._ends = self._records.end_offsets(keys)
            self._said = None
        except UnknownTopicError as error:
            left = [key for key in keys if key[0] not in error.topics]
            self._say(str(error))
            self._ends = self._records.end_offsets(left) if left and len(left) < len(keys) else {}
        except KafkaAwayError as error:
            self._say(str(error))
            self._ends = {}

    def _say(self, what: str) -> None:
        if what != self._said:
            self._said = what
            _log.warning("%s", what)


def _is_at(reading: _Reading, positions: Mapping[TopicPartition, Position]) -> bool:
    position = positions.get(reading.key)
    return position is not None and position.owner_epoch == reading.owner_epoch
