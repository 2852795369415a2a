"""Members of kcoord groups as load: they take what they are given, let go of what they are asked for, ping and commit.

A member whose connection has ended comes back on another one as who it was, as soon as it is greeted there.

Requests that are timed are encoded before they are needed and always have correlation id 1; everything else counts
up from 2. A refusal of anything is an exception: a figure never comes from requests that failed.
"""

import os
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from benchmarks.group_sockets import Peer, Sockets
from coordinator.protocol.claim_columns import claims_in_columns
from coordinator.protocol.codec import decode_answer, encode_message
from coordinator.protocol.columns import OffsetToCommit, in_columns
from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.framing import decode_hello, encode_envelope, encode_hello
from coordinator.protocol.messages import (
    Advance,
    AdvanceResponse,
    CommitOffsets,
    CommitOffsetsResponse,
    ConfirmClaims,
    ConfirmClaimsResponse,
    ErrorResponse,
    Fenced,
    FetcherStarted,
    FetcherStartedResponse,
    FetcherStopped,
    FetcherStoppedResponse,
    Ping,
    PingResponse,
    Push,
    RegisterConsumer,
    RegisterConsumerResponse,
    Request,
    Response,
    StartFetcher,
    StopFetcher,
)
from coordinator.protocol.parts import (
    Claim,
    FinalOffset,
    OwnedPartition,
    ResetPolicy,
    StartPartition,
    Subscription,
)
from coordinator.protocol.session import SUPPORTED_VERSIONS

SESSION_TIMEOUT_MS: Final = 600_000
REBALANCE_TIMEOUT_MS: Final = 60_000
COMMIT_PARTITIONS: Final = 10
_TIMED: Final = 1
_TIMED_BYTES: Final = struct.pack(">I", _TIMED)
_FIRST_OFFSET: Final = 1_000_000
"""msgpack writes offsets from 65,536 to 2**32 - 1 in five bytes, so one can stand for another in an encoded frame."""
_OFFSET: Final = struct.Struct(">BI")
_UINT32: Final = 0xCE
_PING_ANSWERED: Final = encode_message(PingResponse())[:3]
"""The beginning of an answer to a ping: its length, its tag, and that it is no refusal."""

_COMMIT_ANSWERED: Final = encode_message(CommitOffsetsResponse(accepted=COMMIT_PARTITIONS))
PING: Final = encode_envelope(_TIMED, encode_message(Ping(1)))


class RefusedError(Exception):
    """The coordinator refused what a member asked."""


@dataclass(slots=True)
class Tally:
    """The state that all members of one group share."""

    group_id: str
    topic: str
    members: int = 0
    registered: int = 0
    complete: int = 0
    owned: int = 0
    unanswered: int = 0
    first_registered_s: float = 0.0

    def is_stable(self, partitions: int) -> bool:
        """Say whether each member was told its whole assignment, which together is everything, and has started it."""
        return (
            self.owned == partitions
            and self.complete == self.members
            and self.registered == self.members
            and self.unanswered == 0
        )


class KcoordMember(Peer):
    """One member; its tally hears of everything it gains and loses."""

    __slots__ = (
        "_commit_pieces",
        "_is_complete",
        "_is_greeted",
        "_next_id",
        "_offset",
        "_sockets",
        "incarnation",
        "is_in",
        "member_id",
        "open_asks",
        "owned",
        "tally",
    )

    def __init__(self, sockets: Sockets[Any], tally: Tally) -> None:
        super().__init__()
        self.tally = tally
        self.owned: dict[int, StartPartition] = {}
        self.incarnation = os.urandom(8).hex()
        self.member_id = ""
        self.is_in = False
        self.open_asks = 0
        self._sockets = sockets
        self._is_complete = False
        self._is_greeted = False
        self._next_id = _TIMED
        self._offset = _FIRST_OFFSET
        self._commit_pieces: list[bytes] = []
        tally.members += 1

    # ---- what it asks -----------------------------------------------------------------------------------------------

    def greet(self) -> None:
        """Say hello."""
        self._sockets.send(self, encode_hello(SUPPORTED_VERSIONS))

    def registration(self) -> bytes:
        """Return the request to join, or to come back; it is counted as sent."""
        return self._encoded(self._registration())

    def _registration(self) -> RegisterConsumer:
        return RegisterConsumer(
            group_id=self.tally.group_id,
            member_id=self.member_id,
            incarnation=self.incarnation,
            is_rejoining=bool(self.member_id),
            subscription=Subscription((self.tally.topic,)),
            client_id="load",
            pid=os.getpid(),
            session_timeout_ms=SESSION_TIMEOUT_MS,
            rebalance_timeout_ms=REBALANCE_TIMEOUT_MS,
            reset_policy=ResetPolicy("earliest"),
        )

    def ping(self) -> bytes:
        """Return a ping."""
        return PING

    def prepare_commits(self) -> None:
        """Encode a commit of ten partitions once; from now on only the offset in it changes."""
        assert self._offset == _FIRST_OFFSET, "commits are prepared once, since they must not go back"
        mark = _OFFSET.pack(_UINT32, _FIRST_OFFSET)
        chosen = list(self.owned.values())[:COMMIT_PARTITIONS]
        offsets = in_columns(OffsetToCommit(own.topic, own.partition, _FIRST_OFFSET, own.owner_epoch) for own in chosen)
        frame = encode_envelope(_TIMED, encode_message(CommitOffsets(self.tally.group_id, offsets)))
        self._commit_pieces = frame.split(mark)
        if len(chosen) != COMMIT_PARTITIONS or len(self._commit_pieces) != COMMIT_PARTITIONS + 1:
            raise RuntimeError(f"a member owns {len(chosen)} partitions, too few for a commit of {COMMIT_PARTITIONS}")

    def commit(self) -> bytes:
        """Return a commit of ten partitions, each one further than before."""
        self._offset += 1
        return _OFFSET.pack(_UINT32, self._offset).join(self._commit_pieces)

    def run_claims(self) -> None:
        """Claim a range of every owned partition and begin to read it, as a Spark member with a running batch does."""
        claims = claims_in_columns(
            Claim(own.topic, own.topic_id, own.partition, own.owner_epoch, own.offset, own.offset + 100)
            for own in self.owned.values()
        )
        self._ask(Advance((), claims))
        self._ask(ConfirmClaims(claims))

    def leave_tally(self) -> None:
        """Take what it has out of the tally, because it dies."""
        self.tally.members -= 1
        self.forget()

    def forget(self) -> None:
        """Take what it has out of the tally, because its connection has ended: it is to be told anew."""
        self.tally.unanswered -= self.open_asks
        self.tally.registered -= self.is_in
        self.tally.complete -= self._is_complete
        self.tally.owned -= len(self.owned)
        self.owned = {}
        self.open_asks = 0
        self.is_in = self._is_complete = self._is_greeted = False
        self.buffer = self.unsent = b""

    def _ask(self, request: Request) -> None:
        self._sockets.send(self, self._encoded(request))

    def _encoded(self, request: Request) -> bytes:
        self._next_id += 1
        self.open_asks += 1
        self.tally.unanswered += 1
        return encode_envelope(self._next_id, encode_message(request))

    # ---- what it hears ----------------------------------------------------------------------------------------------

    def receive(self, body: bytes) -> bool:
        """Take a frame."""
        if body.startswith(_TIMED_BYTES):
            if not body.startswith(_PING_ANSWERED, 4):
                _check_commit(body)
            return True
        if not self._is_greeted:
            decode_hello(body)
            self._is_greeted = True
            self._greeted()
            return False
        said = decode_answer(memoryview(body)[4:])
        if not isinstance(said, Push):
            self.open_asks -= 1
        self._take(said)
        return False

    def _greeted(self) -> None:
        """Come back, where it has been a member before."""
        if self.member_id:
            self._sockets.send(self, self.registration())

    def _take(self, said: Response | Push) -> None:
        """Take what is no answer to a timed request."""
        match said:
            case StartFetcher(partitions, is_complete):
                self._start(partitions, is_complete=is_complete)
            case StopFetcher(partitions):
                self._stop(partitions)
            case RegisterConsumerResponse(error, message, member_id):
                self.tally.unanswered -= 1
                if error.is_retriable:  # as a real member does; the time it takes is counted
                    self._sockets.send(self, self.registration())
                    return
                _require(error == ErrorCode.NONE, message)
                self.member_id = member_id
                self.tally.registered += not self.is_in  # who was lost while it joined has registered twice
                self.is_in = True
            case FetcherStartedResponse(results) | FetcherStoppedResponse(results):
                for result in results:
                    _require(result.error == ErrorCode.NONE, result.message)
                self.tally.unanswered -= 1
            case AdvanceResponse(error, message, _, claims):
                _require(error == ErrorCode.NONE and not claims.others, message or str(claims.others))
                self.tally.unanswered -= 1
            case ConfirmClaimsResponse(error, message, statuses):
                _require(error == ErrorCode.NONE and not statuses.others, message or str(statuses.others))
                self.tally.unanswered -= 1
            case ErrorResponse(_, message) | Fenced(_, message):
                raise RefusedError(message)
            case other:
                raise RefusedError(f"{type(other).__name__} was not expected")

    def _start(self, partitions: Sequence[StartPartition], *, is_complete: bool) -> None:
        known = len(self.owned)
        for own in partitions:
            self.owned[own.partition] = own
        self.tally.owned += len(self.owned) - known
        self.tally.complete += is_complete - self._is_complete
        self._is_complete = is_complete
        if partitions:
            started = tuple(OwnedPartition(own.topic, own.partition, own.owner_epoch) for own in partitions)
            self._ask(FetcherStarted(started))

    def _stop(self, partitions: Sequence[OwnedPartition]) -> None:
        for own in partitions:
            if self.owned.pop(own.partition, None) is not None:
                self.tally.owned -= 1
        self.tally.complete -= self._is_complete
        self._is_complete = False
        finals = tuple(FinalOffset(own.topic, own.partition, own.owner_epoch) for own in partitions)
        self._ask(FetcherStopped(finals))


def _check_commit(body: bytes) -> None:
    if not body.endswith(_COMMIT_ANSWERED):
        raise RefusedError(f"a timed request was answered {msgspec.msgpack.decode(memoryview(body)[4:])}")


def _require(is_good: bool, message: str) -> None:  # noqa: FBT001 - a check reads as a sentence
    if not is_good:
        raise RefusedError(message)
