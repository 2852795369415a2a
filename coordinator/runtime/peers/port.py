"""The port to the other nodes: listens for their connections, and keeps one up to each of them, on which it speaks.

Pure rooms decide: `core.peers.hello` whom to speak with, `contact` which connections a contact is made of, `attempts`
when to try again. Here they are joined to sockets. What goes wrong with one connection costs that connection and its
contact, and a line in the log; the same line is not logged again and again. Its methods belong to the event loop's
thread.
"""

import asyncio
from collections import deque

from msgspec.structs import replace
from structlog.typing import FilteringBoundLogger

from coordinator.core.peers.attempts import Attempts
from coordinator.core.peers.contact import KNOCK, NO_CONTACT, Begins, Change, Closes, Contact, Ends, Line
from coordinator.core.peers.effects import ConnectPeers
from coordinator.core.peers.events import ContactBegan, ContactEnded, PeerPinged, PeerRefused, PeerSaid, PeersEvent
from coordinator.core.peers.hello import Acquaintance
from coordinator.core.peers.port import Post
from coordinator.core.security.host_names import is_for_host, say_names
from coordinator.protocol.peer_messages import PeerHello, PeerMessage
from coordinator.protocol.text.addresses import Address, format_address
from coordinator.runtime.peers.connection import PeerConnection
from coordinator.runtime.peers.dialing import NotReachedError, dial
from coordinator.runtime.peers.limits import PeerLimits
from coordinator.runtime.security.reread import Reread
from coordinator.runtime.security.tls import PeerTls
from coordinator.runtime.security.tls_end import TlsEnd
from coordinator.runtime.server.listening import begin_accepting
from coordinator.runtime.server.port import ListenError

_MOST_WHYS = 16
_ADVICE = "look at peers.security_protocol and the certificates of both nodes"


class _Peer:
    """All that this node has to do with one other node."""

    def __init__(self, node_id: int, *, is_called: bool) -> None:
        self.node_id = node_id
        self.is_called = is_called
        """True when this node calls it, False when it calls this node."""
        self.contact: Contact = NO_CONTACT
        self.attempts = Attempts()
        self.dialing: asyncio.Task[None] | None = None
        self.greeting: PeerConnection | None = None
        """A connection to it that has not heard its hello yet."""
        self.began_ms: int | None = None
        self.whys: set[str] = set()
        """Reasons why there is no contact that were logged since there was one."""


class Peers:
    """A `PeersPort`; `bind` and `accept` come before another node can connect. With `tls` nothing else is spoken."""

    def __init__(
        self,
        known: Acquaintance,
        post: Post,
        log: FilteringBoundLogger,
        limits: PeerLimits | None = None,
        tls: Reread[PeerTls] | None = None,
    ) -> None:
        self._tls = tls
        self.limits = limits or PeerLimits()
        self._known = known
        self._post = post
        self._log = log
        self._server: asyncio.Server | None = None
        self._bound: Address = ("", 0)
        self._now_ms = 0
        self._last_number = 0
        self._live: dict[int, PeerConnection] = {}
        self._peers: dict[int, _Peer] = {}
        self._events: deque[PeersEvent] = deque()
        self._unflushed: list[PeerConnection] = []
        self._is_handing_on = False
        self._is_turn_awaited = False
        self._is_closed = False
        self._last_stranger = ("", "")

    # ---- the listener -----------------------------------------------------------------------------------------------

    async def bind(self, host: str, port: int) -> Address:
        """Take the address, without accepting anybody yet; return what was bound. Raises ListenError."""
        loop = asyncio.get_running_loop()
        try:
            self._server = await loop.create_server(self._called, host, port, start_serving=False)
        except OSError as error:
            raise ListenError(
                f"cannot listen on {format_address((host, port))} for other nodes: {error.strerror or error}; stop "
                "what uses the address, or choose another as peers.listen"
            ) from error
        bound = self._server.sockets[0].getsockname()
        self._bound = str(bound[0]), int(bound[1])
        return self._bound

    async def accept(self) -> None:
        """Accept connections from now on; raises ListenError when the address was lost."""
        assert self._server is not None, "bind comes first"
        try:
            await begin_accepting(self._server)
        except OSError as error:
            raise ListenError(
                f"cannot listen on {format_address(self._bound)} for other nodes: {error.strerror}; another process "
                "took the address meanwhile: stop it, or choose another as peers.listen"
            ) from error

    async def close(self, why: str) -> None:
        """Close everything, with a reason for the other nodes; nothing is told afterwards."""
        self._is_closed = True
        self._events.clear()
        if self._server is not None:
            self._server.close()
        dialing = [peer.dialing for peer in self._peers.values() if peer.dialing is not None]
        for task in dialing:
            task.cancel()
        await asyncio.gather(*dialing, return_exceptions=True)
        for connection in tuple(self._live.values()):
            connection.close(why)
        gone = [asyncio.ensure_future(connection.gone.wait()) for connection in self._live.values()]
        if gone:
            _, waiting = await asyncio.wait(gone, timeout=self.limits.close_ms / 1000)
            for waiter in waiting:
                waiter.cancel()
        for connection in tuple(self._live.values()):
            connection.abort("")

    # ---- the port ---------------------------------------------------------------------------------------------------

    def join(self, cluster_id: str) -> None:
        """Be of this cluster from now on; of a node that was of none, before the first `connect`."""
        self._known = replace(self._known, cluster_id=cluster_id)

    def connect(self, wanted: ConnectPeers) -> None:
        """Be in contact with these from now on, and with no other."""
        before, self._known = self._known, self._known.expecting(wanted)
        is_new_life = before.node_epoch is not None and before.node_epoch != wanted.node_epoch
        for connection in tuple(self._live.values()):
            why = self._outlived(connection, is_new_life=is_new_life)
            if why:
                self._give_up(connection, why)
        for node_id, peer in tuple(self._peers.items()):
            is_moved = before.expected.get(node_id) != self._known.expected.get(node_id)
            if is_new_life or is_moved:
                peer.attempts = Attempts()
                if peer.dialing is not None:
                    peer.dialing.cancel()
                    peer.dialing = None
            if node_id not in self._known.expected:
                del self._peers[node_id]
        for node_id in self._known.expected:
            peer = self._peers.setdefault(node_id, _Peer(node_id, is_called=self._known.node_id < node_id))
            self._try(peer)
        self._await_turn()

    def say(self, peer: int, message: PeerMessage) -> None:
        """Say something, which leaves when the loop's turn is over; void without a contact, and once all are closed."""
        connection = self._connection_to(peer)
        if connection is None or self._is_closed:
            return
        connection.say(message)
        if connection.waiting_bytes > self.limits.output_bytes:
            waiting = connection.waiting_bytes
            connection.abort(f"it does not read: {waiting} bytes wait for it")
            self._give_up(connection, f"it does not read: {waiting} bytes wait for it")

    def end_contact(self, peer: int, why: str) -> None:
        """End the contact there is, if there is one; another one is begun a little later."""
        connection = self._connection_to(peer)
        if connection is not None:
            self._give_up(connection, why)

    def check_deadlines(self, now_ms: int) -> None:
        """Ping, give up on whoever is silent, try again to connect."""
        self._now_ms = now_ms
        for connection in tuple(self._live.values()):
            if why := connection.look(now_ms):
                self._note_broken(connection, why)
                connection.abort(why)
                self._give_up(connection, why)
        for peer in tuple(self._peers.values()):
            if peer.contact.is_there and peer.began_ms is None:
                peer.began_ms = now_ms
            self._try(peer)
        self._await_turn()

    # ---- the connections' owner -------------------------------------------------------------------------------------

    def made(self, connection: PeerConnection) -> PeerHello | None:
        """Take in a new connection; return the hello to say, None to close it."""
        hello = self._known.own_hello()
        strangers = sum(each.hello is None and not each.is_closing for each in self._live.values())
        if self._is_closed or hello is None:
            return None
        if connection.asked_for is None and strangers >= self.limits.strangers:
            self._note_stranger(
                connection, f"{strangers} connections have not said an acceptable hello yet; no more may"
            )
            return None
        if connection.asked_for is not None:
            peer = self._peers.get(connection.asked_for)
            if peer is None or peer.greeting is not None or peer.contact.to is not None:
                return None
            peer.greeting = connection
            peer.dialing = None  # it has done its work: whoever gives up a dialing means one without a connection
            connection.answers = KNOCK if peer.is_called else peer.contact.call
            hello = self._known.own_hello(connection.number, connection.answers)
        self._live[connection.number] = connection
        return hello

    def greeted(self, connection: PeerConnection, hello: PeerHello) -> None:
        """Judge the other end's hello."""
        why = self._known.refusal(hello, connection.asked_for) or self._why_not_its_certificate(connection, hello)
        if why:
            self._note_broken(connection, why)
            self._give_up(connection, f"node {self._known.node_id} refuses: {why}")
            return
        peer = self._peers[hello.node_id]
        self._known = self._known.having_met(hello)
        connection.hello = hello
        number, is_caller = connection.number, peer.is_called
        if connection.asked_for is None:
            line = Line(number, hello.node_epoch, hello.answers if is_caller else hello.number, hello.number)
            self._changed(peer, peer.contact.opened_of(line, is_caller=is_caller), "it has begun anew")
        else:
            peer.greeting = None
            line = Line(number, hello.node_epoch, number if is_caller else connection.answers, number)
            self._changed(peer, peer.contact.opened_to(line, is_caller=is_caller), "it was called again")
        if peer.greeting is not None and not is_caller and peer.greeting.answers != peer.contact.call:
            self._give_up(peer.greeting, "it has called meanwhile")
        self._try(peer, at_once=peer.contact.of is not None)
        self._hand_on()

    def heard(self, connection: PeerConnection, message: PeerMessage) -> None:
        """Hand on what a peer said, or keep it until the contact has begun."""
        assert connection.hello is not None, "a session says nothing before the hello"
        peer = self._peers[connection.hello.node_id]
        if connection.asked_for is not None:
            self.broken(
                connection, "it says something on the connection that was opened to it, and has its own for that"
            )
        elif peer.contact.is_there:
            self._events.append(PeerSaid(peer.node_id, connection.hello.node_epoch, message))
            self._hand_on()
        else:
            connection.held.append(message)
            if connection.held_bytes > self.limits.held_bytes:
                self.broken(connection, f"it said {connection.held_bytes} bytes before the contact has begun here")

    def pinged(self, connection: PeerConnection) -> None:
        """Tell that the other end of a contact lives, once for the two connections that there are."""
        assert connection.hello is not None, "a session says nothing before the hello"
        peer = self._peers[connection.hello.node_id]
        if connection.asked_for is None and peer.contact.is_there:
            self._events.append(PeerPinged(peer.node_id, connection.hello.node_epoch))
            self._hand_on()

    def broken(self, connection: PeerConnection, why: str) -> None:
        """Close a connection whose other end broke a rule."""
        self._note_broken(connection, why)
        self._give_up(connection, why)
        self._hand_on()

    def lost(self, connection: PeerConnection, why: str) -> None:
        """Take note that a connection is gone."""
        if self._live.pop(connection.number, None) is None:
            return
        peer = self._peer_of(connection)
        if peer is not None and not peer.contact.is_there and connection in (peer.greeting, self._opened_to(peer)):
            self._note(peer, "peer-unreachable", why)
        self._forget(connection, why)
        self._hand_on()

    def to_flush(self, connection: PeerConnection) -> None:
        """Write what a connection has to say when the loop's turn is over."""
        self._unflushed.append(connection)
        self._await_turn()

    # ---- contacts ---------------------------------------------------------------------------------------------------

    def _give_up(self, connection: PeerConnection, why: str) -> None:
        """Close a connection, and with it the contact that it is of."""
        connection.close(why)
        self._forget(connection, why)
        self._await_turn()

    def _forget(self, connection: PeerConnection, why: str) -> None:
        peer = self._peer_of(connection)
        if peer is None:
            return
        if peer.greeting is connection:
            peer.greeting = None
        self._changed(peer, peer.contact.closed(connection.number), why)
        self._try(peer)

    def _changed(self, peer: _Peer, after: tuple[Contact, tuple[Change, ...]], why: str) -> None:
        """Take over what has become of a contact."""
        peer.contact, changes = after
        for change in changes:
            match change:
                case Begins(node_epoch):
                    self._begun(peer, node_epoch)
                case Ends(node_epoch):
                    lasted_ms = 0 if peer.began_ms is None else self._now_ms - peer.began_ms
                    peer.attempts = peer.attempts.after_contact(lasted_ms)
                    self._events.append(ContactEnded(peer.node_id, node_epoch, why))
                    if not self._is_closed:
                        self._log.warning("peer-lost", peer=peer.node_id, node_epoch=node_epoch, why=why)
                case Closes(number):
                    if number in self._live:
                        self._live[number].close(f"their contact is over: {why}")

    def _begun(self, peer: _Peer, node_epoch: int) -> None:
        peer.began_ms = None
        peer.whys.clear()
        self._events.append(ContactBegan(peer.node_id, node_epoch))
        self._log.info("peer-met", peer=peer.node_id, node_epoch=node_epoch)
        assert peer.contact.of is not None, "a contact has both connections"
        connection = self._live[peer.contact.of.number]
        self._events.extend(PeerSaid(peer.node_id, node_epoch, message) for message in connection.held)
        connection.held.clear()
        connection.held_bytes = 0

    def _connection_to(self, node_id: int) -> PeerConnection | None:
        peer = self._peers.get(node_id)
        return self._opened_to(peer) if peer is not None and peer.contact.is_there else None

    def _opened_to(self, peer: _Peer) -> PeerConnection | None:
        return None if peer.contact.to is None else self._live.get(peer.contact.to.number)

    def _peer_of(self, connection: PeerConnection) -> _Peer | None:
        if connection.asked_for is not None:
            return self._peers.get(connection.asked_for)
        return None if connection.hello is None else self._peers.get(connection.hello.node_id)

    def _outlived(self, connection: PeerConnection, *, is_new_life: bool) -> str:
        """Return why a connection does not fit to what is wanted now; empty if it does."""
        if is_new_life:
            return f"node {self._known.node_id} has registered anew, in node epoch {self._known.node_epoch}"
        hello = connection.hello
        node_id = connection.asked_for if hello is None else hello.node_id
        if node_id is not None and node_id not in self._known.expected:
            return f"node {node_id} is not to be spoken with any more"
        if hello is not None and hello.node_epoch < self._known.lives[hello.node_id]:
            return f"node {hello.node_id} has been registered in node epoch {self._known.lives[hello.node_id]} since"
        return ""

    # ---- connecting -------------------------------------------------------------------------------------------------

    def _try(self, peer: _Peer, *, at_once: bool = False) -> None:
        """Connect to a peer if there is no connection to it, nor one under way, and it is time to."""
        is_under_way = peer.dialing is not None or peer.greeting is not None or peer.contact.to is not None
        is_due = at_once or self._now_ms >= peer.attempts.due_ms
        is_wanted = peer.node_id in self._known.expected and not self._is_closed
        if is_under_way or not is_due or not is_wanted:
            return
        peer.attempts = peer.attempts.begun(self._now_ms)
        peer.dialing = asyncio.get_running_loop().create_task(self._dial(peer))

    async def _dial(self, peer: _Peer) -> None:
        wanted = self._known.expected[peer.node_id]
        this = asyncio.current_task()
        try:
            await dial(wanted.addresses, lambda host: self._calling(peer.node_id, host), self.limits.silence_ms)
        except NotReachedError as error:
            if peer.dialing is this:
                peer.dialing = None
                self._note(peer, "peer-unreachable", str(error))
                if error.is_refused:
                    self._events.append(PeerRefused(peer.node_id, wanted.node_epoch))
                    self._hand_on()
        else:
            if peer.dialing is this:
                peer.dialing = None
                self._try(peer, at_once=peer.contact.of is not None)  # it may have called and the knock be closed

    def _called(self) -> asyncio.Protocol:
        """Return the protocol of a connection that another node has opened."""
        connection = self._connection(None)
        return connection if self._tls is None else TlsEnd(self._tls.value.called, connection, advice=_ADVICE)

    def _calling(self, node_id: int, host: str) -> asyncio.Protocol:
        """Return the protocol of a connection to a node, which has to show a certificate for the host."""
        connection = self._connection(node_id)
        if self._tls is None:
            return connection
        return TlsEnd(self._tls.value.calling, connection, host=host, advice=_ADVICE)

    def _why_not_its_certificate(self, connection: PeerConnection, hello: PeerHello) -> str:
        """Say why whoever has called is not the node that it says, empty if it is; of one that was called TLS has."""
        if self._tls is None or connection.asked_for is not None:
            return ""
        hosts = [host for host, _ in self._known.expected[hello.node_id].addresses]
        if any(is_for_host(connection.shown.names, host) for host in hosts):
            return ""
        return (
            f"the certificate that was shown for node {hello.node_id} is for {say_names(connection.shown.names)}, and "
            f"the node is registered at {', '.join(hosts)}: a node's certificate has to name its host"
        )

    def _connection(self, asked_for: int | None) -> PeerConnection:
        self._last_number += 1
        return PeerConnection(self, self._last_number, asked_for)

    # ---- the end of a turn ------------------------------------------------------------------------------------------

    def _await_turn(self) -> None:
        if not self._is_turn_awaited and (self._events or self._unflushed):
            self._is_turn_awaited = True
            asyncio.get_running_loop().call_soon(self._end_turn)

    def _end_turn(self) -> None:
        self._is_turn_awaited = False
        self._hand_on()
        unflushed, self._unflushed = self._unflushed, []
        for connection in unflushed:
            connection.flush()

    def _hand_on(self) -> None:
        """Tell what has happened, in its order; what happens meanwhile is told after it."""
        if self._is_handing_on:
            return
        self._is_handing_on = True
        try:
            while self._events and not self._is_closed:
                self._post(self._events.popleft())
        finally:
            self._is_handing_on = False

    # ---- the log ----------------------------------------------------------------------------------------------------

    def _note_broken(self, connection: PeerConnection, why: str) -> None:
        peer = self._peer_of(connection)
        if peer is None:
            self._note_stranger(connection, why)
        else:
            self._note(peer, "peer-refused", why)

    def _note_stranger(self, connection: PeerConnection, why: str) -> None:
        if self._last_stranger != (connection.host, why):
            self._last_stranger = (connection.host, why)
            self._log.warning("stranger", host=connection.host, why=why)

    def _note(self, peer: _Peer, kind: str, why: str) -> None:
        if why in peer.whys or self._is_closed:
            return
        if len(peer.whys) >= _MOST_WHYS:
            peer.whys.clear()
        peer.whys.add(why)
        self._log.warning(kind, peer=peer.node_id, why=why)
