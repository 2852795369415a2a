"""The conversation of a log-in: the session of members, with a language that has one request.

It begins with the hellos of members and ends with the answer that the log-in is done; behind that both ends begin
anew with their hellos, and everything after is said by somebody who is known. A session here knows no mechanism.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, TypeAlias, cast

import msgspec

from coordinator.protocol.codec import Language, decode_with
from coordinator.protocol.framing import HELLO_MAGIC
from coordinator.protocol.messages import ErrorResponse, Request, Response
from coordinator.protocol.messages.log_in import LogIn, LogInResponse
from coordinator.protocol.session import (
    HelloReceived,
    RequestReceived,
    ResponseReceived,
    Role,
    Session,
    SessionLimits,
    UnknownRequestReceived,
)

MOST_BYTES: Final = 16 * 1024
"""Longest frame that is taken of somebody who is not known, and that a log-in needs."""

LOG_IN_LIMITS: Final = SessionLimits(
    hello_bytes=MOST_BYTES, frame_bytes=MOST_BYTES, answer_bytes=MOST_BYTES, in_flight=1
)

_request_decoder: msgspec.msgpack.Decoder[LogIn] = msgspec.msgpack.Decoder(LogIn)
_answer_decoder: msgspec.msgpack.Decoder[LogInResponse | ErrorResponse] = msgspec.msgpack.Decoder(
    LogInResponse | ErrorResponse
)


def _pass_over(_greeting: bytes) -> None:
    """Leave to later versions what a hello says besides its versions."""


def decode_log_in(body: bytes | memoryview) -> LogIn:
    """Read what somebody said who logs in; raises msgspec.DecodeError for anything else."""
    return decode_with(_request_decoder, body)


def decode_log_in_answer(body: bytes | memoryview) -> LogInResponse | ErrorResponse:
    """Read what a coordinator answered to it; raises msgspec.DecodeError for anything else."""
    return decode_with(_answer_decoder, body)


LOG_IN: Final = Language(
    HELLO_MAGIC, _pass_over, decode_log_in, decode_log_in_answer, {LogIn: LogInResponse}, frozenset()
)
"""The language of a log-in."""

LOG_IN_NUMBER: Final = LogIn.__struct_config__.tag
"""The number of its one request, which the language of members does not know."""


@dataclass(frozen=True, slots=True)
class Greeted:
    """The other end's hello came."""


@dataclass(frozen=True, slots=True)
class LogInAsked:
    """Somebody said words of a mechanism (coordinator's side)."""

    correlation_id: int
    request: LogIn


@dataclass(frozen=True, slots=True)
class OtherAsked:
    """Somebody asked for something else (coordinator's side)."""

    correlation_id: int
    number: int


@dataclass(frozen=True, slots=True)
class LogInAnswered:
    """The coordinator answered (member's side)."""

    response: LogInResponse | ErrorResponse


Heard: TypeAlias = Greeted | LogInAsked | OtherAsked | LogInAnswered


class LogInSession:
    """One end of a log-in; raises as Session does."""

    __slots__ = ("_session",)

    def __init__(self, role: Role, limits: SessionLimits = LOG_IN_LIMITS) -> None:
        self._session = Session(role, limits, language=LOG_IN)

    @property
    def is_inside_frame(self) -> bool:
        """True when more has come than whole frames."""
        return self._session.is_inside_frame

    @property
    def has_heard(self) -> bool:
        """True when the other end's hello has come."""
        return self._session.version is not None

    def limit_frames(self, frame_bytes: int) -> None:
        """Take no longer frame from now on."""
        self._session.limit_frames(frame_bytes)

    def greet(self) -> bytes:
        """Return our hello, which is that of members."""
        return self._session.send_hello()

    def ask(self, request: LogIn) -> bytes:
        """Return the bytes of a request (member's side)."""
        return self._session.send_request(cast(Request, request))[1]

    def answer(self, correlation_id: int, response: LogInResponse | ErrorResponse) -> bytes:
        """Return the bytes of a response (coordinator's side)."""
        return self._session.send_response(correlation_id, cast(Response, response))

    def receive(self, data: bytes) -> Iterator[Heard]:
        """Yield what the other end said; consume it to its end before the next call."""
        for event in self._session.receive_bytes(data):
            match event:
                case HelloReceived():
                    yield Greeted()
                case RequestReceived():
                    yield LogInAsked(event.correlation_id, cast(LogIn, event.request))
                case UnknownRequestReceived():
                    yield OtherAsked(event.correlation_id, event.number)
                case ResponseReceived():
                    yield LogInAnswered(cast(LogInResponse | ErrorResponse, event.response))
                case _:
                    raise AssertionError(f"a session of a log-in said {event!r}")


def token_message(token: str) -> bytes:
    """Return the one message by which a token is shown (RFC 7628)."""
    return b"n,,\x01auth=Bearer " + token.encode() + b"\x01\x01"


def token_in(data: bytes) -> str | None:
    """Return the token of such a message, None of any other."""
    parts = data.split(b"\x01")
    if len(parts) < 4 or parts[0] not in (b"n,,", b"y,,") or parts[-2:] != [b"", b""]:
        return None
    for part in parts[1:-2]:
        key, _, value = part.partition(b"=")
        kind, _, token = value.partition(b" ")
        if key == b"auth" and kind.lower() == b"bearer" and token and token.isascii():
            return token.decode()
    return None
