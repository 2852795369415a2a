"""A task that subscribes while another one's assign() or unsubscribe() waits: what has returned well is so."""

import asyncio
from typing import Any

import pytest

from coordinator.protocol.messages import FetchOffsetsResponse
from spark_kcoord.consumer import errors
from spark_kcoord.consumer.conduct import asking
from spark_kcoord.consumer.conduct.kafka import Lookup
from spark_kcoord.consumer.values import TopicPartition
from spark_kcoord.errors import MemberClosedError
from spark_kcoord.member.settings import MemberSettings
from tests.helpers.fake_consuming import AsyncRig
from tests.helpers.held_calls import HeldCall, SlowToRevoke

U0 = TopicPartition("u", 0)


def test_an_assign_is_refused_when_another_task_has_subscribed_while_it_waited(monkeypatch: pytest.MonkeyPatch) -> None:
    answer = HeldCall(FetchOffsetsResponse(offsets=()))
    monkeypatch.setattr(asking, "ask_coordinators", answer)

    async def main() -> None:
        rig = AsyncRig(topics=(), bootstrap_servers="k:1", auto_offset_reset="earliest")
        async with rig:
            assigning = asyncio.create_task(rig.assign([U0]))
            await answer.begun()
            rig.subscribe(["t"])
            answer.end()
            with pytest.raises(errors.SubscriptionNotValidError, match=r"while assign\(\) waited"):
                await assigning
            assert rig.subscription() == {"t"}
            assert len(await rig.offsets()) == 10
            assert rig.member.polls == 1

    asyncio.run(main())


async def subscribe_while_unsubscribe_waits(rig: AsyncRig, topic: str) -> None:
    """Unsubscribe from a topic, and subscribe to one in another task while the listener of the first is told."""
    listener = SlowToRevoke()
    rig.subscribe(["t"], listener=listener)  # type: ignore[arg-type]
    await rig.wait_for_assignment()
    unsubscribing = asyncio.create_task(rig.unsubscribe())
    await listener.is_told.wait()
    rig.subscribe([topic])
    listener.may_end.set()
    await unsubscribing


def test_a_subscription_holds_that_was_made_while_another_task_unsubscribed() -> None:
    async def main() -> None:
        async with AsyncRig(topics=()) as rig:
            await subscribe_while_unsubscribe_waits(rig, "u")
            assert (rig.subscription(), [member.left_with is None for member in rig.members]) == ({"u"}, [False])
            assert len(await rig.offsets()) == 10
            assert [member.settings.topics for member in rig.members] == [("t",), ("u",)]

    asyncio.run(main())


def test_a_topic_that_is_subscribed_to_again_while_another_task_unsubscribes_is_read_by_the_policy(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Lookup, "topics_of", lambda *_: {("t", 0): None})

    async def main() -> None:
        without_group: dict[str, Any] = {"group_id": None, "coordinators": None, "bootstrap_servers": "k:1"}
        async with AsyncRig(topics=(), auto_offset_reset="latest", **without_group) as rig:
            rig.is_still = True
            await subscribe_while_unsubscribe_waits(rig, "t")
            assert await rig.wait_for_assignment() == {TopicPartition("t", 0)}
            assert await rig.position(TopicPartition("t", 0)) == 10

    asyncio.run(main())


def test_a_consumer_that_is_being_stopped_takes_no_subscription() -> None:
    async def main() -> None:
        listener, rig = SlowToRevoke(), AsyncRig(topics=())
        rig.subscribe(["t"], listener=listener)  # type: ignore[arg-type]
        await rig.getmany()
        stopping = asyncio.create_task(rig.stop())
        await listener.is_told.wait()
        with pytest.raises(errors.ConsumerClosedError):
            rig.subscribe(["u"])
        listener.may_end.set()
        await stopping
        assert len(rig.members) == 1

    asyncio.run(main())


def test_a_stop_leaves_the_group_of_a_subscription_that_was_made_while_another_task_unsubscribed() -> None:
    close = HeldCall()

    def refuse(_: MemberSettings) -> None:
        raise MemberClosedError("it is closed")

    async def main() -> None:
        rig = AsyncRig()
        await rig.getmany()
        first = rig.member
        first.close, first.resubscribe = close, refuse  # type: ignore[method-assign]
        unsubscribing = asyncio.create_task(rig.unsubscribe())
        await close.begun()
        first.close = lambda: None  # type: ignore[method-assign]
        rig.subscribe(["u"])
        stopping = asyncio.create_task(rig.stop())
        await asyncio.sleep(0)
        close.end()
        await unsubscribing
        await stopping
        assert [member.left_with is None for member in rig.members] == [False, False]

    asyncio.run(main())
