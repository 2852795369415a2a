"""What a full node may refuse, and what may not be left of a refusal.

A refusal for want of room names what is in use, which has to be so; members that bring their group nothing new are
refused only beyond what is kept for them; what a member commits of its own takes no more than before and is never
refused; and of a registration that is refused nothing is left.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from coordinator.core.groups.assignment.subscriptions import named_topics
from coordinator.core.groups.hard.state import GroupState, ShardState
from coordinator.core.limits import Limits
from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.messages import RegisterConsumer, Request, Response
from tests.sim.log.state import ViolationError
from tests.sim.refusals import results_of_parts

KEPT = 16
"""One part in so many of a limit, above it, is kept for those that come back."""
_WORDS = re.compile(r"would take (\d+) bytes of state more, .* takes? (\d+) already, and the limit is (\d+)")


@dataclass(frozen=True, slots=True)
class _Asked:
    request: Request
    since: int
    """Which of the totals was true when it came."""
    known: GroupState | None
    """The group that has all the topics of a registration."""
    was_member: bool
    is_operator: bool


class RoomWatch:
    """The room of one node, through all its lives, and the requests that are under way."""

    def __init__(self, limits: Limits, coverage: Counter[str]) -> None:
        self._limit = min(limits.node_max_bytes, limits.principal_max_bytes)
        self._coverage = coverage
        self._totals = [0]
        """What all groups took, whenever that had changed."""
        self._asked: dict[tuple[int, int], _Asked] = {}
        self._latest: dict[str, RegisterConsumer] = {}
        """What each process asked last, by its incarnation: an earlier registration may have made it a member."""

    def take_limits(self, limits: Limits) -> None:
        """Take what the next life is given."""
        self._limit = min(limits.node_max_bytes, limits.principal_max_bytes)

    def has_room(self, more: int) -> bool:
        """True when so many bytes more find room."""
        return self._totals[-1] + more <= self._limit

    def stepped(self, states: Iterable[ShardState]) -> None:
        """Take note of what all groups take after a step."""
        total = sum(sum(state.bytes_of.values()) for state in states)
        if total != self._totals[-1]:
            self._totals.append(total)

    def asked(
        self, connection_id: int, correlation_id: int, request: Request, state: ShardState, *, is_operator: bool
    ) -> None:
        """Note a request that reaches the node, and of a registration the group that is to have its topics."""
        known, was_member = None, False
        if isinstance(request, RegisterConsumer):
            self._latest[request.incarnation] = request
            was_member = _is_member(state, request)
            group = state.groups.get(request.group_id)
            known = group if group is not None and _has_all(group, request) else None
        asked = _Asked(request, len(self._totals) - 1, known, was_member, is_operator)
        self._asked[connection_id, correlation_id] = asked

    def responded(
        self,
        connection_id: int,
        correlation_id: int,
        response: Response,
        state_of: Callable[[Request], ShardState],
    ) -> None:
        """Check an answer for what it refuses for want of room."""
        asked = self._asked.pop((connection_id, correlation_id))
        request = asked.request
        error = getattr(response, "error", ErrorCode.NONE)
        for result in results_of_parts(response):
            if result.error is ErrorCode.STATE_LIMIT_REACHED:
                self._must_be_so(result.message, asked.since)
                if not asked.is_operator:
                    raise ViolationError("full-commit", f"{request} takes no more than before: {result}")
        if error is ErrorCode.STATE_LIMIT_REACHED:
            beyond = self._must_be_so(getattr(response, "message", ""), asked.since)
            if isinstance(request, RegisterConsumer):
                self._coverage["room refused to a member"] += 1
                _check_registration(request, asked.known, state_of(request), beyond)
                is_latest = self._latest[request.incarnation] is request
                if is_latest and not asked.was_member and _is_member(state_of(request), request):
                    raise ViolationError("half-registration", f"{request} is refused, and its process is a member")
        elif error is ErrorCode.NONE and isinstance(request, RegisterConsumer) and self._totals[-1] > self._limit:
            self._coverage["room kept for a member"] += 1

    def _must_be_so(self, message: str, since: int) -> tuple[int, int]:
        """Return what would be in use and the limit; raises ViolationError when there is room, or less is in use."""
        words = _WORDS.search(message)
        if words is None:
            raise ViolationError("refused-without-reason", f"a refusal for want of room says: {message}")
        more, used, limit = map(int, words.groups())
        if used > max(self._totals[since:]):
            raise ViolationError(
                "wrong-room", f"{used} bytes are said to be in use and {max(self._totals[since:])} are: {message}"
            )
        if used + more <= limit:
            raise ViolationError("wrong-room", f"there is room: {message}")
        return used + more, limit


def check_nobody_is_half(state: ShardState) -> None:
    """Raise ViolationError for a group without members that does not say since when: it would never be forgotten."""
    for group_id, group in state.groups.items():
        if not group.members and group.emptied is None:
            raise ViolationError("half-registration", f"{group_id} is there for nobody: {group.topics}")


def _has_all(group: GroupState, request: RegisterConsumer) -> bool:
    subscription = request.subscription
    return subscription.pattern is not None or group.topics.keys() >= set(named_topics(subscription))


def _is_member(state: ShardState, request: RegisterConsumer) -> bool:
    group = state.groups.get(request.group_id)
    members = group.members.values() if group is not None else ()
    return any(member.facts.incarnation == request.incarnation for member in members)


def _check_registration(
    request: RegisterConsumer, known: GroupState | None, state: ShardState, beyond: tuple[int, int]
) -> None:
    wanted, limit = beyond
    group = state.groups.get(request.group_id)
    if known is not None and known is group and wanted <= limit + limit // KEPT:
        raise ViolationError(
            "none-kept", f"{request} brings nothing new, would come to {wanted} of {limit} bytes, and is refused"
        )
