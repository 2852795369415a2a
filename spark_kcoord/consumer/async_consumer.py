"""A plain consumer for asyncio programs: a member of the same groups, with aiokafka's calls.

It is a shell on the program's event loop: `conduct` decides, as it does for a blocking consumer. Records and partitions
are handed over in `getone`, `getmany` and what is like them alone, so that `commit()` in another task means what the
program has. A call that is cancelled has returned nothing: its records come with the next.
"""

from __future__ import annotations

import asyncio
import logging
import math
import sys
import threading
import time
import warnings
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from types import TracebackType
from typing import Any, Final, Self, TypeVar

import pyarrow as pa

from spark_kcoord.consumer.calls import check_timeout
from spark_kcoord.consumer.conduct.flows import Flows
from spark_kcoord.consumer.conduct.wishes import Flow
from spark_kcoord.consumer.errors import ConsumerClosedError, RecordTimeoutError, WrongThreadError
from spark_kcoord.consumer.looks import Looks, together
from spark_kcoord.consumer.settings import parse_settings
from spark_kcoord.consumer.shells.async_bell import AsyncBell
from spark_kcoord.consumer.shells.async_shell import AsyncShell
from spark_kcoord.consumer.shells.guard import Guard, is_inside
from spark_kcoord.consumer.subscription import NOTHING, must_be_partitions
from spark_kcoord.consumer.telemetry import calls_and_reading
from spark_kcoord.consumer.values import (
    ConsumerRecord,
    OffsetAndMetadata,
    OffsetAndTimestamp,
    TopicPartition,
)
from spark_kcoord.fetch.tailing.fetched import AT_BEGINNING, AT_END

__all__ = ["AsyncConsumer"]

T = TypeVar("T")

_log = logging.getLogger(__name__)


class AsyncConsumer(Looks, AsyncShell):
    """One consumer of one event loop; an asynchronous context manager that starts and stops it, and an iterator.

    Its tasks may commit and look beside one that waits for records; those that hand over wait for each other. Settings
    and errors are those of `Consumer`; docs/CONSUMER.md has them. Methods of listeners and callbacks may be coroutines.
    """

    def __init__(
        self,
        *topics: str,
        coordinators: str | Sequence[str] | None = None,
        group_id: str | None = None,
        **settings: Any,
    ) -> None:
        self._settings = parse_settings(together(settings, coordinators, group_id))
        self._topics = topics
        self._guard = Guard()
        self._bell = AsyncBell()
        self._flows = self._make_flows(self._bell.ring)
        self._calls, self._reading = calls_and_reading(self._settings, self._flows)
        self._turn = asyncio.Lock()
        self._at_turn: asyncio.Task[Any] | None = None
        self._turns_asked = 0
        self._is_ending = False
        """True once it gives everything back, which nobody has to do a second time."""
        self._is_made = True

    def _make_flows(self, ring: Callable[[], None]) -> Flows:
        return Flows(self._settings, ring, time.monotonic)

    # ---- beginning and end ------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Belong to the running loop, and subscribe to the topics that were given; it waits for nothing."""
        self._begin()

    async def stop(self, autocommit: bool | None = None, timeout_ms: int | None = None) -> None:  # noqa: FBT001
        """Give everything back and leave; harmless when done twice, and silent in a forked child.

        With auto commit the record that `getone` gave last counts as done, and rows of the last `getmany` do not;
        `autocommit=True` counts all that was returned, False commits nothing more. Where another task's call has not
        ended by `timeout_ms`, or this one is cancelled before, it closes at once, and nothing more is committed.
        """
        await self._stop(autocommit, timeout_ms, counts_last=self._reading.was_iterated)

    close = stop

    async def _stop(self, autocommit: bool | None, timeout_ms: int | None, *, counts_last: bool) -> None:  # noqa: FBT001
        if not self._guard.is_at_home or self._flows.is_closed:
            return
        timeout_s = math.inf if timeout_ms is None else check_timeout(timeout_ms, 0)
        self._must_not_be_told()
        self._must_be_of_this_loop(may_move=True)
        self._topics = ()
        # Whoever waits for records is told that there will be none.
        self._flows.is_closing = True
        self._bell.ring()
        try:
            async with self._handing_over(timeout_s) as left_s:
                self._is_ending = True
                self._reading.forget()
                left_ms = None if timeout_ms is None else left_s * 1000
                await self._drive(self._calls.close(autocommit, left_ms, counts_last=counts_last))
        except _NoTurnError:
            if not self._is_ending:
                _log.warning("Another task's call has not ended in %d ms: %r is closed without it.", timeout_ms, self)
        finally:
            if not self._is_ending:
                self._flows.end_at_once()

    async def __aenter__(self) -> Self:
        """Start it, and return it."""
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Stop it; with an exception under way the record given last does not count as done."""
        await self._stop(None, None, counts_last=kind is None and self._reading.was_iterated)

    def interrupt(self) -> None:
        """End the call that waits, or the next one, with InterruptedPollError; from any thread or signal handler."""
        self._flows.is_interrupted = True
        self._bell.ring()

    # ---- subscribing ------------------------------------------------------------------------------------------------

    def _change(self, work: Callable[[], None]) -> None:
        self._must_not_be_told()
        self._topics = ()
        self._look(work)

    async def assign(
        self, partitions: Iterable[TopicPartition] | Mapping[TopicPartition, int], *, add: bool = False
    ) -> None:
        """Read exactly these partitions, without membership; a mapping says where each starts.

        The others start where the group is, if there is a group, or by `auto_offset_reset`; where that is none, a poll
        raises StartNotKnownError until somebody seeks.
        """
        async with self._handing_over():
            await self._drive(self._calls.assign(partitions, add=add))

    async def unsubscribe(self) -> None:
        """Give everything back and leave the group; the listener is told."""
        async with self._handing_over():
            self._flows.must_be_open()
            self._reading.forget()
            await self._drive(self._flows.unsubscribe())

    unassign = unsubscribe

    async def wait_for_assignment(self, timeout_ms: float | None = None) -> set[TopicPartition]:
        """Wait until partitions are assigned and return them; the listener is told."""
        timeout_s = self._calls.timeout_s(timeout_ms)
        with suppress(_NoTurnError):
            async with self._handing_over(timeout_s) as left_s:
                await self._drive(self._flows.wait_for_assignment(left_s))
        return self.assignment()

    # ---- reading ----------------------------------------------------------------------------------------------------

    async def getone(self, *partitions: TopicPartition) -> ConsumerRecord:
        """Return the next record, of any partition or of some; those before count as done.

        It waits for ever, or raises RecordTimeoutError after `consumer_timeout_ms`.
        """
        record = await self._next(must_be_partitions(partitions))
        if record is None:
            self._flows.must_be_open()
            raise RecordTimeoutError(
                f"No record came within {self._settings['consumer_timeout_ms']} ms ('consumer_timeout_ms')."
            )
        return record

    def __aiter__(self) -> Self:
        """Return the consumer: a record at a time, for ever or until none came for `consumer_timeout_ms`."""
        return self

    async def __anext__(self) -> ConsumerRecord:
        """Return the next record; those before count as done."""
        try:
            record = await self._next(())
        except ConsumerClosedError:
            is_ending = self._flows.is_closed or self._flows.is_closing
            if not (self._guard.is_at_home and is_ending):
                raise
            record = None
        if record is None:
            raise StopAsyncIteration
        return record

    async def _next(self, partitions: tuple[TopicPartition, ...]) -> Any:
        reading, has_begun = self._reading, True
        mark = reading.mark()
        try:
            record = None if self._bell.has_news or self._at_turn is not None else reading.at_once(partitions)
            if record is not None:
                return record
            has_begun = False
            await _turn_of_others()
            async with self._handing_over(self._settings["consumer_timeout_ms"] / 1000) as left_s:
                mark, has_begun = reading.mark(), True
                self._bell.has_news = False
                if self._flows.is_closed:
                    return None
                iteration = await self._drive(reading.next_record(partitions, left_s))
                return None if iteration is None else reading.give(iteration)
        except _NoTurnError:
            return None
        except BaseException:
            if has_begun:
                reading.fail(mark)
            raise

    async def getmany(
        self, *partitions: TopicPartition, timeout_ms: float = 0, max_records: int | None = None
    ) -> dict[TopicPartition, list[ConsumerRecord]]:
        """Return the next records, of all partitions or of some, nothing when there are none in time.

        Those of earlier calls count as done. Raises what ConsumerError says; whatever ends it, a cancelled task among
        that, its records are returned by the next.
        """
        keys = must_be_partitions(partitions)
        timeout_s = check_timeout(timeout_ms, 0)
        with suppress(_NoTurnError):
            return await self._take(timeout_s, lambda left_s: self._reading.records(left_s, max_records, keys))
        return {}

    async def getmany_arrow(
        self,
        *partitions: TopicPartition,
        timeout_ms: float = 0,
        max_records: int | None = None,
        max_bytes: int | None = None,
    ) -> list[pa.RecordBatch]:
        """Return the next rows as record batches, each of one partition, in the columns of the Spark source.

        Without `max_records` all that is buffered is returned, within `max_bytes` if they are given.
        """
        keys = must_be_partitions(partitions)
        timeout_s = check_timeout(timeout_ms, 0)
        with suppress(_NoTurnError):
            return await self._take(
                timeout_s, lambda left_s: self._reading.batches(left_s, max_records, max_bytes, keys)
            )
        return []

    async def _take(self, timeout_s: float, flow: Callable[[float], Flow[T]]) -> T:
        """Return what a flow takes; if anything goes wrong on the way it counts as not returned."""
        await _turn_of_others()
        async with self._handing_over(timeout_s) as left_s:
            mark = self._reading.mark()
            try:
                return await self._drive(flow(left_s))
            except BaseException:
                self._reading.fail(mark)
                raise

    # ---- positions --------------------------------------------------------------------------------------------------

    async def seek_to_beginning(self, *partitions: TopicPartition) -> None:
        """Go on at the first offsets of partitions, of all without any."""
        self._look(lambda: self._calls.seek_all(partitions, AT_BEGINNING))

    async def seek_to_end(self, *partitions: TopicPartition) -> None:
        """Go on at the ends of partitions, of all without any; under read_committed at the last stable offsets."""
        self._look(lambda: self._calls.seek_all(partitions, AT_END))

    async def seek_to_committed(
        self, *partitions: TopicPartition, timeout_ms: float | None = None
    ) -> dict[TopicPartition, int]:
        """Go on where the group is, and return that; raises OffsetUnknownError where it is nowhere."""
        named = must_be_partitions(partitions)
        return await self._run(self._calls.seek_to_committed(named, timeout_ms))

    async def position(self, partition: TopicPartition, timeout_ms: float | None = None) -> int | None:
        """Return the offset of the next record, None when Kafka does not say in time where the partition starts."""
        return await self._run(self._calls.position(partition, timeout_ms))

    # ---- Kafka ------------------------------------------------------------------------------------------------------

    async def beginning_offsets(
        self, partitions: Iterable[TopicPartition], timeout_ms: float | None = None
    ) -> dict[TopicPartition, int]:
        """Return the first offsets of partitions; raises TopicUnknownError, KafkaUnavailableError."""
        return await self._run(self._calls.beginnings(partitions, timeout_ms))

    async def end_offsets(
        self, partitions: Iterable[TopicPartition], timeout_ms: float | None = None
    ) -> dict[TopicPartition, int]:
        """Return the offsets after the last readable records; raises as `beginning_offsets`."""
        return await self._run(self._calls.ends(partitions, timeout_ms))

    async def offsets_for_times(
        self, timestamps: Mapping[TopicPartition, int], timeout_ms: float | None = None
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """Return the first record at or after a time (ms since 1970) of each partition, None where there is none."""
        return await self._run(self._calls.at_times(timestamps, timeout_ms))

    async def topics(self, timeout_ms: float | None = None) -> set[str]:
        """Return the names of all topics but Kafka's internal ones."""
        return await self._run(self._calls.topics(timeout_ms))

    async def partitions_for_topic(self, topic: str, timeout_ms: float | None = None) -> set[int]:
        """Return the numbers of a topic's partitions, none for a topic that Kafka does not know."""
        return await self._run(self._calls.partitions_of(topic, timeout_ms))

    # ---- offsets ----------------------------------------------------------------------------------------------------

    async def commit(
        self,
        offsets: Mapping[TopicPartition, int | OffsetAndMetadata] | None = None,
        timeout_ms: float | None = None,
    ) -> None:
        """Commit the offsets after all that was returned, or those given; raises CommitRefusedError naming others.

        It may be called while another task waits for records.
        """
        await self._run(self._calls.commit(offsets, timeout_ms))

    async def committed(
        self,
        partition: TopicPartition,
        metadata: bool = False,  # noqa: FBT001 - as in the blocking consumer
        timeout_ms: float | None = None,
    ) -> Any:
        """Return the group's offset of a partition, with `metadata` as OffsetAndMetadata; None where there is none."""
        return await self._run(self._calls.committed(partition, metadata=metadata, timeout_ms=timeout_ms))

    async def committed_offsets(self, timeout_ms: float | None = None) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return the group's offsets of all its partitions that have one."""
        return await self._run(self._calls.committed_offsets(timeout_ms))

    # ---- waiting ----------------------------------------------------------------------------------------------------

    def _begin(self) -> None:
        self._must_be_of_this_loop()
        topics, self._topics = self._topics, ()
        if topics:
            self._calls.subscribe(topics, None, None, (), (), add=False)
        self._reading.begin()

    def _must_be_of_this_loop(self, *, may_move: bool = False) -> None:
        """Belong to the running loop, or raise; one whose loop is closed may move to another to be stopped."""
        self._guard.must_be_at_home()
        loop, mine = asyncio.get_running_loop(), self._bell.loop
        if mine is None:
            self._bell.bind(loop)
        elif mine is not loop and may_move and mine.is_closed():
            self._bell.bind(loop)
            self._turn, self._at_turn = asyncio.Lock(), None
        elif mine is not loop:
            raise WrongThreadError("This consumer belongs to another event loop: make one there.")

    def _look(self, work: Callable[[], T]) -> T:
        loop = self._bell.loop
        if loop is not None and loop.is_running() and asyncio._get_running_loop() is not loop:
            raise WrongThreadError(
                f"Thread '{threading.current_thread().name}' called a consumer of an event loop that runs elsewhere: "
                "use it in that loop, for example by asyncio.run_coroutine_threadsafe()."
            )
        with self._guard.entered() as is_first:
            # A signal may come in the middle of a call that is about to return something.
            if is_first and not is_inside(_GIVING, self, sys._getframe(1)):
                self._reading.begin()
            return work()

    async def _run(self, flow: Flow[T]) -> T:
        """Drive a flow that hands nothing over, beside whatever else is under way."""
        self._begin()
        return await self._drive(flow)

    @asynccontextmanager
    async def _handing_over(self, timeout_s: float = math.inf) -> AsyncIterator[float]:
        """Be the one task in which records and partitions are handed over; others wait for their turn.

        Yields how much of the time is left; raises _NoTurnError when it was over before.
        """
        self._must_not_be_told()
        # A turn that is free may be another's already who has not gone on yet.
        began = time.monotonic() if self._turns_asked else None
        self._turns_asked += 1
        try:
            async with self._at_its_turn(timeout_s):
                waited_s = 0.0 if began is None else time.monotonic() - began
                yield max(0.0, min(timeout_s - waited_s, 1e9))
        finally:
            self._turns_asked -= 1

    @asynccontextmanager
    async def _at_its_turn(self, timeout_s: float) -> AsyncIterator[None]:
        try:
            async with asyncio.timeout(None if timeout_s == math.inf else timeout_s):
                await self._turn.acquire()
        except TimeoutError:
            raise _NoTurnError from None
        try:
            self._at_turn = asyncio.current_task()
            self._begin()
            yield
        finally:
            self._at_turn = None
            self._turn.release()

    def _must_not_be_told(self) -> None:
        if self._is_told or (self._at_turn is not None and self._at_turn is _current_task()):
            raise WrongThreadError(
                "A listener or callback made a call that hands partitions over: make it when the call has ended that "
                "told it."
            )

    def __del__(self) -> None:
        """Leave, without waiting, and warn when the program has forgotten to stop it."""
        if not self._is_made or not self._guard.is_at_home or self._flows.is_closed:
            return
        if self._flows.subscription is NOTHING:
            self._flows.is_closed = True
            return
        self._flows.abandon()
        warnings.warn(f"{self!r} was not stopped", ResourceWarning, source=self, stacklevel=2)


_GIVING: Final = (AsyncConsumer._next.__code__, AsyncConsumer._take.__code__)
"""The calls that give records."""


class _NoTurnError(Exception):
    """Other tasks had records handed over for as long as this one could wait."""


async def _turn_of_others() -> None:
    """Let the loop's other tasks, time-outs and cancellation go first: where records are there nothing is waited for.

    It comes before the consumer's turn is taken, so that nobody finds that taken by a call that does nothing yet.
    """
    await asyncio.sleep(0)


def _current_task() -> asyncio.Task[Any] | None:
    try:
        return asyncio.current_task()
    except RuntimeError:
        return None
