"""The log-in of a connection: its one request, which is said between the hellos and everything else.

It is no request of members: a node that logs nobody in does not know its number, and nothing of a group is decided by
it. The bytes are those of SASL's mechanisms: SCRAM by RFC 5802 and 7677, a bearer token by RFC 7628.
"""

from typing import Annotated, ClassVar

import msgspec

from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.messages.message import WireMessage, WireRequest, codes

MOST_OF_MECHANISM = 64
"""Longest name of a mechanism, in characters."""


class LogIn(WireRequest, frozen=True, tag=20):
    """Say the next words of a mechanism by which somebody proves to be who they are."""

    refused_with: ClassVar = codes(ErrorCode.UNSUPPORTED_SASL_MECHANISM, ErrorCode.SASL_AUTHENTICATION_FAILED)

    mechanism: Annotated[str, msgspec.Meta(max_length=MOST_OF_MECHANISM)]
    data: bytes


class LogInResponse(WireMessage, frozen=True, tag=120):
    """Answers LogIn: with words that want another one, or with the end of it."""

    error: ErrorCode = ErrorCode.NONE
    message: str = ""
    data: bytes = b""
    is_done: bool = False
    mechanisms: tuple[str, ...] = ()
