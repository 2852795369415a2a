"""A consumer whose calls name partitions: what it does not take keeps nothing from it that it asks for."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from spark_kcoord.consumer import errors
from spark_kcoord.consumer.values import TopicPartition
from spark_kcoord.fetch.tailing.fetched import Fetched, Wanted
from spark_kcoord.fetch.tailing.room import Room
from tests.helpers.fake_consuming import AsyncRig, FakeFetcher, Key, Rig, chunk, owned

P0, P1, P2 = (TopicPartition("t", number) for number in range(3))
RECORD = 10_000
MOST, OF_PARTITION = 1 << 20, 20 * RECORD
"""The memory, of about a hundred records, and as much as there is beside what is held for later."""
ENDLESS = 10_000


@dataclass
class BoundedFetcher(FakeFetcher):
    """A fetcher that has as much memory as it is told, by the rules of the real one.

    What it has asked for comes also of a partition that is not wanted any more.
    """

    room: Room = field(default_factory=lambda: Room(MOST, OF_PARTITION, MOST))
    most_held: int = 0
    late: list[Fetched] = field(default_factory=list)

    def want(self, wanted: Mapping[Key, Wanted]) -> None:
        for key in self.wanted.keys() - wanted.keys():
            self._give(key, self.wanted[key], self.late)
        super().want(wanted)

    def news(self) -> list[Fetched]:
        self.untaken += self.late
        self.late.clear()
        while self.room.left() > 0:
            gave = [self._give(key, one, self.untaken) for key, one in self.wanted.items() if self.room.left() > 0]
            if not any(gave):
                break
        self.most_held = max(self.most_held, self.room.held_bytes)
        return list(self.untaken)

    def _give(self, key: Key, one: Wanted, to: list[Fetched]) -> bool:
        position = self.at.get((key, one.token), one.position)
        end = min(self.ends[key], position + self.rows_of_chunk)
        if position >= end:
            return False
        made = replace(chunk(key, one.token, position, end), size=RECORD * (end - position), end=self.ends[key])
        self.room.held_bytes += made.size
        self.at[key, one.token] = end
        to.append(made)
        return True

    def free(self, freed_bytes: int, parked_bytes: int) -> None:
        self.room.free(freed_bytes, parked_bytes)


class Reader(AsyncRig):
    """A consumer of some partitions, which notes what it was given and that it came whole and in order."""

    def __init__(self, *ends: int, **settings: Any) -> None:
        known = {"max_buffered_bytes": MOST, "max_partition_fetch_bytes": OF_PARTITION}
        super().__init__({("t", number): end for number, end in enumerate(ends)}, **(known | settings))
        self.kafka = BoundedFetcher(self.kafka.ends)
        self.bounded = self.kafka
        self.member.give(*(owned(number) for number in range(len(ends))))
        self.read = [0] * len(ends)

    async def take(self, *partitions: TopicPartition, **settings: Any) -> int:
        """Read, and return how many records came."""
        found = await self.offsets(*partitions, **settings)
        for partition, offset in found:
            assert offset == self.read[partition]
            self.read[partition] += 1
        return len(found)


def run(of: Callable[[Reader], Awaitable[None]], *ends: int, **settings: Any) -> Reader:
    async def main() -> Reader:
        reader = Reader(*ends, **settings)
        await of(reader)
        await reader.stop()
        return reader

    return asyncio.run(main())


def test_a_named_partition_is_read_while_the_others_fill_the_memory() -> None:
    async def read(reader: Reader) -> None:
        for _ in range(5):
            await reader.take(P0)
        reader.kafka.ends["t", 0] = 300
        for _ in range(100):
            await reader.take(P0)
        assert reader.lag(P0) == 0

    assert run(read, 3, ENDLESS).read == [300, 0]


def test_a_named_record_comes_while_the_others_fill_the_memory() -> None:
    async def read(reader: Reader) -> None:
        for _ in range(5):
            with pytest.raises(errors.RecordTimeoutError):
                await reader.getone(P0)
        reader.kafka.ends["t", 0] = 50
        assert [(await reader.getone(P0)).offset for _ in range(50)] == list(range(50))

    run(read, 0, ENDLESS, ENDLESS, consumer_timeout_ms=100)


def test_what_was_not_named_comes_whole_and_in_order_when_it_is_asked_for_again() -> None:
    async def read(reader: Reader) -> None:
        for names in ((P0,), (P1,), (), (P2, P1), (), (P0,)):
            for _ in range(4):
                await reader.take(*names, max_records=30)
        for _ in range(100):
            await reader.take()

    assert run(read, 900, 800, 700).read == [900, 800, 700]


@pytest.mark.parametrize("most", [1, 7, 500])
def test_tasks_that_name_different_partitions_starve_none_of_them_and_memory_stays_bounded(most: int) -> None:
    async def read(reader: Reader) -> None:
        async def follow(partition: TopicPartition, times: int) -> None:
            for _ in range(times):
                await reader.take(partition, max_records=most)

        await asyncio.gather(*(follow(partition, 60) for partition in (P0, P1, P2)))

    reader = run(read, ENDLESS, ENDLESS, ENDLESS)
    assert min(reader.read) >= 20 * min(most, 10)
    assert reader.bounded.most_held <= MOST + 3 * 2 * OF_PARTITION


def test_a_task_that_asks_seldom_is_not_starved_by_one_that_asks_always() -> None:
    async def read(reader: Reader) -> None:
        for turn in range(400):
            await reader.take(P0, max_records=2)
            if turn % 40 == 0:
                await reader.take(P1)

    assert run(read, ENDLESS, 40).read == [800, 40]


def test_nothing_is_fetched_twice_for_tasks_that_take_turns_where_memory_is_not_full() -> None:
    async def read(reader: Reader) -> None:
        for _ in range(40):
            for partition in (P0, P1):
                reader.kafka.ends[tuple(partition)] += 5
                assert await reader.take(partition) == 5
        assert {token for _, token in reader.kafka.at} == tokens(reader)

    run(read, 0, 0)


def tokens(reader: Reader) -> set[int]:
    return {one.token for one in reader.kafka.wanted.values()}


def test_a_partition_that_is_stuck_at_a_bad_record_does_not_fill_the_memory_of_others() -> None:
    def read(value: bytes) -> bytes:
        if value == b"5":
            raise ValueError("not one of ours")
        return value

    rig = Rig(value_deserializer=read, max_buffered_bytes=MOST, max_partition_fetch_bytes=OF_PARTITION)
    rig.kafka = BoundedFetcher({("t", 0): ENDLESS, ("t", 1): 400})
    rig.member.give(owned(0), owned(1, 100))
    found: list[tuple[int, int]] = []

    def poll() -> None:
        try:
            found.extend(rig.offsets())
        except errors.RecordDeserializationError:
            found.append((0, -1))

    for _ in range(100):
        poll()
    assert [offset for number, offset in found if number == 1] == list(range(100, 400))
    rig.seek(P0, 6)
    for _ in range(50):
        poll()
    assert [offset for number, offset in found if number == 0 and offset > 5][:500] == list(range(6, 506))
    rig.close()
