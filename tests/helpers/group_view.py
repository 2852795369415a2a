"""A test's view of a group: asked of the coordinator as any tool would."""

from typing import TypeVar

from coordinator.client.request import ask
from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.messages import (
    DescribeGroup,
    DescribeGroupResponse,
    FetchOffsets,
    FetchOffsetsResponse,
    ListGroupEvents,
    ListGroupEventsResponse,
    Request,
    Response,
)
from coordinator.protocol.parts import GroupEvent
from coordinator.protocol.text.addresses import parse_addresses

PATIENCE_S = 60.0

R = TypeVar("R", bound=Response)


class GroupView:
    """One group of one coordinator; a group that does not exist yet looks empty."""

    def __init__(self, address: str, group_id: str) -> None:
        self._addresses = parse_addresses(address)
        self._group_id = group_id

    def describe(self) -> DescribeGroupResponse:
        """Return members, partitions, offsets and claims."""
        return self._ask(DescribeGroup(self._group_id), DescribeGroupResponse)

    def committed(self) -> int:
        """Return the sum of all committed offsets."""
        return sum(item.offset for item in self._ask(FetchOffsets(self._group_id), FetchOffsetsResponse).offsets)

    def owners(self) -> dict[str, int]:
        """Return how many partitions each member owns, for those that own any."""
        owners: dict[str, int] = {}
        for partition in self.describe().partitions:
            if partition.member_id is not None and not partition.is_stopping:
                owners[partition.member_id] = owners.get(partition.member_id, 0) + 1
        return owners

    def state(self) -> str:
        """Return the group's state."""
        return self.describe().state

    def events(self, *kinds: str) -> list[GroupEvent]:
        """Return the timeline, or only its events of these kinds."""
        events = self._ask(ListGroupEvents(self._group_id), ListGroupEventsResponse).events
        return [event for event in events if not kinds or event.kind in kinds]

    def _ask(self, request: Request, kind: type[R]) -> R:
        response = ask(self._addresses, request, PATIENCE_S)
        assert isinstance(response, kind), response
        error = getattr(response, "error", ErrorCode.NONE)
        assert error in {ErrorCode.NONE, ErrorCode.GROUP_ID_NOT_FOUND}, response
        return response
