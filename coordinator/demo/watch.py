"""Asks the coordinator about the demo's group, as any operator's tool would.

A question that fails because the coordinator or its group is not there is answered with None; a refusal of any other
kind is a DemoError. Remembers the timeline, so that each event is told once.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from coordinator.demo.errors import DemoError
from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.messages import (
    DescribeGroup,
    DescribeGroupResponse,
    FindCoordinator,
    FindCoordinatorResponse,
    ListGroupEvents,
    ListGroupEventsResponse,
    Request,
    Response,
)
from coordinator.protocol.parts import ClaimState, GroupEvent, PartitionDescription
from coordinator.protocol.text.addresses import format_address

Ask = Callable[[Request], Response]


@dataclass(slots=True)
class GroupWatch:
    """The group as the coordinator describes it, and its timeline so far."""

    ask: Ask
    group_id: str
    events: list[GroupEvent] = field(default_factory=list)
    _told_to: int = 0
    """The number of the last event that was told, by whichever node coordinates the group."""

    def describe(self) -> DescribeGroupResponse | None:
        """Return the group now, None when there is none yet."""
        response = self.ask(DescribeGroup(self.group_id))
        if not isinstance(response, DescribeGroupResponse):
            raise DemoError(f"the coordinator did not describe the group: {response}")
        if response.error is ErrorCode.GROUP_ID_NOT_FOUND:
            return None
        if response.error is not ErrorCode.NONE:
            raise DemoError(f"the coordinator did not describe the group: {response.error.name}, {response.message}")
        return response

    def coordinated_by(self) -> str:
        """Return HOST:PORT of the node that coordinates the group."""
        response = self.ask(FindCoordinator(self.group_id))
        if not isinstance(response, FindCoordinatorResponse) or response.coordinator is None:
            raise DemoError(f"nobody said which node coordinates the group: {response}")
        return format_address((response.coordinator.host, response.coordinator.port))

    def new_events(self) -> list[GroupEvent]:
        """Return the events since the last call and remember them."""
        response = self.ask(ListGroupEvents(self.group_id, self._told_to))
        if not isinstance(response, ListGroupEventsResponse):
            raise DemoError(f"the coordinator did not tell the group's events: {response}")
        if response.error is ErrorCode.GROUP_ID_NOT_FOUND:
            return []
        if response.error is not ErrorCode.NONE:
            raise DemoError(f"the coordinator did not tell the group's events: {response.error.name}")
        self.events.extend(response.events)
        if response.events:
            self._told_to = response.events[-1].sequence
        return list(response.events)


def member_named(group: DescribeGroupResponse | None, client_id: str) -> str | None:
    """Return the id of the member with this client id, None when there is none."""
    for member in group.members if group is not None else ():
        if member.client_id == client_id:
            return member.member_id
    return None


def owned_by(group: DescribeGroupResponse | None, member_id: str) -> frozenset[int]:
    """Return the partitions that the member owns now."""
    partitions = group.partitions if group is not None else ()
    return frozenset(partition.partition for partition in partitions if partition.member_id == member_id)


def running_claims(group: DescribeGroupResponse, member_id: str) -> tuple[PartitionDescription, ...]:
    """Return the member's partitions of which a range is being read now."""
    return tuple(
        partition
        for partition in group.partitions
        if partition.member_id == member_id and partition.claim_state is ClaimState.RUNNING
    )
