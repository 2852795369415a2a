"""A plain consumer for a program without Spark: a member of the same groups, with kafka-python's calls.

It is a shell: `conduct` decides, and what has to be waited for is waited for here, on the program's thread. The member
and the fetcher have threads of their own, which ring a bell when there is news. It keeps two promises that only a shell
can: no call outlasts its time-out but by its listeners, and what ends a poll by an exception loses nothing.
"""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import TracebackType
from typing import Any, Self, TypeVar

import pyarrow as pa

from spark_kcoord.consumer.bell import Bell
from spark_kcoord.consumer.calls import Calls, check_listener, check_timeout
from spark_kcoord.consumer.conduct.flows import Flows
from spark_kcoord.consumer.core.machine import Piece
from spark_kcoord.consumer.guard import Guard
from spark_kcoord.consumer.iteration import Iteration
from spark_kcoord.consumer.settings import parse_settings
from spark_kcoord.consumer.shell import Shell
from spark_kcoord.consumer.subscription import NOTHING, by_hand, must_be_partitions, of_group
from spark_kcoord.consumer.values import (
    ConsumerRebalanceListener,
    ConsumerRecord,
    OffsetAndMetadata,
    OffsetAndTimestamp,
    TopicPartition,
)
from spark_kcoord.fetch.decoding.columns import arrow_schema
from spark_kcoord.fetch.tailing.fetched import AT_BEGINNING, AT_END

__all__ = ["Consumer"]

T = TypeVar("T")

NOTE_S = 0.25
"""The longest time for which an iteration goes on without a look at what has changed."""


class Consumer(Shell):
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
        self._is_made = False
        given = settings | ({} if coordinators is None else {"coordinators": coordinators})
        self._settings = parse_settings(given | ({} if group_id is None else {"group_id": group_id}))
        self._guard = Guard()
        self._bell = Bell()
        self._flows = self._make_flows(self._bell.ring)
        self._calls = Calls(self._settings, self._flows)
        self._iteration: Iteration | None = None
        self._was_iterated = False
        self._columns = list(arrow_schema(self._settings["columns"]).names)
        self._is_made = True
        if topics:
            self.subscribe(topics)

    def _make_flows(self, ring: Callable[[], None]) -> Flows:
        return Flows(self._settings, ring, time.monotonic)

    # ---- subscribing ------------------------------------------------------------------------------------------------

    def subscribe(
        self,
        topics: str | Iterable[str] = (),
        pattern: str | None = None,
        listener: ConsumerRebalanceListener | None = None,
        *,
        exclude: Iterable[str] = (),
        partitions: Iterable[TopicPartition] = (),
        add: bool = False,
    ) -> None:
        """Read topics, all that match a pattern (RE2), or partitions that are then this consumer's alone.

        It replaces what was subscribed to, or with `add` adds; partitions that stay go on. Raises
        SubscriptionNotValidError.
        """
        with self._guard.entered(hands_over=True):
            self._flows.must_be_open()
            self._sync()
            wanted = of_group(self._flows.subscription, topics, pattern, exclude, partitions, add=add)
            told = check_listener(listener) or (self._flows.listener if add else None)
            self._drive(self._flows.subscribe(wanted, told))

    def assign(self, partitions: Iterable[TopicPartition] | Mapping[TopicPartition, int], *, add: bool = False) -> None:
        """Read exactly these partitions, without membership; a mapping says where each starts.

        The others start where the group is, if there is a group, or by `auto_offset_reset`. Raises StartNotKnownError.
        """
        with self._guard.entered(hands_over=True):
            self._flows.must_be_open()
            self._sync()
            wanted = by_hand(self._flows.subscription, partitions, add=add)
            self._drive(self._flows.assign(wanted, self._timeout_s(None)))

    def unassign(self) -> None:
        """Read nothing any more of what was assigned."""
        self.unsubscribe()

    def unsubscribe(self) -> None:
        """Give everything back and leave the group; the listener is told."""
        with self._guard.entered(hands_over=True):
            self._flows.must_be_open()
            self._sync()
            self._iteration = None
            self._drive(self._flows.unsubscribe())

    def subscription(self) -> set[str] | None:
        """Return the topics that are subscribed to, None without a subscription."""
        return self._look(self._calls.subscription)

    def assignment(self) -> set[TopicPartition]:
        """Return what the last poll knew as this consumer's."""
        return self._look(self._calls.assignment)

    def wait_for_assignment(self, timeout_ms: float | None = None) -> set[TopicPartition]:
        """Wait until partitions are assigned and return them; the listener is told."""
        with self._guard.entered(hands_over=True):
            self._sync()
            self._drive(self._flows.wait_for_assignment(self._timeout_s(timeout_ms)))
            return self._calls.assignment()

    # ---- reading ----------------------------------------------------------------------------------------------------

    def poll(self, timeout_ms: float = 0, max_records: int | None = None) -> dict[TopicPartition, list[ConsumerRecord]]:
        """Return the next records by partition, nothing when there are none in time; earlier ones count as done.

        Raises what ConsumerError says; whatever ends it, its records are returned by the next.
        """
        return self._taking(lambda: self._poll(timeout_ms, max_records))

    def _poll(self, timeout_ms: float, max_records: int | None) -> dict[TopicPartition, list[ConsumerRecord]]:
        made, error = self._calls.records(self._pieces(timeout_ms, max_records, None))
        if error is not None and not made:
            raise error
        found: dict[TopicPartition, list[ConsumerRecord]] = {}
        for piece, records in made:
            known = found.setdefault(TopicPartition(*piece.key), records)
            if known is not records:
                known.extend(records)
        self._flows.machine.mark_returned([piece for piece, _ in made])
        return found

    def poll_arrow(
        self, timeout_ms: float = 0, max_records: int | None = None, max_bytes: int | None = None
    ) -> list[pa.RecordBatch]:
        """Return the next rows as record batches, each of one partition, in the columns of the Spark source.

        Without `max_records` all that is buffered is returned, within `max_bytes` if they are given.
        """
        return self._taking(lambda: self._poll_arrow(timeout_ms, max_records, max_bytes))

    def _poll_arrow(self, timeout_ms: float, max_records: int | None, max_bytes: int | None) -> list[pa.RecordBatch]:
        most = 2**62 if max_records is None else max_records
        pieces = self._pieces(timeout_ms, most, max_bytes)
        found = [piece.rows.select(self._columns) for piece in pieces]
        self._flows.machine.mark_returned(pieces)
        return found

    def _pieces(self, timeout_ms: float, max_records: int | None, max_bytes: int | None) -> tuple[Piece, ...]:
        self._sync()
        self._iteration, self._was_iterated = None, False
        most = self._calls.check_max(max_records)
        return self._drive(self._flows.poll(check_timeout(timeout_ms, 0), most, max_bytes))

    def _taking(self, take: Callable[[], T]) -> T:
        """Return what is taken; if anything goes wrong on the way it counts as not returned."""
        is_inside = False
        try:
            with self._guard.entered(hands_over=True):
                self._flows.machine.begin_undo()
                is_inside = True
                return take()
        except BaseException:
            if is_inside:
                self._flows.machine.take_back()
            raise

    # ---- iteration --------------------------------------------------------------------------------------------------

    def __iter__(self) -> Self:
        """Return the consumer: a record at a time, for ever or until none came for `consumer_timeout_ms`."""
        return self

    def __next__(self) -> ConsumerRecord:
        """Return the next record; those before count as done."""
        iteration = self._iteration
        if iteration is not None and not self._bell.has_news:
            at = iteration.at + 1
            if at < iteration.count and time.monotonic() - iteration.noted_at < NOTE_S:
                try:
                    iteration.at = at
                    return iteration.records[at]
                except BaseException:
                    iteration.at = at - 1
                    raise
        try:
            return self._taking(self._next_after_a_look)
        except BaseException:
            if self._iteration is not None:
                self._iteration.at = -1
            raise

    def _next_after_a_look(self) -> ConsumerRecord:
        self._sync()
        timeout_ms = self._settings["consumer_timeout_ms"]
        timeout_s = timeout_ms / 1000 if timeout_ms != math.inf else 1e9
        self._was_iterated = True
        if self._iteration is not None and self._iteration.count:
            self._flows.must_be_open()
            self._flows.note_done()
            self._bell.has_news = False
            self._drive(self._flows.attend())
        if self._iteration is None or not self._is_current(self._iteration):
            self._iteration = None
            self._bell.has_news = False
            if self._flows.is_closed:
                raise StopIteration
            most = self._settings["max_poll_records"]
            pieces = self._drive(self._flows.poll(timeout_s, most))
            if not pieces:
                raise StopIteration
            made, error = self._calls.records(pieces)
            if not made and error is not None:
                raise error
            records = [record for _, of_piece in made for record in of_piece]
            changes = self._flows.machine.changes
            self._iteration = Iteration([piece for piece, _ in made], records, changes, time.monotonic())
        iteration = self._iteration
        iteration.noted_at = time.monotonic()
        iteration.at = 0
        return iteration.records[0]

    def _is_current(self, iteration: Iteration) -> bool:
        return iteration.count > 0 and iteration.changes == self._flows.machine.changes

    def _sync(self) -> None:
        """Count as returned what an iteration has given."""
        iteration = self._iteration
        if iteration is not None:
            self._flows.machine.mark_returned(iteration.take_given())
            self._flows.machine.begin_undo()

    # ---- positions --------------------------------------------------------------------------------------------------

    def pause(self, *partitions: TopicPartition) -> None:
        """Return nothing of partitions until they are resumed; what was fetched of them is kept."""
        self._look(lambda: self._calls.pause(partitions))

    def resume(self, *partitions: TopicPartition) -> None:
        """Return records of paused partitions again."""
        self._look(lambda: self._calls.resume(partitions))

    def paused(self) -> set[TopicPartition]:
        """Return what is paused."""
        return self._look(self._calls.paused)

    def seek(self, partition: TopicPartition, offset: int) -> None:
        """Go on at an offset; all before it counts as done. Raises PartitionNotAssignedError, ValueError."""
        self._look(lambda: self._calls.seek(partition, offset))

    def seek_to_beginning(self, *partitions: TopicPartition) -> None:
        """Go on at the first offsets of partitions, of all without any."""
        self._look(lambda: self._calls.seek_all(partitions, AT_BEGINNING))

    def seek_to_end(self, *partitions: TopicPartition) -> None:
        """Go on at the ends of partitions, of all without any; under read_committed at the last stable offsets."""
        self._look(lambda: self._calls.seek_all(partitions, AT_END))

    def seek_to_committed(self, *partitions: TopicPartition, timeout_ms: float | None = None) -> None:
        """Go on where the group is; raises OffsetUnknownError where it is nowhere."""
        with self._guard.entered():
            self._sync()
            keys = [tuple(one) for one in must_be_partitions(partitions)] or list(self._flows.machine.keys)
            for key in keys:
                self._flows.held(key)
            committed = self._drive(self._flows.committer.committed(keys, self._timeout_s(timeout_ms)))
            self._calls.seek_to(keys, committed)

    def position(self, partition: TopicPartition, timeout_ms: float | None = None) -> int | None:
        """Return the offset of the next record, None when Kafka does not say in time where the partition starts."""
        must_be_partitions((partition,))
        with self._guard.entered():
            self._sync()
            return self._drive(self._flows.position(tuple(partition), self._timeout_s(timeout_ms)))

    def highwater(self, partition: TopicPartition) -> int | None:
        """Return the offset after the last record of the log as it was fetched last, None before that."""
        return self._look(lambda: self._calls.highwater(partition))

    def lag(self, partition: TopicPartition) -> int | None:
        """Return how many offsets are to be returned yet, None before the first fetch."""
        return self._look(lambda: self._calls.lag(partition))

    def owner_epoch(self, partition: TopicPartition) -> int | None:
        """Return the fencing token of a partition: a sink that stores it can refuse who had it before."""
        return self._look(lambda: self._calls.owner_epoch(partition))

    def stream_of(self, partition: TopicPartition) -> int | None:
        """Return which of this consumer's `streams` reads a partition, None with one stream."""
        return self._look(lambda: self._calls.stream_of(partition))

    # ---- Kafka ------------------------------------------------------------------------------------------------------

    def beginning_offsets(
        self, partitions: Iterable[TopicPartition], timeout_ms: float | None = None
    ) -> dict[TopicPartition, int]:
        """Return the first offsets of partitions; raises TopicUnknownError, KafkaUnavailableError."""
        named, timeout_s = must_be_partitions(partitions), self._timeout_s(timeout_ms)
        return self._ask(lambda: self._flows.lookup.beginnings(named, timeout_s))

    def end_offsets(
        self, partitions: Iterable[TopicPartition], timeout_ms: float | None = None
    ) -> dict[TopicPartition, int]:
        """Return the offsets after the last readable records; raises as `beginning_offsets`."""
        named, timeout_s = must_be_partitions(partitions), self._timeout_s(timeout_ms)
        return self._ask(lambda: self._flows.lookup.ends(named, timeout_s))

    def offsets_for_times(
        self, timestamps: Mapping[TopicPartition, int], timeout_ms: float | None = None
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """Return the first record at or after a time (ms since 1970) of each partition, None where there is none."""
        must_be_partitions(timestamps)
        times = {partition: int(time_ms) for partition, time_ms in timestamps.items()}
        for partition, time_ms in times.items():
            if time_ms < 0:
                raise ValueError(f"the time for {partition} is {time_ms} and must not be negative")
        timeout_s = self._timeout_s(timeout_ms)
        found = self._ask(lambda: self._flows.lookup.at_times(times, timeout_s))
        return {key: None if one is None else OffsetAndTimestamp(*one) for key, one in found.items()}

    def topics(self, timeout_ms: float | None = None) -> set[str]:
        """Return the names of all topics but Kafka's internal ones."""
        timeout_s = self._timeout_s(timeout_ms)
        return self._ask(lambda: self._flows.lookup.names(timeout_s))

    def partitions_for_topic(self, topic: str, timeout_ms: float | None = None) -> set[int]:
        """Return the numbers of a topic's partitions, none for a topic that Kafka does not know."""
        timeout_s = self._timeout_s(timeout_ms)
        return self._ask(lambda: self._flows.lookup.partitions_of(topic, timeout_s)) or set()

    # ---- offsets ----------------------------------------------------------------------------------------------------

    def commit(
        self,
        offsets: Mapping[TopicPartition, int | OffsetAndMetadata] | None = None,
        timeout_ms: float | None = None,
    ) -> None:
        """Commit the offsets after all that was returned, or those given; raises CommitRefusedError naming others."""
        with self._guard.entered():
            self._flows.must_be_open()
            self._sync()
            self._drive(self._flows.committer.commit(offsets, self._timeout_s(timeout_ms)))
            self._drive(self._flows.committer.run_callbacks())

    def commit_async(
        self,
        offsets: Mapping[TopicPartition, int | OffsetAndMetadata] | None = None,
        callback: Callable[[Any, Exception | None], Any] | None = None,
    ) -> None:
        """Commit without waiting; a later call tells `callback` the offsets and None, or why they were refused."""
        with self._guard.entered():
            self._flows.must_be_open()
            self._sync()
            self._flows.committer.commit_async(offsets, callback)

    def committed(
        self,
        partition: TopicPartition,
        metadata: bool = False,  # noqa: FBT001 - kafka-python's
        timeout_ms: float | None = None,
    ) -> Any:
        """Return the group's offset of a partition, with `metadata` as OffsetAndMetadata; None where there is none."""
        named = must_be_partitions((partition,))
        with self._guard.entered():
            found = self._drive(self._flows.committer.committed(named, self._timeout_s(timeout_ms)))
        one = found.get(partition)
        return one if metadata or one is None else one.offset

    def committed_offsets(self, timeout_ms: float | None = None) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return the group's offsets of all its partitions that have one."""
        with self._guard.entered():
            return dict(self._drive(self._flows.committer.committed(None, self._timeout_s(timeout_ms))))

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
        self._close(autocommit, timeout_ms, counts_last=self._was_iterated)

    def _close(self, autocommit: bool | None, timeout_ms: int | None, *, counts_last: bool) -> None:  # noqa: FBT001
        if not self._guard.is_at_home:
            return
        with self._guard.entered(hands_over=True):
            self._sync()
            self._iteration = None
            if counts_last and autocommit is None and not self._flows.is_closed:
                self._flows.note_done()
            self._flows.is_interrupted = False
            self._drive(self._flows.close(autocommit, timeout_ms))

    def __enter__(self) -> Self:
        """Return the consumer."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Close it; with an exception under way the record given last does not count as done."""
        self._close(None, None, counts_last=kind is None and self._was_iterated)

    def __del__(self) -> None:
        """Leave, without waiting, and warn when the program has forgotten to close it."""
        if not self._is_made or not self._guard.is_at_home or self._flows.is_closed:
            return
        if self._flows.subscription is NOTHING:
            self._flows.is_closed = True
            return
        self._flows.abandon()
        warnings.warn(f"{self!r} was not closed", ResourceWarning, source=self, stacklevel=2)

    def __repr__(self) -> str:
        """Return its group and subscription."""
        names = ", ".join(sorted(self._flows.subscription.names())) or self._flows.subscription.pattern or "nothing"
        return f"<Consumer group_id={self._settings.group_id!r} of {names}>"

    # ---- waiting ----------------------------------------------------------------------------------------------------

    def _timeout_s(self, timeout_ms: float | None) -> float:
        return check_timeout(timeout_ms, self._settings["request_timeout_ms"])

    def _look(self, work: Callable[[], T]) -> T:
        with self._guard.entered():
            self._sync()
            return work()

    def _ask(self, work: Callable[[], T]) -> T:
        with self._guard.entered():
            self._flows.must_be_open()
            return work()
