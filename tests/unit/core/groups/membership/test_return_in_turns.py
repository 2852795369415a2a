"""A member that comes back with very much: its claims are looked at in turns, and it is told in turns what it has."""

from collections.abc import Iterable
from typing import Any

import pytest

from coordinator.core.events import LeadershipTaken, Ticked
from coordinator.core.groups.membership import looks
from coordinator.core.limits import Limits
from coordinator.protocol.claim_columns import claims_in_columns, each_status
from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.messages import (
    BeginClaims,
    FetcherStopped,
    FinishClaims,
    FinishClaimsResponse,
    RegisterConsumerResponse,
    StartFetcher,
    StopFetcher,
)
from coordinator.protocol.messages.operators import ChangePause, DeleteGroup, ReleaseClaims
from coordinator.protocol.parts import Claim, ClaimState, FinalOffset
from tests.helpers.node_member import Member
from tests.helpers.node_world import NodeWorld

MANY = 9
LONG: dict[str, Any] = {"session_timeout_ms": 1_800_000, "rebalance_timeout_ms": 60_000}
TWO_A_PUSH = Limits(push_max_partitions=2)


@pytest.fixture(autouse=True)
def _two_claims_a_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(looks, "CLAIMS_A_TURN", 2)


def turn(world: NodeWorld) -> None:
    """Let one step pass in which nothing but turns is due."""
    world._wake_at_ms = None
    world.happen(Ticked(world.now_ms + world.wall_offset_ms))


def runner(world: NodeWorld, **facts: Any) -> tuple[Member, list[Claim]]:
    """Return a member that has all of a topic and reads it."""
    member = world.join("m1", **{**LONG, **facts})
    claims = [member.claim(partition, 100, 110) for partition in sorted(member.owned)]
    member.advance(claims=claims)
    member.confirm(*claims)
    return member, claims


def return_of(world: NodeWorld, member: Member, claims: Iterable[Claim], **facts: Any) -> tuple[Member, int]:
    """Lose a member's connection and have it register again; returns it, and the request that is to be answered."""
    member.close()
    again = world.joining("m1", **{**LONG, **facts}, claims=claims, is_rejoining=True)
    assert again.registration is not None
    return again, again.send(again.registration)


def states(member: Member, request: int, claims: list[Claim]) -> list[ClaimState]:
    response = member.answer(request)
    assert isinstance(response, RegisterConsumerResponse)
    assert response.error is ErrorCode.NONE, response.message
    return [status.state for status in each_status(response.claims, claims)]


def test_claims_of_a_registration_are_looked_at_in_turns() -> None:
    """With 100,000 running claims a registration was one step of 140 ms."""
    world = NodeWorld({"t": MANY})
    first, claims = runner(world)
    again, request = return_of(world, first, claims)
    turns = 0
    while again.answer(request) is None:
        turn(world)
        turns += 1
    assert turns == 6
    assert states(again, request, claims) == [ClaimState.RUNNING] * MANY
    assert (len(again.owned), again.is_complete) == (MANY, True)
    assert not world.node._connections[again.connection_id].is_registering


@pytest.mark.parametrize("after", range(6))
def test_claim_that_is_finished_between_two_turns_is_not_told_as_running(after: int) -> None:
    world = NodeWorld({"t": MANY})
    first, claims = runner(world)
    again, request = return_of(world, first, claims)
    for _ in range(after):
        turn(world)
    other = world.connect()
    finished = other.ask(FinishClaims("g", "m1", claims_in_columns(claims[:1])), FinishClaimsResponse)
    assert finished.error is ErrorCode.NONE
    world.advance(0)
    assert states(again, request, claims) == [ClaimState.CLOSED] + [ClaimState.RUNNING] * (MANY - 1)
    assert world.group().claims.get(("t", 0)) is None


@pytest.mark.parametrize("after", range(6))
def test_claim_that_begins_to_run_between_two_turns_is_told_as_running(after: int) -> None:
    world = NodeWorld({"t": MANY}, limits=Limits(closed_connection_idle_grace_ms=1_000))
    first = world.join("m1", **LONG)
    claims = [first.claim(partition, 100, 110) for partition in sorted(first.owned)]
    first.advance(claims=claims)
    again, request = return_of(world, first, claims)
    for _ in range(after):
        turn(world)
    world.connect().send(BeginClaims("g", "m1", claims_in_columns(claims[:1]), is_question=False))
    world.advance(0)
    assert states(again, request, claims) == [ClaimState.RUNNING] + [ClaimState.OFFERED] * (MANY - 1)


@pytest.mark.parametrize("after", range(6))
def test_member_that_is_removed_between_two_turns_comes_back_to_its_running_claims(after: int) -> None:
    world = NodeWorld({"t": MANY})
    first, claims = runner(world, handover="hold", instance_id="i1")
    again, request = return_of(world, first, claims, handover="hold", instance_id="i1")
    for _ in range(after):
        turn(world)
    world.now_ms += Limits().closed_connection_grace_ms
    world.advance(0)
    assert "m1" in world.group().members
    assert states(again, request, claims) == [ClaimState.RUNNING] * MANY
    world.settle()
    assert (len(again.owned), again.is_complete) == (MANY, True)


@pytest.mark.parametrize("after", range(6))
def test_group_that_is_deleted_between_two_turns_leaves_no_claims(after: int) -> None:
    world = NodeWorld({"t": MANY})
    first, claims = runner(world)
    again, request = return_of(world, first, claims)
    for _ in range(after):
        turn(world)
    operator = world.connect()
    world.now_ms += Limits().closed_connection_grace_ms
    turn(world)
    operator.send(ReleaseClaims("g", tuple(sorted(first.owned)), "ann", is_dry_run=False))
    operator.send(DeleteGroup("g", "ann", is_dry_run=False))
    world.settle()
    assert again.answer(request) is not None
    assert world.group().members.keys() == {"m1"}


@pytest.mark.parametrize("after", range(6))
def test_connection_that_closes_between_two_turns_leaves_nothing(after: int) -> None:
    world = NodeWorld({"t": MANY})
    first, claims = runner(world)
    again, _ = return_of(world, first, claims)
    for _ in range(after):
        turn(world)
    again.close()
    shard = world.node._shards[world.node.shard_of("g")]
    assert shard._membership._looks._under_way == {}
    world.advance(Limits().closed_connection_grace_ms)
    assert world.group().members == {}


@pytest.mark.parametrize("after", range(6))
def test_shard_that_is_resigned_between_two_turns_closes_the_connection(after: int) -> None:
    world = NodeWorld({"t": MANY})
    first, claims = runner(world)
    again, request = return_of(world, first, claims)
    for _ in range(after):
        turn(world)
    world.happen(LeadershipTaken(world.node.shard_of("g"), "another node leads it"))
    world.advance(0)
    assert again.closed_why is not None
    assert again.answer(request) is None


def test_registration_whose_claims_change_all_the_time_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(looks, "MOST_LOOKS", 3)
    world = NodeWorld({"t": MANY})
    first, claims = runner(world)
    again, request = return_of(world, first, claims)
    for claim in claims[:4]:
        for _ in range(5):
            turn(world)
        world.connect().send(FinishClaims("g", "m1", claims_in_columns([claim])))
        turn(world)
    response = again.answer(request)
    assert isinstance(response, RegisterConsumerResponse)
    assert response.error is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert not world.node._connections[again.connection_id].is_registering


def starts(member: Member) -> list[tuple[int, bool, int | None]]:
    """Return of each push how many partitions it named, whether it was complete, and how many were to follow."""
    pushes = [push for push in member.inbox if isinstance(push, StartFetcher)]
    return [(len(push.partitions), push.is_complete, push.to_follow) for push in pushes]


def test_member_that_registers_is_told_in_turns_what_it_has() -> None:
    world = NodeWorld({"t": 5}, limits=TWO_A_PUSH)
    first, claims = runner(world)
    again, _ = return_of(world, first, claims)
    world.advance(0)
    assert starts(again) == [(2, False, 3), (2, False, 1), (1, True, 0)]
    response = again.inbox[0]
    assert isinstance(response, RegisterConsumerResponse)
    assert (response.held, len(again.owned)) == (5, 5)


def returning(world: NodeWorld, count: int) -> tuple[Member, Member]:
    """Return a member that is back and has been told the first two of what it has, and another member of its group."""
    first, claims = runner(world)
    again, request = return_of(world, first, claims)
    while again.answer(request) is None:
        turn(world)
    assert starts(again) == [(2, False, count - 2)]
    return again, world.connect()


def test_partition_that_is_wanted_back_is_asked_for_after_it_was_told() -> None:
    """Who is asked for what it does not know lets go of it at once, and would then be told that it has it."""
    world = NodeWorld({"t": 6}, limits=TWO_A_PUSH)
    again, operator = returning(world, 6)
    operator.send(ChangePause("g", (("t", 1), ("t", 5)), True, "ann", is_dry_run=False))
    assert set(again.stopping) == {("t", 1)}
    assert ("t", 5) in world.group().stopping["m1"]
    world.advance(0)
    assert set(again.stopping) == {("t", 1), ("t", 5)}
    kinds = [type(push) for push in again.inbox]
    assert kinds.index(StopFetcher) < len(kinds) - 1
    assert type(again.inbox[-1]) is StopFetcher
    assert len(again.owned) == 6


def test_partition_that_is_lost_between_two_turns_is_not_told() -> None:
    world = NodeWorld({"t": 6}, limits=TWO_A_PUSH)
    again, operator = returning(world, 6)
    session = world.node._shards[world.node.shard_of("g")].desk.session_of("g", "m1")
    assert session is not None
    operator.send(ChangePause("g", (("t", 5),), True, "ann", is_dry_run=False))
    grant = world.group().grants["t", 5]
    again.send(FetcherStopped((FinalOffset("t", 5, grant.owner_epoch),)))
    world.advance(0)
    assert sorted(again.owned) == [("t", number) for number in range(5)]
    assert starts(again)[-1][2] == 0
    assert not session.untold


def test_partition_that_is_granted_between_two_turns_is_not_counted_among_those_that_follow() -> None:
    world = NodeWorld({"t": 6}, limits=TWO_A_PUSH)
    first, operator = world.join("m1", **LONG), world.connect()
    operator.send(ChangePause("g", (("t", 5),), True, "ann", is_dry_run=False))
    first.stop_all()
    claims = [first.claim(partition, 100, 110) for partition in sorted(first.owned)]
    first.advance(claims=claims)
    first.confirm(*claims)
    again, request = return_of(world, first, claims)
    while again.answer(request) is None:
        turn(world)
    operator.send(ChangePause("g", (("t", 5),), False, "ann", is_dry_run=False))
    world.advance(0)
    assert starts(again) == [(2, False, 3), (1, False, 3), (2, False, 1), (1, True, 0)]
    assert (len(again.owned), again.is_complete) == (6, True)
