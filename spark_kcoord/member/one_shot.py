"""Single questions to a coordinator, without being a member: for the command line, batch reads and look-ups.

Blocking, on the caller's thread, one connection a question. Every node that was given or named is tried until the time
is over; refusals that may pass are asked again.
"""

import random
import time
from collections.abc import Sequence
from typing import Final

from coordinator.protocol.addresses import Address, format_address
from coordinator.protocol.errors import RemoteProtocolError
from coordinator.protocol.messages import (
    ErrorResponse,
    FetchOffsets,
    FetchOffsetsResponse,
    FindCoordinator,
    FindCoordinatorResponse,
    Request,
    Response,
)
from coordinator.protocol.pages import ask_for_all
from coordinator.protocol.session import HelloReceived, ResponseReceived, Role, Session, SessionEvent
from spark_kcoord.errors import KcoordError
from spark_kcoord.member import refusals
from spark_kcoord.member.nodes import Nodes
from spark_kcoord.member.settings import BOOTSTRAP_OPTION
from spark_kcoord.member.transport import CONNECT_ERRORS, OPEN_TIMEOUT_S, open_socket, why_failed

RECEIVE_BYTES: Final = 64 * 1024
MAX_REDIRECTS: Final = 5
TRY_TIMEOUT_S: Final = 5.0
"""How long one node may take before the next one is tried."""


class _NotNowError(Exception):
    """This node cannot answer now; another try may succeed."""


def request_once(
    coordinators: Sequence[Address], group_id: str | None, request: Request, *, timeout_s: float
) -> Response:
    """Ask one question and return its response, which may carry a final refusal.

    With a group id it goes to that group's coordinator, otherwise to any node. Raises KcoordError when no coordinator
    answers in time or the request itself is refused.
    """
    deadline_s = time.monotonic() + timeout_s
    nodes = Nodes(coordinators, random.random)
    while True:
        try:
            return _ask(nodes, group_id, request, deadline_s)
        except CONNECT_ERRORS as error:
            nodes.note_trouble(why_failed(error), is_elsewhere_better=True)
        except (RemoteProtocolError, _NotNowError) as error:
            nodes.note_trouble(str(error), is_elsewhere_better=True)
        backoff_s = nodes.next_backoff_ms() / 1000
        if time.monotonic() + backoff_s >= deadline_s:
            addresses = ",".join(format_address(address) for address in coordinators)
            raise KcoordError(
                f"No kcoord coordinator answered within {timeout_s:g} s: {nodes.describe_troubles()}. Check that one "
                f"runs at option '{BOOTSTRAP_OPTION}' ({addresses}) and can be reached from this machine."
            )
        time.sleep(backoff_s)


def find_coordinator(coordinators: Sequence[Address], group_id: str, *, timeout_s: float) -> FindCoordinatorResponse:
    """Return which node coordinates a group, and where Kafka is; raises KcoordError."""
    response = request_once(coordinators, None, FindCoordinator(group_id), timeout_s=timeout_s)
    _refuse(response, group_id)
    assert isinstance(response, FindCoordinatorResponse)
    return response


def fetch_offsets(coordinators: Sequence[Address], group_id: str, *, timeout_s: float) -> dict[tuple[str, int], int]:
    """Return a group's committed offsets by topic and partition; what has none is absent.

    Raises KcoordError, also for a group the coordinator does not know.
    """
    response = request_once(coordinators, group_id, FetchOffsets(group_id), timeout_s=timeout_s)
    _refuse(response, group_id)
    assert isinstance(response, FetchOffsetsResponse)
    return {(part.topic, part.partition): part.offset for part in response.offsets}


def _refuse(response: Response, group_id: str) -> None:
    refusal = refusals.refusal_of(response)
    if refusal is not None:
        raise KcoordError(
            f"The coordinator refused a question about group '{group_id}': {refusals.show_refusal(refusal)}"
        )


def _ask(nodes: Nodes, group_id: str | None, request: Request, deadline_s: float) -> Response:
    for _ in range(MAX_REDIRECTS):
        with _Conversation(nodes.current, deadline_s) as conversation:
            if group_id is None:
                return ask_for_all(conversation.ask, request)
            found = conversation.ask(FindCoordinator(group_id))
            _refuse(found, group_id)
            assert isinstance(found, FindCoordinatorResponse)
            nodes.learn((node.host, node.port) for node in found.nodes)
            if found.coordinator is None:
                raise _NotNowError("it knows no coordinator of this group")
            address = (found.coordinator.host, found.coordinator.port)
            if address == nodes.current:
                return ask_for_all(conversation.ask, request)
        nodes.choose(address)
    raise _NotNowError("nodes send each other's callers around")


class _Conversation:
    """One blocking connection that has said hello."""

    def __init__(self, address: Address, deadline_s: float) -> None:
        self._last_s = deadline_s
        self._deadline_s = min(deadline_s, time.monotonic() + TRY_TIMEOUT_S)
        self._session = Session(Role.MEMBER)
        self._socket = open_socket(*address, min(OPEN_TIMEOUT_S, self._remaining_s()))

    def __enter__(self) -> "_Conversation":
        try:
            self._socket.sendall(self._session.send_hello())
            while not isinstance(self._next(), HelloReceived):
                pass
        except BaseException:
            self._socket.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def ask(self, request: Request) -> Response:
        """Send one request and wait for its response."""
        self._deadline_s = min(self._last_s, time.monotonic() + TRY_TIMEOUT_S)
        _, data = self._session.send_request(request)
        self._socket.sendall(data)
        while True:
            event = self._next()
            if isinstance(event, ResponseReceived):
                break
        response = event.response
        refusal = refusals.refusal_of(response)
        if refusal is not None and refusal[0] in refusals.PASSING:
            raise _NotNowError(refusals.show_refusal(refusal))
        if isinstance(response, ErrorResponse):
            why = refusals.show_refusal((response.error, response.message))
            raise KcoordError(f"The coordinator refused the request: {why}")
        return response

    def _next(self) -> SessionEvent:
        data = b""
        while True:
            for event in self._session.receive_bytes(data):
                return event
            self._socket.settimeout(self._remaining_s())
            data = self._socket.recv(RECEIVE_BYTES)
            if not data:
                raise ConnectionResetError("it closed the connection")

    def _remaining_s(self) -> float:
        return max(0.01, self._deadline_s - time.monotonic())
