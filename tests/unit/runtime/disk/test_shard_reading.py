"""A shard is read by one thread at a time, and for the newest leader epoch that was asked for."""

import asyncio
import threading
from typing import Any

from coordinator.core.events import Event, ShardRecovered, ShardUnreadable
from coordinator.core.log.storage import LogReplacedError, LogSink
from coordinator.runtime.disk.shard_reading import ShardReader


class GatedDisk:
    """A disk that reads when it is let, and remembers how many read at once."""

    def __init__(self) -> None:
        self.gate = threading.Event()
        self.begun = threading.Event()
        self.readers = self.most_readers = self.times = 0
        self.error: Exception | None = None

    def read(self, sink: LogSink) -> int:
        self.readers += 1
        self.times += 1
        self.most_readers = max(self.most_readers, self.readers)
        error = self.error  # of this reading: a test may have another for the next one once this has begun
        self.begun.set()
        assert self.gate.wait(20)
        self.readers -= 1
        if error is not None:
            raise error
        sink.take_batch(0, (b"a", b"b"))
        return 4


def run_with(disk: GatedDisk, act: Any) -> list[Event]:
    """Run `act(reader, events)` on a loop of its own and return what was posted."""
    events: list[Event] = []

    async def run() -> None:
        loop = asyncio.get_running_loop()
        post = lambda event: loop.call_soon_threadsafe(events.append, event)  # noqa: E731
        await act(ShardReader(loop, post), events)  # type: ignore[arg-type]

    asyncio.run(run())
    return events


async def until_there_are(events: list[Event], number: int) -> None:
    async with asyncio.timeout(60):
        while len(events) < number:
            await asyncio.sleep(0)


def test_what_was_read_is_posted_with_the_epoch_it_was_asked_in_and_that_of_the_log() -> None:
    disk = GatedDisk()
    disk.gate.set()

    async def act(reader: ShardReader, events: list[Event]) -> None:
        reader.read(3, 7, 0, disk.read)
        await until_there_are(events, 1)

    assert run_with(disk, act) == [ShardRecovered(3, 7, 4, [(False, 0, (b"a", b"b"))])]


def test_reading_that_fails_is_posted_with_its_reason() -> None:
    disk = GatedDisk()
    disk.gate.set()
    disk.error = OSError("input/output error")

    async def act(reader: ShardReader, events: list[Event]) -> None:
        reader.read(3, 7, 0, disk.read)
        await until_there_are(events, 1)

    assert run_with(disk, act) == [ShardUnreadable(3, 7, "input/output error")]


def test_of_a_log_that_is_gone_nothing_is_posted_and_it_can_be_read_again() -> None:
    disk = GatedDisk()
    disk.gate.set()

    async def act(reader: ShardReader, events: list[Event]) -> None:
        disk.error = LogReplacedError("cut")
        reader.read(3, 7, 0, disk.read)
        await asyncio.to_thread(disk.begun.wait, 20)
        disk.error = None
        reader.read(3, 8, 0, disk.read)
        await until_there_are(events, 1)

    assert run_with(disk, act) == [ShardRecovered(3, 8, 4, [(False, 0, (b"a", b"b"))])]


def test_reading_for_a_later_epoch_begins_when_the_one_under_way_has_ended() -> None:
    disk = GatedDisk()

    async def act(reader: ShardReader, events: list[Event]) -> None:
        reader.read(0, 1, 0, disk.read)
        await asyncio.to_thread(disk.begun.wait, 20)
        reader.read(0, 2, 0, disk.read)
        reader.read(0, 3, 0, disk.read)
        await asyncio.sleep(0)
        assert disk.times == 1
        disk.gate.set()
        await until_there_are(events, 2)

    events = run_with(disk, act)
    assert [event.leader_epoch for event in events if isinstance(event, ShardRecovered)] == [1, 3]
    assert disk.most_readers == 1


def test_what_is_asked_for_after_a_pause_is_not_read_once_its_epoch_is_over() -> None:
    disk = GatedDisk()
    disk.gate.set()

    async def act(reader: ShardReader, events: list[Event]) -> None:
        reader.read(0, 1, 1, disk.read)
        reader.read(0, 2, 0, disk.read)
        await until_there_are(events, 1)
        reader.read(1, 1, 2, disk.read)
        await until_there_are(events, 2)

    events = run_with(disk, act)
    assert [(event.shard, event.leader_epoch) for event in events if isinstance(event, ShardRecovered)] == [
        (0, 2),
        (1, 1),
    ]
