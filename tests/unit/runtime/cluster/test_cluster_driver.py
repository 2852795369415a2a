"""The driver of a node of a cluster: what it adds to the driver of any node."""

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from coordinator.core.cluster.effects import JoinedCluster
from coordinator.core.cluster.events import Remembered
from coordinator.core.cluster.zookeeper import ZkMulti, ZkRead, ZkSession, ZkState
from coordinator.core.cluster_node import effects as c
from coordinator.core.cluster_node import events as i
from coordinator.core.effects import Append, Halt, Respond, WriteSnapshot
from coordinator.core.events import BecameDurable, ConnectionOpened, Ticked
from coordinator.core.log.entry import Batch
from coordinator.core.log.snapshot import SnapshotPiece
from coordinator.core.log.storage import OpenedLog
from coordinator.core.peers.effects import ConnectPeers, EndContact, SayToPeer
from coordinator.core.peers.events import ContactBegan
from coordinator.core.replica import effects as r
from coordinator.core.security.principal import ANONYMOUS
from coordinator.protocol import peer_messages as wire
from coordinator.protocol.messages import PingResponse
from coordinator.runtime.clock import SystemClock
from coordinator.runtime.cluster.driver import ClusterDriver
from coordinator.runtime.disk.files import DiskError
from tests.helpers.event_loops import run
from tests.helpers.loopback import RememberedLog, until

pytestmark = pytest.mark.usefixtures("each_event_loop")

Script = Callable[[Any], list[Any]]
HOUR_MS = 3_600_000
PIECE = SnapshotPiece(3, 1, (b"s",), 0, True)
BATCH = Batch(5, 2, (b"r",))


class ScriptedNode:
    def __init__(self, script: Script) -> None:
        self.script = script
        self.events: list[Any] = []

    def start(self, now_ms: int, wall_ms: int) -> None:
        self.started = now_ms, wall_ms

    def step(self, event: Any, now_ms: int) -> list[Any]:
        self.events.append(event)
        return self.script(event)


class SettableClock(SystemClock):
    """A machine's clocks, of which a person sets the wall clock ahead; it may have lived for longer than it has."""

    ahead_ms = 0
    lived_ms = 0

    def monotonic_ms(self) -> int:
        return super().monotonic_ms() + self.lived_ms

    def wall_ms(self) -> int:
        return super().wall_ms() + self.ahead_ms


class World:
    """All ports at once: writes down what is asked of it, in order; `refuses` has calls raise."""

    def __init__(self, script: Script, ahead_ms: int = 0) -> None:
        self.done: list[tuple[Any, ...]] = []
        self.refuses: dict[str, Exception] = {}
        self.pending_bytes = 0
        self.joined = 0
        self.deleted_before: list[int] = []
        """The wall times before which logs were to be deleted that were moved aside."""
        self.log = RememberedLog()
        self.node = ScriptedNode(script)
        self.clock = SettableClock()
        self.clock.ahead_ms = ahead_ms
        self.driver = ClusterDriver(self.clock, self.log.logger, asyncio.get_running_loop())
        self.driver.connect(self.node, disk=self, kafka=self, sender=self)  # type: ignore[arg-type]
        peers = SimpleNamespace(
            join=self._doing("join peers"),
            connect=self._doing("connect"),
            say=self._doing("say"),
            end_contact=self._doing("end"),
            check_deadlines=lambda _: None,
        )
        self.driver.connect_cluster(
            directory=self,  # type: ignore[arg-type]
            peers=peers,  # type: ignore[arg-type]
            peers_clock=SystemClock(),
            zookeeper=SimpleNamespace(read=self._doing("zk read"), commit=self._doing("zk commit")),  # type: ignore[arg-type]
            on_joined=self._joined,
            deleted_keep_ms=HOUR_MS,
        )
        self.driver.start()

    def _joined(self) -> None:
        self.joined += 1

    is_behind = False

    def _doing(self, what: str) -> Callable[..., None]:
        def do(*arguments: Any, **named: Any) -> None:
            if what in self.refuses:
                raise self.refuses[what]
            self.done.append((what, *arguments, *named.values()))

        return do

    def __getattr__(self, name: str) -> Any:
        answers = {
            "open_log": OpenedLog(0, 7, ((2, 0),), 4),
            "read": (BATCH,),
            "read_snapshot": None,
            "delete_aside": (),
        }
        do = self._doing(name)

        def asked(*arguments: Any, **named: Any) -> Any:
            if name == "delete_aside":
                self.deleted_before.append(*arguments)
            if name not in ("delete_aside", "flush", "check_deadlines"):
                do(*arguments, **named)
            return answers.get(name)

        return asked


def play(script: Script, act: Callable[[World], Any], ahead_ms: int = 0) -> World:
    async def whole() -> World:
        world = World(script, ahead_ms)
        outcome = act(world)
        if asyncio.iscoroutine(outcome):
            await asyncio.wait_for(outcome, 60)
        world.driver.stop("the test is over")
        return world

    return run(whole())


def at_connection(*effects: Any) -> Script:
    """Return these effects when a connection is opened, and none else."""
    return lambda event: list(effects) if isinstance(event, ConnectionOpened) else []


async def a_turn(world: World) -> None:
    world.driver.connection_opened(1, "h", ANONYMOUS)
    for _ in range(3):
        await asyncio.sleep(0)


def test_the_node_hears_that_the_turn_is_over_before_its_records_go_to_the_disk() -> None:
    said = wire.Confirm(3)

    def script(event: Any) -> list[Any]:
        match event:
            case ConnectionOpened():
                return [Append(2, 5, 1, (b"a",))]
            case i.TurnEnded():
                return [SayToPeer(9, said)]
        return []

    async def act(on: World) -> None:
        on.driver.connection_opened(1, "h", ANONYMOUS)
        on.driver.connection_opened(2, "h", ANONYMOUS)
        assert on.done == []
        await a_turn(on)

    world = play(script, act)
    assert world.done[:2] == [("say", 9, said), ("append", 2, 5, 1, [b"a", b"a", b"a"])]
    ended = [type(event) for event in world.node.events if not isinstance(event, Ticked)]
    assert ended[:4] == [ConnectionOpened, ConnectionOpened, ConnectionOpened, i.TurnEnded]


def test_every_turn_in_which_something_was_taken_in_ends_once() -> None:
    async def act(on: World) -> None:
        on.driver._cancel_timers()  # no tick comes between, however slow the machine is
        on.node.events.clear()
        on.driver.peer_event(ContactBegan(2, 0))
        on.driver.post(ZkSession(1, ZkState.CONNECTED, 5))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        await asyncio.sleep(0)

    world = play(lambda _: [], act)
    kinds = [type(event) for event in world.node.events if not isinstance(event, Ticked)]
    assert kinds.count(i.TurnEnded) <= 2
    assert kinds[-1] is i.TurnEnded
    assert {ContactBegan, ZkSession} < set(kinds)


def test_reports_of_the_disk_are_events_about_a_log_with_its_number() -> None:
    async def act(on: World) -> None:
        on.driver.became_durable(1, 20, 3)
        on.driver.snapshot_written(1, 20, True, 3)
        on.driver.log_cut(1, 4)
        on.driver.log_installed(1, 30, 6, 5)
        await until(lambda: len([e for e in on.node.events if not isinstance(e, Ticked | i.TurnEnded)]) == 4)

    world = play(lambda _: [], act)
    events = [event for event in world.node.events if not isinstance(event, Ticked | i.TurnEnded)]
    assert sorted(events, key=repr) == [
        i.LogCut(1, 4),
        i.LogInstalled(1, 30, 6, 5),
        i.LogSynced(1, 20, 3),
        i.PieceWritten(1, 20, True, 3),
    ]


@pytest.mark.parametrize(
    ("effect", "done"),
    [
        (r.AppendBatches(2, 4, (BATCH,)), ("append_batches", 2, 4, (BATCH,))),
        (r.TruncateLog(2, 6, 5), ("truncate", 2, 6, 5)),
        (c.InstallPiece(2, 5, PIECE), ("install", 2, 5, PIECE)),
        (r.DropReplica(2, deletes=False), ("drop", 2, None)),
        (WriteSnapshot(2, 6, 1, (b"s",)), ("write_snapshot", 2, 6, 1, (b"s",), 0, True)),
    ],
)
def test_what_was_gathered_for_a_log_is_handed_over_before_the_log_is_changed(effect: Any, done: Any) -> None:
    world = play(at_connection(Append(2, 5, 1, (b"a",)), effect), a_turn)
    assert world.done == [("append", 2, 5, 1, [b"a"]), done]


def test_effects_of_the_cluster_reach_their_ports_in_their_order() -> None:
    read, multi = ZkRead(1, 2, ("/a",)), ZkMulti(1, 3, ())
    connect, said = ConnectPeers(0, {}), wire.Confirm(1)
    effects = (read, multi, r.Remember(7), connect, SayToPeer(2, said), EndContact(2, "why"), c.GiveUpInstall(4))
    world = play(at_connection(*effects, Respond(1, 2, PingResponse())), a_turn)
    assert world.done == [
        ("zk read", read),
        ("zk commit", multi),
        ("remember", 7),
        ("connect", connect),
        ("say", 2, said),
        ("end", 2, "why"),
        ("give_up_install", 4),
        ("send_response", 1, 2, PingResponse()),
    ]


def test_a_cluster_is_in_the_directory_before_the_node_hears_that_it_is() -> None:
    async def act(on: World) -> None:
        on.driver.connection_opened(1, "h", ANONYMOUS)
        assert on.done == [("join_cluster", "c1", 6), ("join peers", "c1")]
        assert Remembered() not in on.node.events
        await until(lambda: Remembered() in on.node.events)

    play(at_connection(JoinedCluster("c1", 6)), act)


def test_the_first_contact_with_the_others_is_told_once() -> None:
    world = play(at_connection(ConnectPeers(0, {}), ConnectPeers(1, {})), a_turn)
    assert world.joined == 1


def test_a_log_is_opened_and_read_on_threads_and_reported() -> None:
    effects = (r.OpenReplica(2, 4), c.ReadLog(2, 9, 3, 1, 5, 100), c.ReadSnapshot(2, 9, 3, 4, None, 0))

    async def act(on: World) -> None:
        on.driver.connection_opened(1, "h", ANONYMOUS)
        kinds = (i.LogOpened, i.LogRead, i.SnapshotRead)
        await until(lambda: sum(isinstance(event, kinds) for event in on.node.events) == 3)

    world = play(at_connection(*effects), act)
    (opened,) = [event for event in world.node.events if isinstance(event, i.LogOpened)]
    assert (opened.shard, opened.log.number, opened.log.end) == (2, 4, 7)
    assert i.LogRead(2, 9, 3, 1, 5, (BATCH,)) in world.node.events
    assert i.SnapshotRead(2, 9, 3, 4, 0, None) in world.node.events


def test_what_cannot_be_said_by_a_bug_costs_the_contact_alone() -> None:
    async def act(on: World) -> None:
        on.refuses["say"] = ValueError("too large")
        await a_turn(on)
        assert not on.driver._stopped.done()

    world = play(at_connection(SayToPeer(2, wire.Confirm(1)), Respond(1, 2, PingResponse())), act)
    assert world.done == [
        ("end", 2, "a Confirm could not be said by a bug of this node's"),
        ("send_response", 1, 2, PingResponse()),
    ]
    assert world.log.of("bug")


def test_a_disk_that_refuses_is_told_to_the_node() -> None:
    async def act(on: World) -> None:
        on.refuses["append_batches"] = DiskError("no space")
        on.driver.connection_opened(1, "h", ANONYMOUS)
        await until(lambda: any("no space" in str(getattr(event, "why", "")) for event in on.node.events))

    play(at_connection(r.AppendBatches(2, 4, (BATCH,))), act)


def test_a_node_that_drains_hears_its_disk_and_the_others_and_nobody_else() -> None:
    async def act(on: World) -> None:
        on.driver.connection_opened(1, "h", ANONYMOUS)
        on.driver.drain()
        assert on.done == [("append", 2, 5, 1, [b"a"])]
        on.node.events.clear()
        on.driver.connection_opened(2, "h", ANONYMOUS)
        on.driver.post(ZkSession(1, ZkState.LOST))
        on.driver.became_durable(2, 6, 4)
        on.driver.peer_event(ContactBegan(2, 0))
        await until(lambda: i.LogSynced(2, 6, 4) in on.node.events)
        await asyncio.sleep(0)

    world = play(at_connection(Append(2, 5, 1, (b"a",))), act)
    kinds = {type(event) for event in world.node.events}
    assert kinds == {ContactBegan, i.LogSynced, i.TurnEnded}
    assert BecameDurable not in kinds


def test_a_node_that_halts_is_not_told_that_its_turn_has_ended() -> None:
    world = play(at_connection(Halt("told to")), a_turn)
    assert i.TurnEnded() not in world.node.events


@pytest.mark.parametrize("ahead_ms", [0, 5 * HOUR_MS], ids=["right", "ahead"])
def test_a_wall_clock_that_is_wrong_at_the_start_or_set_later_deletes_no_log_any_sooner(ahead_ms: int) -> None:
    async def act(world: World) -> None:
        world.clock.ahead_ms = 5 * HOUR_MS
        world.driver._perform(r.DropReplica(3, deletes=True))
        world.clock.ahead_ms = 50 * HOUR_MS
        for lived_ms in (0, HOUR_MS - 60_000, HOUR_MS):
            assert world.deleted_before == [], "what a former life has moved aside is kept for as long in this one"
            world.clock.lived_ms, world.driver._delete_due_ms = lived_ms, 0
            world.driver._on_tick()
        await until(lambda: len(world.deleted_before) > 0)

    world = play(lambda _: [], act, ahead_ms)
    (dropped,) = [aside_ms for what, *_, aside_ms in world.done if what == "drop"]
    assert [dropped <= before < dropped + 60_000 for before in world.deleted_before] == [True]
