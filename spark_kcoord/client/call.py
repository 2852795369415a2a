"""One call of a client: the requests that it is made of share one time-out. Blocking, on the caller's thread."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Final, TypeVar

from coordinator.client.operating.partitions_meant import UnknownTopicError, in_portions, partitions_meant
from coordinator.client.refusals import refusal_of
from coordinator.client.request import RequestError, ask
from coordinator.client.security import Coordinators
from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.ids import TopicPartition
from coordinator.protocol.messages import DescribeGroup, DescribeGroupResponse, Request, Response
from coordinator.protocol.messages.operators import DescribeControls, DescribeControlsResponse
from coordinator.protocol.parts import ControlDescription, PartitionDescription
from spark_kcoord.client.errors import (
    CallRefusedError,
    CallTimeoutError,
    ClientError,
    NotFoundError,
    no_answer,
    refused,
)

_NO_TIME_S: Final = 0.01
"""Less time than this is none."""

_Expected = TypeVar("_Expected", bound=Response)
_Item = TypeVar("_Item")
_Answer = TypeVar("_Answer")


class Call:
    """The requests of one call, to the coordinator of a group or to whichever node answers."""

    def __init__(self, coordinators: Coordinators, timeout_s: float, group: str = "") -> None:
        self.coordinators = coordinators
        self._group = group
        self._timeout_s = timeout_s
        self._deadline_s = time.monotonic() + timeout_s

    def left_s(self) -> float:
        """Return the seconds that are left; raises CallTimeoutError when there are none."""
        left_s = self._deadline_s - time.monotonic()
        if left_s < _NO_TIME_S:
            raise CallTimeoutError(
                f"The {self._timeout_s:g} s of this call were over before all of it was asked: give the client more "
                "time."
            )
        return left_s

    def ask(self, request: Request, expected: type[_Expected], *, is_change: bool = False) -> _Expected:
        """Return the response to a request; raises ClientError when there is none, or it is a refusal."""
        left_s = self.left_s()
        try:
            response = ask(self.coordinators, request, left_s)
        except RequestError as error:
            raise no_answer(error, is_change=is_change) from error
        return self.accepted(response, expected, is_change=is_change)

    def accepted(self, response: Response, expected: type[_Expected], *, is_change: bool = False) -> _Expected:
        """Return a response that is no refusal; raises ClientError."""
        refusal = refusal_of(response)
        if refusal is not None:
            raise refused(refusal, self._group, is_change=is_change)
        if not isinstance(response, expected):
            raise CallRefusedError(
                f"The coordinator answered with {type(response).__name__}: it may be of another release; compare "
                "`kcoord --version` on both machines."
            )
        return response

    def describe(self) -> DescribeGroupResponse:
        """Return what the coordinator says of the group."""
        return self.ask(DescribeGroup(self._group), DescribeGroupResponse)

    def controls(self) -> tuple[ControlDescription, ...]:
        """Return what operators decided about the group."""
        return self.ask(DescribeControls(self._group), DescribeControlsResponse).controls

    def partitions_meant(
        self, named: Sequence[str] | None, counts: Callable[[PartitionDescription], bool] = lambda _: True
    ) -> tuple[TopicPartition, ...]:
        """Return the partitions of the group that texts mean; raises NotFoundError for an unknown topic."""
        try:
            return partitions_meant(self.describe(), named, counts)
        except UnknownTopicError as error:
            text = str(error)
            raise NotFoundError(
                f"{text[:1].upper()}{text[1:]}.", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION.name, is_retriable=False
            ) from None


def in_parts(
    named: Sequence[_Item], ask_some: Callable[[tuple[_Item, ...]], _Answer], *, is_change: bool
) -> list[_Answer]:
    """Ask about what is named, as much at once as one request may name, and return the answers.

    An error says how many are done by then, which stay done.
    """
    answers: list[_Answer] = []
    done = 0
    for some in in_portions(named):
        try:
            answers.append(ask_some(some))
        except ClientError as error:
            if done and is_change:
                error.args = (f"{error} The first {done} of {len(named)} partitions are done all the same.",)
                error.may_be_done = True
            raise
        done += len(some)
    return answers
