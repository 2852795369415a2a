"""Frames: a four-byte big-endian length, then that many bytes; nothing is allocated before the length is checked.

A frame is either a hello or an envelope. A hello is four bytes that name the kind of the conversation (`KCRD` with
members, `KCRP` between nodes), the lowest and the highest protocol version its sender speaks (two bytes each), and
more bytes: a node's greeting, or what members of a later version say, which older ones pass over. An envelope is a
four-byte correlation id and a msgpack message. Which of the two is due is the session's business, not known here.
"""

import struct
from dataclasses import dataclass
from typing import Final

from coordinator.protocol.errors import ErrorCode, RemoteProtocolError

HELLO_MAGIC: Final = b"KCRD"
"""Begins a conversation with members and tools."""
PEER_MAGIC: Final = b"KCRP"
"""Begins a conversation between two nodes."""
LENGTH_BYTES: Final = 4
_HELLO: Final = struct.Struct(">4sHH")
_LENGTH: Final = struct.Struct(">I")
_HEADER: Final = struct.Struct(">II")
ENVELOPE_HEADER_BYTES: Final = 4

_STRANGERS: Final = (
    *(
        (method, "an HTTP request")
        for method in (b"GET ", b"HEAD", b"POST", b"PUT ", b"DELE", b"OPTI", b"PATC", b"CONN")
    ),
    (b"PRI ", "an HTTP/2 greeting"),
    (b"HTTP", "an HTTP answer"),
    (b"SSH-", "an SSH greeting"),
    (b"\x16\x03", "a TLS handshake"),
    (b"\x15\x03", "a TLS alert"),
)
_OF_TLS: Final = ("a TLS handshake", "a TLS alert")
_ADVICE: Final = (
    "one end speaks TLS and the other does not: look at tls.certificate of the node, at kcoord.security.protocol of "
    "its clients, between nodes at peers.security_protocol, and at the port"
)

_KAFKA_FIRST_REQUESTS: Final = (b"\x00\x12", b"\x00\x03")
"""The first bytes of a Kafka client: the keys of ApiVersions, and of Metadata for very old ones."""


_NAMES: Final = {HELLO_MAGIC: "a kcoord hello", PEER_MAGIC: "the hello of one kcoord node to another"}
_ENDS: Final = {HELLO_MAGIC: "no kcoord coordinator or no kcoord member", PEER_MAGIC: "no node of a kcoord cluster"}
_OTHER_KIND: Final = {
    HELLO_MAGIC: "the other end speaks as one node to another, and this is a conversation with members; check the port",
    PEER_MAGIC: "the other end speaks as members and coordinators do, and this is a conversation between two nodes; "
    "check the port",
}


@dataclass(frozen=True, slots=True)
class VersionRange:
    """Protocol versions from `lowest` to `highest`, both included."""

    lowest: int
    highest: int

    def __str__(self) -> str:
        return str(self.lowest) if self.lowest == self.highest else f"{self.lowest} to {self.highest}"

    def common_with(self, other: "VersionRange") -> int | None:
        """Return the highest version both ranges hold, or None."""
        version = min(self.highest, other.highest)
        return version if version >= max(self.lowest, other.lowest) else None


def encode_hello(versions: VersionRange, magic: bytes = HELLO_MAGIC, greeting: bytes = b"") -> bytes:
    """Return the whole frame of a hello."""
    body = _HELLO.pack(magic, versions.lowest, versions.highest) + greeting
    return _LENGTH.pack(len(body)) + body


def greeting_in(body: bytes) -> bytes:
    """Return what a hello that could be read says besides its versions."""
    return body[_HELLO.size :]


def decode_hello(body: bytes | memoryview, magic: bytes = HELLO_MAGIC) -> VersionRange:
    """Read a hello of this kind of conversation; raises RemoteProtocolError when it is not one."""
    first = bytes(body[: len(magic)])
    if len(body) < _HELLO.size or first != magic:
        raise RemoteProtocolError(ErrorCode.INVALID_REQUEST, _why_no_hello(first, magic))
    _, lowest, highest = _HELLO.unpack_from(body)
    if lowest > highest:
        raise RemoteProtocolError(
            ErrorCode.INVALID_REQUEST, f"the hello names an empty range of versions, {lowest} to {highest}"
        )
    return VersionRange(lowest, highest)


def _why_no_hello(first: bytes, magic: bytes) -> str:
    if first in _OTHER_KIND and first != magic:
        return _OTHER_KIND[magic]
    found = "a Kafka request" if first[:2] in _KAFKA_FIRST_REQUESTS else f"not {_NAMES[magic]}"
    return f"the first frame is {found}; check address and port: one end is {_ENDS[magic]}"


def encode_envelope(correlation_id: int, message: bytes) -> bytes:
    """Return the whole frame of a message."""
    return _HEADER.pack(ENVELOPE_HEADER_BYTES + len(message), correlation_id) + message


def decode_envelope(body: memoryview) -> tuple[int, memoryview]:
    """Split a frame's body into correlation id and message; raises RemoteProtocolError when it is too short."""
    if len(body) <= ENVELOPE_HEADER_BYTES:
        raise RemoteProtocolError(
            ErrorCode.INVALID_REQUEST,
            f"a frame of {len(body)} bytes is too short to hold a correlation id and a message",
        )
    (correlation_id,) = _LENGTH.unpack_from(body)
    return correlation_id, body[ENVELOPE_HEADER_BYTES:]


class FrameReader:
    """Cuts a stream of bytes into frames.

    It buffers at most one unfinished frame, whose length has been checked against `limit_bytes`. The limit may be
    changed between frames. It does not know what is in a frame. Whole frames are cut out of the bytes they came in.
    """

    __slots__ = ("_buffer", "_came", "_is_first", "_position", "is_inside_frame", "limit_bytes")

    def __init__(self, limit_bytes: int) -> None:
        self.limit_bytes = limit_bytes
        self._buffer = bytearray()
        self._came = b""
        self._position = 0
        self._is_first = True
        self.is_inside_frame = False
        """True when part of a frame has come and is not read: an attribute, since it is asked for with every frame."""

    def append(self, data: bytes | bytearray | memoryview) -> None:
        """Take bytes as they came from the network, cut anywhere."""
        if self.is_inside_frame:
            self._keep()
            self._buffer += data
        elif data:
            self._came = bytes(data)
            self.is_inside_frame = True

    def _keep(self) -> None:
        """Keep what is left of the bytes that came, until more come."""
        self._buffer += self._came[self._position :] if self._position else self._came
        self._came, self._position = b"", 0

    @property
    def buffered_bytes(self) -> int:
        """Return how much of a frame that is not whole has come."""
        return len(self._buffer) + len(self._came)

    def next_frame(self) -> bytes | None:
        """Return the body of the next whole frame, or None until more bytes come.

        Raises RemoteProtocolError for a length over the limit or of zero, with a hint when the first bytes are those
        of another protocol.
        """
        came = self._came
        if came:
            begin, came_bytes = self._position, len(came)
            if came_bytes - begin >= LENGTH_BYTES:
                (length,) = _LENGTH.unpack_from(came, begin)
                end: int = begin + LENGTH_BYTES + length
                if 0 < length <= self.limit_bytes and end <= came_bytes:
                    body = came[begin + LENGTH_BYTES : end]
                    if end == came_bytes:
                        self._came, self._position = b"", 0
                        self.is_inside_frame = False
                    else:
                        self._position = end
                    self._is_first = False
                    return body
            self._keep()
        if len(self._buffer) < LENGTH_BYTES:
            return None
        (length,) = _LENGTH.unpack_from(self._buffer)
        if length > self.limit_bytes:
            raise RemoteProtocolError(ErrorCode.FRAME_TOO_LARGE, self._why_too_large(length))
        if length == 0:
            raise RemoteProtocolError(ErrorCode.INVALID_REQUEST, "a frame of length 0 is not allowed")
        end = LENGTH_BYTES + length
        if len(self._buffer) < end:
            return None
        body = bytes(self._buffer[LENGTH_BYTES:end])
        del self._buffer[:end]
        self.is_inside_frame = bool(self._buffer)
        self._is_first = False
        return body

    def _why_too_large(self, length: int) -> str:
        if self._is_first:
            for prefix, name in _STRANGERS:
                if self._buffer.startswith(prefix):
                    advice = _ADVICE if name in _OF_TLS else "check address and port"
                    return f"the first bytes are those of {name}, not of the kcoord protocol; {advice}"
        return f"a frame of {length} bytes is over the limit of {self.limit_bytes} bytes"
