"""FinishClaims: a finished micro-batch is committed by somebody who saw it end, and by nobody who did not."""

import pytest

from coordinator.protocol.claim_columns import claims_in_columns
from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.messages import ClaimsFinished, FinishClaims, FinishClaimsResponse
from coordinator.protocol.parts import Claim, PartitionResult
from tests.helpers.claim_answers import finished_results
from tests.helpers.node_member import Member
from tests.helpers.node_world import NodeWorld

T0, T1 = ("t", 0), ("t", 1)


def one_owner(**facts: object) -> tuple[NodeWorld, Member]:
    world = NodeWorld({"t": 2})
    world.kafka.begins[T0] = world.kafka.begins[T1] = 50
    return world, world.join("m1", **facts)


def finish(world: NodeWorld, *claims: Claim, member_id: str = "m1") -> tuple[PartitionResult, ...]:
    """Say from a connection that is no member's that claims are finished."""
    named = tuple(claims)
    response = world.connect().ask(FinishClaims("g", member_id, claims_in_columns(named)), FinishClaimsResponse)
    return finished_results(response, named)


def errors(results: tuple[PartitionResult, ...]) -> list[ErrorCode]:
    return [result.error for result in results]


def pushed(member: Member) -> list[ClaimsFinished]:
    return [said for said in member.inbox if isinstance(said, ClaimsFinished)]


def test_running_claim_is_committed_and_its_owner_is_told() -> None:
    world, m1 = one_owner()
    start = m1.owned[T0].offset
    claim = m1.run(T0, start, start + 5)
    assert finish(world, claim) == (PartitionResult("t", 0, committed=start + 5),)
    assert world.committed()[T0] == start + 5
    assert pushed(m1) == [ClaimsFinished((claim,))]
    assert world.owners()[T0] == "m1"
    assert errors(m1.advance([claim], [m1.claim(T0, start + 5, start + 9)]).claims) == [ErrorCode.NONE]


def test_saying_it_twice_or_after_the_owner_changes_nothing_and_is_answered_alike() -> None:
    world, m1 = one_owner()
    start = m1.owned[T0].offset
    claim = m1.run(T0, start, start + 5)
    m1.advance([claim])
    records = sum(map(len, world.written))
    assert errors(finish(world, claim)) == errors(finish(world, claim)) == [ErrorCode.NONE]
    assert sum(map(len, world.written)) == records
    assert pushed(m1) == []


def test_claim_that_does_not_run_is_not_finished_and_stays_offered() -> None:
    world, m1 = one_owner()
    a, b = m1.owned[T0].offset, m1.owned[T1].offset
    running = m1.run(T0, a, a + 5)
    offered = m1.claim(T1, b, b + 5)
    m1.advance(claims=[offered])
    results = finish(world, running, offered)
    assert errors(results) == [ErrorCode.NONE, ErrorCode.CLAIM_NOT_RUNNING]
    assert "nobody has planned to read it" in results[1].message
    assert world.committed()[T1] == b
    m1.confirm(offered)
    assert errors(finish(world, offered)) == [ErrorCode.NONE]


@pytest.mark.parametrize("change", [{"owner_epoch": 0}, {"until_offset": 9_999}])
def test_other_owner_epoch_or_range_is_never_committed(change: dict[str, int]) -> None:
    world, m1 = one_owner()
    start = m1.owned[T0].offset
    claim = m1.run(T0, start, start + 5)
    fields = {name: getattr(claim, name) for name in claim.__struct_fields__}
    (result,) = finish(world, Claim(**(fields | change)))
    assert result.error in {ErrorCode.FENCED_OWNER_EPOCH, ErrorCode.CLAIM_CLOSED}
    assert world.committed()[T0] == start


def test_claim_that_was_taken_over_is_not_committed_by_its_former_owner() -> None:
    world, m1 = one_owner()
    start = m1.owned[T0].offset
    claim = m1.run(T0, start, start + 5)
    world.join("m2")
    m1.close()
    world.advance(world.limits.closed_connection_grace_ms + 1_000)
    assert world.owners()[T0] == "m2"
    assert errors(finish(world, claim)) == [ErrorCode.FENCED_OWNER_EPOCH]
    assert world.committed()[T0] == start


@pytest.mark.parametrize("facts", [{}, {"handover": "hold", "instance_id": "i-m1"}])
def test_what_a_member_that_is_gone_held_is_free_when_it_is_finished(facts: dict[str, object]) -> None:
    world, m1 = one_owner(**facts)
    start = m1.owned[T0].offset
    claim = m1.run(T0, start, start + 5)
    m1.close()
    world.advance(world.limits.closed_connection_grace_ms + 1_000)
    assert world.owners() == {T0: "m1"}
    assert errors(finish(world, claim)) == [ErrorCode.NONE]
    assert (world.owners(), world.committed()[T0]) == ({}, start + 5)
    again = facts and {"handover": "hold", "instance_id": "i-m2"}
    m2 = world.join("m2", **again)
    world.settle()
    assert (world.owners()[T0], m2.owned[T0].offset) == ("m2", start + 5)


def test_held_partition_of_a_member_that_is_gone_goes_to_who_waits_for_it() -> None:
    world, m1 = one_owner(handover="hold", instance_id="i-m1")
    start = m1.owned[T0].offset
    claim = m1.run(T0, start, start + 5)
    m2 = world.join("m2", handover="hold", instance_id="i-m2")
    m1.close()
    world.advance(world.limits.closed_connection_grace_ms + 1_000)
    assert world.owners()[T0] == "m1"
    assert errors(finish(world, claim)) == [ErrorCode.NONE]
    world.settle()
    assert (world.owners()[T0], m2.owned[T0].offset) == ("m2", start + 5)


def test_finishing_outlives_a_restart_of_the_coordinator() -> None:
    world, m1 = one_owner(handover="hold", instance_id="i-m1")
    start = m1.owned[T0].offset
    claim = m1.run(T0, start, start + 5)
    m1.close()
    world.advance(world.limits.closed_connection_grace_ms + 1_000)
    finish(world, claim)
    world.restart()
    assert (world.owners(), world.committed()[T0]) == ({}, start + 5)


def test_nothing_is_finished_for_a_member_that_has_not_come_back_since_the_node_started() -> None:
    world, m1 = one_owner()
    claim = m1.run(T0, 100, 110)
    world.restore(world.copy_disk())
    request = FinishClaims("g", "m1", claims_in_columns((claim,)))
    response = world.connect().ask(request, FinishClaimsResponse)
    assert (response.error, "has not come back" in response.message) == (ErrorCode.COORDINATOR_NOT_AVAILABLE, True)
    world.join("m1", incarnation="process-of-m1", claims=[])
    assert errors(finish(world, claim)) == [ErrorCode.CLAIM_CLOSED]
    assert world.committed()[T0] == 100


def test_unknown_group_is_named() -> None:
    world, _ = one_owner()
    response = world.connect().ask(FinishClaims("nobody", "m1", ()), FinishClaimsResponse)
    assert response.error is ErrorCode.GROUP_ID_NOT_FOUND
    assert "nobody" in response.message
