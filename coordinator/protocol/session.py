"""The wire conversation without any input or output: one class for all ends, given a role and a language.

Bytes in, events out; messages in, bytes out. It keeps these rules: the first frame of each side is a hello; nothing
else is said before both hellos are there and share a version; every request gets exactly one response, of the type
that belongs to it; pushes have no correlation id; lengths are checked before anything is allocated. It knows no
sockets, no time (deadlines are its owner's), no groups, and of messages only what its language says.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Final, TypeAlias

import msgspec

from coordinator.protocol import framing
from coordinator.protocol.codec import MEMBERS, Language, decode_number, encode_message
from coordinator.protocol.errors import ErrorCode, LocalProtocolError, RemoteProtocolError
from coordinator.protocol.framing import FrameReader, VersionRange
from coordinator.protocol.ids import MAX_LIST_ITEMS
from coordinator.protocol.messages import ErrorResponse, Push, Request, Response
from coordinator.protocol.messages.message import WireMessage

SUPPORTED_VERSIONS: Final = VersionRange(1, 1)
"""Protocol versions this code speaks."""

MAX_CORRELATION_ID: Final = 2**32 - 1
PUSH_CORRELATION_ID: Final = 0


class Role(Enum):
    """The end of the conversation that a session is."""

    MEMBER = "member"
    """Sends requests: a group member or a tool."""
    COORDINATOR = "coordinator"
    """Answers requests and sends pushes."""
    PEER = "peer"
    """Sends pushes and hears pushes, and nobody asks anything: a node, to another one."""


class State(Enum):
    """The state of the conversation."""

    AWAITING_HELLO = "awaiting hello"
    """Our hello may be out; theirs has not come. Nothing else may be sent or received."""
    OPEN = "open"
    """Both hellos share a version: requests, responses and pushes flow."""
    CLOSED = "closed"
    """A rule was broken or one side is done; every further call is our own bug, every further byte is dropped."""


class Step(Enum):
    """The steps that move a session from one state to another."""

    HELLO_SHARED = "hello with a common version"
    HELLO_NOT_SHARED = "hello without a common version"
    MESSAGE = "message"
    VIOLATION = "violation"
    CLOSE = "close"


TRANSITIONS: Final[dict[State, dict[Step, State]]] = {
    State.AWAITING_HELLO: {
        Step.HELLO_SHARED: State.OPEN,
        Step.HELLO_NOT_SHARED: State.CLOSED,
        Step.VIOLATION: State.CLOSED,
        Step.CLOSE: State.CLOSED,
    },
    State.OPEN: {
        Step.MESSAGE: State.OPEN,
        Step.VIOLATION: State.CLOSED,
        Step.CLOSE: State.CLOSED,
    },
    State.CLOSED: {
        Step.CLOSE: State.CLOSED,
    },
}
"""Every legal step; the diagram in docs/PROTOCOL.md is drawn from it."""


@dataclass(frozen=True, slots=True)
class SessionLimits:
    """Limits of the size and number of messages; a length counts a frame's body."""

    hello_bytes: int = 16 * 1024
    """The first frame of either side."""
    frame_bytes: int = 1024 * 1024
    """A request."""
    answer_bytes: int = 16 * 1024 * 1024
    """A response or a push: the description of a group of many partitions is longer than any request."""
    in_flight: int = 64
    """Requests of one connection that wait for their response."""


REQUEST_BYTES: Final = 512
"""The memory that a request takes besides its bytes while it waits for its answer, about."""


@dataclass(slots=True)
class InFlight:
    """The bytes of requests that wait for their answers, of all sessions that share it."""

    bytes: int = 0


@dataclass(frozen=True, slots=True)
class HelloReceived:
    """The peer's hello came and `version` is what both speak from now on."""

    version: int
    peer_versions: VersionRange
    greeting: WireMessage | None = None
    """The rest of it, where the language has anything to say there."""


class RequestReceived(msgspec.Struct, frozen=True, gc=False):
    """A request came (coordinator's side); it must be answered with its correlation id."""

    correlation_id: int
    request: Request


@dataclass(frozen=True, slots=True)
class UnknownRequestReceived:
    """A request came whose number is not known here; `answer` is the refusal to send with its correlation id."""

    correlation_id: int
    number: int
    answer: ErrorResponse


@dataclass(frozen=True, slots=True)
class ResponseReceived:
    """The response to one of our requests came (member's side)."""

    correlation_id: int
    request: Request
    response: Response


@dataclass(frozen=True, slots=True)
class PushReceived:
    """The other end said something by itself (a member's or a peer's side)."""

    push: Push


SessionEvent: TypeAlias = HelloReceived | RequestReceived | UnknownRequestReceived | ResponseReceived | PushReceived


class Session:
    """One end of a conversation.

    Feed `receive_bytes` and write what the `send_*` methods return, in that order. Raises RemoteProtocolError when
    the peer breaks a rule: the session is then CLOSED and the transport is to be closed with that reason; bytes
    already returned may still be written. Raises LocalProtocolError for our own mistakes.
    """

    __slots__ = (
        "_asked",
        "_decode",
        "_has_greeted",
        "_in_flight",
        "_in_flight_of_all",
        "_language",
        "_next_id",
        "_one_way",
        "_reader",
        "_role",
        "_state",
        "_version",
        "is_closed",
        "limits",
        "versions",
    )

    def __init__(
        self,
        role: Role,
        limits: SessionLimits | None = None,
        versions: VersionRange = SUPPORTED_VERSIONS,
        language: Language = MEMBERS,
        in_flight: InFlight | None = None,
    ) -> None:
        self.limits = limits or SessionLimits()
        self.versions = versions
        self._role = role
        self._language = language
        self._decode = language.decode_request if role is Role.COORDINATOR else language.decode_answer
        self._one_way = language.one_way
        self._state = State.AWAITING_HELLO
        self.is_closed = False
        """True when the conversation is over: an attribute, since it is asked for with every message."""
        self._reader = FrameReader(self.limits.hello_bytes)
        self._version: int | None = None
        self._has_greeted = False
        self._next_id = 1
        self._asked: dict[int, Request] = {}
        self._in_flight: dict[int, int] = {}
        self._in_flight_of_all = in_flight or InFlight()

    @property
    def state(self) -> State:
        """The state of the conversation."""
        return self._state

    @property
    def version(self) -> int | None:
        """The version both ends speak, once it is known."""
        return self._version

    @property
    def buffered_bytes(self) -> int:
        """Return how much of a frame that is not whole has come."""
        return self._reader.buffered_bytes

    @property
    def is_inside_frame(self) -> bool:
        """True when part of a frame has come; its owner bounds how long the rest may take."""
        return self._reader.is_inside_frame

    @property
    def unanswered(self) -> int:
        """Number of requests that wait for their response on this end."""
        return len(self._asked) if self._role is Role.MEMBER else len(self._in_flight)

    def _step(self, step: Step) -> None:
        following = TRANSITIONS[self._state].get(step)
        if following is None:
            raise LocalProtocolError(
                ErrorCode.INVALID_REQUEST, f"{step.value} is not possible while the session is {self._state.value}"
            )
        self._state = following
        self.is_closed = following is State.CLOSED
        if self.is_closed and self._in_flight:
            self._in_flight_of_all.bytes -= sum(self._in_flight.values())
            self._in_flight.clear()

    # ---- out --------------------------------------------------------------------------------------------------------

    def send_hello(self, greeting: bytes = b"") -> bytes:
        """Return our hello; it is the first thing written on a connection, by both ends, without waiting."""
        if self._state is State.CLOSED:
            raise LocalProtocolError(ErrorCode.INVALID_REQUEST, "the session is closed")
        if self._has_greeted:
            raise LocalProtocolError(ErrorCode.INVALID_REQUEST, "a hello is sent once")
        self._has_greeted = True
        return framing.encode_hello(self.versions, self._language.magic, greeting)

    def send_request(self, request: Request) -> tuple[int, bytes]:
        """Return a new correlation id and the bytes of a request (member's side)."""
        self._must_be(Role.MEMBER)
        if len(self._asked) >= self.limits.in_flight:
            raise LocalProtocolError(
                ErrorCode.INVALID_REQUEST, f"{self.limits.in_flight} requests wait for their response; no more may"
            )
        for name in request.__struct_fields__:
            items = getattr(request, name)
            if isinstance(items, tuple) and len(items) > MAX_LIST_ITEMS:
                raise LocalProtocolError(
                    ErrorCode.FRAME_TOO_LARGE,
                    f"{name} of {type(request).__name__} has {len(items)} items and may have {MAX_LIST_ITEMS}",
                )
        try:
            message = encode_message(request)
        except OverflowError:
            name = type(request).__name__
            raise LocalProtocolError(
                ErrorCode.INVALID_REQUEST, f"{name} has a number that is too large for a message"
            ) from None
        self._must_fit(request, message, self.limits.frame_bytes)
        correlation_id = self._next_id
        while correlation_id in self._asked:
            correlation_id = _following_id(correlation_id)
        self._next_id = _following_id(correlation_id)
        self._asked[correlation_id] = request
        return correlation_id, framing.encode_envelope(correlation_id, message)

    def send_response(self, correlation_id: int, response: Response) -> bytes:
        """Return the bytes of the response to a request that came (coordinator's side).

        A response larger than a frame may be leaves as an ErrorResponse with FRAME_TOO_LARGE, so that its asker learns
        why instead of losing its connection.
        """
        if self._state is not State.OPEN or self._role is not Role.COORDINATOR:
            self._must_be(Role.COORDINATOR)
        size = self._in_flight.pop(correlation_id, None)
        if size is None:
            raise LocalProtocolError(
                ErrorCode.INVALID_REQUEST, f"no request with correlation id {correlation_id} waits for an answer"
            )
        self._in_flight_of_all.bytes -= size
        message = encode_message(response)
        if len(message) + framing.ENVELOPE_HEADER_BYTES > self.limits.answer_bytes:
            try:
                self._must_fit(response, message, self.limits.answer_bytes)
            except LocalProtocolError as error:
                message = encode_message(ErrorResponse(error=error.code, message=f"{error}; ask for less at once"))
        return framing.encode_envelope(correlation_id, message)

    def send_push(self, push: Push) -> bytes:
        """Return the bytes of a push (a coordinator's or a peer's side)."""
        if self._state is not State.OPEN or self._role is Role.MEMBER or not self._has_greeted:
            self._must_be(Role.PEER if self._role is Role.PEER else Role.COORDINATOR)
        message = encode_message(push)
        self._must_fit(push, message, self.limits.answer_bytes)
        return framing.encode_envelope(PUSH_CORRELATION_ID, message)

    def limit_frames(self, frame_bytes: int) -> None:
        """Take no longer frame from now on, also of one that has begun to come."""
        self._reader.limit_bytes = frame_bytes

    def close(self) -> None:
        """End the conversation; what the peer still sends is dropped."""
        self._step(Step.CLOSE)

    def _must_be(self, role: Role) -> None:
        if self._role is not role:
            raise LocalProtocolError(ErrorCode.INVALID_REQUEST, f"a {self._role.value} cannot send this")
        if not self._has_greeted:
            raise LocalProtocolError(ErrorCode.INVALID_REQUEST, "our hello comes first and has not been sent")
        if self._state is not State.OPEN:
            raise LocalProtocolError(ErrorCode.INVALID_REQUEST, f"the session is {self._state.value}, not open")

    @staticmethod
    def _must_fit(message: WireMessage, encoded: bytes, limit_bytes: int) -> None:
        length = framing.ENVELOPE_HEADER_BYTES + len(encoded)
        if length > limit_bytes:
            raise LocalProtocolError(
                ErrorCode.FRAME_TOO_LARGE,
                f"{type(message).__name__} has {length} bytes and a frame may have {limit_bytes}",
            )

    # ---- in ---------------------------------------------------------------------------------------------------------

    def receive_bytes(self, data: bytes | bytearray | memoryview) -> Iterator[SessionEvent]:
        """Yield what the peer said, in order, as far as whole frames have come.

        Consume the iterator to its end before the next call. Raises RemoteProtocolError at the first broken rule,
        after the events before it.
        """
        if self.is_closed:
            return
        reader = self._reader
        reader.append(data)
        while reader.is_inside_frame and not self.is_closed:
            try:
                body = reader.next_frame()
                if body is None:
                    return
                # A message leaves an open session as it is (see TRANSITIONS), so no step is made for each.
                if self._state is not State.OPEN:
                    event: SessionEvent = self._receive_hello(body)
                elif self._role is Role.COORDINATOR:
                    event = self._receive_request(body)
                else:
                    event = self._receive_answer(body)
            except RemoteProtocolError:
                if not self.is_closed:
                    self._step(Step.VIOLATION)
                raise
            yield event

    def _receive_hello(self, body: bytes) -> HelloReceived:
        theirs = framing.decode_hello(body, self._language.magic)
        version = self.versions.common_with(theirs)
        if version is None:
            self._step(Step.HELLO_NOT_SHARED)
            raise RemoteProtocolError(
                ErrorCode.UNSUPPORTED_VERSION,
                f"the other end speaks protocol version {theirs}, this end {self.versions}; upgrade the older one",
            )
        try:
            greeting = self._language.decode_greeting(framing.greeting_in(body))
        except msgspec.DecodeError as error:
            raise RemoteProtocolError(ErrorCode.INVALID_REQUEST, f"a hello cannot be read: {error}") from error
        self._step(Step.HELLO_SHARED)
        self._version = version
        is_asked = self._role is Role.COORDINATOR
        self._reader.limit_bytes = self.limits.frame_bytes if is_asked else self.limits.answer_bytes
        return HelloReceived(version, theirs, greeting)

    def _receive_request(self, body: bytes) -> SessionEvent:
        correlation_id, message = framing.decode_envelope(memoryview(body))
        if correlation_id == PUSH_CORRELATION_ID:
            raise RemoteProtocolError(ErrorCode.INVALID_REQUEST, "a request needs a correlation id other than 0")
        if correlation_id in self._in_flight:
            raise RemoteProtocolError(
                ErrorCode.INVALID_REQUEST, f"correlation id {correlation_id} is used by a request not yet answered"
            )
        if len(self._in_flight) >= self.limits.in_flight:
            raise RemoteProtocolError(
                ErrorCode.INVALID_REQUEST, f"more than {self.limits.in_flight} requests wait for an answer"
            )
        size = len(message) + REQUEST_BYTES
        try:
            request: Request = self._decode(message)
        except msgspec.DecodeError as error:
            number = self._unknown_number(message)
            if number is None:
                raise RemoteProtocolError(ErrorCode.INVALID_REQUEST, f"a request cannot be read: {error}") from error
            self._in_flight[correlation_id] = size
            self._in_flight_of_all.bytes += size
            why = f"request number {number} is not known in protocol version {self.versions}"
            return UnknownRequestReceived(
                correlation_id, number, ErrorResponse(error=ErrorCode.UNSUPPORTED_VERSION, message=why)
            )
        self._in_flight[correlation_id] = size
        self._in_flight_of_all.bytes += size
        return RequestReceived(correlation_id, request)

    @property
    def _heard(self) -> str:
        return "an answer" if self._role is Role.MEMBER else "a message"

    def _receive_answer(self, body: bytes) -> SessionEvent:
        correlation_id, message = framing.decode_envelope(memoryview(body))
        try:
            answer = self._decode(message)
        except msgspec.DecodeError as error:
            raise RemoteProtocolError(ErrorCode.INVALID_REQUEST, f"{self._heard} cannot be read: {error}") from error
        if type(answer) in self._one_way:
            if correlation_id != PUSH_CORRELATION_ID:
                raise RemoteProtocolError(ErrorCode.INVALID_REQUEST, "a push came with a correlation id")
            return PushReceived(answer)
        request = self._asked.pop(correlation_id, None)
        if request is None:
            raise RemoteProtocolError(
                ErrorCode.INVALID_REQUEST, f"a response came for correlation id {correlation_id}, which asks nothing"
            )
        if not isinstance(answer, ErrorResponse) and type(answer) is not self._language.response_of[type(request)]:
            raise RemoteProtocolError(
                ErrorCode.INVALID_REQUEST,
                f"{type(answer).__name__} came as the response to {type(request).__name__}",
            )
        return ResponseReceived(correlation_id, request, answer)

    def _unknown_number(self, message: memoryview) -> int | None:
        """Return the number of a well-formed message that is no request of this language, or None."""
        try:
            number = decode_number(message)
        except msgspec.DecodeError:
            return None
        is_known = any(request.__struct_config__.tag == number for request in self._language.response_of)
        return None if is_known else number


def _following_id(correlation_id: int) -> int:
    return 1 if correlation_id == MAX_CORRELATION_ID else correlation_id + 1
