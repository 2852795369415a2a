"""Logs are opened in the order in which that was asked for, and dropped after it."""

import asyncio
import threading
from collections.abc import Callable, Sequence
from typing import Any

from coordinator.core.cluster_node.effects import LoadLog, ReadLog
from coordinator.core.cluster_node.events import LogOpened, LogRead
from coordinator.core.events import ShardRecovered, ShardUnreadable
from coordinator.core.log.entry import StorageError
from coordinator.core.log.storage import LogReplacedError, LogSink, OpenedLog
from coordinator.core.replica.effects import DropReplica, OpenReplica
from coordinator.runtime.cluster.log_work import LogWork
from coordinator.runtime.disk.files import SlowDiskError
from tests.helpers.loopback import RememberedLog, until


class GatedDisk:
    """Opens logs when it is let, and remembers what was asked of it, in order."""

    def __init__(self) -> None:
        self.gate = threading.Event()
        self.is_asked = threading.Event()
        self.done: list[Any] = []
        self.error: Exception | None = None

    def open_log(self, shard: int, log_number: int) -> OpenedLog:
        self.is_asked.set()
        assert self.gate.wait(20)
        self._note("open", shard, log_number)
        return OpenedLog(0, 0, (), log_number)

    def drop(self, shard: int, *, aside_ms: int | None) -> None:
        self.done.append(("drop", shard, aside_ms))

    def load(self, shard: int, end: int, sink: LogSink) -> None:
        self._note("load", shard)
        sink.take_batch(0, [b"x"] * end)

    def read(self, shard: int, from_offset: int, most_bytes: int) -> tuple[()] | None:
        self._fail()
        return None

    def delete_aside(self, before_ms: int) -> tuple[str, ...]:
        self._note("delete", before_ms)
        return ()

    def _note(self, *done: Any) -> None:
        error = self.error  # a test may have another for what comes next once this is done
        self.done.append(done)
        if error is not None:
            raise error

    def _fail(self) -> None:
        if self.error is not None:
            raise self.error


class World:
    def __init__(self) -> None:
        self.disk = GatedDisk()
        self.events: list[Any] = []
        self.failures: list[str] = []
        loop = asyncio.get_running_loop()
        self.log = RememberedLog()
        self.work = LogWork(
            loop,
            self.disk,  # type: ignore[arg-type]
            lambda event: loop.call_soon_threadsafe(self.events.append, event) and None,
            lambda why: loop.call_soon_threadsafe(self.failures.append, why) and None,
            lambda: 77,
            self.log.logger,
        )


def play(act: Callable[[World], Any]) -> World:
    async def whole() -> World:
        world = World()
        await act(world)
        return world

    return asyncio.run(whole())


def opened(world: World) -> Sequence[int]:
    return [event.log.number for event in world.events if isinstance(event, LogOpened)]


def test_a_log_that_is_to_go_while_it_waits_for_its_opening_goes_after_it() -> None:
    async def act(world: World) -> None:
        world.work.open(OpenReplica(1, 4))
        world.work.open(OpenReplica(2, 5))
        world.work.drop(DropReplica(2, deletes=True))
        world.work.open(OpenReplica(2, 6))
        world.work.drop(DropReplica(3, deletes=False))
        assert world.disk.done == [("drop", 3, None)]
        world.disk.gate.set()
        await until(lambda: len(opened(world)) == 3)
        world.work.drop(DropReplica(2, deletes=True))
        assert world.disk.done[-1] == ("drop", 2, 77)

    world = play(act)
    assert opened(world) == [4, 5, 6]
    assert world.disk.done[1:-1] == [("open", 1, 4), ("open", 2, 5), ("drop", 2, 77), ("open", 2, 6)]


def test_a_log_that_was_dropped_while_it_was_opened_is_not_reported() -> None:
    async def act(world: World) -> None:
        world.disk.error = LogReplacedError("dropped")
        world.disk.gate.set()
        world.work.open(OpenReplica(1, 4))
        await until(lambda: len(world.disk.done) == 1)
        await until(lambda: not world.work._opening[1])

    world = play(act)
    assert (world.events, world.failures) == ([], [])


def test_a_log_that_must_not_be_served_is_a_failure_of_the_disk() -> None:
    async def act(world: World) -> None:
        world.disk.error = StorageError("shard 1 is damaged")
        world.disk.gate.set()
        world.work.open(OpenReplica(1, 4))
        await until(lambda: bool(world.failures))
        world.disk.error = RuntimeError("a mistake of ours")
        world.work.open(OpenReplica(2, 4))
        await until(lambda: len(world.failures) == 2)

    world = play(act)
    assert world.failures == [
        "shard 1 is damaged",
        "a bug in work on a log: RuntimeError('a mistake of ours')",
    ]
    assert world.log.of("bug")


def test_a_load_has_the_epoch_it_is_for_as_that_of_its_last_record() -> None:
    async def act(world: World) -> None:
        world.work.load(LoadLog(1, 9, 2))
        await until(lambda: bool(world.events))

    world = play(act)
    assert world.events == [ShardRecovered(1, 9, 9, [(False, 0, [b"x", b"x"])])]


def test_damage_that_a_load_finds_ends_the_node_and_a_disk_that_is_slow_does_not() -> None:
    async def act(world: World) -> None:
        for shard, error in enumerate(
            (SlowDiskError("not finished in 30 s"), LogReplacedError("cut"), StorageError("EIO"))
        ):
            world.disk.error = error
            world.work.load(LoadLog(shard, 9, 2))
            await until(lambda shard=shard: ("load", shard) in world.disk.done)  # type: ignore[misc]
        await until(lambda: len(world.events) == 2)
        world.work.stop()
        world.disk.error = StorageError("the log is closed")
        world.work.load(LoadLog(3, 9, 2))
        await until(lambda: len(world.events) == 3)

    world = play(act)
    whys = [event.why for event in world.events if isinstance(event, ShardUnreadable)]
    assert whys == ["not finished in 30 s", "EIO", "the log is closed"]
    assert world.failures == ["EIO"]


def test_a_reading_of_what_is_below_the_log_or_of_a_log_that_is_gone_is_answered() -> None:
    async def act(world: World) -> None:
        world.work.read(ReadLog(1, 3, 9, 2, 5, 100))
        await until(lambda: len(world.events) == 1)
        world.disk.error = LogReplacedError("gone")
        world.work.read(ReadLog(1, 3, 9, 2, 5, 100))
        await until(lambda: len(world.events) == 2)

    assert play(act).events == [LogRead(1, 3, 9, 2, 5, None), LogRead(1, 3, 9, 2, 5, ())]


def test_a_disk_that_is_slow_is_asked_again_for_what_was_to_be_read_or_opened_and_has_not_failed() -> None:
    async def act(world: World) -> None:
        world.disk.error = SlowDiskError("not finished in 30 s")
        world.disk.gate.set()
        world.work.read(ReadLog(1, 3, 9, 2, 5, 100))
        world.work.open(OpenReplica(1, 4))
        await until(lambda: world.disk.done.count(("open", 1, 4)) > 1 and bool(world.events))
        world.disk.error = None
        await until(lambda: len(world.events) == 2)

    world = play(act)
    assert (world.events[0], opened(world)) == (LogRead(1, 3, 9, 2, 5, ()), [4])
    assert (world.failures, world.log.of("bug")) == ([], [])
    assert world.log.of("log-opens-slowly")[0]["why"] == "not finished in 30 s; it is opened when that is done"


def test_a_log_that_is_opened_slowly_is_asked_for_no_more_when_the_node_stops() -> None:
    async def act(world: World) -> None:
        world.disk.error = SlowDiskError("not finished in 30 s")
        world.work.open(OpenReplica(1, 4))
        await asyncio.to_thread(world.disk.is_asked.wait, 20)
        world.work.stop()
        world.disk.gate.set()
        await until(lambda: not world.work._opening[1])

    world = play(act)
    assert (world.disk.done, world.failures) == ([("open", 1, 4)], [])


def test_a_disk_that_is_closed_under_work_that_was_stopped_has_not_failed() -> None:
    async def act(world: World) -> None:
        world.disk.error = StorageError("the log is closed")
        world.work.open(OpenReplica(1, 4))
        world.work.open(OpenReplica(2, 5))
        await asyncio.to_thread(world.disk.is_asked.wait, 20)
        world.work.stop()
        world.disk.gate.set()
        await until(lambda: len(world.disk.done) == 1)
        await until(lambda: not world.work._opening[1])

    world = play(act)
    assert (world.events, world.failures) == ([], [])
    assert world.disk.done == [("open", 1, 4)]


def test_a_log_that_was_moved_aside_and_cannot_be_deleted_is_said_once_and_ends_nothing() -> None:
    async def act(world: World) -> None:
        world.disk.error = StorageError("cannot delete aside-00001-7: Is a directory")
        for before_ms in range(3):
            world.work.delete_aside(before_ms)
        await until(lambda: len(world.disk.done) == 3)
        world.disk.error = StorageError("cannot delete aside-00002-8: Permission denied")
        world.work.delete_aside(3)
        await until(lambda: len(world.log.of("aside-not-deleted")) == 2)

    world = play(act)
    assert world.failures == []
    assert "Is a directory" in world.log.of("aside-not-deleted")[0]["why"]
