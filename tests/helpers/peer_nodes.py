"""Nodes that speak with each other over loopback, and a node that does exactly what a test tells it to."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterable

from coordinator.config import TlsSettings
from coordinator.core.peers.effects import ConnectPeers, PeerAddress
from coordinator.core.peers.events import ContactBegan, ContactEnded, PeerSaid, PeersEvent
from coordinator.core.peers.hello import Acquaintance
from coordinator.protocol.peer_messages import PeerHello, PeerMessage, PeerPing
from coordinator.protocol.peer_messages.session import PeerSession, Said
from coordinator.protocol.text.addresses import Address
from coordinator.runtime.peers import PeerLimits, Peers
from coordinator.runtime.security.tls import tls_of_peers
from tests.helpers.loopback import PATIENCE_S, RememberedLog, until

CLUSTER = "the cluster"


class PeerNode:
    """A real port, of a node that remembers what it was told."""

    def __init__(
        self, node_id: int, cluster_id: str = CLUSTER, limits: PeerLimits | None = None, tls: TlsSettings | None = None
    ) -> None:
        self.node_id = node_id
        self.log = RememberedLog()
        self.told: list[PeersEvent] = []
        self.address: Address = ("", 0)
        self.is_within_call = False
        self.now_ms = 0
        self.tls = tls_of_peers(tls, self.log.logger)
        self.port = Peers(Acquaintance(cluster_id, node_id, "1.0"), self._post, self.log.logger, limits, self.tls)

    def _post(self, event: PeersEvent) -> None:
        assert not self.is_within_call, "an event came from within a call"
        self.told.append(event)

    async def listen(self) -> "PeerNode":
        self.address = await self.port.bind("127.0.0.1", 0)
        await self.port.accept()
        return self

    def connect(self, *others: "PeerNode | RawPeer", life: int = 1, lives: Iterable[int] = ()) -> None:
        """Want contact with these, each in its life, which is 1 if none is given."""
        known = dict(zip([other.node_id for other in others], lives, strict=False))
        peers = {other.node_id: PeerAddress((other.address,), known.get(other.node_id, 1)) for other in others}
        self.is_within_call = True
        self.port.connect(ConnectPeers(life, peers))
        self.is_within_call = False

    def say(self, other: int, message: PeerMessage) -> None:
        self.is_within_call = True
        self.port.say(other, message)
        self.is_within_call = False

    def end(self, other: int, why: str) -> None:
        self.is_within_call = True
        self.port.end_contact(other, why)
        self.is_within_call = False

    def pass_ms(self, milliseconds: int = 100) -> None:
        """Let time pass, as a tick tells it."""
        self.now_ms += milliseconds
        self.is_within_call = True
        self.port.check_deadlines(self.now_ms)
        self.is_within_call = False

    def of(self, kind: type[PeersEvent], other: int | None = None) -> list[PeersEvent]:
        return [event for event in self.told if type(event) is kind and other in (None, event.peer)]

    def heard(self, other: int) -> list[PeerMessage]:
        """Return all that another node has said."""
        return [event.message for event in self.told if isinstance(event, PeerSaid) and event.peer == other]

    def is_in_contact(self, other: int) -> bool:
        begun, ended = len(self.of(ContactBegan, other)), len(self.of(ContactEnded, other))
        assert begun - ended in (0, 1), "a contact ends once"
        return begun > ended

    def whys(self, kind: str) -> list[str]:
        return [str(line["why"]) for line in self.log.of(kind)]


async def until_passed(condition: Callable[[], object], *nodes: PeerNode) -> None:
    """Let time pass at the nodes until something is so."""

    deadline = asyncio.get_running_loop().time() + PATIENCE_S
    while not condition():
        assert asyncio.get_running_loop().time() < deadline, "it never became so"
        for node in nodes:
            node.pass_ms(20)
        await asyncio.sleep(0.001)


async def in_contact(*nodes: PeerNode) -> None:
    """Wait until all of these nodes are in contact with all others of them."""
    pairs = [(one, other) for one in nodes for other in nodes if one is not other]
    await until_passed(lambda: all(one.is_in_contact(other.node_id) for one, other in pairs), *nodes)


@contextlib.asynccontextmanager
async def nodes(*ids: int, limits: PeerLimits | None = None) -> AsyncIterator[list[PeerNode]]:
    """Give nodes that listen, and are not in contact yet."""
    made = [await PeerNode(node_id, limits=limits).listen() for node_id in ids]
    try:
        yield made
    finally:
        for node in made:
            await node.port.close("the test is over")


class RawConnection:
    """One end of a connection between nodes, on which nothing is said but what a test says."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.session = PeerSession()
        self.reader, self.writer = reader, writer
        self._heard: list[PeerHello | Said] = []

    def greet(self, hello: PeerHello) -> None:
        self.writer.write(self.session.greet(hello))

    def say(self, message: Said) -> None:
        self.writer.write(self.session.say(message))

    async def next(self) -> PeerHello | Said:
        """Return what is heard next, pings left out."""
        while True:
            while not self._heard:
                data = await asyncio.wait_for(self.reader.read(65536), PATIENCE_S)
                if not data:
                    raise EOFError("the node closed the connection")
                self._heard += self.session.receive(data)
            said = self._heard.pop(0)
            if not isinstance(said, PeerPing):
                return said

    async def until_closed(self) -> list[PeerHello | Said]:
        """Return all that is heard until the other end closes it."""
        said: list[PeerHello | Said] = []
        with contextlib.suppress(EOFError, ConnectionError):
            while True:
                said.append(await self.next())
        return said


class RawPeer:
    """A node that does what a test tells it: it opens connections, and keeps those that are opened to it."""

    def __init__(self, node_id: int, life: int = 1) -> None:
        self.node_id, self.life = node_id, life
        self.address: Address = ("", 0)
        self.accepted: list[RawConnection] = []
        self._connections: list[RawConnection] = []
        self._server: asyncio.Server | None = None
        self.called = self._number = 0

    def hello(self, number: int = 0, answers: int = 0, cluster_id: str = CLUSTER) -> PeerHello:
        return PeerHello(cluster_id, self.node_id, self.life, "1.0", number, answers)

    async def listen(self) -> "RawPeer":
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.address = self._server.sockets[0].getsockname()[:2]
        return self

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = RawConnection(reader, writer)
        self.accepted.append(connection)
        self._connections.append(connection)

    async def open(self, to: Address, answers: int = 0, hello: PeerHello | None = None) -> RawConnection:
        """Open a connection and say hello."""
        self._number += 1
        connection = RawConnection(*await asyncio.open_connection(*to))
        connection.greet(self.hello(self._number, answers) if hello is None else hello)
        self._connections.append(connection)
        return connection

    async def accept(self) -> RawConnection:
        """Return the next connection that is opened to this node."""
        await until(lambda: self.accepted)
        return self.accepted.pop(0)

    async def meet(self, node: PeerNode) -> tuple[RawConnection, RawConnection]:
        """Get in contact with a node that wants it; return the connection to it and the one it has opened."""
        if self.node_id < node.node_id:
            to = await self.open(node.address)
            await to.next()
            of = await self._greeted(await self.accept(), answers=self._number)
        else:
            of = await self._greeted(await self.accept(), answers=0)
            to = await self.open(node.address, answers=self.called)
            await to.next()
        await until_passed(lambda: node.is_in_contact(self.node_id), node)
        return to, of

    async def _greeted(self, of: RawConnection, answers: int) -> RawConnection:
        hello = await of.next()
        while isinstance(hello, PeerHello) and hello.answers != answers:
            of = await self.accept()
            hello = await of.next()
        assert isinstance(hello, PeerHello)
        self.called = hello.number
        of.greet(self.hello())
        return of

    async def close(self) -> None:
        if self._server is not None:
            self._server.close()
        for _ in range(10):  # the loop may have accepted one that it has not told of yet
            await asyncio.sleep(0)
        for connection in self._connections:
            connection.writer.close()
            with contextlib.suppress(OSError):
                await connection.writer.wait_closed()


@contextlib.asynccontextmanager
async def raw_peer(node_id: int, life: int = 1) -> AsyncIterator[RawPeer]:
    """Give a node that listens, and does nothing by itself."""
    made = await RawPeer(node_id, life).listen()
    try:
        yield made
    finally:
        await made.close()
