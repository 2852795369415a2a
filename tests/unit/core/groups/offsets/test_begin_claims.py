"""BeginClaims and what it is for: a range that nobody planned to read is never committed, whoever says it is done."""

import pytest

from coordinator.protocol.claim_columns import claims_in_columns, each_status
from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.messages import BeginClaims, BeginClaimsResponse, FinishClaims, FinishClaimsResponse
from coordinator.protocol.parts import Claim, ClaimState, ClaimStatus, Outcomes
from tests.helpers.node_member import Member
from tests.helpers.node_world import NodeWorld

T0, T1 = ("t", 0), ("t", 1)


def one_owner(**facts: object) -> tuple[NodeWorld, Member]:
    world = NodeWorld({"t": 2})
    world.kafka.begins[T0] = world.kafka.begins[T1] = 50
    return world, world.join("m1", **facts)


def begin(world: NodeWorld, *claims: Claim, is_question: bool = False) -> tuple[ClaimStatus, ...]:
    """Say from a connection that is no member's that claims are about to be read."""
    response = world.connect().ask(BeginClaims("g", "m1", claims_in_columns(claims), is_question), BeginClaimsResponse)
    return each_status(response.claims, claims)


def states(statuses: tuple[ClaimStatus, ...]) -> list[ClaimState]:
    return [status.state for status in statuses]


def offered(member: Member, *partitions: tuple[str, int]) -> list[Claim]:
    claims = [member.claim(each, member.owned[each].offset, member.owned[each].offset + 5) for each in partitions]
    assert [result.error for result in member.advance(claims=claims).claims] == [ErrorCode.NONE] * len(claims)
    return claims


def test_range_that_nobody_planned_to_read_is_not_committed_by_its_owner() -> None:
    world, m1 = one_owner()
    first, second = offered(m1, T0, T1)
    m1.confirm(first)
    results = m1.advance([first, second]).finished
    assert [result.error for result in results] == [ErrorCode.NONE, ErrorCode.CLAIM_NOT_RUNNING]
    assert "nobody has planned to read it" in results[1].message
    assert world.committed() == {T0: first.until_offset, T1: second.from_offset}


def test_range_that_was_not_committed_is_claimed_again_from_where_it_begins() -> None:
    world, m1 = one_owner()
    (claim,) = offered(m1, T0)
    response = m1.advance([claim], [m1.claim(T0, claim.until_offset, claim.until_offset + 5)])
    assert [result.error for result in response.claims] == [ErrorCode.INVALID_REQUEST]
    assert m1.run(T0, claim.from_offset, claim.until_offset) == claim
    assert [result.error for result in m1.advance([claim]).finished] == [ErrorCode.NONE]
    assert world.committed()[T0] == claim.until_offset


def test_somebody_else_may_plan_to_read_what_the_owner_has_claimed() -> None:
    world, m1 = one_owner()
    claims = offered(m1, T0, T1)
    assert states(begin(world, *claims)) == states(begin(world, *claims)) == [ClaimState.RUNNING] * 2
    assert [result.error for result in m1.advance(claims).finished] == [ErrorCode.NONE] * 2
    assert world.committed() == {T0: claims[0].until_offset, T1: claims[1].until_offset}


def test_question_marks_nothing() -> None:
    world, m1 = one_owner()
    first, second = offered(m1, T0, T1)
    m1.confirm(first)
    records = sum(map(len, world.written))
    assert states(begin(world, first, second, is_question=True)) == [ClaimState.RUNNING, ClaimState.OFFERED]
    assert sum(map(len, world.written)) == records


def test_what_was_committed_or_let_go_cannot_be_planned_any_more() -> None:
    world, m1 = one_owner()
    first, second = offered(m1, T0, T1)
    begin(world, first)
    m1.advance([first])
    closed = begin(world, first, second)
    assert states(closed) == [ClaimState.CLOSED] * 2
    assert closed[0].committed == first.until_offset
    m1.leave()
    assert states(begin(world, first, second)) == [ClaimState.CLOSED] * 2


def test_that_it_runs_outlives_a_restart_of_the_coordinator() -> None:
    world, m1 = one_owner()
    claims = offered(m1, T0, T1)
    begin(world, claims[0])
    world.restart()
    assert states(begin(world, *claims, is_question=True)) == [ClaimState.RUNNING, ClaimState.OFFERED]


@pytest.mark.parametrize("offset", [0, 3])
def test_late_word_of_a_finished_range_is_no_word_of_the_next_one(offset: int) -> None:
    world, m1 = one_owner()
    first = m1.run(T0, m1.owned[T0].offset, m1.owned[T0].offset + 5)
    m1.advance([first], [m1.claim(T0, first.until_offset, first.until_offset + 5 + offset)])
    response = world.connect().ask(FinishClaims("g", "m1", claims_in_columns((first,))), FinishClaimsResponse)
    assert response.results == Outcomes(1)


def test_unknown_group_is_named() -> None:
    world, _ = one_owner()
    response = world.connect().ask(BeginClaims("nobody", "m1", ()), BeginClaimsResponse)
    assert response.error is ErrorCode.GROUP_ID_NOT_FOUND
    assert "nobody" in response.message
