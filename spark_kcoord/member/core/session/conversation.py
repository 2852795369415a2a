"""All that dies with a connection: the session, what was asked and not answered, and what is still to be said.

Confirmations of started partitions and releases are queued here, one request of each kind being out at a time. It
decides nothing; a new registration tells the member again what still matters of what was lost here.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from coordinator.protocol.claim_columns import partitions_of
from coordinator.protocol.ids import TopicPartition
from coordinator.protocol.messages import (
    Advance,
    ConfirmClaims,
    FetcherStarted,
    FetcherStopped,
    LeaveGroup,
    ReportOutOfRange,
    Request,
)
from coordinator.protocol.parts import FinalOffset, OwnedPartition
from coordinator.protocol.session import Role, Session, SessionEvent
from spark_kcoord.member.core.held.holdings import partition_of
from spark_kcoord.member.core.held.portions import bytes_of, portions

MOST_UNANSWERED: Final = 16
"""Requests that may be out before a member says nothing more that can wait: a session takes 64, and what goes before a
call or a leave is many."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A request that is out, and when it was sent."""

    request: Request
    sent_ms: int


class Conversation:
    """One connection's worth of talk with a coordinator."""

    __slots__ = ("_asked", "_session", "_to_confirm", "_to_release", "heard_ms")

    def __init__(self, now_ms: int) -> None:
        self.heard_ms = now_ms
        """The time at which the coordinator said something last, if only a part of a long frame."""
        self._session = Session(Role.MEMBER)
        self._asked: dict[int, Asked] = {}
        self._to_confirm: dict[TopicPartition, OwnedPartition] = {}
        self._to_release: dict[TopicPartition, FinalOffset] = {}

    def greet(self) -> bytes:
        """Return our hello."""
        return self._session.send_hello()

    def ask(self, request: Request, now_ms: int) -> bytes:
        """Return the bytes of a request; raises LocalProtocolError when it is too large for a frame."""
        correlation_id, data = self._session.send_request(request)
        self._asked[correlation_id] = Asked(request, now_ms)
        return data

    def hear(self, data: bytes, now_ms: int) -> Iterator[SessionEvent]:
        """Yield what the coordinator said; raises RemoteProtocolError when it broke a rule."""
        self.heard_ms = now_ms
        yield from self._session.receive_bytes(data)

    def take_asked(self, correlation_id: int) -> Asked:
        """Remove and return the request that a response answers."""
        return self._asked.pop(correlation_id)

    @property
    def is_full(self) -> bool:
        """True while so many requests wait for their answers that what can wait does."""
        return len(self._asked) >= MOST_UNANSWERED

    @property
    def unanswered_since_ms(self) -> int | None:
        """The time since when the coordinator owes an answer and says nothing; None while it owes none.

        A report that an offset is out of range is not counted: Kafka is asked before it is answered.
        """
        for asked in self._asked.values():
            if not isinstance(asked.request, ReportOutOfRange):
                return max(asked.sent_ms, self.heard_ms)
        return None

    def busy_partitions(self) -> set[TopicPartition]:
        """Return the partitions whose claims a call that is out may change."""
        busy: set[TopicPartition] = set()
        for asked in self._asked.values():
            if isinstance(asked.request, Advance):
                busy.update(partitions_of(asked.request.finished))
            if isinstance(asked.request, Advance | ConfirmClaims):
                busy.update(partitions_of(asked.request.claims))
        return busy

    def confirm_started(self, parts: Sequence[OwnedPartition]) -> None:
        """Queue partitions to be named in a FetcherStarted."""
        self._to_confirm.update((partition_of(part), part) for part in parts)

    def release(self, parts: Sequence[FinalOffset]) -> None:
        """Queue partitions to be named in a FetcherStopped."""
        for part in parts:
            self._to_confirm.pop(partition_of(part), None)
            self._to_release[partition_of(part)] = part

    def releases_before(self, request: Request) -> Iterator[Request]:
        """Yield what is queued to be let go, if a request leaves or asks whether claims on some of it may be read.

        Otherwise the coordinator would say that they may, and then hear that their partitions are let go; and what it
        hears of somebody who has left counts for nothing.
        """
        is_asked_about = isinstance(request, ConfirmClaims) and not self._to_release.keys().isdisjoint(
            partitions_of(request.claims)
        )
        if is_asked_about or isinstance(request, LeaveGroup):
            finals, self._to_release = tuple(self._to_release.values()), {}
            for portion in portions(finals, bytes_of):
                yield FetcherStopped(portion)

    def next_queued(self) -> Request | None:
        """Return the next request of what is queued, releases first, if one of its kind is not out already."""
        if self.is_full:
            return None
        out = {type(asked.request) for asked in self._asked.values()}
        if self._to_release and FetcherStopped not in out:
            finals = next(portions(self._to_release.values(), bytes_of))
            for final in finals:
                del self._to_release[partition_of(final)]
            return FetcherStopped(finals)
        if self._to_confirm and FetcherStarted not in out:
            started = next(portions(self._to_confirm.values(), bytes_of))
            for part in started:
                del self._to_confirm[partition_of(part)]
            return FetcherStarted(started)
        return None
