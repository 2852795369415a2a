"""The simulated cluster finds what it is to find, and the same seed gives the same history."""

from random import Random

import pytest

from tests.sim.cluster.directed import CopiedNodeWorld, KilledWhileDrainedWorld, PutBackWorld, TwinWorld
from tests.sim.cluster.lost import FailedStartsWorld, MissingLogWorld
from tests.sim.cluster.mix import draw_cluster_mix
from tests.sim.cluster.mutants import MUTANTS, hunt_cluster
from tests.sim.cluster.no_zookeeper import NoZooKeeperWorld
from tests.sim.cluster.put_back import GarbledClusterWorld, OldCopyWorld, OtherNumbersWorld
from tests.sim.cluster.run import run_cluster_seed
from tests.sim.cluster.world import ClusterWorld

FOUND_AT_ONCE = {
    "acknowledged-at-own-disk": 0,
    "believes-any-number": 2,
    "copy-leads": 0,
    "copy-takes-the-place": 0,
    "deleted-by-epoch": 0,
    "epochs-reused": 0,
    "failed-starts-count": 0,
    "fetch-without-epoch": 5,
    "missing-log-is-empty": 1,
    "nothing-is-remembered": 0,
    "joins-by-any-number": 0,
    "own-disk-not-counted": 0,
    "reported-before-sync": 0,
    "state-of-a-former-life": 0,
    "tells-without-cluster": 0,
    "takes-office-by-any-number": 2,
    "told-before-published": 0,
}
"""Mistakes that few seeds show, and the one that is tried first; the others are hunted by `make mutants`."""


def test_clusters_keep_what_was_acknowledged_and_come_to_rest() -> None:
    broken = {seed: outcome.shown for seed in range(6) if (outcome := run_cluster_seed(seed, story_lines=40)).broken}
    assert broken == {}


def test_cluster_of_five_nodes_does_too() -> None:
    outcome = run_cluster_seed(3, nodes=5, story_lines=40)
    assert outcome.broken == "", outcome.shown


def test_the_same_seed_gives_the_same_history_and_another_one_another() -> None:
    first, again, other = run_cluster_seed(1), run_cluster_seed(1), run_cluster_seed(2)
    assert (first.trace, first.events, first.coverage) == (again.trace, again.events, again.coverage)
    assert first.trace != other.trace


@pytest.mark.parametrize("name", FOUND_AT_ONCE)
def test_a_planted_mistake_is_found(name: str) -> None:
    outcome, _ = hunt_cluster(name, most_seeds=10, first=FOUND_AT_ONCE[name])
    assert outcome is not None, MUTANTS[name].what


def test_a_cluster_that_cannot_become_whole_is_said_so() -> None:
    dice = Random(1)
    world = ClusterWorld(1, draw_cluster_mix(dice, 3), dice)
    world.processes[2].start = lambda: None  # type: ignore[method-assign]
    with pytest.raises(AssertionError, match="Liveness"):
        world.run()


def test_nothing_is_lost_when_one_directory_is_put_back_while_all_nodes_are_down() -> None:
    outcomes = [run_cluster_seed(seed, story_lines=40, kind=CopiedNodeWorld) for seed in range(4)]
    assert {outcome.seed: outcome.shown for outcome in outcomes if outcome.broken} == {}
    assert sum(outcome.coverage["copy elected"] for outcome in outcomes) > 0, "it was never the first to be chosen"


def test_an_older_directory_whose_first_starts_fail_leads_nothing_while_nobody_else_has_all() -> None:
    outcomes = [run_cluster_seed(seed, story_lines=40, kind=FailedStartsWorld) for seed in range(4)]
    assert {outcome.seed: outcome.shown for outcome in outcomes if outcome.broken} == {}


def test_a_node_that_has_lost_the_directory_of_a_log_leads_it_not_while_nobody_else_has_all() -> None:
    outcomes = [run_cluster_seed(seed, story_lines=40, kind=MissingLogWorld) for seed in range(4)]
    assert {outcome.seed: outcome.shown for outcome in outcomes if outcome.broken} == {}


def test_nodes_halt_whose_zookeeper_was_put_back_from_before_another_controller() -> None:
    broken = {seed: outcome.shown for seed in range(3) if (outcome := run_cluster_seed(seed, kind=PutBackWorld)).broken}
    assert broken == {}


def test_nodes_halt_whose_zookeeper_was_put_back_and_lose_nothing_when_it_is_mended() -> None:
    outcomes = [run_cluster_seed(seed, story_lines=40, kind=OldCopyWorld) for seed in range(4)]
    assert {outcome.seed: outcome.shown for outcome in outcomes if outcome.broken} == {}


def test_nodes_that_are_killed_while_they_say_that_they_are_drained_come_back_as_themselves() -> None:
    outcome = run_cluster_seed(0, story_lines=40, kind=KilledWhileDrainedWorld)
    assert outcome.broken == "", outcome.shown


def test_nobody_gives_up_what_it_has_while_nobody_can_read_which_shards_there_are() -> None:
    outcomes = [run_cluster_seed(seed, story_lines=40, kind=GarbledClusterWorld) for seed in range(2)]
    assert {outcome.seed: outcome.shown for outcome in outcomes if outcome.broken} == {}


def test_nobody_joins_or_gives_up_what_it_has_by_another_number_of_shards_than_the_cluster_was_made_with() -> None:
    outcomes = [run_cluster_seed(seed, story_lines=40, kind=OtherNumbersWorld) for seed in range(6)]
    assert {outcome.seed: outcome.shown for outcome in outcomes if outcome.broken} == {}


def test_nodes_serve_on_without_zookeeper_and_elect_nobody_when_it_is_back() -> None:
    outcome = run_cluster_seed(1, story_lines=40, kind=NoZooKeeperWorld)
    assert outcome.broken == "", outcome.shown


def test_a_copy_of_a_directory_that_is_started_beside_its_node_ends_and_nobody_else_notices() -> None:
    outcome = run_cluster_seed(1, story_lines=40, kind=TwinWorld)
    assert outcome.broken == "", outcome.shown
