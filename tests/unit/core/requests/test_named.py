"""What one step decides about partitions that a request names has a bound, whoever asks."""

import pytest

from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.ids import MAX_NAMED
from coordinator.protocol.messages import (
    Advance,
    BeginClaims,
    CommitOffsets,
    ConfirmClaims,
    ErrorResponse,
    FetcherStarted,
    FetcherStopped,
    FinishClaims,
    LeaveGroup,
    Ping,
    ReportOutOfRange,
    Request,
)
from coordinator.protocol.parts import FinalOffset, LostPosition, OwnedPartition, TopicClaims, TopicOffsets
from tests.helpers.node_world import NodeWorld

MORE = MAX_NAMED + 1
NUMBERS = tuple(range(MORE))
CLAIMS = (TopicClaims("t", "id", NUMBERS, NUMBERS, NUMBERS, NUMBERS),)
SCATTERED = tuple(TopicClaims("t", "id", (), (), (), ()) for _ in NUMBERS)
OFFSETS = (TopicOffsets("t", NUMBERS, NUMBERS, NUMBERS),)
FINALS = tuple(FinalOffset("t", number, 1, 5) for number in NUMBERS)


@pytest.mark.parametrize(
    "request_of_more",
    [
        Advance(CLAIMS, ()),
        Advance((), CLAIMS),
        Advance((), SCATTERED),
        Advance((), (), FINALS),
        BeginClaims("g", "m1", CLAIMS),
        CommitOffsets("g", OFFSETS),
        ConfirmClaims(CLAIMS),
        FetcherStarted(tuple(OwnedPartition("t", number, 1) for number in NUMBERS)),
        FetcherStopped(FINALS),
        FinishClaims("g", "m1", CLAIMS),
        LeaveGroup(FINALS),
        Ping(0, OFFSETS),
        ReportOutOfRange(tuple(LostPosition("t", number, 1, 5) for number in NUMBERS)),
    ],
    ids=lambda request: type(request).__name__,
)
def test_request_that_one_step_cannot_take_is_refused_whole(request_of_more: Request) -> None:
    world = NodeWorld({"t": 2})
    member = world.join("m1")
    written = len(world.written)
    refused = member.ask(request_of_more, ErrorResponse)
    assert refused.error is ErrorCode.INVALID_REQUEST
    assert refused.message == (
        f"{type(request_of_more).__name__} names 2001 partitions in one list and at most 2000 may be named; nothing of "
        "it was done, so name them in several requests"
    )
    assert len(world.written) == written
    assert "m1" in world.group().members
