"""A plain consumer for a program without Spark: a member of the same groups, with kafka-python's calls.

It is a shell: `conduct` decides, and what has to be waited for is waited for here, on the program's thread. The member
and the fetcher have threads of their own, which ring a bell when there is news. It keeps two promises that only a shell
can: no call outlasts its time-out but by its listeners, and what ends a poll by an exception loses nothing.
"""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import FrameType, TracebackType
from typing import Any, Final, Self, TypeVar

import pyarrow as pa

from spark_kcoord.consumer.calls import check_timeout
from spark_kcoord.consumer.conduct.flows import Flows
from spark_kcoord.consumer.conduct.wishes import Flow
from spark_kcoord.consumer.iteration import Iteration
from spark_kcoord.consumer.looks import Looks, together
from spark_kcoord.consumer.settings import parse_settings
from spark_kcoord.consumer.shells.bell import Bell
from spark_kcoord.consumer.shells.guard import Guard, is_inside
from spark_kcoord.consumer.shells.shell import Shell
from spark_kcoord.consumer.subscription import NOTHING, must_be_partitions
from spark_kcoord.consumer.telemetry import calls_and_reading
from spark_kcoord.consumer.values import (
    ConsumerRecord,
    OffsetAndMetadata,
    OffsetAndTimestamp,
    TopicPartition,
)
from spark_kcoord.fetch.tailing.fetched import AT_BEGINNING, AT_END

__all__ = ["Consumer"]

T = TypeVar("T")


class Consumer(Looks, Shell):
    """One consumer, used by one thread at a time; a context manager that closes it, and an iterator over its records.

    `topics` are subscribed to. `coordinators` are `host:port` of kcoord nodes, needed with a `group_id`; without one
    all partitions are read and `bootstrap_servers` says where Kafka is. docs/CONSUMER.md has every setting and method.
    Raises SettingError.
    """

    def __init__(
        self,
        *topics: str,
        coordinators: str | Sequence[str] | None = None,
        group_id: str | None = None,
        **settings: Any,
    ) -> None:
        self._settings = parse_settings(together(settings, coordinators, group_id))
        self._guard = Guard()
        self._bell = Bell()
        self._flows = self._make_flows(self._bell.ring)
        self._calls, self._reading = calls_and_reading(self._settings, self._flows)
        self._is_made = True
        if topics:
            self.subscribe(topics)

    def _make_flows(self, ring: Callable[[], None]) -> Flows:
        return Flows(self._settings, ring, time.monotonic)

    # ---- subscribing ------------------------------------------------------------------------------------------------

    def _change(self, work: Callable[[], None]) -> None:
        with self._guard.entered(hands_over=True):
            self._reading.begin()
            work()

    def assign(self, partitions: Iterable[TopicPartition] | Mapping[TopicPartition, int], *, add: bool = False) -> None:
        """Read exactly these partitions, without membership; a mapping says where each starts.

        The others start where the group is, if there is a group, or by `auto_offset_reset`; where that is none, a poll
        raises StartNotKnownError until somebody seeks.
        """
        self._run(self._calls.assign(partitions, add=add), hands_over=True)

    def unassign(self) -> None:
        """Read nothing any more of what was assigned."""
        self.unsubscribe()

    def unsubscribe(self) -> None:
        """Give everything back and leave the group; the listener is told."""
        with self._guard.entered(hands_over=True):
            self._reading.begin()
            self._flows.must_be_open()
            self._reading.forget()
            self._drive(self._flows.unsubscribe())

    def wait_for_assignment(self, timeout_ms: float | None = None) -> set[TopicPartition]:
        """Wait until partitions are assigned and return them; the listener is told."""
        self._run(self._flows.wait_for_assignment(self._calls.timeout_s(timeout_ms)), hands_over=True)
        return self._look(self._calls.assignment)

    # ---- reading ----------------------------------------------------------------------------------------------------

    def poll(self, timeout_ms: float = 0, max_records: int | None = None) -> dict[TopicPartition, list[ConsumerRecord]]:
        """Return the next records by partition, nothing when there are none in time; earlier ones count as done.

        Raises what ConsumerError says; whatever ends it, its records are returned by the next.
        """
        return self._take(lambda: self._reading.records(check_timeout(timeout_ms, 0), max_records))

    def poll_arrow(
        self, timeout_ms: float = 0, max_records: int | None = None, max_bytes: int | None = None
    ) -> list[pa.RecordBatch]:
        """Return the next rows as record batches, each of one partition, in the columns of the Spark source.

        Without `max_records` all that is buffered is returned, within `max_bytes` if they are given.
        """
        return self._take(lambda: self._reading.batches(check_timeout(timeout_ms, 0), max_records, max_bytes))

    def _take(self, flow: Callable[[], Flow[T]]) -> T:
        """Return what a flow takes; if anything goes wrong on the way it counts as not returned."""
        mark, has_begun = self._reading.mark(), False
        try:
            with self._guard.entered(hands_over=True):
                self._reading.begin()
                has_begun = True
                return self._drive(flow())
        except BaseException:
            if has_begun:
                self._reading.fail(mark)
            raise

    # ---- iteration --------------------------------------------------------------------------------------------------

    def __iter__(self) -> Self:
        """Return the consumer: a record at a time, for ever or until none came for `consumer_timeout_ms`."""
        return self

    def __next__(self) -> ConsumerRecord:
        """Return the next record; those before count as done."""
        reading, has_begun = self._reading, True
        mark = reading.mark()
        try:
            record = None if self._bell.has_news else reading.at_once()
            if record is not None:
                return record
            has_begun = False
            with self._guard.entered(hands_over=True):
                reading.begin()
                has_begun = True
                self._bell.has_news = False
                iteration = None if self._flows.is_closed else self._drive(reading.next_record())
                return reading.give(_or_stop(iteration))
        except BaseException:
            if has_begun:
                reading.fail(mark)
            raise

    # ---- positions --------------------------------------------------------------------------------------------------

    def seek_to_beginning(self, *partitions: TopicPartition) -> None:
        """Go on at the first offsets of partitions, of all without any."""
        self._look(lambda: self._calls.seek_all(partitions, AT_BEGINNING))

    def seek_to_end(self, *partitions: TopicPartition) -> None:
        """Go on at the ends of partitions, of all without any; under read_committed at the last stable offsets."""
        self._look(lambda: self._calls.seek_all(partitions, AT_END))

    def seek_to_committed(self, *partitions: TopicPartition, timeout_ms: float | None = None) -> None:
        """Go on where the group is; raises OffsetUnknownError where it is nowhere."""
        named = must_be_partitions(partitions)
        self._run(self._calls.seek_to_committed(named, timeout_ms))

    def position(self, partition: TopicPartition, timeout_ms: float | None = None) -> int | None:
        """Return the offset of the next record, None when Kafka does not say in time where the partition starts."""
        return self._run(self._calls.position(partition, timeout_ms))

    # ---- Kafka ------------------------------------------------------------------------------------------------------

    def beginning_offsets(
        self, partitions: Iterable[TopicPartition], timeout_ms: float | None = None
    ) -> dict[TopicPartition, int]:
        """Return the first offsets of partitions; raises TopicUnknownError, KafkaUnavailableError."""
        return self._run(self._calls.beginnings(partitions, timeout_ms))

    def end_offsets(
        self, partitions: Iterable[TopicPartition], timeout_ms: float | None = None
    ) -> dict[TopicPartition, int]:
        """Return the offsets after the last readable records; raises as `beginning_offsets`."""
        return self._run(self._calls.ends(partitions, timeout_ms))

    def offsets_for_times(
        self, timestamps: Mapping[TopicPartition, int], timeout_ms: float | None = None
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """Return the first record at or after a time (ms since 1970) of each partition, None where there is none."""
        return self._run(self._calls.at_times(timestamps, timeout_ms))

    def topics(self, timeout_ms: float | None = None) -> set[str]:
        """Return the names of all topics but Kafka's internal ones."""
        return self._run(self._calls.topics(timeout_ms))

    def partitions_for_topic(self, topic: str, timeout_ms: float | None = None) -> set[int]:
        """Return the numbers of a topic's partitions, none for a topic that Kafka does not know."""
        return self._run(self._calls.partitions_of(topic, timeout_ms))

    # ---- offsets ----------------------------------------------------------------------------------------------------

    def commit(
        self,
        offsets: Mapping[TopicPartition, int | OffsetAndMetadata] | None = None,
        timeout_ms: float | None = None,
    ) -> None:
        """Commit the offsets after all that was returned, or those given; raises CommitRefusedError naming others."""
        self._run(self._calls.commit(offsets, timeout_ms))

    def committed(
        self,
        partition: TopicPartition,
        metadata: bool = False,  # noqa: FBT001 - kafka-python's
        timeout_ms: float | None = None,
    ) -> Any:
        """Return the group's offset of a partition, with `metadata` as OffsetAndMetadata; None where there is none."""
        return self._run(self._calls.committed(partition, metadata=metadata, timeout_ms=timeout_ms))

    def committed_offsets(self, timeout_ms: float | None = None) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return the group's offsets of all its partitions that have one."""
        return self._run(self._calls.committed_offsets(timeout_ms))

    # ---- the end ----------------------------------------------------------------------------------------------------

    def interrupt(self) -> None:
        """End the call that waits, or the next one, with InterruptedPollError; from any thread or signal handler."""
        self._flows.is_interrupted = True
        self._bell.ring()

    def close(self, autocommit: bool | None = None, timeout_ms: int | None = None) -> None:  # noqa: FBT001
        """Give everything back and leave; harmless when done twice, and silent in a forked child.

        With auto commit the record that an iteration gave last counts as done, and rows of the last poll do not;
        `autocommit=True` counts all that was returned, False commits nothing more.
        """
        self._close(autocommit, timeout_ms, counts_last=self._reading.was_iterated)

    def _close(self, autocommit: bool | None, timeout_ms: int | None, *, counts_last: bool) -> None:  # noqa: FBT001
        if not self._guard.is_at_home:
            return
        with self._guard.entered(hands_over=True):
            is_giving = self._is_giving(sys._getframe(1))
            if is_giving:
                counts_last, autocommit = False, None if autocommit else autocommit
            else:
                self._reading.begin()
            self._reading.forget()
            self._drive(self._calls.close(autocommit, timeout_ms, counts_last=counts_last))

    def __enter__(self) -> Self:
        """Return the consumer."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Close it; with an exception under way the record given last does not count as done."""
        self._close(None, None, counts_last=kind is None and self._reading.was_iterated)

    def __del__(self) -> None:
        """Leave, without waiting, and warn when the program has forgotten to close it."""
        if not self._is_made or not self._guard.is_at_home or self._flows.is_closed:
            return
        if self._flows.subscription is NOTHING:
            self._flows.is_closed = True
            return
        self._flows.abandon()
        warnings.warn(f"{self!r} was not closed", ResourceWarning, source=self, stacklevel=2)

    # ---- waiting ----------------------------------------------------------------------------------------------------

    def _look(self, work: Callable[[], T]) -> T:
        with self._guard.entered() as is_first:
            self._begin(is_first=is_first)
            return work()

    def _run(self, flow: Flow[T], *, hands_over: bool = False) -> T:
        with self._guard.entered(hands_over=hands_over) as is_first:
            self._begin(is_first=is_first)
            try:
                return self._drive(flow)
            finally:
                if not is_first:
                    # The news that it heard was for the call around it.
                    self._bell.ring()

    def _begin(self, *, is_first: bool) -> None:
        """Count as returned what the program has: not what a call is about to return in which a signal came."""
        if is_first and not self._is_giving(sys._getframe(3)):
            self._reading.begin()

    def _is_giving(self, frame: FrameType | None) -> bool:
        return is_inside(_GIVING, self, frame)


_GIVING: Final = (Consumer.__next__.__code__, Consumer._take.__code__)
"""The calls that give records: a step need not be inside for that, and a poll is not any more at its very end."""


def _or_stop(iteration: Iteration | None) -> Iteration:
    if iteration is None:
        raise StopIteration
    return iteration
