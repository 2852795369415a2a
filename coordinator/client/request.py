"""A single request to a coordinator by who is no member: which node is asked, when again, and when that ends.

The request goes to the addresses in turn, to the one that answered last before the others, and is followed to the node
that coordinates its group. It is asked again while the refusal says that it may pass, all within one time-out. A
refusal is returned as the response that carries it; whatever keeps a response from coming is a `RequestError` that says
what was tried, why it failed and what to do.

A connection that breaks before the node's hello has asked nothing, and the next node is tried. One that breaks later
may have carried any part of the request, and the node may have done it: `ask` then repeats nothing, there or elsewhere,
and its error says to look; only what changes nothing is asked of another node that is known. `ask_until_answered` asks
again, so that its callers name only requests that come to the same when they are done twice. Of an answer in pages
those that came are dropped, and the first is asked for again.
"""

import random
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from coordinator.client.connection import Connection, NodeError, NodeRefusalError, NodeTimeoutError
from coordinator.client.nodes import Nodes
from coordinator.client.refusals import BETTER_ELSEWHERE, NOT_SERVING, PASSING, Refusal, refusal_of, show_refusal
from coordinator.client.security import Coordinators, security_of
from coordinator.protocol.errors import ErrorCode, LocalProtocolError
from coordinator.protocol.messages import (
    DescribeCluster,
    DescribeGroup,
    FetchOffsets,
    FindCoordinator,
    FindCoordinatorResponse,
    ListGroupEvents,
    ListGroups,
    Request,
    Response,
)
from coordinator.protocol.messages.operators import DescribeControls
from coordinator.protocol.messages.pages import ask_for_all
from coordinator.protocol.text.addresses import Address, format_address

TRY_TIMEOUT_S: Final = 5.0
"""The longest that one node may take before the next one is tried, where a request may be asked twice."""

LONGEST_HELLO_S: Final = 3.0
"""The time after which a node that stands still is left for the next one: until its hello nothing is asked of it."""

SHORTEST_TRY_S: Final = 0.5
"""The least of the time left that a node gets for its hello, however many are to be tried after it."""

_READS: Final = (
    DescribeCluster,
    DescribeControls,
    DescribeGroup,
    FetchOffsets,
    FindCoordinator,
    ListGroupEvents,
    ListGroups,
)
"""The requests that change nothing, however often they are asked."""

_NO_TIME_S: Final = 0.01
"""Less time than this is none."""


class RequestError(Exception):
    """No response came; the text says what was tried, why it failed and what to do."""

    may_be_done = False
    """True if a node may have carried the request out all the same."""


class LogInFailedError(RequestError):
    """No response came, for no node that was tried let this client log in."""


class RequestTimeoutError(RequestError):
    """No response came in time; `troubles` says why at each address, `refused` is the last refusal that might pass."""

    def __init__(self, text: str, troubles: str, refused: Response | None) -> None:
        super().__init__(text)
        self.troubles = troubles
        self.refused = refused

    def __reduce__(self) -> tuple[Any, ...]:
        """Return what a copy in another process is made of."""
        return type(self), (*self.args, self.troubles, self.refused), dict(self.__dict__)


def ask(coordinators: Sequence[Address], request: Request, timeout_s: float) -> Response:
    """Return the response to a request of a person, who wants to hear at once that nobody can be reached.

    Each address is tried once before that is said, and nothing is asked twice that may have been done. A refusal that
    does not pass in time is returned, unless another node may have carried the request out since. An answer in pages
    is returned as one. Raises RequestTimeoutError after `timeout_s`, and RequestError when no coordinator answers.
    """
    try:
        return _Asking(_AT_ONCE, coordinators, request, timeout_s).response()
    except RequestTimeoutError as error:
        if error.refused is None or error.may_be_done:
            raise
        return error.refused  # it says more than that the last try took too long


def ask_until_answered(coordinators: Sequence[Address], request: Request, timeout_s: float) -> Response:
    """Return the response to a request that may be asked twice, from whichever node has come back by then.

    An answer in pages is returned as one. Raises RequestTimeoutError after `timeout_s`, and RequestError for a request
    that cannot be sent.
    """
    return _Asking(_UNTIL_ANSWERED, coordinators, request, timeout_s).response()


@dataclass(frozen=True, slots=True)
class _Manner:
    """The cases in which a request is asked again."""

    passing: frozenset[ErrorCode]
    """The refusals after which it is."""
    tries_on: bool
    """True if it is when no node could be reached."""
    may_be_done_twice: bool
    """True if it is when a node may have carried it out and did not say so."""
    try_timeout_s: float
    """The longest that a node which has said hello may take for one response."""


_AT_ONCE: Final = _Manner(NOT_SERVING, tries_on=False, may_be_done_twice=False, try_timeout_s=float("inf"))
_UNTIL_ANSWERED: Final = _Manner(PASSING, tries_on=True, may_be_done_twice=True, try_timeout_s=TRY_TIMEOUT_S)


class _Asking:
    """One request on its way, in rounds: in a round no node is asked twice, between two is a pause."""

    def __init__(self, manner: _Manner, coordinators: Sequence[Address], request: Request, timeout_s: float) -> None:
        self._manner = manner
        self._security = security_of(coordinators)
        self._coordinators = coordinators
        self._nodes = Nodes(coordinators, random.random)
        if isinstance(coordinators, Coordinators) and coordinators.answered_last is not None:
            self._nodes.choose(coordinators.answered_last)
        self._request = request
        self._timeout_s = timeout_s
        self._deadline_s = time.monotonic() + timeout_s
        self._tried: set[Address] = set()
        self._asked: set[Address] = set()
        self._has_round_an_answer = False
        self._may_be_done = False
        self._failures: dict[Address, NodeError] = {}
        self._refused: Response | None = None
        self._leader_epoch: int | None = None
        """The epoch of the coordinator that was named last and has not answered."""

    def response(self) -> Response:
        """Return the response; raises RequestError."""
        while True:
            if self._tried and self._remaining_s() <= _NO_TIME_S:
                raise self._failure()
            node = self._nodes.current
            self._tried.add(node)
            self._asked.add(node)
            self._may_be_done = False
            try:
                response = self._ask(node)
            except LocalProtocolError as error:
                raise RequestError(f"the request cannot be sent: {error}") from error
            except NodeError as error:
                self._note(node, error)
            else:
                if response is not None:
                    if isinstance(self._coordinators, Coordinators):
                        self._coordinators.answered_last = node
                    return response
            if self._nodes.current in self._asked:
                self._end_round()

    def _ask(self, node: Address) -> Response | None:
        """Return the response of one node; None for a refusal that may pass, after which another node may be next."""
        with Connection(node, self._time_for_hello_s(), self._security) as connection:
            self._may_be_done = True
            response = ask_for_all(lambda page: connection.ask(page, self._time_for_response_s()), self._request)
            self._may_be_done = False
            refusal = refusal_of(response)
            if refusal is None or refusal[0] not in self._manner.passing or self._is_of_no_group(refusal):
                return response
            self._has_round_an_answer = True
            self._refused = response
            self._failures.pop(node, None)
            self._follow(connection, refusal)
        return None

    def _is_of_no_group(self, refusal: Refusal) -> bool:
        """Return whether a node refused to speak for all of them: no other one will."""
        return refusal[0] is ErrorCode.NOT_COORDINATOR and not isinstance(getattr(self._request, "group_id", None), str)

    def _follow(self, connection: Connection, refusal: Refusal) -> None:
        """Turn to the node that coordinates the group, where the one that was asked does not."""
        why = show_refusal(refusal)
        group_id = getattr(self._request, "group_id", None)
        if refusal[0] is ErrorCode.NOT_COORDINATOR and isinstance(group_id, str):
            question = FindCoordinator(group_id, self._leader_epoch)
            found = connection.ask(question, self._time_for_response_s())
            if isinstance(found, FindCoordinatorResponse) and found.coordinator is not None:
                self._leader_epoch = found.leader_epoch
                self._nodes.note_trouble(why, is_elsewhere_better=False)
                self._nodes.learn((node.host, node.port) for node in found.nodes)
                self._nodes.choose((found.coordinator.host, found.coordinator.port))
                return
            why += "; it knows no coordinator of this group"
        self._nodes.note_trouble(why, is_elsewhere_better=refusal[0] in BETTER_ELSEWHERE)

    def _note(self, node: Address, error: NodeError) -> None:
        self._failures[node] = error
        if not isinstance(error, NodeTimeoutError):
            self._refused = None
        self._nodes.note_trouble(str(error), is_elsewhere_better=True)
        is_harmless = isinstance(self._request, _READS) and not self._nodes.is_alone
        if self._may_be_done and not self._manner.may_be_done_twice and not is_harmless:
            failure = self._failure_at(node, error)
            failure.may_be_done = True
            raise failure from error

    def _end_round(self) -> None:
        """Pause before the next round; raises RequestError when there is none."""
        is_last = not self._has_round_an_answer and not self._manner.tries_on
        backoff_s = self._nodes.next_backoff_ms() / 1000
        if is_last or self._remaining_s() <= backoff_s:
            raise self._failure()
        time.sleep(backoff_s)
        self._asked.clear()
        self._has_round_an_answer = False

    def _failure(self) -> RequestError:
        """Return why there is no response, with every address that was tried."""
        if len(self._tried) == 1 == len(self._failures):
            return self._failure_at(*next(iter(self._failures.items())))
        if self._failures and all(isinstance(error, NodeRefusalError) for error in self._failures.values()):
            return LogInFailedError(f"no coordinator lets this client log in: {self._nodes.describe_troubles()}")
        is_late = any(isinstance(error, NodeTimeoutError) for error in self._failures.values())
        text = (
            f"none of {len(self._tried)} coordinators answered: {self._nodes.describe_troubles()}; check the "
            "addresses, and that a coordinator is running there"
        )
        if is_late or self._manner.tries_on or self._refused is not None:
            return RequestTimeoutError(text, self._nodes.describe_troubles(), self._refused)
        return RequestError(text)

    def _failure_at(self, node: Address, error: NodeError) -> RequestError:
        text = f"the coordinator at {format_address(node)} {error}; {error.advice}"
        if isinstance(error, NodeRefusalError):
            return LogInFailedError(text)
        if isinstance(error, NodeTimeoutError) or self._manner.tries_on:
            return RequestTimeoutError(text, self._nodes.describe_troubles(), self._refused)
        return RequestError(text)

    def _time_for_hello_s(self) -> float:
        """Share what is left among the nodes that this round has still to try, and wait for none of them long."""
        untried = sum(candidate not in self._asked for candidate in self._nodes.candidates)
        left_s = max(self._remaining_s(), _NO_TIME_S)
        longest_s = LONGEST_HELLO_S if untried else left_s
        return min(left_s, max(left_s / (untried + 1), SHORTEST_TRY_S), longest_s, self._manner.try_timeout_s)

    def _time_for_response_s(self) -> float:
        return min(max(self._remaining_s(), _NO_TIME_S), self._manner.try_timeout_s)

    def _remaining_s(self) -> float:
        return self._deadline_s - time.monotonic()
