"""The asyncio consumer's promises, over a member and a Kafka that do as they are told."""

import asyncio
import gc
import os
import threading
import warnings
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import Future
from contextlib import suppress
from functools import wraps
from typing import Any

import pytest

from coordinator.protocol.columns import OffsetToCommit
from coordinator.protocol.parts import FinalOffset
from spark_kcoord.consumer import errors
from spark_kcoord.consumer.conduct.kafka import Lookup
from spark_kcoord.consumer.shells import async_shell
from spark_kcoord.consumer.values import TopicPartition
from spark_kcoord.errors import MemberClosedError
from spark_kcoord.member.settings import MemberSettings
from tests.helpers.fake_consuming import AsyncRig, FakeMember, owned

P0, P1 = TopicPartition("t", 0), TopicPartition("t", 1)

LONG_S = 60.0
"""Longer than any test lasts that does not hang."""


@pytest.fixture(autouse=True)
def _collecting() -> Iterator[None]:
    """Have nothing collected while a test runs."""
    gc.disable()
    yield
    gc.enable()


def on_loop(test: Callable[..., Awaitable[None]]) -> Callable[..., None]:
    """Run a test on an event loop of its own."""

    @wraps(test)
    def run(*given: Any, **named: Any) -> None:
        async def main() -> None:
            await test(*given, **named)

        asyncio.run(main())

    return run


def offset(partition: int, at: int) -> OffsetToCommit:
    return OffsetToCommit("t", partition, at, 7, 3)


def final(partition: int, at: int | None, leader_epoch: int | None = 3) -> FinalOffset:
    return FinalOffset("t", partition, 7, at, None if at is None else leader_epoch)


async def turns(count: int = 5) -> None:
    """Let others go on."""
    for _ in range(count):
        await asyncio.sleep(0)


@on_loop
async def test_a_consumer_subscribes_when_it_is_started_and_not_before() -> None:
    rig = AsyncRig(topics=())
    rig._topics = ("t",)
    assert rig.members == []
    async with rig as consumer:
        assert consumer is rig
        assert rig.subscription() == {"t"}
        assert len(await rig.offsets()) == 10
    assert rig.member.left_with is not None


@on_loop
async def test_getone_gives_each_record_in_order_and_counts_those_before() -> None:
    async with AsyncRig(max_poll_records=4) as rig:
        assert [(await rig.getone()).offset for _ in range(6)] == list(range(6))
        assert await rig.position(P0) == 6
        await rig.commit()
    assert rig.member.committed == [(offset(0, 6),)]
    assert rig.member.left_with == [final(0, None)]


@on_loop
async def test_getone_without_a_record_in_time_says_so() -> None:
    async with AsyncRig({("t", 0): 0}, consumer_timeout_ms=500) as rig:
        with pytest.raises(errors.RecordTimeoutError):
            await rig.getone()
        assert rig.now == pytest.approx(0.5)


@on_loop
async def test_an_iteration_ends_when_nothing_comes_for_its_time() -> None:
    async with AsyncRig({("t", 0): 3}, consumer_timeout_ms=500) as rig:
        assert [record.offset async for record in rig] == [0, 1, 2]


@on_loop
async def test_an_iteration_ends_when_the_consumer_is_stopped_by_another_task() -> None:
    rig = AsyncRig({("t", 0): 2})
    found = []
    async for record in rig:
        found.append(record.offset)
        if len(found) == 2:
            stopping = asyncio.create_task(rig.stop())
    await stopping
    assert found == [0, 1]
    with pytest.raises(errors.ConsumerClosedError):
        await rig.getone()


@pytest.mark.parametrize("error", [errors.ConsumerClosedError("another one"), errors.CommitRefusedError("it is m2's")])
@on_loop
async def test_an_iteration_of_a_consumer_that_is_open_does_not_hide_an_error(error: Exception) -> None:
    def callback(offsets: Any, outcome: Any) -> None:
        raise error

    async def read_all() -> None:
        async for _ in rig:
            rig.commit_async(callback=callback)

    async with AsyncRig({("t", 0): 2}, max_poll_records=1) as rig:
        with pytest.raises(type(error)):
            await read_all()
        assert (await rig.getone()).offset == 1


@on_loop
async def test_getmany_returns_the_records_of_the_partitions_that_are_named() -> None:
    async with AsyncRig({("t", 0): 2, ("t", 1): 2}) as rig:
        await rig.wait_for_assignment()
        rig.member.give(owned(0), owned(1))
        assert await rig.offsets(P1) == [(1, 0), (1, 1)]
        assert (await rig.getone(P0)).offset == 0
        assert (await rig.getone()).offset == 1
        assert await rig.offsets(P1, timeout_ms=50) == []


@on_loop
async def test_getmany_arrow_returns_batches_each_of_one_partition() -> None:
    async with AsyncRig({("t", 0): 8}, columns=["topic", "partition", "offset"]) as rig:
        assert [batch.num_rows for batch in await rig.getmany_arrow(max_records=6)] == [4, 2]
        assert [batch.column("offset").to_pylist() for batch in await rig.getmany_arrow(P0)] == [[6, 7]]


@on_loop
async def test_a_task_that_is_cancelled_has_taken_nothing() -> None:
    async with AsyncRig({("t", 0): 0}) as rig:
        rig.is_still = True
        for read in (lambda: rig.getmany(timeout_ms=60_000), rig.getone):
            task: asyncio.Task[Any] = asyncio.create_task(read())  # type: ignore[arg-type]
            await turns()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        rig.is_still = False
        rig.kafka.ends[P0] = 2
        assert await rig.offsets() == [(0, 0), (0, 1)]


@on_loop
async def test_a_task_that_is_cancelled_with_its_records_in_hand_gives_them_to_the_next() -> None:
    async with AsyncRig(max_poll_records=4) as rig:
        mark = rig._flows.machine.mark_returned

        def cancelled(pieces: Any) -> None:
            mark(pieces)
            raise asyncio.CancelledError

        rig._flows.machine.mark_returned = cancelled  # type: ignore[method-assign]
        with pytest.raises(asyncio.CancelledError):
            await rig.getmany()
        rig._flows.machine.mark_returned = mark  # type: ignore[method-assign]
        assert await rig.offsets() == [(0, at) for at in range(4)]


Read = Callable[[AsyncRig], Awaitable[Any]]

READS: dict[str, Read] = {
    "getone": lambda rig: rig.getone(),
    "getmany": lambda rig: rig.getmany(max_records=1),
    "getmany_arrow": lambda rig: rig.getmany_arrow(max_records=1),
}


@pytest.mark.parametrize("read", READS.values(), ids=READS)
@on_loop
async def test_a_stop_in_another_task_ends_one_that_reads_what_is_there_already(read: Read) -> None:
    rig = AsyncRig({("t", 0): 10_000}, max_poll_records=1)
    await rig.getone()

    async def drain() -> int:
        for count in range(9_000):
            try:
                await read(rig)
            except errors.ConsumerClosedError:
                return count
        return 9_000

    draining = asyncio.create_task(drain())
    await asyncio.sleep(0)
    await rig.stop()
    assert await draining < 100


@pytest.mark.parametrize("read", READS.values(), ids=READS)
@on_loop
async def test_a_task_that_reads_what_is_there_already_can_be_cancelled_and_loses_nothing(read: Read) -> None:
    async with AsyncRig({("t", 0): 10_000}, max_poll_records=1) as rig:
        found = [(await rig.getone()).offset]

        async def drain() -> None:
            while found[-1] < 9_000:
                await read(rig)
                found.append(found[-1] + 1)

        draining = asyncio.create_task(drain())
        await turns()
        draining.cancel()
        with pytest.raises(asyncio.CancelledError):
            await draining
        assert (await rig.getone()).offset == found[-1] + 1


@on_loop
async def test_a_call_without_time_has_records_beside_a_task_that_reads_what_is_there_already() -> None:
    async with AsyncRig({("t", 0): 1_000, ("t", 1): 1_000}, max_poll_records=1) as rig:
        await rig.getone()
        rig.member.give(owned(0), owned(1))

        async def read(partition: TopicPartition) -> list[int]:
            return [len(await rig.getmany(partition, timeout_ms=0)) for _ in range(50)]

        assert list(await asyncio.gather(read(P0), read(P1))) == [[1] * 50, [1] * 50]


@on_loop
async def test_a_commit_goes_out_beside_a_waiting_getmany_and_means_what_was_returned() -> None:
    async with AsyncRig({("t", 0): 4}, enable_auto_commit=False) as rig:
        await rig.getmany()
        rig.is_still = True
        waiting = asyncio.create_task(rig.getmany(timeout_ms=60_000))
        await turns()
        rig.kafka.ends[P0] = 6
        await rig.commit()
        assert rig.member.committed == [(offset(0, 4),)]
        rig._bell.ring()
        assert [record.offset for record in (await waiting)[P0]] == [4, 5]


@on_loop
async def test_nothing_changes_hands_in_a_commit_beside_a_waiting_getmany() -> None:
    async with AsyncRig({("t", 0): 4}, enable_auto_commit=False) as rig:
        await rig.getmany()
        rig.member.give(owned(0, is_stopping=True))
        await rig.commit()
        assert (rig.listener.heard, rig.assignment()) == ([("assigned", [0])], {P0})
        await rig.getmany()
        assert rig.listener.heard[1:] == [("revoked", [0])]


@on_loop
async def test_tasks_that_hand_over_wait_for_each_other_and_each_record_comes_once() -> None:
    async with AsyncRig({("t", 0): 9}, max_poll_records=2) as rig:
        found = await asyncio.gather(*(rig.getone() for _ in range(9)))
        assert sorted(record.offset for record in found) == list(range(9))


@on_loop
async def test_a_call_waits_for_its_turn_no_longer_than_for_records() -> None:
    async with AsyncRig({("t", 0): 2}) as rig:
        rig.is_still = True
        await rig.getmany()
        long = asyncio.create_task(rig.getmany(timeout_ms=60_000_000))
        await turns()
        assert (await rig.getmany(timeout_ms=10), await rig.getmany_arrow()) == ({}, [])
        assert await rig.wait_for_assignment(timeout_ms=0) == {P0}
        rig.kafka.ends["t", 0] = 4
        rig._bell.ring()
        assert [record.offset for record in (await long)[P0]] == [2, 3]


@on_loop
async def test_getone_waits_for_its_turn_no_longer_than_for_a_record() -> None:
    async with AsyncRig({("t", 0): 0}, consumer_timeout_ms=10) as rig:
        rig.is_still = True
        long = asyncio.create_task(rig.getmany(timeout_ms=60_000_000))
        await turns()
        with pytest.raises(errors.RecordTimeoutError):
            await rig.getone()
        rig.kafka.ends["t", 0] = 1
        rig._bell.ring()
        assert [record.offset for record in (await long)[P0]] == [0]


def test_a_stop_in_another_loop_is_refused_and_the_consumer_goes_on_in_its_own() -> None:
    rig = AsyncRig({("t", 0): 2})
    mine = asyncio.new_event_loop()
    try:
        mine.run_until_complete(rig.start())
        with pytest.raises(errors.WrongThreadError):
            asyncio.run(rig.stop())
        assert mine.run_until_complete(rig.offsets()) == [(0, 0), (0, 1)]
        mine.run_until_complete(rig.stop())
    finally:
        mine.close()


def test_a_consumer_whose_loop_is_closed_can_be_stopped_in_another() -> None:
    rig = AsyncRig({("t", 0): 2})
    asyncio.run(rig.getmany())
    with pytest.raises(errors.WrongThreadError):
        asyncio.run(rig.getmany())
    asyncio.run(rig.stop())
    assert rig._flows.is_closed
    assert rig.member.is_closed


@on_loop
async def test_a_listener_may_be_coroutines_and_commit_and_seek_in_them() -> None:
    heard: list[str] = []

    class Slow:
        async def on_partitions_assigned(self, assigned: Any) -> None:
            await asyncio.sleep(0)
            heard.append("assigned")
            rig.seek(P0, 5)

        async def on_partitions_revoked(self, revoked: Any) -> None:
            await rig.commit({P0: 8})
            heard.append("revoked")

    rig = AsyncRig(topics=(), enable_auto_commit=False)
    async with rig:
        rig.subscribe(["t"], listener=Slow())  # type: ignore[arg-type]
        assert (await rig.offsets())[0] == (0, 5)
        rig.member.give(owned(0, is_stopping=True))
        assert await rig.offsets() == []
        assert (heard, [one[0].offset for one in rig.member.committed]) == (["assigned", "revoked"], [8])
        assert rig.member.released == [(final(0, None),)]


@pytest.mark.parametrize("error", [KeyError("no"), asyncio.CancelledError()])
@on_loop
async def test_partitions_change_hands_whatever_a_listener_raises(error: BaseException) -> None:
    async with AsyncRig({("t", 0): 2, ("t", 1): 2}) as rig:
        await rig.getmany()

        def fail() -> None:
            raise error

        rig.listener.then["revoked"] = fail
        rig.member.give(owned(0, is_stopping=True), owned(1))
        with pytest.raises(type(error)):
            await rig.getmany()
        rig.listener.then.clear()
        assert (rig.assignment(), len(rig.member.released)) == ({P1}, 1)
        assert await rig.offsets() == [(1, 0), (1, 1)]


@on_loop
async def test_a_listener_may_not_hand_over() -> None:
    class Polls:
        async def on_partitions_assigned(self, assigned: Any) -> None:
            await rig.getmany()

        def on_partitions_revoked(self, revoked: Any) -> None:
            pass

    rig = AsyncRig(topics=())
    async with rig:
        rig.subscribe(["t"], listener=Polls())  # type: ignore[arg-type]
        with pytest.raises(errors.WrongThreadError, match="listener"):
            await rig.getmany()
        assert len(await rig.offsets()) == 10


@on_loop
async def test_a_listener_may_not_wait_for_a_task_that_hands_over() -> None:
    class Polls:
        async def on_partitions_assigned(self, assigned: Any) -> None:
            await asyncio.create_task(rig.getone())  # type: ignore[arg-type]

        def on_partitions_revoked(self, revoked: Any) -> None:
            pass

    rig = AsyncRig(topics=())
    async with rig:
        rig.subscribe(["t"], listener=Polls())  # type: ignore[arg-type]
        with pytest.raises(errors.WrongThreadError, match="listener"):
            async with asyncio.timeout(LONG_S):
                await rig.getmany()
        assert len(await rig.offsets()) == 10


@on_loop
async def test_a_listener_may_not_wait_for_such_a_task_either_while_a_callback_runs_beside_it() -> None:
    listens, calls_back, may_end = asyncio.Event(), asyncio.Event(), asyncio.Event()

    class Polls:
        async def on_partitions_assigned(self, assigned: Any) -> None:
            listens.set()
            await calls_back.wait()
            try:
                await asyncio.create_task(rig.getone())  # type: ignore[arg-type]
            finally:
                may_end.set()

        def on_partitions_revoked(self, revoked: Any) -> None:
            pass

    async def callback(offsets: Any, error: Any) -> None:
        calls_back.set()
        await may_end.wait()

    rig = AsyncRig()
    async with rig:
        await rig.getone()
        rig.member.holds_answers = True
        rig.commit_async(callback=callback)
        rig.subscribe(["t"], listener=Polls())  # type: ignore[arg-type]
        rig.member.give(owned(0), owned(1))
        reading = asyncio.create_task(rig.getmany())
        await listens.wait()
        rig.member.holds_answers = False
        rig.member.answer()
        committing = asyncio.create_task(rig.commit())
        with pytest.raises(errors.WrongThreadError, match="listener"):
            await asyncio.wait_for(reading, LONG_S)
        await committing


class Awaits:
    """A listener whose methods await something while `meanwhile` happens, the first time."""

    def __init__(self, meanwhile: Callable[[], object]) -> None:
        self._meanwhile = [meanwhile]

    async def _await(self, *_: Any) -> None:
        if self._meanwhile:
            self._meanwhile.pop()()
        await turns()

    on_partitions_assigned = on_partitions_revoked = on_partitions_lost = _await


@on_loop
async def test_partitions_that_come_while_a_listener_awaits_are_read_at_once() -> None:
    def come() -> None:
        rig.member.give(owned(0), owned(1))
        rig._bell.ring()

    async with AsyncRig({("t", 0): 0, ("t", 1): 1}, topics=()) as rig:
        rig.is_still = True
        rig.subscribe(["t"], listener=Awaits(come))  # type: ignore[arg-type]
        reading = asyncio.create_task(rig.getone())
        await turns(50)
        assert reading.done(), "it waits for a bell that has rung already"
        assert (await reading).partition == 1


@on_loop
async def test_partitions_that_come_while_a_listener_awaits_end_a_wait_for_them_at_once() -> None:
    def come() -> None:
        rig.member.give(owned(0))
        rig._bell.ring()

    async with AsyncRig({("t", 0): 1}) as rig:
        rig.is_still = True
        await rig.getone()
        rig.subscribe(["t"], listener=Awaits(come))  # type: ignore[arg-type]
        rig.member.give(is_complete=False)
        waiting = asyncio.create_task(rig.wait_for_assignment())
        await turns(50)
        assert waiting.done(), "it waits for a bell that has rung already"
        assert await waiting == {P0}


@on_loop
async def test_a_task_that_a_listener_began_reads_when_the_call_has_ended_that_told_it() -> None:
    may_read, tasks = asyncio.Event(), []

    async def read() -> Any:
        await may_read.wait()
        return await rig.getone()

    class Begins:
        async def on_partitions_assigned(self, assigned: Any) -> None:
            tasks.append(asyncio.create_task(read()))

        def on_partitions_revoked(self, revoked: Any) -> None:
            pass

    rig = AsyncRig(topics=())
    async with rig:
        rig.subscribe(["t"], listener=Begins())  # type: ignore[arg-type]
        assert await rig.offsets(max_records=1) == [(0, 0)]
        may_read.set()
        assert (await tasks[0]).offset == 1


@on_loop
async def test_a_turn_that_another_has_already_counts_as_waited_for() -> None:
    async with AsyncRig() as rig:
        may_end = asyncio.Event()

        async def second() -> None:
            async with rig._handing_over():
                await may_end.wait()

        first = rig._handing_over()
        await first.__aenter__()
        waiting = asyncio.create_task(second())
        await turns()
        await first.__aexit__(None, None, None)
        asyncio.get_running_loop().call_soon(may_end.set)
        async with rig._handing_over(LONG_S) as left_s:
            assert left_s < LONG_S, "the time for which another had the turn was given twice"
        await waiting


@pytest.mark.parametrize("step", ["mark_returned", "give"])
@on_loop
async def test_a_signal_handler_does_not_count_what_the_call_that_it_ends_was_about_to_return(step: str) -> None:
    async with AsyncRig(max_poll_records=4) as rig:
        owner: Any = rig._flows.machine if step == "mark_returned" else rig._reading
        done = getattr(owner, step)

        def then_a_signal(*given: Any) -> Any:
            done(*given)
            setattr(owner, step, done)
            rig.assignment()
            raise KeyboardInterrupt

        setattr(owner, step, then_a_signal)
        with suppress(KeyboardInterrupt):
            await (rig.getmany() if step == "mark_returned" else rig.getone())
        assert (await rig.getone()).offset == 0


@on_loop
async def test_a_callback_of_commit_async_may_be_a_coroutine() -> None:
    heard: list[int] = []

    async def callback(offsets: Any, error: Any) -> None:
        await asyncio.sleep(0)
        heard.append(offsets[P0].offset)

    async with AsyncRig(enable_auto_commit=False) as rig:
        await rig.getmany()
        rig.commit_async(callback=callback)
        await rig.getmany()
    assert heard == [10]


@on_loop
async def test_an_interrupt_from_another_thread_ends_a_waiting_getmany() -> None:
    async with AsyncRig({("t", 0): 0}) as rig:
        rig.while_waiting = [rig.interrupt]
        with pytest.raises(errors.InterruptedPollError):
            await rig.getmany(timeout_ms=60_000)
        rig.kafka.ends[P0] = 1
        assert await rig.offsets() == [(0, 0)]


@on_loop
async def test_a_question_waits_for_those_of_other_tasks_no_longer_than_for_its_answer() -> None:
    async with AsyncRig(bootstrap_servers="k:1") as rig:
        may_go_on, given = threading.Event(), list[float]()

        def names(left_s: float) -> set[str]:
            given.append(left_s)
            may_go_on.wait(60)
            return {"t"}

        rig._flows.lookup.names = names  # type: ignore[method-assign]
        first = asyncio.create_task(rig.topics(timeout_ms=50_000))
        await turns()
        async with asyncio.timeout(10):
            with pytest.raises(errors.KafkaUnavailableError, match="other tasks"):
                await rig.topics(timeout_ms=50)
        second = asyncio.create_task(rig.topics(timeout_ms=50_000))
        await turns()
        rig.now += 5
        may_go_on.set()
        assert [await first, await second] == [{"t"}, {"t"}]
        assert given == [50, 45], "its time began when it was asked"


@on_loop
async def test_a_question_whose_thread_begins_late_uses_the_look_up_of_its_own_turn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    used: list[tuple[str, Lookup]] = []
    monkeypatch.setattr(Lookup, "partitions_of", lambda lookup, topic, _: used.append((topic, lookup)))
    begins: list[Callable[[], Any]] = []

    def late(work: Callable[[], Any], ring: Callable[[], None]) -> Future[Any]:
        begins.append(work)
        return Future()

    async with AsyncRig(bootstrap_servers="k:1") as rig:
        monkeypatch.setattr(async_shell, "beside", late)
        given_up = asyncio.create_task(rig.partitions_for_topic("given up"))
        await turns()
        waiting = asyncio.create_task(rig.partitions_for_topic("behind it"))
        await turns()
        monkeypatch.undo()
        monkeypatch.setattr(Lookup, "partitions_of", lambda lookup, topic, _: used.append((topic, lookup)))
        given_up.cancel()
        await waiting
        begins[0]()
        assert [topic for topic, _ in used] == ["behind it", "given up"]
        assert used[0][1] is not used[1][1]


@on_loop
async def test_a_stop_while_another_task_waits_ends_that_with_an_error() -> None:
    rig = AsyncRig({("t", 0): 0})
    rig.is_still = True
    waiting = asyncio.create_task(rig.getmany(timeout_ms=60_000))
    await turns()
    await rig.stop()
    await rig.stop()
    with pytest.raises(errors.ConsumerClosedError):
        await waiting
    assert rig.member.is_closed


@on_loop
async def test_a_stop_counts_the_record_given_last_and_no_rows_of_the_last_getmany() -> None:
    rig = AsyncRig(max_poll_records=4)
    await rig.getone()
    await rig.stop()
    assert rig.member.left_with == [final(0, 1)]
    other = AsyncRig(max_poll_records=4)
    await other.getmany()
    await other.stop()
    assert other.member.left_with == [final(0, None)]


@on_loop
async def test_a_with_block_that_ends_by_an_exception_does_not_count_the_record_given_last() -> None:
    rig = AsyncRig()
    with suppress(RuntimeError):
        async with rig:
            await rig.getone()
            raise RuntimeError
    assert rig.member.left_with == [final(0, None)]


class SlowToClose:
    """A member's close that goes on, the first time, until it may end; the member does nothing else any more."""

    def __init__(self, member: FakeMember) -> None:
        self.has_begun, self._may_end = threading.Event(), threading.Event()
        self._threads: list[threading.Thread] = []
        member.close = self._close  # type: ignore[method-assign]
        member.resubscribe = self._refuse  # type: ignore[method-assign]

    def _close(self) -> None:
        if not self.has_begun.is_set():
            self._threads.append(threading.current_thread())
            self.has_begun.set()
            self._may_end.wait(LONG_S)

    def _refuse(self, settings: MemberSettings) -> None:
        raise MemberClosedError("it has left")

    async def cancel_in_it(self, task: asyncio.Task[Any]) -> None:
        """Cancel a task when it waits for that."""
        while not self.has_begun.is_set():
            await asyncio.sleep(0.001)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    def end(self) -> None:
        """Let it end, with all that follows on its thread."""
        self._may_end.set()
        for thread in self._threads:
            thread.join()


@on_loop
async def test_a_subscription_keeps_its_member_when_an_unsubscribe_ends_late_that_was_cancelled() -> None:
    async with AsyncRig() as rig:
        await rig.getmany()
        closing = SlowToClose(rig.member)
        await closing.cancel_in_it(asyncio.create_task(rig.unsubscribe()))
        rig.subscribe(["t"])
        closing.end()
        assert (len(await rig.offsets()), len(rig.members)) == (10, 2)


@on_loop
async def test_a_consumer_keeps_the_member_that_it_made_after_a_lapse_when_the_old_one_is_closed_late() -> None:
    async with AsyncRig() as rig:
        await rig.getmany()
        closing = SlowToClose(rig.member)
        rig.member.is_left_alone, rig.member.failure = True, MemberClosedError("it was not polled for 300 s")
        await closing.cancel_in_it(asyncio.create_task(rig.getmany()))
        await rig.getmany()
        closing.end()
        assert (len(await rig.offsets()), len(rig.members)) == (10, 2)


@on_loop
async def test_a_call_that_closes_a_member_closes_no_later_one_however_late_it_begins() -> None:
    async with AsyncRig() as rig:
        await rig.getmany()
        close_it = rig._flows.group.drop
        await rig.unsubscribe()
        rig.subscribe(["t"])
        close_it()
        await rig.getmany()
        assert [member.is_closed for member in rig.members] == [True, False]


@on_loop
async def test_another_loop_and_another_thread_are_refused() -> None:
    said: list[str] = []

    def elsewhere() -> None:
        for use in (lambda: asyncio.run(rig.getmany()), rig.assignment):
            with pytest.raises(errors.WrongThreadError) as raised:
                use()
            said.append(str(raised.value))

    async with AsyncRig() as rig:
        await rig.getmany()
        thread = threading.Thread(target=elsewhere, name="the-other")
        thread.start()
        while thread.is_alive():
            await asyncio.sleep(0.01)
    assert "another event loop" in said[0]
    assert "'the-other'" in said[1]


@on_loop
async def test_a_forked_child_is_refused_and_its_stop_does_nothing() -> None:
    async with AsyncRig() as rig:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(os, "getpid", lambda: -5)
            for use in (rig.getmany, rig.getone, rig.commit):
                with pytest.raises(errors.ConsumerClosedError, match="belongs to process"):
                    await use()
            await rig.stop()
        assert rig.member.left_with is None


@on_loop
async def test_partitions_by_hand_are_read_without_membership() -> None:
    rig = AsyncRig({("t", 0): 4}, (), group_id=None, coordinators=None, bootstrap_servers="k:1")
    async with rig:
        await rig.assign({P0: 2})
        assert await rig.offsets() == [(0, 2), (0, 3)]
        await rig.seek_to_beginning()
        assert (await rig.getone()).offset == 0
        await rig.unassign()
        assert rig.assignment() == set()
    assert rig.members == []


@on_loop
async def test_a_consumer_that_is_forgotten_warns_and_leaves() -> None:
    rig = AsyncRig()
    await rig.getmany()
    member = rig.member
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        del rig
        gc.collect()
    # What other tests have left is collected here too.
    of_consumers = [one.category for one in caught if "was not stopped" in str(one.message)]
    assert of_consumers == [ResourceWarning]
    assert member.left_with == [final(0, None)]
