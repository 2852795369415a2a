"""Asyncio consumers on a real coordinator and a real Kafka: they share a group with blocking ones and lose nothing."""

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from kcoord import AsyncConsumer, Consumer, TopicPartition, errors
from tests.helpers.kafka_topics import produce_numbers

if TYPE_CHECKING:
    from coordinator.local.kafka.broker import LocalKafka
    from coordinator.local.node import LocalCoordinator

pytestmark = pytest.mark.kafka

LONG_MS = 30_000


async def read(consumer: AsyncConsumer, count: int) -> list[int]:
    found: list[int] = []
    async with asyncio.timeout(60):
        while len(found) < count:
            got = await consumer.getmany(timeout_ms=500)
            found += [int(record.value) for records in got.values() for record in records]
    return found


def test_an_asyncio_and_a_blocking_consumer_share_a_group_and_each_record_comes_once(
    kafka: "LocalKafka", coordinator: "LocalCoordinator", topic: Callable[..., str]
) -> None:
    name = topic(4)
    settings = {"auto_offset_reset": "earliest", "heartbeat_interval_ms": 200, "enable_auto_commit": False}
    produce_numbers(kafka.bootstrap_servers, name, 4, 0, 40)

    async def main() -> tuple[list[int], list[int]]:
        async with AsyncConsumer(name, coordinators=coordinator.address, group_id=name, **settings) as consumer:
            found = await read(consumer, 40)
            await consumer.commit()
            with Consumer(name, coordinators=coordinator.address, group_id=name, **settings) as other:
                theirs: list[int] = []
                async with asyncio.timeout(60):
                    while len(consumer.assignment()) != 2 or len(other.assignment()) != 2:
                        await consumer.getmany(timeout_ms=50)
                        assert other.poll(50) == {}
                    produce_numbers(kafka.bootstrap_servers, name, 4, 40, 40)
                    while len(found) + len(theirs) < 80:
                        found += [int((await consumer.getone()).value)] if len(found) < 60 else []
                        theirs += [int(record.value) for records in other.poll(50).values() for record in records]
            return found, theirs

    found, theirs = asyncio.run(main())
    assert (sorted(found + theirs), len(theirs)) == (list(range(80)), 20)


def test_a_getmany_that_is_cancelled_or_outlasted_loses_nothing_and_a_commit_goes_beside_it(
    kafka: "LocalKafka", coordinator: "LocalCoordinator", topic: Callable[..., str]
) -> None:
    name = topic(1)
    partition, settings = TopicPartition(name, 0), {"auto_offset_reset": "earliest", "enable_auto_commit": False}

    async def main() -> None:
        consumer = AsyncConsumer(name, coordinators=coordinator.address, group_id=name, **settings)
        await consumer.start()
        try:
            await consumer.wait_for_assignment(LONG_MS)
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.2):
                    await consumer.getmany(timeout_ms=LONG_MS)
            produce_numbers(kafka.bootstrap_servers, name, 1, 0, 3)
            assert await read(consumer, 3) == [0, 1, 2]
            waiting = asyncio.create_task(consumer.getmany(timeout_ms=LONG_MS))
            await asyncio.sleep(0)
            await consumer.commit()
            assert await consumer.committed(partition) == 3
            assert not waiting.done()
            consumer.interrupt()
            with pytest.raises(errors.InterruptedPollError):
                await waiting
            assert await consumer.end_offsets([partition]) == {partition: 3}
            assert await consumer.seek_to_committed() == {partition: 3}
        finally:
            await consumer.stop()

    asyncio.run(main())
