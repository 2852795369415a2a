"""A crowd of connections that do next to nothing: idle ones, half-open ones, and such as say a byte a second.

Whoever is closed comes again, so that the crowd stays as large as it was asked to be.
"""

import selectors
import socket
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from coordinator.protocol.messages import ListGroups
from coordinator.protocol.session import Role, Session
from tests.hostile.stranger import source

KINDS = ("idle", "half-open", "trickler")
_AT_ONCE = 100
"""Connections that are begun in one go, with a pause after it: a crowd is no flood."""
_PAUSE_S = 0.2
_TRICKLE_S = 1.0


@dataclass(slots=True, eq=False)
class _One:
    kind: str
    number: int
    socket: socket.socket
    said: int = 0
    """Bytes that a trickler has said."""


def hello_and_question() -> tuple[bytes, bytes]:
    """Return a hello, and the frame of a request."""
    session, node = Session(Role.MEMBER), Session(Role.COORDINATOR)
    hello = session.send_hello()
    list(session.receive_bytes(node.send_hello()))
    return hello, session.send_request(ListGroups())[1]


class Crowd:
    """Connections by kind; `closed` counts those that the node has closed, and how many came again."""

    def __init__(self, address: str, counts: dict[str, int]) -> None:
        host, _, port = address.rpartition(":")
        self._address = (host, int(port))
        self._wanted = [(kind, number) for kind in KINDS for number in range(counts[kind])]
        self._hello, self._question = hello_and_question()
        self._selector = selectors.DefaultSelector()
        self._tricklers: dict[_One, None] = {}
        self._next_s = 0.0
        self.live = 0
        self.closed: Counter[str] = Counter()

    @property
    def is_whole(self) -> bool:
        """True when everybody has begun to connect."""
        return not self._wanted

    def turn(self) -> None:
        """Begin some connections, say a byte on some, and take note of those that were closed."""
        if time.monotonic() >= self._next_s:
            self._next_s = time.monotonic() + _PAUSE_S
            for _ in range(min(_AT_ONCE, len(self._wanted))):
                self._begin(*self._wanted.pop())
        for key, _ in self._selector.select(0.05):
            self._hear(key.data)

    def trickle(self) -> None:
        """Have every trickler say one byte more."""
        words = self._hello + self._question
        for one in tuple(self._tricklers):
            # Every other one says its hello in one piece, and trickles its request.
            if one.said == 0 and one.number % 2:
                piece = self._hello
            else:
                piece = words[one.said : one.said + 1] if one.said + 1 < len(words) else b""
            try:
                one.said += one.socket.send(piece) if piece else 0
            except OSError:
                self._lose(one)

    def close(self) -> None:
        """Go."""
        for key in tuple(self._selector.get_map().values()):
            key.data.socket.close()
        self._selector.close()

    def _begin(self, kind: str, number: int) -> None:
        sock = socket.socket()
        sock.bind((source(KINDS.index(kind) * 250 + number % 250), 0))
        sock.setblocking(False)
        sock.connect_ex(self._address)
        one = _One(kind, number, sock)
        self._selector.register(sock, selectors.EVENT_READ, one)
        self.live += 1

    def _hear(self, one: _One) -> None:
        try:
            data = one.socket.recv(1 << 16)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._lose(one)
            return
        # The node's hello: an idle one answers it, half of them ask one thing, and is silent after that.
        if one.kind == "idle" and one.said == 0:
            one.said = 1
            try:
                one.socket.send(self._hello + (self._question if one.number % 2 else b""))
            except OSError:
                self._lose(one)
        elif one.kind == "trickler":
            self._tricklers[one] = None

    def _lose(self, one: _One) -> None:
        self._tricklers.pop(one, None)
        try:
            self._selector.unregister(one.socket)
        except KeyError:
            return
        one.socket.close()
        self.live -= 1
        self.closed[one.kind] += 1
        self._wanted.append((one.kind, one.number))


def stay(crowd: Crowd, until: Callable[[], bool], tell: Callable[[str], None]) -> None:
    """Keep the crowd until told to end; `tell` hears once that everybody is there."""
    is_told = False
    next_s = time.monotonic()
    while not until():
        crowd.turn()
        if time.monotonic() >= next_s:
            next_s += _TRICKLE_S
            crowd.trickle()
        if not is_told and crowd.is_whole:
            is_told = True
            tell("ready")
