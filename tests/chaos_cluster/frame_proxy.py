"""A proxy between the processes of a cluster that delays, holds, drops and cuts what is said, one way or both.

It stands in front of a port of loopback. Whoever connects is told apart by its first frame: a node says its number in
its hello (`KCRP`), anybody else is nobody. A link is the pair of who connects and who listens, and has rules for each
direction. What is held goes on when the link is healed. What is dropped was acknowledged by TCP all the same, so the
connection is of no use any more and is reset then; so is one that was to be cut behind the next frame. A frame can be
the last whose sender hears anything: a write that arrives and is never heard of. ZooKeeper's frames have the same four
bytes of length, so its port can stand behind a proxy, too.

One thread runs all proxies; every method may be called from any thread.
"""

import asyncio
import random
import socket
import struct
import threading
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Final, Self

from coordinator.protocol.framing import PEER_MAGIC
from coordinator.protocol.peer_messages import PeerHello
from coordinator.protocol.peer_messages.session import PeerSession

ANYBODY: Final = 0
"""The number of who is no node: a member, or a node that speaks with ZooKeeper."""
_LENGTH: Final = struct.Struct(">I")
_WITH_RESET: Final = struct.pack("ii", 1, 0)
_ZOOKEEPER_REQUEST: Final = struct.Struct(">iii")
"""Length, number of the request, kind."""
_ZOOKEEPER_WRITES: Final = frozenset({1, 2, 5, 14, 15})
"""The kinds create, delete, setData, multi and create2."""


@dataclass
class Rules:
    """The treatment of what is said in one direction."""

    is_held: bool = False
    is_dropped: bool = False
    is_cut: bool = False
    """The next frame is passed on, and then the connection is cut."""
    delay_s: float = 0.0
    """The longest that a frame waits, drawn for each."""
    is_last: Callable[[bytes], bool] | None = None
    """A frame for which this is true is passed on, and from then on nothing comes back: that is held."""


@dataclass
class Link:
    """Two ends: what the caller says and what it hears."""

    said: Rules = field(default_factory=Rules)
    heard: Rules = field(default_factory=Rules)

    @property
    def is_ill(self) -> bool:
        """Say whether a rule is in force."""
        return self.said != Rules() or self.heard != Rules()


class FrameProxies:
    """All proxies of a cluster, and the links between; a context manager."""

    def __init__(self, seed: int = 0) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True, name="frame proxies")
        self._dice = random.Random(seed)
        self._links: dict[tuple[int, int], Link] = {}
        self._connections: set[_Passage] = set()
        self._doors: list[_Door] = []
        self._tasks: set[asyncio.Task[None]] = set()

    def __enter__(self) -> Self:
        """Begin to run."""
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Cut everything and end."""
        self._run(self._end())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    def stand_before(self, target: int, port: int, number: int) -> int:
        """Listen, and pass connections on to a port; `number` is whose it is. `port` 0 listens anywhere; returns it."""
        door = _Door(target, port, number)
        self._doors.append(door)
        self._run(self._open(door))
        return door.port

    def leave(self, number: int) -> None:
        """Listen no more in place of a process that is dead: connections to it are refused, as they would be."""
        for door in self._doors:
            if door.number == number and door.server is not None:
                self._run(self._close(door))

    def come_back(self, number: int) -> None:
        """Listen again, at the same port."""
        for door in self._doors:
            if door.number == number and door.server is None:
                self._run(self._open(door))

    def change(self, caller: int, listener: int, *, said: Rules | None = None, heard: Rules | None = None) -> None:
        """Have new rules for a link."""

        def changed() -> None:
            link = self._link(caller, listener)
            link.said, link.heard = said or Rules(), heard or Rules()
            self._wake(caller, listener)

        self._soon(changed)

    def cut(self, caller: int, listener: int) -> None:
        """Reset the connections of a link that there are now."""

        def reset() -> None:
            for passage in list(self._connections):
                if passage.ends == (caller, listener):
                    passage.reset()

        self._soon(reset)

    def heal(self) -> None:
        """Have no rules any more, and reset the connections of which frames were dropped."""

        def healed() -> None:
            for passage in list(self._connections):
                if passage.has_dropped:
                    passage.reset()
            for ends in list(self._links):
                self._links[ends] = Link()
                self._wake(*ends)

        self._soon(healed)

    def has_come_to_its_last(self, caller: int, listener: int) -> bool:
        """Say whether the last frame of a link was passed on."""
        link = self._links.get((caller, listener))
        return link is not None and link.said.is_last is not None and link.heard.is_held

    def connections(self, caller: int, listener: int) -> int:
        """Return how many connections a link has now."""
        return sum(passage.ends == (caller, listener) for passage in list(self._connections))

    # ---- the thread of the proxies ----------------------------------------------------------------------------------

    def _link(self, caller: int, listener: int) -> Link:
        return self._links.setdefault((caller, listener), Link())

    def _wake(self, caller: int, listener: int) -> None:
        for passage in list(self._connections):
            if passage.ends == (caller, listener):
                passage.changed.set()

    def _soon(self, work: Any) -> None:
        done = threading.Event()

        def run() -> None:
            try:
                work()
            finally:
                done.set()

        self._loop.call_soon_threadsafe(run)
        done.wait(10)

    def _run(self, work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(20)

    async def _end(self) -> None:
        for door in self._doors:
            await self._close(door)
        for passage in list(self._connections):
            passage.reset()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _close(self, door: "_Door") -> None:
        if door.server is not None:
            door.server.close()
            door.server = None

    async def _open(self, door: "_Door") -> None:
        async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.current_task()
            assert task is not None
            self._tasks.add(task)
            try:
                await self._pass_on(reader, writer, door.target, door.number)
            except asyncio.CancelledError:
                pass
            finally:
                self._tasks.discard(task)

        door.server = await asyncio.start_server(accept, "127.0.0.1", door.port)
        door.port = door.server.sockets[0].getsockname()[1]

    async def _pass_on(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, target: int, number: int
    ) -> None:
        try:
            first = await _frame(reader)
            out_reader, out_writer = await asyncio.open_connection("127.0.0.1", target)
        except (OSError, asyncio.IncompleteReadError):
            _reset(writer)
            return
        caller = caller_in(first)
        passage = _Passage((caller, number), writer, out_writer)
        self._connections.add(passage)
        link = lambda: self._link(caller, number)  # noqa: E731 - it may be another one after a heal

        def look(frame: bytes) -> None:
            rule = link().said.is_last
            if rule is not None and rule(frame):
                link().heard = Rules(is_held=True)

        said = asyncio.create_task(self._pump(passage, reader, out_writer, lambda: link().said, first, look))
        heard = asyncio.create_task(self._pump(passage, out_reader, writer, lambda: link().heard, b""))
        try:
            await asyncio.wait([said, heard], return_when=asyncio.FIRST_COMPLETED)
        finally:
            said.cancel()
            heard.cancel()
            await asyncio.gather(said, heard, return_exceptions=True)
            self._connections.discard(passage)
            passage.reset()

    async def _pump(
        self,
        passage: "_Passage",
        source: asyncio.StreamReader,
        sink: asyncio.StreamWriter,
        rules: Callable[[], Rules],
        first: bytes,
        look: Callable[[bytes], None] = lambda _: None,
    ) -> None:
        frame = first
        try:
            while True:
                frame = frame or await _frame(source)
                while rules().is_held:
                    passage.changed.clear()
                    await passage.changed.wait()
                if rules().delay_s:
                    await asyncio.sleep(rules().delay_s * self._dice.random())
                if rules().is_dropped:
                    passage.has_dropped = True
                else:
                    look(frame)
                    sink.write(frame)
                    await sink.drain()
                    if rules().is_cut:
                        sink.close()  # in order, so that what was passed on is read
                        return
                frame = b""
        except (OSError, asyncio.IncompleteReadError):
            return


@dataclass
class _Door:
    """One port that a proxy listens at, and where it leads."""

    target: int
    port: int
    number: int
    server: asyncio.Server | None = None


class _Passage:
    """One connection through a proxy."""

    def __init__(self, ends: tuple[int, int], *writers: asyncio.StreamWriter) -> None:
        self.ends = ends
        self.has_dropped = False
        self.changed = asyncio.Event()
        self._writers = writers

    def reset(self) -> None:
        """End it on both sides."""
        for writer in self._writers:
            _reset(writer)


def caller_in(first: bytes) -> int:
    """Return the number of the node whose hello a frame is; ANYBODY for any other frame."""
    if first[_LENGTH.size : _LENGTH.size + len(PEER_MAGIC)] != PEER_MAGIC:
        return ANYBODY
    (hello,) = PeerSession().receive(first)
    assert isinstance(hello, PeerHello)
    return hello.node_id


def is_zookeeper_write(frame: bytes) -> bool:
    """Say whether a frame asks ZooKeeper for a change, alone or among others."""
    if len(frame) < _ZOOKEEPER_REQUEST.size:
        return False
    _, number, kind = _ZOOKEEPER_REQUEST.unpack_from(frame)
    return number > 0 and kind in _ZOOKEEPER_WRITES  # a greeting has 0 there


async def _frame(reader: asyncio.StreamReader) -> bytes:
    length = await reader.readexactly(_LENGTH.size)
    return length + await reader.readexactly(_LENGTH.unpack(length)[0])


def _reset(writer: asyncio.StreamWriter) -> None:
    if writer.is_closing():  # in order, or already
        return
    sock = writer.get_extra_info("socket")
    if sock is not None:
        with suppress(OSError):
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _WITH_RESET)
    writer.transport.abort()
