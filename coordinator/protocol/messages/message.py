"""The base of every message, with a number as its first item, and of every request, with the codes that refuse it.

A code that a request does not declare is not sent: tests and the simulator hold each answer against its request's
class, and docs/PROTOCOL.md against the same. A newer coordinator may refuse with more.
"""

from typing import ClassVar, Final, TypeAlias

import msgspec

from coordinator.protocol.errors import ErrorCode

Codes: TypeAlias = frozenset[ErrorCode]

NO_CODES: Final[Codes] = frozenset()

ANY_REQUEST_REFUSED_WITH: Final[Codes] = frozenset(
    {
        ErrorCode.UNSUPPORTED_VERSION,
        ErrorCode.FRAME_TOO_LARGE,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ErrorCode.GROUP_AUTHORIZATION_FAILED,
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    }
)
"""Codes of ErrorResponse that belong to no request in particular: an unknown number, an answer over its limit, what it
asks about is being loaded here, or is not led here, nothing may be changed while the audit log cannot be written, and
whoever asks may not."""


def codes(*errors: ErrorCode) -> Codes:
    """Return the codes with which a class may be refused."""
    return frozenset(errors)


class WireMessage(msgspec.Struct, frozen=True, array_like=True, tag_field="type"):
    """A message; each class names its number as its tag."""


class WireRequest(WireMessage, frozen=True):
    """A request; `refused_with` is about all of it, `parts_refused_with` about single partitions or claims of it."""

    refused_with: ClassVar[Codes] = NO_CODES
    parts_refused_with: ClassVar[Codes] = NO_CODES

    def named(self) -> int:
        """Return how many partitions the longest of its lists names, of a request that is decided in one step."""
        return 0


class ErrorResponse(WireMessage, frozen=True, tag=100):
    """Refuses any request: for a message that is not known here, or one that is not allowed on this connection."""

    error: ErrorCode
    message: str
