"""The errors of a client: each is a KcoordError, by what a program does about it.

`code` is Kafka's name of the kind, `is_retriable` says that the same call may succeed later, and `may_be_done` that the
coordinator may have done what was asked: then the group is to be looked at before anything is asked again. `result` is
what is known all the same, in the form that the call returns. The message is the whole story; it holds no secret.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from coordinator.client.operating.refusal_kinds import NOT_FOUND, REFUSED_BY_STATE, TIMED_OUT, UNAUTHORISED
from coordinator.client.refusals import Refusal
from coordinator.client.request import LogInFailedError, RequestError, RequestTimeoutError
from coordinator.protocol.errors import ErrorCode
from spark_kcoord.errors import CoordinatorAwayError, KcoordError, MemberClosedError, RefusedError

__all__ = [
    "CallRefusedError",
    "CallTimeoutError",
    "ClientClosedError",
    "ClientError",
    "CoordinatorUnavailableError",
    "KcoordError",
    "NotFoundError",
    "PartitionsRefusedError",
    "RefusedByStateError",
    "SettingError",
    "UnauthorisedError",
    "WaitTimeoutError",
]


class ClientError(KcoordError):
    """Anything that a client's call can fail with."""

    code = "CLIENT_ERROR"
    doc_code = "KC-2009"
    may_be_done = False
    result: object = None

    def __init__(
        self,
        message: str,
        code: str = "",
        *,
        is_retriable: bool | None = None,
        may_be_done: bool = False,
        result: object = None,
        partitions: Iterable[tuple[str, int]] = (),
    ) -> None:
        Exception.__init__(self, message)  # other classes of the family have constructors of other shapes
        self.code = code or type(self).code
        if is_retriable is not None:
            self.is_retriable = is_retriable
        self.may_be_done = may_be_done
        self.result = result
        self.partitions = tuple(partitions)

    def __str__(self) -> str:
        """Return the message alone."""
        return str(self.args[0]) if self.args else type(self).__name__


class SettingError(ClientError, ValueError):
    """A setting or an argument that is not known, or has a value of the wrong type or out of range."""

    code = "INVALID_CONFIG"
    doc_code = "KC-2001"


class ClientClosedError(ClientError, MemberClosedError):
    """The client is closed."""

    code = "CLIENT_CLOSED"
    doc_code = "KC-2005"


class CoordinatorUnavailableError(ClientError, CoordinatorAwayError):
    """No coordinator answered, or not for all groups; of a change see `may_be_done`."""

    code = "COORDINATOR_NOT_AVAILABLE"
    doc_code = "KC-2004"
    is_retriable = True


class CallTimeoutError(CoordinatorUnavailableError, TimeoutError):
    """No answer came within the client's time-out; of a change see `may_be_done`."""

    code = "REQUEST_TIMED_OUT"


class CallRefusedError(ClientError, RefusedError):
    """The coordinator refused; `code` and `refusal` are the name of its error code."""

    code = "UNKNOWN_SERVER_ERROR"

    def __init__(self, message: str, code: str = "", **more: Any) -> None:
        ClientError.__init__(self, message, code, **more)
        self.refused_with(self.code, ErrorCode[self.code].doc_code)


class NotFoundError(CallRefusedError, LookupError):
    """There is no such group, member, topic or partition."""

    code = "GROUP_ID_NOT_FOUND"


class RefusedByStateError(CallRefusedError):
    """It does not go as the group is now: it has members, or a partition is owned."""

    code = "NON_EMPTY_GROUP"


class UnauthorisedError(CallRefusedError):
    """This client may not, or is not let in."""

    code = "GROUP_AUTHORIZATION_FAILED"


class PartitionsRefusedError(CallRefusedError):
    """Some partitions of a change were refused: `partitions` names them, `result` has all; the others are done.

    Of a dry run none is done. `code` is that of the first.
    """


class WaitTimeoutError(ClientError, TimeoutError):
    """A group was not as wanted in time; the message says what was missing at the last look."""

    code = "WAIT_TIMED_OUT"
    doc_code = "KC-2021"
    is_retriable = True


def no_answer(error: RequestError, *, is_change: bool) -> ClientError:
    """Return the error of a request to which no response came."""
    text = f"No coordinator answered: {error}."
    if isinstance(error, LogInFailedError):
        return UnauthorisedError(text, ErrorCode.SASL_AUTHENTICATION_FAILED.name)
    may_be_done = is_change and error.may_be_done
    kind = CallTimeoutError if isinstance(error, RequestTimeoutError) else CoordinatorUnavailableError
    return kind(text, is_retriable=not may_be_done, may_be_done=may_be_done)


def refused(refusal: Refusal, group: str, *, is_change: bool) -> ClientError:
    """Return the error of a request that was refused."""
    code, why = refusal
    if code is ErrorCode.GROUP_ID_NOT_FOUND:
        return NotFoundError(
            f"Consumer group '{group}' does not exist: check its id; groups() lists those that there are.", code.name
        )
    text = f"The coordinator refused: {why or 'it gave no reason'} ({code.name})."
    if code in TIMED_OUT:
        return CallTimeoutError(text, code.name, is_retriable=not is_change, may_be_done=is_change)
    return _class_of(code)(text, code.name, is_retriable=code.is_retriable)


def _class_of(code: ErrorCode) -> type[CallRefusedError]:
    if code in NOT_FOUND:
        return NotFoundError
    if code in UNAUTHORISED:
        return UnauthorisedError
    return RefusedByStateError if code in REFUSED_BY_STATE else CallRefusedError
