"""A wait for a group to be as wanted: what is wanted, and looks at the group until it is so or time is over.

A coordinator that is away is asked again; one that does not let this client log in ends the wait, for to try on is what
locks an account. The pause between two looks is made by who waits: blocking, or on an event loop.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from coordinator.client.operating.lag import lag_of
from coordinator.client.refusals import Refusal, refusal_of, show_refusal
from coordinator.client.request import LogInFailedError, RequestError, ask
from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.messages import DescribeGroup, DescribeGroupResponse
from coordinator.protocol.text.addresses import Address
from coordinator.protocol.text.counts import counted
from coordinator.protocol.vocabulary import GroupStatus

LOOK_TIMEOUT_S: Final = 5.0
"""The longest time of one look; a coordinator that restarts is asked again."""

_LEAST_LOOK_S: Final = 0.2
"""The time that is kept for the last look, which is made before the end; one look is made however short the time is."""

Condition: TypeAlias = Callable[[DescribeGroupResponse], str | None]
"""Says why a group is not as wanted, None when it is; one that is not there is described with an empty state."""


class WaitTimeoutError(Exception):
    """The group was not as wanted in time; the text says what is missing."""


class WaitRefusedError(Exception):
    """The coordinator refused a look in a way that does not pass."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(show_refusal(refusal))
        self.refusal = refusal

    def __reduce__(self) -> tuple[Any, ...]:
        """Return what a copy in another process is made of."""
        return type(self), (self.refusal,), dict(self.__dict__)


@dataclass(frozen=True, slots=True)
class Wanted:
    """The group that is waited for; what is None does not matter.

    `state` is one of GroupStatus, where a group that does not exist is Empty. `members` is the least number of them.
    `lag_below` is a lag in records that its own, which has to be known, is below.
    """

    state: GroupStatus | None = None
    members: int | None = None
    lag_below: int | None = None

    def conditions(self) -> list[Condition]:
        """Return what is wanted as conditions; none when nothing is."""
        return [
            *([_state(self.state)] if self.state is not None else ()),
            *([_members(self.members)] if self.members is not None else ()),
            *([_lag(self.lag_below)] if self.lag_below is not None else ()),
        ]


def _state(state: GroupStatus) -> Condition:
    if state is GroupStatus.EMPTY:
        return lambda group: f"it has {counted(len(group.members), 'member')}" if group.members else None
    return lambda group: None if group.state == state else f"it is {group.state or 'not there'}"


def _members(members: int) -> Condition:
    return lambda group: None if len(group.members) >= members else f"it has {counted(len(group.members), 'member')}"


def _lag(below: int) -> Condition:
    def why_behind(group: DescribeGroupResponse) -> str | None:
        if group.kafka_failure:
            return f"its lag is not known now: {group.kafka_failure}"
        lags = [lag_of(partition) for partition in group.partitions]
        known = [lag for lag in lags if lag is not None]
        if not lags or len(known) < len(lags):
            return f"the lag of {len(lags) - len(known)} of its {counted(len(lags), 'partition')} is not known"
        return None if sum(known) < below else f"its lag is {sum(known)}"

    return why_behind


class Wait:
    """One wait: `look` until it returns the group, with a pause of `pause_s` between two looks."""

    def __init__(
        self,
        coordinators: Sequence[Address],
        group_id: str,
        conditions: Sequence[Condition],
        timeout_s: float,
        every_s: float,
    ) -> None:
        self._coordinators = coordinators
        self._group_id = group_id
        self._conditions = conditions
        self.timeout_s: Final = timeout_s
        self._every_s = every_s
        self._deadline_s = time.monotonic() + timeout_s

    @property
    def pause_s(self) -> float:
        """Return for how long to pause before the next look."""
        return max(0.0, min(self._every_s, self._deadline_s - time.monotonic() - _LEAST_LOOK_S))

    def look(self) -> DescribeGroupResponse | None:
        """Return the group when it is as wanted, None when it is to be looked at again.

        Raises WaitTimeoutError when there is no time for another look, WaitRefusedError, and LogInFailedError.
        """
        found, missing = self._see(min(LOOK_TIMEOUT_S, max(self._deadline_s - time.monotonic(), _LEAST_LOOK_S)))
        if missing is None:
            return found
        if self._deadline_s - time.monotonic() <= _LEAST_LOOK_S:
            raise WaitTimeoutError(f"group '{self._group_id}' is not as wanted after {self.timeout_s:g} s: {missing}")
        return None

    def _see(self, timeout_s: float) -> tuple[DescribeGroupResponse | None, str | None]:
        """Return the group, and why it is not as wanted."""
        try:
            response = ask(self._coordinators, DescribeGroup(self._group_id), timeout_s)
        except LogInFailedError:
            raise
        except RequestError as error:
            return None, str(error)
        if isinstance(response, DescribeGroupResponse) and response.error is ErrorCode.GROUP_ID_NOT_FOUND:
            response = DescribeGroupResponse(group_id=self._group_id)
        refusal = refusal_of(response)
        if refusal is not None:
            if not refusal[0].is_retriable:
                raise WaitRefusedError(refusal)
            return None, show_refusal(refusal)
        if not isinstance(response, DescribeGroupResponse):
            return None, f"the coordinator answered with {type(response).__name__}"
        found = [why for condition in self._conditions if (why := condition(response)) is not None]
        return response, "; ".join(found) or None
