"""Messages to bytes and back: a msgpack array that begins with the message's number.

Bytes from outside are read here and nowhere else; those that cannot be read raise msgspec.DecodeError.
"""

from typing import TypeVar

import msgspec

from coordinator.protocol.messages import Message, Push, Request, Response

_encoder = msgspec.msgpack.Encoder()
_request_decoder: msgspec.msgpack.Decoder[Request] = msgspec.msgpack.Decoder(Request)
_answer_decoder: msgspec.msgpack.Decoder[Response | Push] = msgspec.msgpack.Decoder(Response | Push)


class _Numbered(msgspec.Struct, frozen=True, array_like=True):
    """The one thing that every message of every version begins with."""

    number: int


_number_decoder = msgspec.msgpack.Decoder(_Numbered)
_Decoded = TypeVar("_Decoded")


def encode_message(message: Message) -> bytes:
    """Return the msgpack array of a message."""
    return _encoder.encode(message)


def decode_request(body: bytes | memoryview) -> Request:
    """Read what a member or a tool sent; raises msgspec.DecodeError for anything else."""
    return _decode(_request_decoder, body)


def decode_answer(body: bytes | memoryview) -> Response | Push:
    """Read what a coordinator sent; raises msgspec.DecodeError for anything else."""
    return _decode(_answer_decoder, body)


def decode_number(body: bytes | memoryview) -> int:
    """Read a message's number and pass over the rest, without keeping it; raises msgspec.DecodeError."""
    return _decode(_number_decoder, body).number


def _decode(decoder: msgspec.msgpack.Decoder[_Decoded], body: bytes | memoryview) -> _Decoded:
    try:
        return decoder.decode(body)
    except UnicodeDecodeError as error:
        raise msgspec.DecodeError(f"a text is not UTF-8: {error.reason}") from error
    except RecursionError as error:
        raise msgspec.DecodeError("arrays are nested too deeply") from error
