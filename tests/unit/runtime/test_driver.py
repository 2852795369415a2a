import asyncio
import threading
from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeAlias

import pytest

from coordinator.core.effects import (
    Append,
    CloseConnection,
    Effect,
    Halt,
    Notice,
    OffsetToResolve,
    ResolveOffsets,
    Respond,
    SendPush,
    WakeAt,
    WatchTopics,
    WriteSnapshot,
)
from coordinator.core.events import (
    BecameDurable,
    ConnectionClosed,
    ConnectionOpened,
    DiskFailed,
    Event,
    KafkaFailed,
    RequestArrived,
    SnapshotWritten,
    Ticked,
)
from coordinator.core.security.principal import ANONYMOUS
from coordinator.protocol.messages import ListGroups, PingResponse, Probe, Push, RegisterConsumer, Response
from coordinator.protocol.parts import Subscription
from coordinator.runtime.clock import SystemClock
from coordinator.runtime.disk.files import DiskError
from coordinator.runtime.driver import TURN_MS, Driver, Stopped
from coordinator.runtime.server.input_bound import LARGE_INPUT_BYTES
from tests.helpers.event_loops import run
from tests.helpers.loopback import RememberedLog, until

pytestmark = pytest.mark.usefixtures("each_event_loop")


MAX_PENDING_BYTES = 1 << 20


Script: TypeAlias = Callable[[Event, int], list[Effect]]


class ScriptedNode:
    """Returns what the script says for each event and remembers the events."""

    def __init__(self, script: Script) -> None:
        self.script = script
        self.events: list[Event] = []
        self.times_ms: list[int] = []
        """When each of the events happened."""

    def start(self, now_ms: int, wall_ms: int, incarnation: str) -> list[Effect]:
        del now_ms, wall_ms
        self.incarnation = incarnation
        return [WatchTopics(frozenset({"t"}))]

    def step(self, event: Event, now_ms: int) -> list[Effect]:
        self.events.append(event)
        self.times_ms.append(now_ms)
        return self.script(event, now_ms)

    def of(self, kind: type[Event]) -> list[Event]:
        return [event for event in self.events if isinstance(event, kind)]


class World:
    """All ports at once: writes down what is asked of it, in order."""

    def __init__(self, script: Script) -> None:
        self.done: list[tuple[object, ...]] = []
        self.refuses = False
        self.pending_bytes = 0
        self.log = RememberedLog()
        self.node = ScriptedNode(script)
        self.driver = Driver(
            SystemClock(), self.log.logger, asyncio.get_running_loop(), max_pending_bytes=MAX_PENDING_BYTES
        )
        self.driver.connect(self.node, disk=self, kafka=self, sender=self)
        self.driver.start()
        self.done.clear()

    def append(self, shard: int, base_offset: int, leader_epoch: int, records: Sequence[bytes]) -> None:
        if self.refuses:
            raise DiskError("no space")
        self.pending_bytes += sum(map(len, records))
        self.done.append(("append", shard, base_offset, leader_epoch, tuple(records)))

    def write_snapshot(
        self,
        shard: int,
        end_offset: int,
        leader_epoch: int,
        records: Sequence[bytes],
        *,
        index: int = 0,
        is_last: bool = True,
    ) -> None:
        self.done.append(("snapshot", shard, end_offset, leader_epoch, tuple(records), index, is_last))

    def watch_topics(self, topics: frozenset[str], *, lists_all: bool) -> None:
        self.done.append(("watch", topics, lists_all))

    def resolve_offsets(self, lookup_id: int, offsets: Sequence[OffsetToResolve], *, asks_topics: bool) -> None:
        self.done.append(("resolve", lookup_id, tuple(offsets), asks_topics))

    def send_response(self, connection_id: int, correlation_id: int, response: Response) -> None:
        self.done.append(("respond", connection_id, correlation_id, response))

    def send_push(self, connection_id: int, push: Push) -> None:
        self.done.append(("push", connection_id, push))

    def close_connection(self, connection_id: int, why: str) -> None:
        self.done.append(("close", connection_id, why))

    def flush(self) -> None:
        self.done.append(("flush",))

    is_behind = False

    def hold_input(self, above_bytes: int) -> None:
        self.done.append(("hold", above_bytes))

    def release_input(self) -> None:
        self.done.append(("release",))

    def check_deadlines(self, now_ms: int) -> None:
        del now_ms


def stop_ticks(on: World) -> None:
    """Have no tick come between what a test counts, however slow the machine is; one may have come by now."""
    on.driver._cancel_timers()
    for seen in (on.done, on.node.events, on.node.times_ms):
        seen.clear()


def play(script: Script, act: Callable[[World], object]) -> World:
    async def whole() -> World:
        world = World(script)
        outcome = act(world)
        if asyncio.iscoroutine(outcome):
            await asyncio.wait_for(outcome, 60)
        world.driver.stop("the test is over")
        return world

    return run(whole())


def test_effects_are_performed_in_the_order_of_the_step() -> None:
    effects: list[Effect] = [
        Append(2, 10, 0, (b"a", b"b")),
        Respond(1, 7, PingResponse()),
        SendPush(1, Probe()),
        CloseConnection(3, "replaced"),
        WatchTopics(frozenset({"t", "u"})),
        ResolveOffsets(4, (OffsetToResolve("t", 0, -2),)),
        ResolveOffsets(5, (OffsetToResolve("t", 0, -1),), asks_topics=True),
        WriteSnapshot(2, 10, 0, (b"s",)),
    ]
    world = play(lambda *_: effects, lambda on: on.driver.connection_opened(1, "h", ANONYMOUS))
    assert world.done == [
        ("respond", 1, 7, PingResponse()),
        ("push", 1, Probe()),
        ("close", 3, "replaced"),
        ("watch", frozenset({"t", "u"}), False),
        ("resolve", 4, (OffsetToResolve("t", 0, -2),), False),
        ("resolve", 5, (OffsetToResolve("t", 0, -1),), True),
        ("append", 2, 10, 0, (b"a", b"b")),
        ("snapshot", 2, 10, 0, (b"s",), 0, True),
    ]


def test_records_of_one_round_of_the_loop_reach_the_disk_as_one_batch_a_shard() -> None:
    appends = iter(
        [Append(2, 10, 0, (b"a", b"b")), Append(5, 0, 0, (b"x",)), Append(2, 12, 0, (b"c",)), Append(2, 13, 1, (b"d",))]
    )

    async def act(on: World) -> None:
        stop_ticks(on)
        for connection_id in range(4):
            on.driver.connection_opened(connection_id, "h", ANONYMOUS)
        await asyncio.sleep(0)

    world = play(lambda *_: [next(appends)], act)
    assert world.done == [
        ("append", 2, 10, 0, (b"a", b"b", b"c")),
        ("append", 5, 0, 0, (b"x",)),
        ("append", 2, 13, 1, (b"d",)),
    ]


def test_records_that_were_decided_before_the_node_stops_are_written() -> None:
    world = play(lambda *_: [Append(2, 10, 0, (b"a",))], lambda on: on.driver.connection_opened(1, "h", ANONYMOUS))
    assert world.done == [("append", 2, 10, 0, (b"a",))]


def test_what_the_server_tells_reaches_the_node_and_a_registration_without_an_id_has_one_of_its_own() -> None:
    def register(member_id: str) -> RegisterConsumer:
        return RegisterConsumer("g", member_id, "i", Subscription(("t",)), "c", 1, 10_000, 1000)

    def act(on: World) -> None:
        on.driver.connection_opened(1, "h", ANONYMOUS)
        on.driver.request_received(1, 5, register(""))
        on.driver.request_received(1, 6, register(""))
        on.driver.request_received(1, 7, register("m1"))
        on.driver.request_received(1, 8, ListGroups())
        on.driver.connection_closed(1, "it closed its connection")

    opened, nameless, another, named, listing, closed = play(lambda *_: [], act).node.events
    assert isinstance(opened, ConnectionOpened)
    assert opened.host == "h"
    assert isinstance(nameless, RequestArrived)
    assert isinstance(another, RequestArrived)
    assert len(nameless.fresh_id) == len(another.fresh_id) == 32
    assert another.fresh_id != nameless.fresh_id
    for without in (named, listing):
        assert isinstance(without, RequestArrived)
        assert without.fresh_id == ""
    assert isinstance(closed, ConnectionClosed)
    assert closed.why == "it closed its connection"


def test_other_threads_events_are_stamped_when_they_are_delivered_and_flushed() -> None:
    async def act(on: World) -> None:
        stop_ticks(on)
        loop = asyncio.get_running_loop()
        for report in (
            partial(on.driver.became_durable, 1, 20),
            partial(on.driver.snapshot_written, 1, 20, False),
            partial(on.driver.disk_failed, "no space"),
            partial(on.driver.post, KafkaFailed("away")),
        ):
            await loop.run_in_executor(None, report)
        await until(lambda: len(on.node.events) == 4)

    world = play(lambda *_: [], act)
    assert [type(event) for event in world.node.events] == [BecameDurable, SnapshotWritten, DiskFailed, KafkaFailed]
    assert world.node.times_ms == sorted(world.node.times_ms)
    assert world.done == [("flush",)] * 4


def test_what_becomes_durable_while_the_loop_is_busy_is_taken_in_order_with_one_flush() -> None:
    async def act(on: World) -> None:
        stop_ticks(on)
        reports = [(1, 20), (2, 7), (1, 30)]

        def report_all() -> None:
            for shard, end_offset in reports:
                on.driver.became_durable(shard, end_offset)

        thread = threading.Thread(target=report_all)
        thread.start()
        thread.join()
        await until(lambda: len(on.node.events) == 3)
        on.driver.became_durable(2, 8)
        await until(lambda: len(on.node.events) == 4)

    world = play(lambda *_: [], act)
    assert [(event.shard, event.end_offset) for event in world.node.events if isinstance(event, BecameDurable)] == [
        (1, 20),
        (2, 7),
        (1, 30),
        (2, 8),
    ]
    assert world.done == [("flush",)] * 2


def test_reports_of_the_disk_that_take_long_are_spread_over_turns_of_the_loop_in_order() -> None:
    reports = [(1, 20), (2, 7), (1, 30), (1, 31)]

    async def act(on: World) -> None:
        stop_ticks(on)
        loop = asyncio.get_running_loop()
        ahead_s = [0.0]
        time = loop.time
        loop.time = lambda: time() + ahead_s[0]  # type: ignore[method-assign]
        turns: list[int] = []

        def count_turn() -> None:
            turns.append(len(on.node.events))
            if len(on.node.events) < len(reports):
                loop.call_soon(count_turn)

        def script(event: Event, now_ms: int) -> list[Effect]:
            ahead_s[0] += (TURN_MS + 1) / 1000
            if event == on.node.events[0]:
                on.driver.became_durable(*reports[-1])
            return []

        on.node.script = script
        for report in reports[:-1]:
            on.driver.became_durable(*report)
        loop.call_soon(count_turn)
        await until(lambda: len(on.node.events) == len(reports))
        assert turns == [1, 2, 3, 4], "others were not served between the turns"

    world = play(lambda *_: [], act)
    assert [(event.shard, event.end_offset) for event in world.node.events if isinstance(event, BecameDurable)] == (
        reports
    )
    assert world.done == [("flush",)] * len(reports)


def test_the_node_is_woken_when_it_asked_and_the_latest_wish_counts() -> None:
    async def act(on: World) -> None:
        stop_ticks(on)
        await asyncio.sleep(0)  # the loop counts from the beginning of its turn
        opened_ms = SystemClock().monotonic_ms()
        on.driver.connection_opened(1, "h", ANONYMOUS)
        await until(lambda: on.node.of(Ticked))
        kinds = [type(event) for event in on.node.events]
        assert opened_ms + 20 <= on.node.times_ms[kinds.index(Ticked)] < opened_ms + 60_000

    def script(event: Event, now_ms: int) -> list[Effect]:
        return [WakeAt(now_ms + 60_000), WakeAt(now_ms + 20)] if isinstance(event, ConnectionOpened) else []

    play(script, act)


def test_ticks_come_by_themselves_after_the_start() -> None:
    async def act(on: World) -> None:
        await until(lambda: len(on.node.of(Ticked)) >= 3)

    play(lambda *_: [], act)


def test_the_first_effects_are_those_of_the_start() -> None:
    world = play(lambda *_: [], lambda on: on.driver.start())
    assert world.done == [("watch", frozenset({"t"}), False)]


def test_a_disk_that_refuses_is_an_event_for_the_node_and_no_bug() -> None:
    async def act(on: World) -> None:
        on.refuses = True
        on.driver.connection_opened(1, "h", ANONYMOUS)
        assert await on.driver.run() == Stopped("the disk failed: no space", is_failure=True)

    def script(event: Event, now_ms: int) -> list[Effect]:
        if isinstance(event, DiskFailed):
            return [Halt(f"the disk failed: {event.why}")]
        return [Append(0, 0, 0, (b"a",))]

    world = play(script, act)
    assert [line["event"] for line in world.log.lines] == ["halted"]
    assert not any(what[0] == "append" for what in world.done)


def test_a_node_whose_disk_refuses_decides_nothing_more_upon_what_it_has_half_done() -> None:
    """An event that came before the news of the disk was decided upon records that nobody had written."""

    def act(on: World) -> object:
        stop_ticks(on)
        on.refuses = True
        on.driver.connection_opened(1, "h", ANONYMOUS)
        on.driver.connection_opened(2, "h", ANONYMOUS)
        return on.driver.run()

    def script(event: Event, now_ms: int) -> list[Effect]:
        if isinstance(event, DiskFailed):
            return [Notice("stable", "it may not be said"), Halt(event.why)]
        return [Append(0, 0, 0, (b"a",)), WriteSnapshot(0, 0, 0, (b"s",), 0, True), Respond(1, 7, PingResponse())]

    world = play(script, act)
    assert [type(event) for event in world.node.events] == [ConnectionOpened, DiskFailed]
    assert [line["event"] for line in world.log.lines] == ["halted"]
    assert world.done == []


def test_a_node_that_fails_as_it_halts_for_its_disk_is_stopped_all_the_same() -> None:
    async def act(on: World) -> None:
        stop_ticks(on)
        on.refuses = True
        on.driver.connection_opened(1, "h", ANONYMOUS)
        assert await on.driver.run() == Stopped("no space", is_failure=True)

    def script(event: Event, now_ms: int) -> list[Effect]:
        if type(event) is DiskFailed:
            raise RuntimeError("half of it is done")
        return [Append(0, 0, 0, (b"a",)), WriteSnapshot(0, 0, 0, (b"s",), 0, True)]

    world = play(script, act)
    assert [line["event"] for line in world.log.lines] == ["bug"]


def test_halt_stops_the_node_before_anything_after_it() -> None:
    def act(on: World) -> object:
        on.driver.connection_opened(1, "h", ANONYMOUS)
        on.driver.connection_opened(2, "h", ANONYMOUS)
        return run(on)

    async def run(on: World) -> None:
        assert await on.driver.run() == Stopped("no space", is_failure=True)

    world = play(lambda *_: [Append(0, 0, 0, (b"a",)), Halt("no space"), Respond(1, 7, PingResponse())], act)
    assert world.done == [("append", 0, 0, 0, (b"a",))]
    assert len(world.node.events) == 1
    assert world.log.of("halted") == [{"level": "critical", "event": "halted", "why": "no space"}]


def test_a_bug_stops_the_node_and_says_where() -> None:
    def script(_event: Event, _now_ms: int) -> list[Effect]:
        raise AssertionError("an owner epoch of another shard")

    async def act(on: World) -> None:
        on.driver.connection_opened(1, "h", ANONYMOUS)
        stopped = await on.driver.run()
        assert stopped.is_failure
        assert "an owner epoch of another shard" in stopped.why
        on.driver.connection_opened(2, "h", ANONYMOUS)

    world = play(script, act)
    assert len(world.node.events) == 1
    assert [line["exc_info"] for line in world.log.of("bug")] == [True]


def test_notices_become_log_lines_with_their_group_member_and_reason() -> None:
    notice = Notice("member-expired", "no message for 10000 ms", "g", "m1", (("partitions", 4), ("duration_ms", None)))
    world = play(lambda *_: [notice], lambda on: on.driver.connection_opened(1, "h", ANONYMOUS))
    assert world.log.lines == [
        {
            "level": "info",
            "event": "member-expired",
            "why": "no message for 10000 ms",
            "group": "g",
            "member": "m1",
            "partitions": 4,
        }
    ]


def test_notice_that_a_person_should_look_at_is_a_warning() -> None:
    notice = Notice("recovering", "nothing is known here", is_warning=True)
    world = play(lambda *_: [notice], lambda on: on.driver.connection_opened(1, "h", ANONYMOUS))
    assert world.log.lines == [{"level": "warning", "event": "recovering", "why": "nothing is known here"}]


def test_events_after_the_loop_has_ended_are_dropped() -> None:
    world = play(lambda *_: [], lambda _: None)
    world.driver.became_durable(0, 1)
    assert world.node.events == []


def test_time_that_was_not_lived_through_is_not_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    now_ns = [5_000_000_000]
    monkeypatch.setattr("time.monotonic_ns", lambda: now_ns[0])
    clock = SystemClock(longest_gap_ms=1000)
    first = clock.monotonic_ms()
    now_ns[0] += 900_000_000
    assert clock.monotonic_ms() - first == 900
    assert clock.take_stall_ms() == 0
    now_ns[0] += 61_000_000_000
    assert clock.monotonic_ms() - first == 1900
    assert (clock.take_stall_ms(), clock.take_stall_ms()) == (61_000, 0)


def test_a_clock_that_jumps_is_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    wall_ns = [1_700_000_000_000_000_000]
    monkeypatch.setattr("time.time_ns", lambda: wall_ns[0])

    async def act(on: World) -> None:
        await until(lambda: any(isinstance(event, Ticked) for event in on.node.events))
        wall_ns[0] += 86_400_000_000_000
        await until(lambda: bool(on.log.of("clock-jumped")))

    world = play(lambda *_: [], act)
    (line,) = world.log.of("clock-jumped")
    assert line["level"] == "warning"
    assert " s ahead. This machine was suspended, or its clock was set: " in line["why"]


def test_a_node_that_drains_takes_nothing_new_and_still_answers_what_becomes_durable() -> None:
    def script(event: Event, now_ms: int) -> list[Effect]:
        if isinstance(event, BecameDurable):
            return [Respond(1, 7, PingResponse()), Append(2, 11, 0, (b"b",)), WriteSnapshot(2, 11, 0, (b"s",))]
        return [Append(2, 10, 0, (b"a",))]

    async def act(on: World) -> None:
        on.driver.connection_opened(1, "h", ANONYMOUS)
        on.driver.drain()
        assert on.done == [("append", 2, 10, 0, (b"a",))]
        on.driver.request_received(1, 8, ListGroups())
        on.driver.connection_closed(1, "it closed its connection")
        on.driver.post(partial(KafkaFailed, why="away"))
        await asyncio.get_running_loop().run_in_executor(None, on.driver.became_durable, 2, 11)
        on.driver.take_reports()
        await asyncio.sleep(0.25)  # longer than a tick: none may come

    world = play(script, act)
    assert [type(event) for event in world.node.events] == [ConnectionOpened, BecameDurable]
    assert [done for done in world.done if done != ("flush",)] == [
        ("append", 2, 10, 0, (b"a",)),
        ("respond", 1, 7, PingResponse()),
    ]


def test_a_disk_that_fails_while_the_node_drains_is_a_failure() -> None:
    async def act(on: World) -> None:
        on.driver.drain()
        on.driver.disk_failed("no space")
        assert (await on.driver.run()).is_failure

    play(lambda event: [Halt(f"{event}")] if isinstance(event, DiskFailed) else [], act)


def test_connections_wait_while_the_disk_is_behind_and_go_on_once_it_has_caught_up() -> None:
    effects: list[Effect] = [Append(0, 0, 0, (bytes(MAX_PENDING_BYTES // 4 + 1),))]

    async def act(on: World) -> None:
        on.driver.connection_opened(1, "h", ANONYMOUS)
        assert ("hold", LARGE_INPUT_BYTES) in on.done, "as soon as it is decided"
        await until(lambda: on.pending_bytes > 0)
        effects.clear()
        assert ("release",) not in on.done
        on.pending_bytes = MAX_PENDING_BYTES // 2 + 1
        await until(lambda: ("hold", 0) in on.done)
        on.pending_bytes = MAX_PENDING_BYTES // 4
        on.driver.connection_opened(2, "h", ANONYMOUS)
        assert ("release",) not in on.done
        on.pending_bytes = 0
        await until(lambda: ("release",) in on.done)

    world = play(lambda *_: effects, act)
    assert [each for each in world.done if each[0] in {"hold", "release"}] == [
        ("hold", LARGE_INPUT_BYTES),
        ("hold", 0),
        ("release",),
    ]
    assert any("bytes wait for the disk" in str(line) for line in world.log.lines)
