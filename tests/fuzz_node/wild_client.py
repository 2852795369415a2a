"""A wild client over a real socket: sends requests of any kind without waiting, and takes what comes back."""

import select
import socket
from random import Random

from coordinator.protocol.errors import ErrorCode, LocalProtocolError, RemoteProtocolError
from coordinator.protocol.messages import RegisterConsumerResponse, Request
from coordinator.protocol.session import PushReceived, ResponseReceived, Role, Session
from tests.fuzz_node.verdict import Verdict
from tests.helpers.declared_codes import undeclared_code
from tests.helpers.wild_requests import Known, WildRequests

MOST_OPEN = 30
"""Requests of a connection without an answer; a node lets 64 be so."""
PATIENCE_S = 10.0


class WildClient:
    """One connection, made anew whenever the node has closed it."""

    def __init__(self, address: tuple[str, int], dice: Random, known: Known, verdict: Verdict) -> None:
        self._address = address
        self._dice = dice
        self._known = known
        self._requests = WildRequests(dice, known)
        self._verdict = verdict
        self._socket: socket.socket | None = None
        self._session = Session(Role.MEMBER)
        self._unsent = b""
        self._is_bent = False
        """A frame was bent since it connected: which answer is whose is not known any more."""
        self.is_member = False

    @property
    def socket(self) -> socket.socket:
        """The connection, made now if there is none."""
        if self._socket is None:
            self._socket = socket.create_connection(self._address, PATIENCE_S)
            self._socket.setblocking(False)
            self._session = Session(Role.MEMBER)
            self._unsent = self._session.send_hello()
        return self._socket

    @property
    def waits_for_answers(self) -> bool:
        """True while it is connected and something it asked is not answered."""
        return self._socket is not None and self._session.unanswered > 0 and not self._is_bent

    def open_requests(self) -> str:
        """Name what is not answered, and how much of it has not been sent."""
        names = ", ".join(type(request).__name__ for request in self._session._asked.values())
        return f"{names} ({len(self._unsent)} bytes not sent)"

    def act(self) -> None:
        """Take what has come, send what was begun, and say something more."""
        self.receive()
        if self._session.version is None or self._unsent or self._session.unanswered >= MOST_OPEN:
            self._send()
            return
        dice = self._dice
        if dice.random() < (0.2 if self._is_bent else 0.002):
            self._lose()
            return
        is_large = dice.random() < 0.0005
        request: Request = self._requests.large() if is_large else self._requests.any(is_member=self.is_member)
        try:
            data = self._session.send_request(request)[1]
        except LocalProtocolError:
            return
        self._is_bent |= dice.random() < 0.01
        if self._is_bent:
            spot = dice.randrange(len(data))
            data = data[:spot] + bytes([dice.randrange(256)]) + data[spot + 1 :]
        self._verdict.frames += 1
        self._unsent += data
        self._send()

    def finish(self, wait_s: float) -> None:
        """Send what was begun, of which nothing is answered before the node has all, and take what has come."""
        self._send()
        if self._socket is not None:
            self.receive(wait_s)

    def receive(self, wait_s: float = 0.0) -> None:
        """Take in what the node says."""
        sock = self.socket
        if not select.select([sock], [], [], wait_s)[0]:
            return
        try:
            data = sock.recv(1 << 18)
        except OSError:
            data = b""
        if not data:
            self._verdict.closed += 1
            self._lose()
            return
        try:
            for event in self._session.receive_bytes(data):
                if isinstance(event, ResponseReceived):
                    self._judge(event)
                elif isinstance(event, PushReceived):
                    self._known.learn(event.push)
        except RemoteProtocolError:
            # A frame that was bent may ask for something else than this end believes.
            self._lose()

    def _judge(self, event: ResponseReceived) -> None:
        response = event.response
        self._known.learn(response)
        if self._is_bent:
            return
        self.is_member |= isinstance(response, RegisterConsumerResponse) and response.error is ErrorCode.NONE
        self._verdict.refused += getattr(response, "error", ErrorCode.NONE) is not ErrorCode.NONE
        why = undeclared_code(event.request, response)
        if why is not None:
            self._verdict.undeclared += 1
            self._verdict.say(why)

    def _send(self) -> None:
        if self._unsent and self._socket is not None:
            try:
                sent = self._socket.send(self._unsent)
            except BlockingIOError:
                return
            except OSError:
                self._verdict.closed += 1
                self._lose()
                return
            self._unsent = self._unsent[sent:]

    def _lose(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None
            self._is_bent = self.is_member = False

    def close(self) -> None:
        """Go."""
        self._lose()
