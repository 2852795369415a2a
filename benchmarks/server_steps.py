"""The work that a ping and a commit make for a node's server and driver, counted; the rest of `group_steps`.

Everything between the bytes that an event loop has read and those that it is to write: frames, decoding, limits, the
driver, the steps of the core, figures, encoding, flushing. Standing in are the event loop, whose turns are made by hand
and whose time passes by hand, the sockets below it, Kafka, and a disk that is durable at the end of a turn. Counted
are the calls of functions that a request makes, those of the stand-ins included, the writes to sockets, and the timers.
"""

import asyncio
import contextlib
import cProfile
import gc
import io
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, cast
from unittest.mock import patch

from benchmarks.group_members import KcoordMember, Tally
from benchmarks.group_sockets import Peer, Sockets
from coordinator.config import ServerSettings
from coordinator.core.effects import OffsetToResolve
from coordinator.core.events import OffsetsResolved, ResolvedOffset, TopicMetadata, TopicsRead
from coordinator.core.limits import Limits
from coordinator.core.node import Node
from coordinator.protocol.parts import NodeAddress
from coordinator.runtime import clock
from coordinator.runtime.driver import Driver
from coordinator.runtime.process.logs import make_log
from coordinator.runtime.server.connection import Connection
from coordinator.runtime.server.port import Server

AT_MOST: Final = {
    "ping_server_calls": 84.0,
    "ping_writes": 1.0,
    "ping_timers": 0.0,
    "commit_server_calls": 151.0,
    "commit_writes": 1.0,
    "commit_timers": 0.0,
}
"""The bars, for one request."""
_AT_ONCE: Final = 64
"""Requests that come in one turn of the loop, each on a connection of its own."""
_PARTITIONS_EACH: Final = 10
_TOPIC: Final = "t"
_ROUNDS: Final = 3
_STEP_MS: Final = 50
_SETTLE_MS: Final = 5_000
_JOIN_MS: Final = 60_000


class _HandTime:
    """The clocks of the machine, moved by hand."""

    def __init__(self) -> None:
        self.ns = 10**12

    def monotonic_ns(self) -> int:
        """Return a time that nothing is counted from."""
        return self.ns

    def time_ns(self) -> int:
        """Return a time since 1970."""
        return 1_700_000_000 * 10**9 + self.ns


class _HandLoop:
    """The part of an event loop that a node uses, without sockets: it calls what was planned, through `enter`."""

    def __init__(self, time: _HandTime, enter: Callable[..., None]) -> None:
        self._time = time
        self._enter = enter
        self._ready: deque[asyncio.Handle] = deque()
        self._timers: list[asyncio.TimerHandle] = []
        self.timers_set = 0

    @property
    def as_loop(self) -> asyncio.AbstractEventLoop:
        """Be taken for a whole event loop."""
        return cast(asyncio.AbstractEventLoop, self)

    def turn(self) -> bool:
        """Call everything that is due; say whether there was anything."""
        due = [timer for timer in self._timers if not timer.cancelled() and timer.when() <= self.time()]
        self._timers = [timer for timer in self._timers if timer not in due and not timer.cancelled()]
        ready = [*self._ready, *sorted(due, key=asyncio.TimerHandle.when)]
        self._ready.clear()
        for handle in ready:
            if not handle.cancelled():
                self._enter(handle._callback, *handle._args)  # type: ignore[attr-defined]
        return bool(ready)

    def time(self) -> float:
        """Return the time in seconds."""
        return self._time.ns / 10**9

    def call_soon(self, callback: Callable[..., object], *args: Any, context: Any = None) -> asyncio.Handle:
        """Plan a call for the next turn."""
        handle = asyncio.Handle(callback, args, self.as_loop, context)
        self._ready.append(handle)
        return handle

    def call_soon_threadsafe(self, callback: Callable[..., object], *args: Any, context: Any = None) -> asyncio.Handle:
        """Plan a call for the next turn."""
        return self.call_soon(callback, *args, context=context)

    def call_later(
        self, delay: float, callback: Callable[..., object], *args: Any, context: Any = None
    ) -> asyncio.TimerHandle:
        """Plan a call."""
        timer = asyncio.TimerHandle(self.time() + delay, callback, args, self.as_loop, context)
        self._timers.append(timer)
        self.timers_set += 1
        return timer

    def create_future(self) -> asyncio.Future[Any]:
        """Return a future."""
        return asyncio.Future(loop=self.as_loop)

    def get_debug(self) -> bool:
        """Say that nothing is debugged."""
        return False

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """Leave a cancelled timer to the next turn."""


class _Wire(asyncio.Transport):
    """A connection's socket, which takes everything at once."""

    def __init__(self) -> None:
        super().__init__({"peername": ("127.0.0.1", 1), "socket": self})
        self.written: list[bytes] = []

    def setsockopt(self, *option: int) -> None:
        """Be a socket, too."""

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Keep what is written."""
        self.written.append(bytes(data))

    def is_closing(self) -> bool:
        """Stay open."""
        return False

    def get_write_buffer_size(self) -> int:
        """Say that nothing waits."""
        return 0


class _Disk:
    """A disk that reports what it was given when it is told to."""

    pending_bytes = 0

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self._ends: list[tuple[int, int]] = []

    def append(self, shard: int, base_offset: int, leader_epoch: int, records: Sequence[bytes]) -> None:
        """Take records."""
        del leader_epoch
        self._ends.append((shard, base_offset + len(records)))

    def write_snapshot(self, shard: int, end_offset: int, *_: object, is_last: bool, **__: object) -> None:
        """Write a piece of a snapshot at once."""
        self._driver.snapshot_written(shard, end_offset, is_last)

    def report(self) -> bool:
        """Report all that was taken as durable; say whether there was anything."""
        ends, self._ends = self._ends, []
        for end in ends:
            self._driver.became_durable(*end)
        return bool(ends)

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(f"a disk is not asked for {name} here")


class _Kafka:
    """A Kafka with one empty topic, which answers at once."""

    def __init__(self, driver: Driver, partitions: int) -> None:
        self._driver = driver
        self._topic = TopicMetadata(_TOPIC, "id", (1,) * partitions)

    def watch_topics(self, topics: frozenset[str], *, lists_all: bool) -> None:
        """Tell of the topic."""
        del topics, lists_all
        self._driver.post(TopicsRead({_TOPIC: self._topic}, frozenset(), {}, {1: ("b", 1)}, "c"))

    def resolve_offsets(self, lookup_id: int, offsets: Sequence[OffsetToResolve], *, asks_topics: bool) -> None:
        """Say that every partition begins and ends at 0."""
        del asks_topics
        found = tuple(ResolvedOffset(one.topic, one.partition, 0) for one in offsets)
        self._driver.post(OffsetsResolved(lookup_id, found))


@dataclass(frozen=True, slots=True)
class Counted:
    """The work of some requests."""

    calls: int
    writes: int
    timers: int


class CountedServer(Sockets[KcoordMember]):
    """A node of which one group's members are in, each on a connection of its own."""

    def __init__(self, time: _HandTime) -> None:
        super().__init__()
        self._time = time
        self._profile: cProfile.Profile | None = None
        self._to_send: deque[tuple[Peer, bytes]] = deque()
        self._ends: dict[Peer, tuple[Connection, _Wire]] = {}
        self._writes = 0
        self.loop = _HandLoop(time, self._enter)
        self._log_lines = io.StringIO()
        self._turn_of = 0

    def start(self, members: int) -> None:
        """Start the node, and have the members join."""
        partitions = members * _PARTITIONS_EACH
        log = make_log("json", "warning", write=self._note_line)
        driver = Driver(clock.SystemClock(), log, self.loop.as_loop)
        server = Server(ServerSettings(), driver, driver.clock, log)
        node = Node(Limits(), 8, NodeAddress(1, "h", 1), ("k:1",))
        self._disk = _Disk(driver)
        driver.connect(node, disk=self._disk, kafka=_Kafka(driver, partitions), sender=server)  # type: ignore[arg-type]
        driver.start()
        tally = Tally("g", _TOPIC)
        self.members = [KcoordMember(self, tally) for _ in range(members)]
        for member in self.members:
            connection, wire = Connection(server), _Wire()
            self._ends[member] = connection, wire
            connection.connection_made(wire)
            member.greet()
            self.send(member, member.registration())
            self._settle()
        self._pass_ms(_JOIN_MS, until=lambda: tally.is_stable(partitions))
        assert tally.is_stable(partitions), f"the members have not joined: {tally}; {self._log_lines.getvalue()}"
        self._pass_ms(_SETTLE_MS)
        for member in self.members:
            member.prepare_commits()

    def send(self, peer: Peer, data: bytes) -> None:
        """Have a connection be told soon."""
        self._to_send.append((peer, data))

    def work_of(self, request: Callable[[KcoordMember], bytes], requests: int) -> Counted:
        """Return the work that so many requests make, the members taking turns."""
        self._writes = self.loop.timers_set = 0
        profile = self._profile = cProfile.Profile()
        gc.disable()  # it calls the finalizers of whatever the process has had before
        try:
            for _ in range(requests // _AT_ONCE):
                answered = self._ask_at_once(request)
                assert answered == _AT_ONCE, f"{answered} of {_AT_ONCE} requests were answered"
        finally:
            gc.enable()
            self._profile = None
        assert not self._log_lines.getvalue(), self._log_lines.getvalue()
        return Counted(sum(entry.callcount for entry in profile.getstats()), self._writes, self.loop.timers_set)

    def _ask_at_once(self, request: Callable[[KcoordMember], bytes]) -> int:
        for _ in range(_AT_ONCE):
            self._turn_of = (self._turn_of + 1) % len(self.members)
            member = self.members[self._turn_of]
            self.send(member, request(member))
        return self._settle()

    def _settle(self) -> int:
        """Let everything happen that follows at once; return how many timed requests were answered."""
        answered = 0
        goes_on = True
        while goes_on:
            goes_on = bool(self._to_send)
            while self._to_send:
                peer, data = self._to_send.popleft()
                self._enter(self._ends[peer][0].data_received, data)
            goes_on |= self.loop.turn()
            goes_on |= self._disk.report()
            answered += sum(self._hear(member, wire) for member, (_, wire) in self._ends.items() if wire.written)
        return answered

    @staticmethod
    def _frames(data: bytes) -> Iterator[bytes]:
        at = 0
        while at < len(data):
            end = at + 4 + int.from_bytes(data[at : at + 4], "big")
            yield data[at + 4 : end]
            at = end

    def _hear(self, member: Peer, wire: _Wire) -> int:
        """Have a member hear what was written to it; return how many timed requests that answers."""
        self._writes += len(wire.written)
        data = b"".join(wire.written)
        wire.written.clear()
        return sum([member.receive(frame) for frame in self._frames(data)])

    def _pass_ms(self, ms: int, until: Callable[[], bool] = lambda: False) -> None:
        for _ in range(ms // _STEP_MS):
            if until():
                return
            self._time.ns += _STEP_MS * 10**6
            self._settle()

    def _enter(self, work: Callable[..., object], *arguments: object) -> None:
        """Come into the node's code as an event loop does."""
        if self._profile is None:
            work(*arguments)
            return
        self._profile.enable()
        try:
            work(*arguments)
        finally:
            self._profile.disable()

    def _note_line(self, line: str) -> None:
        self._log_lines.write(line)


@contextlib.contextmanager
def counted_server(members: int) -> Iterator[CountedServer]:
    """Yield a node with so many members."""
    time = _HandTime()
    before = asyncio._get_running_loop()
    counted = CountedServer(time)
    with patch.object(clock, "time", time):
        asyncio._set_running_loop(counted.loop.as_loop)
        try:
            counted.start(members)
            yield counted
        finally:
            asyncio._set_running_loop(before)
            counted.close_all()


def measure_server(members: int, requests: int) -> dict[str, float]:
    """Return the calls, writes and timers of a ping and of a commit; what falls between two rounds is no part of it."""
    found: dict[str, float] = {}
    count = max(1, requests // _AT_ONCE) * _AT_ONCE
    with counted_server(members) as server:
        for name, request in (("ping", KcoordMember.ping), ("commit", KcoordMember.commit)):
            server.work_of(request, count)  # the first of their kind are not like the others
            works = [server.work_of(request, count) for _ in range(_ROUNDS)]
            found[f"{name}_server_calls"] = min(work.calls for work in works) / count
            found[f"{name}_writes"] = min(work.writes for work in works) / count
            found[f"{name}_timers"] = min(work.timers for work in works) / count
    return found
