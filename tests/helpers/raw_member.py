"""A member made of a protocol session and a blocking socket: says exactly what it is told to."""

import secrets
import socket
import time
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self, TypeVar

from coordinator.protocol.messages import Push, RegisterConsumer, RegisterConsumerResponse, Request, StartFetcher
from coordinator.protocol.parts import Claim, ResetPolicy, StartPartition, Subscription
from coordinator.protocol.session import PushReceived, ResponseReceived, Role, Session, SessionEvent

PATIENCE_S = 60.0
PushT = TypeVar("PushT", bound=Push)


class RawMember:
    """One identity; `connect` may be called again after the connection was lost."""

    def __init__(self, address: str, group_id: str, *topics: str, member_id: str = "") -> None:
        host, _, port = address.rpartition(":")
        self.group_id = group_id
        self.topics = topics
        self.member_id = member_id
        self.incarnation = secrets.token_hex(8)
        self.session_timeout_ms = 10_000
        self.owned: dict[tuple[str, int], StartPartition] = {}
        self.pushes: list[Push] = []
        self._address = (host, int(port))
        self._socket: socket.socket | None = None
        self._session = Session(Role.MEMBER)
        self._events: list[SessionEvent] = []

    def __enter__(self) -> Self:
        self.connect()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.disconnect()

    def connect(self) -> None:
        """Connect and say hello, again and again until somebody listens."""
        self.disconnect()
        deadline = time.monotonic() + PATIENCE_S
        while True:
            try:
                self._socket = socket.create_connection(self._address, PATIENCE_S)
            except ConnectionRefusedError:
                assert time.monotonic() < deadline, "nobody listens"
                time.sleep(0.02)
            else:
                break
        self._session = Session(Role.MEMBER)
        self._events = []
        self._socket.sendall(self._session.send_hello())
        while self._session.version is None:
            self._read()

    def disconnect(self) -> None:
        """Close the connection without a word."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def ask(self, request: Request) -> Any:
        """Return the response; pushes that come meanwhile are kept."""
        correlation_id = self.send(request)
        return self.take_answer(correlation_id)

    def send(self, request: Request) -> int:
        """Send a request, to take its answer later; return its correlation id."""
        assert self._socket is not None
        correlation_id, data = self._session.send_request(request)
        self._socket.sendall(data)
        return correlation_id

    def take_answer(self, correlation_id: int) -> Any:
        """Return the response to the one request that is not answered yet."""
        while True:
            for event in self._take():
                if isinstance(event, ResponseReceived):
                    assert event.correlation_id == correlation_id
                    return event.response
            self._read()

    def register(self, *, claims: tuple[Claim, ...] = (), **more: Any) -> RegisterConsumerResponse:
        """Join the group, as a new member or as who it was."""
        self.owned.clear()
        self.pushes.clear()
        response: RegisterConsumerResponse = self.ask(
            RegisterConsumer(
                group_id=self.group_id,
                member_id=self.member_id,
                incarnation=self.incarnation,
                subscription=Subscription(self.topics),
                client_id="raw",
                pid=1,
                session_timeout_ms=self.session_timeout_ms,
                rebalance_timeout_ms=60_000,
                assignors=("sticky",),
                reset_policy=ResetPolicy("earliest"),
                claims=claims,
                **more,
            )
        )
        self.member_id = getattr(response, "member_id", "") or self.member_id
        return response

    def wait_for(self, holds: Callable[[], object]) -> None:
        """Read until something is so."""
        deadline = time.monotonic() + PATIENCE_S
        while True:
            for _ in self._take():
                pass
            if holds():
                return
            assert time.monotonic() < deadline, f"it never became so; {self.pushes} came"
            self._read()

    def wait_until_complete(self) -> dict[tuple[str, int], StartPartition]:
        """Read until the whole assignment is here; return it."""
        self.wait_for(lambda: any(isinstance(push, StartFetcher) and push.is_complete for push in self.pushes))
        return dict(self.owned)

    def _take(self) -> list[SessionEvent]:
        events, self._events = self._events, []
        for event in events:
            if isinstance(event, PushReceived):
                self.pushes.append(event.push)
                if isinstance(event.push, StartFetcher):
                    self.owned |= {(start.topic, start.partition): start for start in event.push.partitions}
        return events

    def _read(self) -> None:
        assert self._socket is not None
        data = self._socket.recv(1 << 20)
        if not data:
            raise EOFError("the coordinator closed the connection")
        self._events.extend(self._session.receive_bytes(data))
