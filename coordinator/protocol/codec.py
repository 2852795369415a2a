"""Messages to bytes and back: a msgpack array that begins with the message's number.

Bytes from outside are read by a language's decoders and nowhere else; those that cannot be read raise
msgspec.DecodeError. `MEMBERS` is the language of members and tools; that of nodes among themselves is in
`peer_messages`.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, TypeVar, get_args

import msgspec

from coordinator.protocol.framing import HELLO_MAGIC
from coordinator.protocol.messages import RESPONSE_OF, Push, Request, Response
from coordinator.protocol.messages.message import WireMessage

_request_decoder: msgspec.msgpack.Decoder[Request] = msgspec.msgpack.Decoder(Request)
_answer_decoder: msgspec.msgpack.Decoder[Response | Push] = msgspec.msgpack.Decoder(Response | Push)


class _Numbered(msgspec.Struct, frozen=True, array_like=True):
    """The one thing that every message of every version begins with."""

    number: int


_number_decoder = msgspec.msgpack.Decoder(_Numbered)
_Decoded = TypeVar("_Decoded")


encode_message: Final[Callable[[WireMessage], bytes]] = msgspec.msgpack.Encoder().encode
"""Returns the msgpack array of a message."""


def decode_number(body: bytes | memoryview) -> int:
    """Read a message's number and pass over the rest, without keeping it; raises msgspec.DecodeError."""
    return decode_with(_number_decoder, body).number


def decode_with(decoder: msgspec.msgpack.Decoder[_Decoded], body: bytes | memoryview) -> _Decoded:
    """Read a message; raises msgspec.DecodeError, and nothing else, for whatever it cannot read."""
    try:
        return decoder.decode(body)
    except UnicodeDecodeError as error:
        raise msgspec.DecodeError(f"a text is not UTF-8: {error.reason}") from error
    except RecursionError as error:
        raise msgspec.DecodeError("arrays are nested too deeply") from error


decode_request: Final[Callable[[bytes | memoryview], Request]] = partial(decode_with, _request_decoder)
"""Reads what a member or a tool sent; raises msgspec.DecodeError for anything else."""
decode_answer: Final[Callable[[bytes | memoryview], Response | Push]] = partial(decode_with, _answer_decoder)
"""Reads what a coordinator sent; raises msgspec.DecodeError for anything else."""


@dataclass(frozen=True, slots=True, eq=False)
class Language:
    """All that may be said in one kind of conversation, and how it is read; a session is given one.

    Requests are answered each by one response of `response_of`; messages of the classes `one_way` are said without a
    correlation id and never answered. Every decoder raises msgspec.DecodeError for what it cannot read.
    """

    magic: bytes
    """The first bytes of a hello."""
    decode_greeting: Callable[[bytes], WireMessage | None]
    """Reads what a hello says besides its versions; None where that is passed over."""
    decode_request: Callable[[memoryview], Any]
    """Reads what the end that answers hears."""
    decode_answer: Callable[[memoryview], Any]
    """Reads what any other end hears."""
    response_of: Mapping[type[Any], type[Any]]
    one_way: frozenset[type[Any]]


def _pass_over(_greeting: bytes) -> None:
    """Leave to later versions what a member's hello says besides its versions."""


MEMBERS: Final = Language(
    HELLO_MAGIC, _pass_over, decode_request, decode_answer, RESPONSE_OF, frozenset(get_args(Push))
)
"""The language of members and tools with a coordinator."""
