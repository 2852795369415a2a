"""A member is told which partitions of its target it does not get because nobody knows where they start."""

from coordinator.protocol.columns import OffsetToCommit, in_columns
from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.messages import CommitOffsets, CommitOffsetsResponse, Ping, PingResponse
from coordinator.protocol.parts import PartitionResult, ResetPolicy
from tests.helpers.node_member import Member
from tests.helpers.node_world import NodeWorld


def withheld(member: Member) -> tuple[PartitionResult, ...]:
    response = member.answer(member.send(Ping(0)))
    assert isinstance(response, PingResponse)
    return response.withheld


def test_a_partition_without_an_offset_under_the_policy_none_is_withheld_until_one_is_committed() -> None:
    world = NodeWorld(topics={"t": 2})
    member = world.join("m1", reset_policy=ResetPolicy("none"))
    world.advance(1_000)
    told = withheld(member)
    assert [(one.partition, one.error) for one in told] == [(n, ErrorCode.OFFSET_OUT_OF_RANGE) for n in (0, 1)]
    assert "policy is none" in told[0].message
    committed = CommitOffsets("g", in_columns((OffsetToCommit("t", 0, 5),)))
    assert world.connect().ask(committed, CommitOffsetsResponse).accepted == 1
    world.advance(1_000)
    assert [one.partition for one in withheld(member)] == [1]
    assert list(member.owned) == [("t", 0)]


def test_nothing_is_withheld_from_a_member_that_has_all() -> None:
    world = NodeWorld()
    member = world.join("m1")
    world.advance(1_000)
    assert withheld(member) == ()
