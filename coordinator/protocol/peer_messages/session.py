"""A conversation of two nodes: the session of members, with the language of peers.

The hello of either end bears its PeerHello. After it come messages, one way each, without correlation ids. Whom one
speaks with, and whether that is who was expected, is not judged here.
"""

from collections.abc import Iterator
from typing import Any, Final, TypeAlias, cast, get_args

import msgspec

from coordinator.protocol.codec import Language, decode_with, encode_message
from coordinator.protocol.framing import PEER_MAGIC, VersionRange
from coordinator.protocol.messages import Push
from coordinator.protocol.peer_messages import MAX_FRAME_BYTES, PeerClosing, PeerHello, PeerMessage, PeerPing
from coordinator.protocol.session import HelloReceived, PushReceived, Role, Session, SessionLimits

PEER_VERSIONS: Final = VersionRange(1, 1)
"""Versions of the conversation of nodes that this code speaks; they are counted apart from those of members."""

PEER_LIMITS: Final = SessionLimits(answer_bytes=MAX_FRAME_BYTES)

Said: TypeAlias = PeerMessage | PeerPing | PeerClosing
"""Everything after the hello."""

_hello_decoder: msgspec.msgpack.Decoder[PeerHello] = msgspec.msgpack.Decoder(PeerHello)
_said_decoder: msgspec.msgpack.Decoder[Said] = msgspec.msgpack.Decoder(Said)


def _decode_request(_message: memoryview) -> Any:
    raise msgspec.DecodeError("nodes ask each other nothing")


def _decode_hello(greeting: bytes) -> PeerHello:
    return decode_with(_hello_decoder, greeting)


def _decode_said(message: memoryview) -> Said:
    return decode_with(_said_decoder, message)


PEERS: Final = Language(PEER_MAGIC, _decode_hello, _decode_request, _decode_said, {}, frozenset(get_args(Said)))
"""The language of nodes among themselves."""


class PeerSession:
    """One end of a conversation of two nodes; raises as Session does."""

    __slots__ = ("_session",)

    def __init__(self) -> None:
        self._session = Session(Role.PEER, PEER_LIMITS, PEER_VERSIONS, PEERS)

    @property
    def is_open(self) -> bool:
        """True when the other end's hello has come and the conversation is not over."""
        return self._session.version is not None and not self._session.is_closed

    @property
    def is_inside_frame(self) -> bool:
        """True when part of a frame has come; its owner bounds how long the rest may take."""
        return self._session.is_inside_frame

    def greet(self, hello: PeerHello) -> bytes:
        """Return the first bytes that either end writes."""
        return self._session.send_hello(encode_message(hello))

    def say(self, message: Said) -> bytes:
        """Return the bytes of a message; raises LocalProtocolError for one that is larger than a frame may be."""
        return self._session.send_push(cast(Push, message))

    def receive(self, data: bytes) -> Iterator[PeerHello | Said]:
        """Yield what the other end said, the hello first; consume it to its end before the next call."""
        for event in self._session.receive_bytes(data):
            match event:
                case HelloReceived(greeting=PeerHello() as hello):
                    yield hello
                case PushReceived(push):
                    yield cast(Said, push)
                case _:
                    raise AssertionError(f"a peer's session said {event!r}")

    def close(self) -> None:
        """End the conversation; what the other end still says is dropped."""
        self._session.close()
