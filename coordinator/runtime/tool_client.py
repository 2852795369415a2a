"""Asks a coordinator one thing over a blocking socket: for command-line tools, never for members.

Follows a group to the node that coordinates it, and asks again while the refusal says that it may pass, all within
one time-out. A refusal is returned as the response that carries it; whatever keeps a response from coming is a
`ToolError` that says what was tried, why it failed and what to do. Looking up a host name is the operating system's
and is not bounded by the time-out.
"""

import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from coordinator.protocol.addresses import Address, format_address
from coordinator.protocol.errors import ErrorCode, LocalProtocolError, RemoteProtocolError
from coordinator.protocol.messages import FindCoordinator, FindCoordinatorResponse, Request, Response
from coordinator.protocol.pages import ask_for_all
from coordinator.protocol.session import ResponseReceived, Role, Session, SessionEvent

PAUSE_S: Final = 0.1
"""Time between two attempts at a refusal that may pass."""

_MAY_PASS: Final = frozenset(
    {ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.COORDINATOR_NOT_AVAILABLE}
)
_READ_BYTES: Final = 256 * 1024


class ToolError(Exception):
    """No response came; the text says what was tried, why it failed and what to do."""


class ToolTimeoutError(ToolError):
    """No response came in time."""


def refusal_of(response: Response) -> tuple[ErrorCode, str] | None:
    """Return the code and the text of a response that refuses its request as a whole, or None."""
    code = getattr(response, "error", ErrorCode.NONE)
    return None if code is ErrorCode.NONE else (code, getattr(response, "message", ""))


def ask(address: Address, request: Request, timeout_s: float) -> Response:
    """Return the response to a request, from the node that coordinates its group when it names one.

    An answer in pages is returned as one. Raises ToolTimeoutError after `timeout_s` and ToolError when no coordinator
    answers there.
    """
    deadline = time.monotonic() + timeout_s
    node, refused = address, None
    while True:
        try:
            with _Conversation(node, deadline, timeout_s) as conversation:
                conversation.greet()
                response = ask_for_all(conversation.ask, request)
                refusal = refusal_of(response)
                if refusal is None or refusal[0] not in _MAY_PASS or deadline - time.monotonic() <= PAUSE_S:
                    return response
                refused = response
                if refusal[0] is ErrorCode.NOT_COORDINATOR:
                    node = _coordinator_of(conversation, request) or node
        except ToolTimeoutError:
            if refused is None:
                raise
            return refused  # which says more than that the last try took too long
        time.sleep(PAUSE_S)


def _coordinator_of(conversation: "_Conversation", request: Request) -> Address | None:
    group_id = getattr(request, "group_id", None)
    if not isinstance(group_id, str) or isinstance(request, FindCoordinator):
        return None
    answer = conversation.ask(FindCoordinator(group_id))
    if isinstance(answer, FindCoordinatorResponse) and answer.coordinator is not None:
        return answer.coordinator.host, answer.coordinator.port
    return None


class _Conversation:
    """One connection and its session; a context manager that closes both."""

    def __init__(self, address: Address, deadline: float, timeout_s: float) -> None:
        self._name = format_address(address)
        self._deadline = deadline
        self._timeout_s = timeout_s
        self._session = Session(Role.MEMBER)
        with self._failures():
            self._socket = socket.create_connection(address, timeout=self._time_left())

    def __enter__(self) -> "_Conversation":
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def greet(self) -> None:
        """Exchange hellos."""
        with self._failures():
            self._socket.sendall(self._session.send_hello())
            while self._session.version is None:
                self._receive()

    def ask(self, request: Request) -> Response:
        """Send a request and return its response."""
        with self._failures():
            correlation_id, data = self._session.send_request(request)
            self._socket.settimeout(self._time_left())
            self._socket.sendall(data)
            while True:
                for event in self._receive():
                    if isinstance(event, ResponseReceived) and event.correlation_id == correlation_id:
                        return event.response

    def _receive(self) -> list[SessionEvent]:
        self._socket.settimeout(self._time_left())
        data = self._socket.recv(_READ_BYTES)
        if not data:
            raise EOFError
        return list(self._session.receive_bytes(data))

    def _time_left(self) -> float:
        left = self._deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError
        return left

    @contextmanager
    def _failures(self) -> Iterator[None]:
        """Turn what can go wrong on the way into errors for people."""
        try:
            yield
        except TimeoutError as error:
            raise ToolTimeoutError(
                f"the coordinator at {self._name} did not answer within {self._timeout_s:g} s; check that the address "
                f"is a coordinator's and that it is running, or allow more time"
            ) from error
        except EOFError as error:
            if self._session.version is not None:
                raise ToolError(
                    f"the coordinator at {self._name} closed the connection before it answered: it was stopped, or met "
                    "a bug, which its log says; look whether what was asked for is done, and ask again"
                ) from error
            raise ToolError(
                f"{self._name} closed the connection without an answer; check that the address is a kcoord "
                f"coordinator's and not a Kafka broker's"
            ) from error
        except RemoteProtocolError as error:
            raise ToolError(f"{self._name} does not speak as a kcoord coordinator: {error}") from error
        except LocalProtocolError as error:
            raise ToolError(f"the request cannot be sent: {error}") from error
        except OSError as error:
            raise ToolError(
                f"the coordinator at {self._name} cannot be reached: {error.strerror or error}; check the address and "
                f"that a coordinator is running there"
            ) from error
