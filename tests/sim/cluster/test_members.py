"""Members that are the product's own machine find their leaders in a simulated cluster, whatever happens to it."""

from dataclasses import replace
from random import Random

import pytest

from spark_kcoord.member.core.held.holdings import Holdings
from tests.sim.cluster.machines import MachineWorld
from tests.sim.cluster.mix import draw_cluster_mix
from tests.sim.cluster.run import run_cluster_seed


@pytest.mark.parametrize("seed", range(3))
def test_members_are_served_again_after_every_fault(seed: int) -> None:
    outcome = run_cluster_seed(seed, story_lines=60, kind=MachineWorld)
    assert outcome.broken == "", outcome.shown
    assert not outcome.is_void


def test_the_same_seed_gives_the_same_history() -> None:
    first, again = (run_cluster_seed(1, kind=MachineWorld) for _ in range(2))
    assert (first.trace, first.events, first.acked) == (again.trace, again.events, again.acked)


def over_killed_leaders(seed: int, kills: int) -> list[str]:
    """Kill the leaders of members' groups; return who was without what it had for a moment, and how."""
    dice = Random(seed)
    mix = replace(draw_cluster_mix(dice, 3), faults={}, faulty_ms=0, paces_ms=(50, 200))
    world = MachineWorld(seed, mix, dice)
    world.run()
    schedule, members = world.schedule, world.members
    assert any(member.owned for member in members)
    begun = {member.name: len(member.seen) for member in members}
    for _ in range(kills):
        acked = {member.name: member.last_ack_ms for member in members}
        shard = world.clients.shard_of(dice.choice(members).group_id)
        leader = next(
            each for each in world.processes if each.node.replication is not None and shard in each.node.replication.led
        )
        leader.end(loses_power=False, why="is killed")
        end_ms = schedule.now_ms + 30_000
        while any(member.owned and member.last_ack_ms <= acked[member.name] for member in members):
            assert schedule.now_ms < end_ms, "nobody has acknowledged a commit since"
            schedule.run_until(schedule.now_ms + 100)
        leader.start()
        world.come_to_rest()
    return [f"{member.name}: {member.seen}" for member in members if len(member.seen) > begun[member.name]]


@pytest.mark.parametrize("seed", range(2))
def test_members_keep_all_they_have_while_one_leader_after_the_other_is_killed(seed: int) -> None:
    assert over_killed_leaders(seed, kills=4) == []


def test_member_that_owns_nothing_until_it_is_told_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Holdings, "begin_anew", lambda self, held: self.forget_grants())
    assert over_killed_leaders(0, kills=1) != []
