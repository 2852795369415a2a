"""Error codes of the wire, with Kafka's names and numbers, and the exceptions that carry them.

Codes below 1000 are Kafka's; from 1000 on they are ours. `retriable` is a property of the code. A refusal travels as a
code in a response; a broken wire rule is a `RemoteProtocolError`; misuse by our own side is a `LocalProtocolError`.
"""

from enum import IntEnum
from typing import Any, Final


class ErrorCode(IntEnum):
    """Why a request was refused."""

    UNKNOWN_SERVER_ERROR = -1
    NONE = 0
    OFFSET_OUT_OF_RANGE = 1
    UNKNOWN_TOPIC_OR_PARTITION = 3
    REQUEST_TIMED_OUT = 7
    OFFSET_METADATA_TOO_LARGE = 12
    COORDINATOR_LOAD_IN_PROGRESS = 14
    COORDINATOR_NOT_AVAILABLE = 15
    NOT_COORDINATOR = 16
    INCONSISTENT_GROUP_PROTOCOL = 23
    INVALID_GROUP_ID = 24
    UNKNOWN_MEMBER_ID = 25
    INVALID_SESSION_TIMEOUT = 26
    REBALANCE_IN_PROGRESS = 27
    TOPIC_AUTHORIZATION_FAILED = 29
    GROUP_AUTHORIZATION_FAILED = 30
    CLUSTER_AUTHORIZATION_FAILED = 31
    UNSUPPORTED_SASL_MECHANISM = 33
    UNSUPPORTED_VERSION = 35
    INVALID_REPLICA_ASSIGNMENT = 39
    NOT_CONTROLLER = 41
    INVALID_REQUEST = 42
    SASL_AUTHENTICATION_FAILED = 58
    NON_EMPTY_GROUP = 68
    GROUP_ID_NOT_FOUND = 69
    OFFSET_NOT_AVAILABLE = 78
    PREFERRED_LEADER_NOT_AVAILABLE = 80
    GROUP_MAX_SIZE_REACHED = 81
    FENCED_INSTANCE_ID = 82
    ELECTION_NOT_NEEDED = 84
    UNKNOWN_TOPIC_ID = 100
    FENCED_MEMBER_EPOCH = 110
    UNSUPPORTED_ASSIGNOR = 112
    FRAME_TOO_LARGE = 1000
    MEMBER_ID_IN_USE = 1001
    PARTITION_OWNED = 1002
    FENCED_OWNER_EPOCH = 1003
    CLAIM_CLOSED = 1004
    SECOND_MEMBER_OF_APPLICATION = 1005
    CLAIM_NOT_RUNNING = 1006
    STATE_LIMIT_REACHED = 1007

    @classmethod
    def _missing_(cls, value: object) -> "ErrorCode":
        """Read a code of a newer peer as UNKNOWN_SERVER_ERROR."""
        del value
        return cls.UNKNOWN_SERVER_ERROR

    @property
    def doc_code(self) -> str:
        """Return the code by which `kcoord explain` and docs/ERRORS.md know this refusal."""
        return f"KC-{self.value % 1000 if self.value < 0 else self.value:04d}"

    @property
    def is_retriable(self) -> bool:
        """True when the same request may succeed later without anybody changing it."""
        return self in _RETRIABLE


_RETRIABLE: Final = frozenset(
    {
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.NOT_CONTROLLER,
        ErrorCode.REBALANCE_IN_PROGRESS,
        ErrorCode.OFFSET_NOT_AVAILABLE,
        ErrorCode.FENCED_INSTANCE_ID,
        ErrorCode.MEMBER_ID_IN_USE,
        ErrorCode.SECOND_MEMBER_OF_APPLICATION,
    }
)


class ProtocolError(Exception):
    """The wire conversation cannot go on; `code` says which rule was broken and the text says what to do."""

    def __init__(self, code: ErrorCode, why: str) -> None:
        super().__init__(why)
        self.code = code

    def __reduce__(self) -> tuple[Any, ...]:
        """Return what a copy in another process is made of."""
        return type(self), (self.code, *self.args), dict(self.__dict__)


class RemoteProtocolError(ProtocolError):
    """The other end broke a rule of the wire; the session is over."""


class LocalProtocolError(ProtocolError):
    """Our own side misused the session: a bug of ours."""
