"""Many connections of one load process over one epoll: frames in, bytes out, and no more cost than that.

Where they are secured, one that is begun goes its way in step by step, as its socket is ready, beside the others.

A frame is a four-byte big-endian length and that many bytes, in kcoord's protocol as in Kafka's, so both are loaded by
this code. What a frame says is its peer's business. One thread; a turn takes what has come and calls the peers.
"""

import contextlib
import select
import socket
import ssl
import struct
from typing import Final, Generic, Protocol, TypeVar

_LENGTH: Final = struct.Struct(">I")
_PRECISELY_S: Final = 0.005
"""Waits that are shorter are not rounded to milliseconds."""
_READ_BYTES: Final = 256 * 1024
_NOT_NOW: Final = (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError)
_EVENTS_A_TURN: Final = 256
_CONNECT_TIMEOUT_S: Final = 20.0
_WITH_RESET: Final = struct.pack("ii", 1, 0)
_BIND_ADDRESS_NO_PORT: Final = 24
"""Linux's option that has a port chosen when the other end is known, from all that are free towards it."""


class Peer:
    """One connection; whoever speaks a protocol overrides `receive`."""

    __slots__ = ("buffer", "sent_s", "sock", "unsent")

    def __init__(self) -> None:
        self.buffer = b""
        self.unsent = b""
        self.sock: socket.socket
        self.sent_s = 0.0

    def receive(self, body: bytes) -> bool:
        """Take one frame without its length; say whether it answers the request that a round timed."""
        raise NotImplementedError

    def lost(self) -> None:
        """Take note that the other side has closed the connection."""
        raise RuntimeError("the server closed a connection")


P = TypeVar("P", bound=Peer)


class Entry(Protocol):
    """A connection on its way in."""

    sock: socket.socket
    """The socket as it is now; its file descriptor stays."""

    def go_on(self) -> int:
        """Go on where the socket is ready; returns for what it waits, EPOLLIN or EPOLLOUT, 0 once it is in."""


class Security(Protocol):
    """The securing of connections, before their peers say anything."""

    def connect(self, sock: socket.socket) -> socket.socket:
        """Return the socket to speak on; it blocks."""

    def begin(self, sock: socket.socket) -> Entry:
        """Return the way in of a connection that is being made."""


class Sockets(Generic[P]):
    """The connections of this process, whose peers are of one kind."""

    def __init__(self, security: Security | None = None) -> None:
        self._security = security
        self._epoll = select.epoll()
        self._peers: dict[int, P] = {}
        self._entries: dict[int, Entry] = {}

    @property
    def entering(self) -> int:
        """The number of connections on their way in."""
        return len(self._entries)

    def open(self, peer: P, host: str, port: int, source: str) -> None:
        """Connect a peer from a source address of loopback, each of which has its own range of ports."""
        sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.settimeout(_CONNECT_TIMEOUT_S)
        sock.bind((source, 0))
        sock.connect((host, port))
        if self._security is not None:
            sock = self._security.connect(sock)
        sock.setblocking(False)
        peer.sock = sock
        self._peers[sock.fileno()] = peer
        self._epoll.register(sock.fileno(), select.EPOLLIN)
        if self._security is not None:
            self._read(peer, [])  # what was decrypted along with the end of the log-in

    def begin(self, peer: P, host: str, port: int, source: str) -> None:
        """Begin to connect a peer; what is sent meanwhile goes out when it is, and one that is refused is lost.

        The connection ends with a reset, so that its port can be used again at once.
        """
        sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _WITH_RESET)
        sock.setsockopt(socket.IPPROTO_IP, _BIND_ADDRESS_NO_PORT, 1)
        sock.bind((source, 0))
        sock.setblocking(False)
        sock.connect_ex((host, port))
        peer.sock = sock
        self._peers[sock.fileno()] = peer
        if self._security is None:
            self._epoll.register(sock.fileno(), select.EPOLLIN)
            return
        self._entries[sock.fileno()] = self._security.begin(sock)
        self._epoll.register(sock.fileno(), select.EPOLLOUT)

    def send(self, peer: Peer, data: bytes) -> None:
        """Write now, and what does not fit as soon as it does."""
        if peer.unsent or peer.sock.fileno() in self._entries:
            peer.unsent += data
            return
        try:
            sent = peer.sock.send(data)
        except (*_NOT_NOW, ConnectionError):  # of one that has ended the next turn tells
            sent = 0
        if sent < len(data):
            peer.unsent = data[sent:]
            self._epoll.modify(peer.sock.fileno(), select.EPOLLIN | select.EPOLLOUT)

    def has(self, peer: Peer) -> bool:
        """Say whether a peer is connected, as far as was noticed."""
        return getattr(peer, "sock", None) is not None and self._peers.get(peer.sock.fileno()) is peer

    def close(self, peer: Peer) -> None:
        """Close a connection as the end of a process does."""
        self._peers.pop(peer.sock.fileno(), None)
        self._entries.pop(peer.sock.fileno(), None)
        peer.sock.close()

    def close_all(self) -> None:
        """Close every connection, with a reset, which leaves no port in TIME_WAIT."""
        for peer in list(self._peers.values()):
            peer.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _WITH_RESET)
            self.close(peer)
        self._epoll.close()

    def turn(self, timeout_s: float) -> list[P]:
        """Wait for news, hand frames to their peers, and return those whose timed request was answered.

        A wait is as long as was asked for to some 50 us, where epoll knows whole milliseconds: a load that is paced
        need not look again and again meanwhile, on a core that the servers could use.
        """
        answered: list[P] = []
        if 0 < timeout_s < _PRECISELY_S:
            select.select([self._epoll], [], [], timeout_s)
            timeout_s = 0
        for fd, mask in self._epoll.poll(timeout_s, _EVENTS_A_TURN):
            peer = self._peers.get(fd)
            if peer is None:
                continue
            if fd in self._entries:
                self._go_on_in(peer, fd)
                continue
            if mask & select.EPOLLOUT:
                self._flush(peer)
            if mask & ~select.EPOLLOUT:
                self._read(peer, answered)
        return answered

    def _go_on_in(self, peer: P, fd: int) -> None:
        entry = self._entries[fd]
        waits_for = entry.go_on()
        peer.sock = entry.sock
        if not waits_for:
            del self._entries[fd]
            waits_for = select.EPOLLIN | (select.EPOLLOUT if peer.unsent else 0)
        self._epoll.modify(fd, waits_for)

    def _flush(self, peer: P) -> None:
        with contextlib.suppress(*_NOT_NOW, ConnectionError):
            peer.unsent = peer.unsent[peer.sock.send(peer.unsent) :]
        if not peer.unsent:
            self._epoll.modify(peer.sock.fileno(), select.EPOLLIN)

    def _read(self, peer: P, answered: list[P]) -> None:
        try:
            data = peer.sock.recv(_READ_BYTES)
            while isinstance(peer.sock, ssl.SSLSocket) and data and peer.sock.pending():
                data += peer.sock.recv(peer.sock.pending())
        except _NOT_NOW:
            return
        except ConnectionError:
            data = b""
        if not data:
            self.close(peer)
            peer.lost()
            return
        if peer.buffer:
            data = peer.buffer + data
        at, length = 0, len(data)
        while length - at >= _LENGTH.size:
            end = at + _LENGTH.size + _LENGTH.unpack_from(data, at)[0]
            if end > length:
                break
            if peer.receive(data[at + _LENGTH.size : end]):
                answered.append(peer)
            at = end
        peer.buffer = data[at:]
