"""A stop() of an asyncio consumer that does not get its turn: in its time the consumer is closed, and stays so."""

import asyncio
import time

import pytest

from coordinator.protocol.messages import FetchOffsetsResponse
from spark_kcoord.consumer import errors
from spark_kcoord.consumer.conduct import asking
from spark_kcoord.consumer.values import TopicPartition
from spark_kcoord.errors import MemberClosedError
from tests.helpers.fake_consuming import AsyncRig
from tests.helpers.held_calls import LONG_S, HeldCall, SlowListener


def test_a_stop_does_not_outlast_its_time_out_by_the_call_of_another_task(monkeypatch: pytest.MonkeyPatch) -> None:
    answer = HeldCall(FetchOffsetsResponse(offsets=()))
    monkeypatch.setattr(asking, "ask_coordinators", answer)

    async def main() -> None:
        rig = AsyncRig(topics=(), bootstrap_servers="k:1", auto_offset_reset="earliest")
        assigning = asyncio.create_task(rig.assign([TopicPartition("u", 0)]))
        await answer.begun()
        began_s = time.monotonic()
        await rig.stop(timeout_ms=10)
        assert time.monotonic() - began_s < LONG_S / 2
        answer.end()
        with pytest.raises(errors.ConsumerClosedError):
            await assigning
        assert rig.kafka.wanted == {}, "nothing is fetched any more"

    asyncio.run(main())


def test_a_stop_that_is_cancelled_before_its_turn_leaves_a_closed_consumer() -> None:
    async def main() -> None:
        listener, rig = SlowListener(), AsyncRig(topics=())
        rig.subscribe(["t"], listener=listener)  # type: ignore[arg-type]

        async def read() -> list[int]:
            return [record.offset async for record in rig]

        reading = asyncio.create_task(read())
        await listener.is_told.wait()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01):
                await rig.stop()
        assert (rig.member.left_with, rig.kafka.wanted) == ([], {})
        listener.may_end.set()
        assert await reading == []
        for call in (rig.getmany, rig.getone, rig.commit):
            with pytest.raises(errors.ConsumerClosedError):
                await call()
        await rig.stop()
        assert len(rig.members) == 1

    asyncio.run(main())


def test_a_static_member_keeps_its_place_when_its_stop_is_cancelled_before_its_turn() -> None:
    async def main() -> None:
        listener, rig = SlowListener(), AsyncRig(topics=(), group_instance_id="a")
        rig.subscribe(["t"], listener=listener)  # type: ignore[arg-type]
        reading = asyncio.create_task(rig.getmany())
        await listener.is_told.wait()
        stopping = asyncio.create_task(rig.stop())
        await asyncio.sleep(0)
        stopping.cancel()
        with pytest.raises(asyncio.CancelledError):
            await stopping
        async with asyncio.timeout(LONG_S):
            while not rig.member.is_closed:
                await asyncio.sleep(0.001)
        assert rig.member.left_with is None
        listener.may_end.set()
        with pytest.raises(errors.ConsumerClosedError):
            await reading

    asyncio.run(main())


def test_a_stop_that_has_begun_is_left_alone_by_one_that_does_not_get_its_turn(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def main() -> None:
        listener, rig = SlowListener(), AsyncRig(topics=())
        rig.subscribe(["t"], listener=listener)  # type: ignore[arg-type]
        listener.may_end.set()
        await rig.getmany()
        await rig.getmany()
        listener.may_end.clear()
        listener.is_told.clear()
        stopping = asyncio.create_task(rig.stop())
        await listener.is_told.wait()
        await rig.stop(timeout_ms=10)
        assert (rig.member.left_with, stopping.done(), caplog.text) == (None, False, "")
        listener.may_end.set()
        await stopping
        assert [one.offset for one in rig.member.left_with or ()] == [10]

    asyncio.run(main())


def test_a_call_that_goes_on_after_such_a_stop_joins_no_group() -> None:
    close = HeldCall()

    async def main() -> None:
        rig = AsyncRig()
        await rig.getmany()
        rig.member.is_left_alone, rig.member.failure = True, MemberClosedError("it was not polled for 300 s")
        rig.member.close = close  # type: ignore[method-assign]
        reading = asyncio.create_task(rig.getmany())
        await close.begun()
        await rig.stop(timeout_ms=10)
        close.end()
        with pytest.raises(errors.ConsumerClosedError):
            await reading
        assert len(rig.members) == 1

    asyncio.run(main())
