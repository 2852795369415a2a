"""The gate of a connection where clients log in: until it is known for whom it acts, nothing else is heard there.

It joins the bytes of one connection to the machine of a log-in, and knows nothing of mechanisms. Who has shown a
certificate, or may be anonymous, may pass without a log-in; the session of members then hears all that came. One who
has logged in begins anew, with the hellos. The deadline is that of a hello, which the server keeps.
"""

from typing import TYPE_CHECKING, Protocol

from coordinator.core.security.log_in import Accepted, Challenge, LogInMachine, Refused
from coordinator.core.security.principal import ANONYMOUS, Principal
from coordinator.protocol.errors import ErrorCode, RemoteProtocolError
from coordinator.protocol.framing import LENGTH_BYTES
from coordinator.protocol.log_in import LogInAsked, LogInSession, OtherAsked
from coordinator.protocol.messages import ErrorResponse
from coordinator.protocol.messages.log_in import LogInResponse
from coordinator.protocol.session import Role, SessionLimits

if TYPE_CHECKING:
    from coordinator.runtime.security.log_ins import LogIns


class Gated(Protocol):
    """A connection, as its gate sees it."""

    principal: Principal
    """The principal by the certificate that was shown, or nobody."""

    def say(self, data: bytes) -> None:
        """Write bytes now."""

    def let_in(self, principal: Principal, ends_at_s: float | None) -> None:
        """Begin anew as somebody who is known, until a time in seconds since 1970."""

    def refuse_log_in(self, why: str, answer: bytes) -> None:
        """Say in the node's log why; answer after the delay, and close."""


class Gate:
    """One connection's gate; `take` hears what comes until it returns something."""

    __slots__ = (
        "_connection",
        "_frame_bytes",
        "_kept",
        "_longest",
        "_machine",
        "_may_pass",
        "_mechanisms",
        "_session",
        "is_over",
    )

    def __init__(self, connection: Gated, log_ins: "LogIns", limits: SessionLimits) -> None:
        settings = log_ins.settings
        self._connection = connection
        self._may_pass = connection.principal != ANONYMOUS or settings.allow_anonymous
        self._frame_bytes = min(settings.frame_bytes, limits.frame_bytes)
        strangers = SessionLimits(
            hello_bytes=limits.hello_bytes,
            frame_bytes=limits.frame_bytes if self._may_pass else self._frame_bytes,
            in_flight=1,
        )
        self._session = LogInSession(Role.COORDINATOR, strangers)
        self._session.greet()  # the connection has said the same
        self._machine: LogInMachine = log_ins.begin()
        self._mechanisms = settings.mechanisms
        self._kept = b""
        self._longest = limits.hello_bytes + settings.frame_bytes + 2 * LENGTH_BYTES
        self.is_over = False
        """Nothing more is heard here: somebody was let in, or refused."""

    @property
    def why_overdue(self) -> str:
        """The beginning of a sentence about somebody who takes too long."""
        return "it did not log in" if self._session.has_heard else "no hello came"

    def take(self, data: bytes) -> bytes:
        """Hear what came; return what the session of members is to hear, once somebody passes without a log-in.

        Raises RemoteProtocolError when a rule of the wire is broken.
        """
        return b"" if self.is_over else self._hear(data)

    def _hear(self, data: bytes) -> bytes:
        if self._may_pass:
            self._kept += data
        for heard in self._session.receive(data):
            if self.is_over:
                break
            if isinstance(heard, LogInAsked):
                self._must_not_be_long(heard)
                self._may_pass = False
                self._kept = b""
                self._go_on(heard)
            elif isinstance(heard, OtherAsked):
                if self._may_pass:
                    self.is_over = True
                    return self._kept
                refused = self._machine.hear_other()
                answer = ErrorResponse(error=refused.code, message=refused.told)
                self._refuse(refused, self._session.answer(heard.correlation_id, answer))
        if self._may_pass and len(self._kept) > self._longest:
            # No log-in is so long. What is longer is waited for by the session of members, whose memory is bounded.
            self.is_over = True
            return self._kept
        return b""

    def _must_not_be_long(self, asked: LogInAsked) -> None:
        """Hold whoever logs in to the frames of a log-in, also who need not and may ask for more in longer ones."""
        if not self._may_pass:
            return
        self._session.limit_frames(self._frame_bytes)
        length = len(asked.request.data)
        if length > self._frame_bytes:
            why = f"words of a log-in of {length} bytes are over the limit of {self._frame_bytes} bytes"
            raise RemoteProtocolError(ErrorCode.FRAME_TOO_LARGE, why)

    def _go_on(self, asked: LogInAsked) -> None:
        outcome = self._machine.hear(asked.request.mechanism, asked.request.data)
        match outcome:
            case Challenge(data):
                self._connection.say(self._session.answer(asked.correlation_id, LogInResponse(data=data)))
            case Refused():
                is_other = outcome.code is ErrorCode.UNSUPPORTED_SASL_MECHANISM
                answer = LogInResponse(
                    error=outcome.code, message=outcome.told, mechanisms=self._mechanisms if is_other else ()
                )
                self._refuse(outcome, self._session.answer(asked.correlation_id, answer))
            case Accepted():
                self.is_over = True
                if self._session.is_inside_frame:
                    raise RemoteProtocolError(ErrorCode.INVALID_REQUEST, "it said more before its log-in was answered")
                done = LogInResponse(data=outcome.data, is_done=True)
                self._connection.say(self._session.answer(asked.correlation_id, done))
                self._connection.let_in(outcome.principal, outcome.ends_at_s)

    def _refuse(self, refused: Refused, answer: bytes) -> None:
        self.is_over = True
        self._connection.refuse_log_in(refused.why, answer)
