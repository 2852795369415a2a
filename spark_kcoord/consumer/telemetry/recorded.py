"""The calls of a consumer that are recorded: what returns records, and commits; all others are the plain ones.

Records that an iteration or `getone` gives come out of one poll. That is recorded when they were given, or are not
going to be, with those that were: what is fetched and not given is not delivered.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import chain
from typing import Any

import pyarrow as pa

from spark_kcoord.consumer.calls import Calls
from spark_kcoord.consumer.conduct.flows import Flows
from spark_kcoord.consumer.conduct.wishes import Flow
from spark_kcoord.consumer.core.chunk_rows import Piece
from spark_kcoord.consumer.core.commits import Callback
from spark_kcoord.consumer.errors import ConsumerError
from spark_kcoord.consumer.iteration import Iteration
from spark_kcoord.consumer.reading import Reading
from spark_kcoord.consumer.settings import Settings
from spark_kcoord.consumer.telemetry.facts import (
    COMMIT,
    POLL,
    Key,
    delivery_of_records,
    delivery_of_rows,
    error_type,
    named_in,
)
from spark_kcoord.consumer.telemetry.recorder import Begun, Over, Recorder
from spark_kcoord.consumer.values import TopicPartition

__all__ = ["RecordedCalls", "RecordedReading"]


class RecordedReading(Reading):
    """The calls of one consumer that return records, each recorded when it has returned some, or failed."""

    def __init__(self, settings: Settings, flows: Flows, recorder: Recorder) -> None:
        super().__init__(settings, flows)
        self._recorder = recorder
        self._giving: tuple[Iteration, Over] | None = None
        """The records that are given one at a time, and the poll that they came by."""
        self._came: Sequence[Piece] = ()

    def records(
        self, timeout_s: float, max_records: Any, keys: Collection[Key] = ()
    ) -> Flow[dict[TopicPartition, list[Any]]]:
        """Return the next records by partition."""
        begun = self._recorder.begin()
        try:
            found = yield from super().records(timeout_s, max_records, keys)
        except ConsumerError as error:
            self._fail(begun, error)
            raise
        self._came = ()
        self._recorder.delivered(begun.over(), delivery_of_records(chain.from_iterable(found.values())))
        return found

    def batches(
        self, timeout_s: float, max_records: Any, max_bytes: int | None, keys: Collection[Key] = ()
    ) -> Flow[list[pa.RecordBatch]]:
        """Return the next rows as record batches, each of one partition."""
        begun = self._recorder.begin()
        try:
            found = yield from super().batches(timeout_s, max_records, max_bytes, keys)
        except ConsumerError as error:
            self._fail(begun, error)
            raise
        came, self._came = self._came, ()
        self._recorder.delivered(begun.over(), delivery_of_rows(came))
        return found

    def _pieces(
        self, timeout_s: float, most: int, max_bytes: int | None, keys: Collection[Key]
    ) -> Flow[tuple[Piece, ...]]:
        self._tell_given()
        self._came = ()
        pieces = yield from super()._pieces(timeout_s, most, max_bytes, keys)
        self._came = pieces
        return pieces

    def next_record(self, keys: Collection[Key] = (), timeout_s: float | None = None) -> Flow[Iteration | None]:
        """Return an iteration that has a next record, None when none came in time."""
        begun = self._recorder.begin()
        if self._giving is not None and (self._giving[0].is_over or self._giving[0] is not self._iteration):
            self._tell_given()
        try:
            iteration = yield from super().next_record(keys, timeout_s)
        except ConsumerError as error:
            self._fail(begun, error)
            raise
        if iteration is not None and (self._giving is None or self._giving[0] is not iteration):
            self._tell_given()
            self._giving = iteration, begun.over()
        return iteration

    def forget(self) -> None:
        """End an iteration: the records that it has not given are fetched rows again."""
        self._tell_given()
        super().forget()

    def _tell_given(self) -> None:
        giving, self._giving = self._giving, None
        if giving is not None:
            iteration, over = giving
            self._recorder.delivered(over, delivery_of_records(iteration.records[: iteration.at + 1]))

    def _fail(self, begun: Begun, error: ConsumerError) -> None:
        self._recorder.failed(POLL, begun.over(), (), error_type(error))


class RecordedCalls(Calls):
    """The calls of one consumer, its commits recorded when they were answered."""

    def __init__(self, settings: Settings, flows: Flows, recorder: Recorder) -> None:
        super().__init__(settings, flows)
        self._recorder = recorder

    def _commit(self, offsets: Any, timeout_s: float) -> Flow[None]:
        begun, keys = self._recorder.begin(), self._partitions(offsets)
        try:
            yield from super()._commit(offsets, timeout_s)
        except ConsumerError as error:
            self._recorder.failed(COMMIT, begun.over(), keys, error_type(error))
            raise
        self._recorder.committed(begun.over(), keys)

    def _commit_async(self, offsets: Any, callback: Callback | None) -> None:
        begun, keys = self._recorder.begin(), self._partitions(offsets)

        def told(given: Any, error: Exception | None) -> Any:
            if error is None:
                self._recorder.committed(begun.over(), keys)
            else:
                self._recorder.failed(COMMIT, begun.over(), keys, error_type(error))
            return None if callback is None else callback(given, error)

        try:
            super()._commit_async(offsets, told if keys else callback)
        except ConsumerError as error:
            self._recorder.failed(COMMIT, begun.over(), keys, error_type(error))
            raise

    def _partitions(self, offsets: Any) -> list[Key]:
        if offsets is None:
            return [(one.topic, one.partition) for one in self._flows.machine.returned()]
        return named_in(offsets)
