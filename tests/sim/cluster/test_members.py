"""Members that are the product's own machine find their leaders in a simulated cluster, whatever happens to it."""

import pytest

from tests.sim.cluster.leaving import LeavingWorld
from tests.sim.cluster.machines import FailoverWorld, MachineWorld
from tests.sim.cluster.mutants import hunt_cluster
from tests.sim.cluster.mutants_members import MISTAKES
from tests.sim.cluster.run import run_cluster_seed

FIRST = {"never-knows-better": 41}
"""The seeds that show mistakes which the first seeds do not show."""


@pytest.mark.parametrize("seed", range(3))
def test_members_are_served_again_after_every_fault(seed: int) -> None:
    outcome = run_cluster_seed(seed, story_lines=60, kind=MachineWorld)
    assert outcome.broken == "", outcome.shown
    assert not outcome.is_void


def test_the_same_seed_gives_the_same_history() -> None:
    first, again = (run_cluster_seed(1, kind=MachineWorld) for _ in range(2))
    assert (first.trace, first.events, first.acked) == (again.trace, again.events, again.acked)


@pytest.mark.parametrize("seed", range(2))
def test_members_keep_all_they_have_while_one_leader_after_the_other_is_killed(seed: int) -> None:
    outcome = run_cluster_seed(seed, story_lines=60, kind=FailoverWorld)
    assert outcome.broken == "", outcome.shown
    assert outcome.faults > 0


def test_member_that_leaves_while_its_leader_moves_changes_its_group_once() -> None:
    outcome = run_cluster_seed(0, story_lines=60, kind=LeavingWorld)
    assert outcome.broken == "", outcome.shown
    assert outcome.coverage["leaves"] > 0
    assert outcome.coverage["leader_changes"] > 0


@pytest.mark.parametrize("name", MISTAKES)
def test_a_planted_mistake_of_members_or_of_who_finds_their_leader_is_found(name: str) -> None:
    outcome, _ = hunt_cluster(name, most_seeds=20, first=FIRST.get(name, 0))
    assert outcome is not None
    assert outcome.broken in {"MembersKeepWhatTheyHave", "Liveness", "LeavesOnce"}, outcome.shown
