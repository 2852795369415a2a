"""Cancelled calls of an asyncio consumer: a listener or callback that is under way goes on to its end."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from spark_kcoord.consumer.values import TopicPartition
from tests.helpers.fake_consuming import AsyncRig, owned

P0 = TopicPartition("t", 0)
SINK_AT = 2
GROUP_AT = 6


class Database:
    """A listener that keeps offsets in a database: it asks that for some turns of the loop before it does anything."""

    def __init__(self, rig: AsyncRig, turns: int = 5) -> None:
        self._rig = rig
        self._turns = turns
        self.calls: list[str] = []
        self.at = SINK_AT

    async def _asked(self, what: str) -> None:
        self.calls.append(f"{what} begins")
        for _ in range(self._turns):
            await asyncio.sleep(0)
        self.calls.append(what)

    async def on_partitions_assigned(self, assigned: Any) -> None:
        await self._asked("assigned")
        for partition in assigned:
            self._rig.seek(partition, self.at)

    async def on_partitions_revoked(self, revoked: Any) -> None:
        await self._asked("revoked")
        await self._rig.commit()


def reading_rig(**settings: Any) -> tuple[AsyncRig, Database]:
    rig = AsyncRig(topics=(), **settings)
    listener = Database(rig)
    rig.subscribe(["t"], listener=listener)  # type: ignore[arg-type]
    rig.member.give(owned(0, start=GROUP_AT))
    return rig, listener


async def cancel_after(turns: int, call: Any, *, times: int = 1) -> Any:
    """Return what a call returns, None where that was cancelled: after some turns of the loop, and in further ones."""
    task = asyncio.create_task(call)
    for _ in range(turns):
        await asyncio.sleep(0)
    for _ in range(times):
        task.cancel()
        await asyncio.sleep(0)
    try:
        return await task
    except asyncio.CancelledError:
        return None


@pytest.mark.parametrize("times", [1, 3])
def test_a_call_that_is_cancelled_in_a_listener_ends_behind_that(times: int) -> None:
    async def main() -> None:
        rig, listener = reading_rig()
        async with rig:
            assert await cancel_after(4, rig.getmany(timeout_ms=1_000), times=times) is None
            assert listener.calls == ["assigned begins", "assigned"]
            assert (await rig.offsets())[0] == (0, SINK_AT), "the listener has sought"

    asyncio.run(main())


def test_a_partition_that_is_asked_back_in_a_cancelled_call_is_committed_before_it_goes() -> None:
    async def main() -> None:
        rig, _ = reading_rig(enable_auto_commit=False)
        async with rig:
            await rig.getmany()
            rig.member.give(owned(0, start=GROUP_AT, is_stopping=True))
            assert await cancel_after(4, rig.getmany(timeout_ms=1_000)) is None
            assert [[one.offset for one in offsets] for offsets in rig.member.committed] == [[10]]
            assert len(rig.member.released) == 1

    asyncio.run(main())


def test_a_callback_goes_on_to_its_end_too() -> None:
    told = []

    async def callback(offsets: Any, error: Any) -> None:
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        told.append(error)

    async def main() -> None:
        rig, _ = reading_rig()
        async with rig:
            await rig.getmany()
            rig.commit_async(callback=callback)
            assert await cancel_after(2, rig.getmany()) is None
            assert told == [None]

    asyncio.run(main())


def test_what_a_listener_raises_in_a_cancelled_call_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    class Fails:
        async def on_partitions_assigned(self, assigned: Any) -> None:
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            raise RuntimeError("the database is away")

        def on_partitions_revoked(self, revoked: Any) -> None:
            pass

    async def main() -> None:
        async with AsyncRig(topics=()) as rig:
            rig.subscribe(["t"], listener=Fails())  # type: ignore[arg-type]
            assert await cancel_after(3, rig.getmany(timeout_ms=1_000)) is None

    asyncio.run(main())
    assert "the database is away" in caplog.text


def test_a_listener_that_does_not_end_does_not_keep_its_loop_from_ending() -> None:
    class Stuck:
        async def on_partitions_assigned(self, assigned: Any) -> None:
            await asyncio.Event().wait()

        def on_partitions_revoked(self, revoked: Any) -> None:
            pass

    rig = AsyncRig(topics=())
    rig.subscribe(["t"], listener=Stuck())  # type: ignore[arg-type]

    async def main() -> None:
        reading = asyncio.create_task(rig.getmany(timeout_ms=1_000))
        await asyncio.sleep(0.001)
        assert not reading.done()

    asyncio.run(main())
    asyncio.run(rig.stop())


@pytest.mark.parametrize("turns", range(30))
@pytest.mark.parametrize("read", [AsyncRig.getmany, AsyncRig.getone])
def test_a_call_may_be_cancelled_at_any_turn_and_nothing_is_lost(read: Callable[[AsyncRig], Any], turns: int) -> None:
    found: list[int] = []

    async def read_all(rig: AsyncRig) -> None:
        for _ in range(10):
            if len(found) >= 8:
                return
            got = await read(rig)
            records = [got] if read is AsyncRig.getone else [one for many in got.values() for one in many]
            found.extend(record.offset for record in records)

    async def main() -> None:
        rig, listener = reading_rig(max_poll_records=3, consumer_timeout_ms=1_000)
        async with rig:
            await cancel_after(turns, read_all(rig))
            await read_all(rig)
        assert (found, listener.calls[:2]) == (list(range(SINK_AT, 10)), ["assigned begins", "assigned"])

    asyncio.run(main())
