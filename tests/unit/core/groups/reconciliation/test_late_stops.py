"""Partitions that are not let go in time: they alone are taken, from each member once before somebody commits them."""

import pytest

from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.messages import FetcherTaken, StopFetcher
from coordinator.protocol.messages.operators import ChangeDrain, ChangeDrainResponse, ChangePause, ChangePauseResponse
from coordinator.protocol.parts import Claim, Subscription
from tests.helpers.node_member import Member
from tests.helpers.node_world import NodeWorld

T0, T1 = ("t", 0), ("t", 1)
TIMEOUT_MS = 1_000


CLAIM_TIMEOUT_MS = 3_000
HOLD = {"handover": "hold", "claim_timeout_ms": CLAIM_TIMEOUT_MS}


def join(world: NodeWorld, member_id: str, **facts: object) -> Member:
    facts.setdefault("instance_id", f"instance-{member_id}" if "handover" in facts else None)
    return world.join(member_id, rebalance_timeout_ms=TIMEOUT_MS, session_timeout_ms=1_800_000, **facts)


def reading_owner(**facts: object) -> tuple[NodeWorld, Member, Member, list[Claim]]:
    """m1 reads both partitions, and m2 has joined and is due one."""
    world = NodeWorld({"t": 2, "u": 1})
    m1 = join(world, "m1", **facts)
    claims = [m1.claim(T0, 100, 110), m1.claim(T1, 100, 110)]
    m1.advance(claims=claims)
    m1.confirm(*claims)
    return world, m1, join(world, "m2", **facts), claims


def reading_owner_under_hold() -> tuple[NodeWorld, Member, Member, list[Claim]]:
    """The same where a claim that is wanted elsewhere may run on for the claim time-out."""
    return reading_owner(**HOLD)


def late_owner() -> tuple[NodeWorld, Member, Member, list[Claim]]:
    """m1 has read on beyond its time-out, and has lost one of its two partitions to m2."""
    world, m1, m2, claims = reading_owner()
    world.advance(TIMEOUT_MS)
    return world, m1, m2, claims


def wanted_elsewhere(world: NodeWorld, owner: Member, claim: Claim) -> Member:
    """Have an owner want another topic, so that the partition it reads is due to somebody else."""
    again = world.reconnect(owner, claims=(claim,), subscription=Subscription(topics=("u",)))
    world.settle()
    assert again.stopping.keys() == {(claim.topic, claim.partition)}
    return again


def time_to_let_go(member: Member) -> int:
    return [said.deadline_ms for said in member.inbox if isinstance(said, StopFetcher)][-1]


def test_only_what_is_late_is_taken_and_the_member_keeps_the_rest() -> None:
    world, m1, m2, _ = late_owner()
    assert (m1.fenced, m1.taken, m1.is_complete) == (None, [T1], True)
    assert (world.owners(), m2.owned[T1].offset, m2.is_complete) == ({T0: "m1", T1: "m2"}, 100, True)
    assert world.describe().state == "Stable"


def test_what_was_taken_is_not_committed_and_refuses_nothing_else() -> None:
    world, m1, _, claims = late_owner()
    results = m1.advance(claims, [m1.claim(T0, 110, 120)])
    assert [result.error for result in results.finished] == [ErrorCode.NONE, ErrorCode.FENCED_OWNER_EPOCH]
    assert [result.error for result in results.claims] == [ErrorCode.NONE]
    assert world.committed() == {T0: 110, T1: 100}


def test_final_offset_that_comes_too_late_is_not_committed() -> None:
    world = NodeWorld({"t": 2})
    m1 = join(world, "m1")
    m2 = join(world, "m2")
    epoch = m1.epoch(T1)
    world.advance(TIMEOUT_MS)
    assert m1.taken == [T1]
    m1.owned[T1] = m2.owned[T1]
    assert m1.commit(T1, 150, epoch).error is ErrorCode.FENCED_OWNER_EPOCH
    assert m1.stopped(T1, offset=150).results[0].committed == 100
    assert (world.committed()[T1], world.owners()[T1]) == (100, "m2")


def test_timeline_says_what_was_taken_after_what_time_and_what_to_change() -> None:
    world, m1, _, _ = late_owner()
    (event,) = world.events("taken-late")
    assert (event.member_id, event.partitions, event.duration_ms) == ("m1", (T1,), TIMEOUT_MS)
    assert event.why == (
        "not let go within 1000 ms, 1050 ms after its claim began to be read; raise the rebalance time-out (option "
        "kcoord.rebalance.timeout) above the time of a micro-batch and the trigger interval together"
    )
    assert [said.why for said in m1.inbox if isinstance(said, FetcherTaken)] == [event.why]


def test_partition_is_not_given_back_to_whom_it_was_taken_from_while_the_taker_reads() -> None:
    world, m1, m2, _ = late_owner()
    claim = m2.run(T1, 100, 150)
    m2 = wanted_elsewhere(world, m2, claim)
    assert world.group().target_owners[T1] == "m1"
    world.advance(60 * TIMEOUT_MS)
    assert (m2.taken, world.owners()[T1]) == ([], "m2")
    assert [event.member_id for event in world.events("claim-held")] == ["m2"]
    assert m2.advance([claim]).finished[0].committed == 150
    m2.stop_all()
    assert m1.owned[T1].offset == 150


def test_time_to_let_go_doubles_with_each_taking_and_is_as_before_once_somebody_has_committed() -> None:
    world, _, m2, _ = late_owner()
    m3, m4 = join(world, "m3"), join(world, "m4")
    m2 = wanted_elsewhere(world, m2, m2.run(T1, 100, 150))
    assert time_to_let_go(m2) == 2 * TIMEOUT_MS
    world.advance(2 * TIMEOUT_MS - 100)
    assert m2.taken == []
    world.advance(100)
    assert m2.taken == [T1]
    taker = {"m3": m3, "m4": m4}[world.owners()[T1]]
    taker.advance([taker.run(T1, 100, 150)])
    taker = wanted_elsewhere(world, taker, taker.run(T1, 150, 160))
    assert time_to_let_go(taker) == TIMEOUT_MS


def test_partition_that_comes_back_to_its_owner_before_the_deadline_is_not_taken_from_it() -> None:
    world, m1, m2, claims = reading_owner()
    m2.leave()
    world.advance(60 * TIMEOUT_MS)
    assert (m1.taken, m1.stopping.keys()) == ([], {T1})
    assert [result.committed for result in m1.advance(claims).finished] == [110, 110]
    m1.stop_all()
    assert (m1.owned[T1].offset, m1.is_complete) == (110, True)


def test_held_claim_whose_partition_comes_back_to_its_owner_is_not_given_up_at_the_claim_timeout() -> None:
    world, m1, m2, claims = reading_owner_under_hold()
    m2.leave()
    world.advance(60 * TIMEOUT_MS)
    assert (m1.taken, world.events("claim-given-up")) == ([], [])
    assert [result.committed for result in m1.advance(claims).finished] == [110, 110]
    m1.stop_all()
    assert (m1.owned[T1].offset, m1.is_complete) == (110, True)


def test_held_claim_that_outlived_the_claim_timeout_is_given_up_once_somebody_else_is_due_its_partition() -> None:
    world, m1, m2, _ = reading_owner_under_hold()
    m2.leave()
    world.advance(60 * TIMEOUT_MS)
    m3 = join(world, "m3", **HOLD)
    world.advance(TIMEOUT_MS)
    assert (m1.taken, m3.owned[T1].offset) == ([T1], 100)


def test_held_claim_is_not_given_up_for_whom_the_partition_was_taken_from() -> None:
    world, m1, m2, _ = reading_owner_under_hold()
    world.advance(CLAIM_TIMEOUT_MS)
    assert m1.taken == [T1]
    claim = m2.run(T1, 100, 150)
    m2 = wanted_elsewhere(world, m2, claim)
    assert world.group().target_owners[T1] == "m1"
    world.advance(60 * TIMEOUT_MS)
    assert (m2.taken, world.owners()[T1]) == ([], "m2")
    assert m2.advance([claim]).finished[0].committed == 150


@pytest.mark.parametrize("act", ["pause", "drain"])
def test_operator_is_not_put_off_by_who_was_late_before(act: str) -> None:
    world, m1, m2, _ = late_owner()
    m2.run(T1, 100, 150)
    if act == "pause":
        world.connect().ask(ChangePause("g", (T1,), True, "ann@ops", "", False), ChangePauseResponse)
    else:
        world.connect().ask(ChangeDrain("g", "m2", True, "ann@ops", "", False), ChangeDrainResponse)
    world.settle()
    world.advance(TIMEOUT_MS)
    assert m2.taken == [T1]
    assert (T1 in m1.owned) == (act == "drain")


def test_restart_gives_a_full_deadline_and_takes_nothing_before_it() -> None:
    world, m1, m2, claims = reading_owner()
    world.advance(TIMEOUT_MS - 100)
    world.restart()
    m1, m2 = world.reconnect(m1, claims=tuple(claims)), world.reconnect(m2)
    world.advance(TIMEOUT_MS - 100)
    assert m1.taken == []
    world.advance(200)
    assert (m1.taken, m2.owned[T1].offset) == ([T1], 100)


def test_member_that_is_away_when_it_is_late_hears_it_when_it_is_back() -> None:
    world, m1, m2, claims = reading_owner()
    world.advance(TIMEOUT_MS - 200)
    m1.close()
    world.advance(300)
    again = world.reconnect(m1, claims=tuple(claims))
    assert (sorted(again.owned), sorted(m2.owned)) == ([T0], [T1])
    assert again.advance([claims[0]]).finished[0].committed == 110


def test_readers_have_their_usual_time_again_once_one_has_let_go_since_none_ever_commits() -> None:
    world = NodeWorld({"t": 2, "u": 1})
    facts = {"rebalance_timeout_ms": TIMEOUT_MS, "session_timeout_ms": 1_800_000, "commits": False}
    first, second = world.join("r1", **facts), world.join("r2", **facts)
    world.advance(TIMEOUT_MS)
    assert (first.taken, set(second.owned)) == ([T1], {T1})
    second = world.reconnect(second, subscription=Subscription(topics=("u",)))
    world.settle()
    assert time_to_let_go(second) == 2 * TIMEOUT_MS
    second.stop_all()
    assert set(first.owned) == {T0, T1}
    first = world.reconnect(first, subscription=Subscription(topics=("u",)))
    world.settle()
    assert first.stopping.keys() == {T0, T1}
    assert {said.deadline_ms for said in first.inbox if isinstance(said, StopFetcher)} == {TIMEOUT_MS}
