"""A shard goes on after an unclean election, whoever comes back with whatever."""

from tests.sim.cluster.run import run_cluster_seed
from tests.sim.cluster.unclean import UncleanWorld


def test_what_the_elected_replica_lacks_is_given_up_and_everybody_ends_with_its_log() -> None:
    outcome = run_cluster_seed(9, kind=UncleanWorld)
    assert not outcome.broken, outcome.shown
    assert outcome.coverage["unclean elections"] > 0
    assert outcome.coverage["records given up"] > 0
