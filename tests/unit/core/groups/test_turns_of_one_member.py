"""The parts of one member's life that grow with what it has: each step looks at some of it."""

from typing import Any

import pytest

from coordinator.core.effects import Append
from coordinator.core.groups.assignment.assignors import Pace, Partitions, Turns, gather, let_go
from coordinator.core.groups.hard.records import ClaimsGivenUp, Granted, Record, Taken, TargetsAssigned, decode_record
from coordinator.core.groups.partitions.partition_set import PartitionSet
from coordinator.core.groups.reconciliation import reconciler
from coordinator.core.limits import Limits
from tests.helpers.node_member import Member
from tests.helpers.node_world import NodeWorld
from tests.sim.turns import turns_of

MANY = 90
LIMITS = Limits(slice_partitions=10, claim_age_notice_ms=60_000)


def steps_of(world: NodeWorld, since: int) -> list[list[Record]]:
    """Return what each step wrote, from some effect on."""
    return [
        [decode_record(data) for data in effect.records]
        for effect in world.effects[since:]
        if isinstance(effect, Append)
    ]


def counts(world: NodeWorld, since: int, kind: type[Taken] | type[ClaimsGivenUp]) -> list[int]:
    """Return how many partitions the records of this kind named in each step that wrote one."""
    found = [sum(len(one.partitions) for one in step if isinstance(one, kind)) for step in steps_of(world, since)]
    return [count for count in found if count]


def run_all(member: Member) -> None:
    claims = [member.claim(partition, 100, 110) for partition in sorted(member.owned)]
    member.advance(claims=claims)
    member.confirm(*claims)


@pytest.mark.parametrize("is_running", [True, False])
def test_what_is_not_let_go_in_time_is_taken_in_turns(is_running: bool) -> None:
    """All was taken in one step: half of 100,000 partitions took 0.7 s."""
    world = NodeWorld({"t": MANY}, limits=LIMITS)
    first = world.join("m1", rebalance_timeout_ms=2_000, session_timeout_ms=1_800_000)
    if is_running:
        run_all(first)
    second = world.join("m2", session_timeout_ms=1_800_000)
    assert len(first.stopping) == MANY // 2
    since = len(world.effects)
    world.advance(3_000)
    taken = counts(world, since, Taken)
    assert (sum(taken), max(taken)) == (MANY // 2, LIMITS.slice_partitions)
    assert (len(second.owned), second.is_complete) == (MANY // 2, True)


def test_what_another_is_due_of_a_member_that_goes_is_granted_in_turns() -> None:
    """A departure looked at all of it in one step, and half of 100,000 partitions took 60 ms."""
    world = NodeWorld({"t": MANY}, limits=LIMITS)
    first = world.join("m1", session_timeout_ms=1_800_000)
    second = world.join("m2", session_timeout_ms=1_800_000)
    assert len(first.stopping) == MANY // 2
    since = len(world.effects)
    first.leave()
    world.settle()
    granted = [sum(len(one.partitions) for one in step if isinstance(one, Granted)) for step in steps_of(world, since)]
    assert (sum(granted), max(granted)) == (MANY, LIMITS.slice_partitions)
    assert (len(second.owned), second.is_complete) == (MANY, True)
    # The first half needs no new target.
    before = [type(one) for step in steps_of(world, since) for one in step]
    assert before.index(Granted) < before.index(TargetsAssigned)


def test_claims_that_were_waited_for_are_given_up_in_turns() -> None:
    world = NodeWorld({"t": MANY}, limits=LIMITS)
    hold = {"handover": "hold", "claim_timeout_ms": 5_000, "session_timeout_ms": 1_800_000}
    first = world.join("m1", instance_id="i1", **hold)
    run_all(first)
    first.close()
    world.advance(1_100)
    second = world.join("m2", instance_id="i2", **hold)
    assert not second.owned
    since = len(world.effects)
    world.advance(6_000)
    given_up = counts(world, since, ClaimsGivenUp)
    assert (sum(given_up), max(given_up)) == (MANY, LIMITS.slice_partitions)
    assert (len(second.owned), second.is_complete) == (MANY, True)


@pytest.mark.parametrize("is_loaded", [True, False])
def test_ages_of_very_many_claims_are_looked_at_in_turns(is_loaded: bool) -> None:
    """After a load they are not noted one by one, and those that began since then are not said with them."""
    world = NodeWorld({"t": MANY}, limits=LIMITS)
    first = world.join("m1", session_timeout_ms=1_800_000)
    run_all(first)
    if is_loaded:
        world.restart()
        again = world.joining("m1", session_timeout_ms=1_800_000, is_rejoining=True, incarnation="m1")
        again.registration = first.registration
    world.advance(59_000)
    assert world.events("claim-old") == []
    world.advance(1_200)
    world.advance(120_000)
    old = world.events("claim-old")
    assert sum(event.partition_count for event in old) == MANY
    assert len({partition for event in old for partition in event.partitions}) == MANY
    assert max(event.partition_count for event in old) <= 2 * LIMITS.slice_partitions


def test_target_of_a_large_topic_that_is_no_more_is_computed_in_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    """It was taken for that of a small group, since nothing is left to be assigned."""
    world = NodeWorld({"t": MANY}, limits=LIMITS)
    member = world.join("m1", session_timeout_ms=1_800_000)
    monkeypatch.setattr(reconciler, "run_whole", lambda _: pytest.fail("it was computed in one step"))
    del world.kafka.topics["t"]
    world.poll_topics()
    world.poll_topics()
    world.settle()
    assert len(member.stopping) == MANY
    assert not world.group().target_owners


def test_targets_are_made_of_sets_that_are_let_go_of_in_turns() -> None:
    pace = Pace()
    with turns_of(10):
        *_, made = turns_and_end(gather([("t", number) for number in range(35)], pace))
        assert made == {("t", number) for number in range(35)}
        sizes = []
        for _ in let_go(made, pace):
            sizes.append(len(made))
    assert sizes == [25, 15, 5]
    assert not made


def test_what_a_member_has_in_columns_is_made_a_set_in_turns_too() -> None:
    """It was made one at once: of a million partitions among three members that took 80 ms."""
    before = PartitionSet([("t", number) for number in range(35)])
    with turns_of(10):
        *turns, made = turns_and_end(gather([("t", 35)], Pace(), before))
    assert len(turns) == 3
    assert made == {("t", number) for number in range(36)}


def turns_and_end(turns: Turns[Partitions]) -> list[Any]:
    """Return None for each turn, and what was made."""
    found: list[Any] = []
    while True:
        try:
            found.append(next(turns))
        except StopIteration as end:
            return [*found, end.value]
