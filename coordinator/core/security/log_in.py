"""The log-in of one connection without input or output: words of a mechanism in, an answer or an end out.

It knows users and what checks a token, and no socket, clock or chance: the nonce of SCRAM is an argument. A refusal
has two reasons. One is for the node's log and names the user; the other is for whoever was refused, and is the same
for a wrong password and for a user that there is not.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final, TypeAlias

from scramp import ScramException, ScramMechanism

from coordinator.core.security.principal import ANONYMOUS, Principal, why_bad_name
from coordinator.core.security.users import MOST_PREPARED, TOKEN_MECHANISM, Users, is_long_to_prepare
from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.log_in import token_in

_MOST_OF_WORDS: Final = 2 * 1024
"""Longest words of SCRAM that are heard, in bytes: a name, in which each comma is three letters, and a nonce."""
_SHOWN: Final = 100
"""Longest part of a name that is shown in a log line, in characters."""


@dataclass(frozen=True, slots=True)
class TokenAccepted:
    """A token that is good: whose it is, and until when, in seconds since 1970; None for one that does not end."""

    name: str
    ends_at_s: float | None = None


@dataclass(frozen=True, slots=True)
class TokenRefused:
    """A token that is not good; the reason shows no part of it that was not proven."""

    why: str


CheckToken: TypeAlias = Callable[[str], TokenAccepted | TokenRefused]


@dataclass(frozen=True, slots=True)
class Ways:
    """The ways in: the mechanisms that are taken, the users, and what checks a token."""

    mechanisms: tuple[str, ...]
    users: Users
    check_token: CheckToken


class Stage(Enum):
    """The stage of a log-in."""

    BEGINNING = "beginning"
    """Nothing was said; the first words of any mechanism are heard."""
    PROVING = "proving"
    """A user was named by SCRAM; the proof is awaited."""
    DONE = "done"
    """The user is known; nothing more is heard."""
    REFUSED = "refused"
    """The user is not known and never will be here; nothing more is heard."""


class Step(Enum):
    """The steps from one stage to another."""

    NAMED = "a user is named"
    PROVEN = "it is proven"
    DENIED = "it is denied"


TRANSITIONS: Final[dict[Stage, dict[Step, Stage]]] = {
    Stage.BEGINNING: {Step.NAMED: Stage.PROVING, Step.PROVEN: Stage.DONE, Step.DENIED: Stage.REFUSED},
    Stage.PROVING: {Step.PROVEN: Stage.DONE, Step.DENIED: Stage.REFUSED},
    Stage.DONE: {},
    Stage.REFUSED: {},
}
"""Every legal step."""


@dataclass(frozen=True, slots=True)
class Challenge:
    """The words are good so far; these go back, and the next are awaited."""

    data: bytes


@dataclass(frozen=True, slots=True)
class Accepted:
    """The user is known; `data` goes back, and the connection ends at `ends_at_s` if there is such a time."""

    principal: Principal
    mechanism: str
    data: bytes = b""
    ends_at_s: float | None = None


@dataclass(frozen=True, slots=True)
class Refused:
    """The log-in is over: what whoever asked is told, and why, which is for the node's log alone."""

    code: ErrorCode
    told: str
    why: str


Outcome: TypeAlias = Challenge | Accepted | Refused

_NOT_PROVEN: Final = "user name and password do not fit"
_FIRST: Final = (
    "whoever asks something here has to log in first: set kcoord.security.protocol to SASL_SSL, and "
    "kcoord.sasl.username and kcoord.sasl.password or kcoord.auth.token"
)


class LogInMachine:
    """One log-in, from its first words to its end."""

    __slots__ = ("_mechanism", "_name", "_nonce", "_server", "_ways", "stage")

    def __init__(self, ways: Ways, nonce: str) -> None:
        self.stage = Stage.BEGINNING
        self._ways = ways
        self._nonce = nonce
        self._server: Any = None
        self._mechanism = ""
        self._name = ""

    def hear(self, mechanism: str, data: bytes) -> Outcome:
        """Take words of a mechanism; not to be called once the log-in is over."""
        if self.stage is Stage.PROVING:
            if mechanism != self._mechanism:
                return self._deny(f"user {_shown(self._name)} went on with another mechanism", _NOT_PROVEN)
            return self._check_proof(data)
        if mechanism not in self._ways.mechanisms:
            known = ", ".join(self._ways.mechanisms)
            return self._deny(
                f"it wants to log in by {_shown(mechanism)}, and authentication.mechanisms are {known}",
                f"that mechanism is not taken here; those that are: {known}",
                ErrorCode.UNSUPPORTED_SASL_MECHANISM,
            )
        self._mechanism = mechanism
        return self._take_token(data) if mechanism == TOKEN_MECHANISM else self._take_name(data)

    def hear_other(self) -> Refused:
        """Take note that something else was asked for."""
        return self._deny("it asked for something before it had logged in", _FIRST)

    # ---- SCRAM ------------------------------------------------------------------------------------------------------

    def _take_name(self, data: bytes) -> Outcome:
        server = ScramMechanism(self._mechanism).make_server(self._verifier, s_nonce=self._nonce)
        try:
            words = _text(data)
            if is_long_to_prepare(_name_in(words)):  # before it is: that takes a node's time from all others
                why = f"a user with more than {MOST_PREPARED} characters in its name"
                return self._deny(f"it names {why}", f"there is never {why}")
            server.set_client_first(words)
            challenge = server.get_server_first()
        except ScramException as error:
            return self._deny(f"its first message cannot be read: {_plain(error)}", "the first message cannot be read")
        self._server = server
        self._step(Step.NAMED)
        return Challenge(challenge.encode())

    def _verifier(self, name: str) -> tuple[bytes, bytes, bytes, int]:
        self._name = name
        found = self._ways.users.verifier_of(self._mechanism, name)
        return found.salt, found.stored_key, found.server_key, found.iterations

    def _check_proof(self, data: bytes) -> Outcome:
        assert self._server is not None
        try:
            self._server.set_client_final(_text(data))
            last = self._server.get_server_final()
        except ScramException as error:
            return self._deny(self._why_not_proven(error), _NOT_PROVEN)
        if not self._ways.users.has(self._mechanism, self._name):  # off the file since it was named, or made up
            return self._deny(self._why_not_proven(None), _NOT_PROVEN)
        return self._accept(self._name, last.encode(), None)

    def _why_not_proven(self, error: ScramException | None) -> str:
        if not self._ways.users.has(self._mechanism, self._name):
            return f"{_shown(self._name)} is no user with {self._mechanism} in authentication.users_file"
        code = getattr(error, "server_error", None)
        if code is not None and code.name == "INVALID_PROOF":
            return f"the password of user {_shown(self._name)} is another one"
        return f"the proof of user {_shown(self._name)} cannot be read: {_plain(error)}"

    # ---- tokens -----------------------------------------------------------------------------------------------------

    def _take_token(self, data: bytes) -> Outcome:
        token = token_in(data)
        if token is None:
            return self._deny("its message holds no bearer token", "the message holds no bearer token")
        checked = self._ways.check_token(token)
        if isinstance(checked, TokenRefused):
            return self._deny(f"its token is refused: {checked.why}", f"the token is refused: {checked.why}")
        return self._accept(checked.name, b"", checked.ends_at_s)

    # ---- ends -------------------------------------------------------------------------------------------------------

    def _accept(self, name: str, data: bytes, ends_at_s: float | None) -> Outcome:
        if why_bad_name(name) or name == ANONYMOUS.name:
            return self._deny(f"{_shown(name)} makes no good name of a principal", "that name makes no principal here")
        self._step(Step.PROVEN)
        return Accepted(Principal(name), self._mechanism, data, ends_at_s)

    def _deny(self, why: str, told: str, code: ErrorCode = ErrorCode.SASL_AUTHENTICATION_FAILED) -> Refused:
        self._step(Step.DENIED)
        return Refused(code, told, why)

    def _step(self, step: Step) -> None:
        following = TRANSITIONS[self.stage].get(step)
        assert following is not None, f"{step.value} while the log-in is {self.stage.value}"
        self.stage = following


def _name_in(words: str) -> str:
    """Return the name in the first words of SCRAM (RFC 5802); in words of another form none is ever looked at."""
    parts = words.split(",", 3)
    name = parts[2].removeprefix("n=") if len(parts) > 2 else ""
    return name.replace("=2C", ",").replace("=3D", "=")


def _text(data: bytes) -> str:
    if len(data) > _MOST_OF_WORDS:
        raise ScramException(f"it has {len(data)} bytes and at most {_MOST_OF_WORDS} are heard")
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise ScramException("it is not UTF-8") from None


def _plain(error: ScramException | None) -> str:
    return "" if error is None else str(error).partition(":")[0]


def _shown(name: str) -> str:
    return repr(name[:_SHOWN])
