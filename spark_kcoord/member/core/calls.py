"""The calls a member has been asked for and has not answered: one is with the coordinator at a time, in order.

A call whose connection is lost is asked again on the next one, which is harmless because every one of them is
idempotent. Each gives up at its deadline. It knows nothing of what the answers mean.
"""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, TypeAlias, assert_never

from coordinator.protocol.claim_columns import advance_of, claims_in_columns
from coordinator.protocol.columns import in_columns
from coordinator.protocol.messages import Advance, CommitOffsets, ConfirmClaims, LeaveGroup, ReportOutOfRange
from coordinator.protocol.parts import FinalOffset
from spark_kcoord.member.core.events import AdvanceCall, CommitCall, ConfirmCall, ReportCall

CallRequest: TypeAlias = Advance | ConfirmClaims | CommitOffsets | ReportOutOfRange | LeaveGroup

LEAVES_BY_ITSELF: Final = 0
"""The id of the call by which a member leaves that is left alone; nobody waits for it."""


def request_of(group_id: str, call: AdvanceCall | ConfirmCall | CommitCall | ReportCall) -> CallRequest:
    """Return the request that a call of a member of a group makes."""
    match call:
        case AdvanceCall():
            return advance_of(call.finished, call.claims, keeps_offered=call.keeps_offered)
        case ConfirmCall():
            return ConfirmClaims(claims_in_columns(call.claims))
        case CommitCall():
            return CommitOffsets(group_id, in_columns(call.offsets))
        case ReportCall():
            return ReportOutOfRange(call.partitions)
        case _:
            assert_never(call)


@dataclass(slots=True)
class Call:
    """One call: its request is completed when it is sent first and stays the same when it is sent again."""

    call_id: int
    deadline_ms: int
    request: CallRequest
    was_sent: bool = False
    timeout_ms: int | None = None
    """For how long it waits, where that was said with it."""
    before: tuple[tuple[FinalOffset, ...], ...] = ()
    """The partitions that are let go of before it each time that it is sent, in portions."""


class Calls:
    """Calls in the order they came."""

    __slots__ = ("_in_flight", "_waiting")

    def __init__(self) -> None:
        self._waiting: deque[Call] = deque()
        self._in_flight: Call | None = None

    def __iter__(self) -> Iterator[Call]:
        """Yield every call not answered, the one in flight first."""
        if self._in_flight is not None:
            yield self._in_flight
        yield from self._waiting

    @property
    def in_flight(self) -> Call | None:
        """The call that is with the coordinator."""
        return self._in_flight

    @property
    def is_leaving(self) -> bool:
        """True while a leave is with the coordinator."""
        return self._in_flight is not None and isinstance(self._in_flight.request, LeaveGroup)

    @property
    def wants_to_leave(self) -> bool:
        """True from the first call that leaves on: nothing after it is of use."""
        return any(isinstance(call.request, LeaveGroup) for call in self)

    @property
    def deadline_ms(self) -> int | None:
        """The time at which the first of them gives up."""
        return min((call.deadline_ms for call in self), default=None)

    def add(self, call: Call) -> None:
        """Take a new call."""
        self._waiting.append(call)

    def next_to_send(self) -> Call | None:
        """Make the oldest waiting call the one in flight and return it, unless one is in flight already."""
        if self._in_flight is not None or not self._waiting:
            return None
        self._in_flight = self._waiting.popleft()
        return self._in_flight

    def put_back(self) -> None:
        """Make the call in flight the next one to send: its answer will not come."""
        if self._in_flight is not None:
            self._waiting.appendleft(self._in_flight)
            self._in_flight = None

    def finish(self) -> Call | None:
        """Remove the call in flight, which is answered, and return it."""
        call, self._in_flight = self._in_flight, None
        return call

    def remove_overdue(self, now_ms: int) -> list[Call]:
        """Remove and return the calls whose deadline has passed."""
        overdue = [call for call in self if call.deadline_ms <= now_ms]
        if self._in_flight is not None and self._in_flight.deadline_ms <= now_ms:
            self._in_flight = None
        self._waiting = deque(call for call in self._waiting if call.deadline_ms > now_ms)
        return overdue

    def remove_leaves(self) -> list[Call]:
        """Remove and return the calls that leave."""
        leaves = [call for call in self if isinstance(call.request, LeaveGroup)]
        if self.is_leaving:
            self._in_flight = None
        self._waiting = deque(call for call in self._waiting if not isinstance(call.request, LeaveGroup))
        return leaves

    def remove_all(self) -> list[Call]:
        """Remove and return every call."""
        calls = list(self)
        self._in_flight = None
        self._waiting.clear()
        return calls
