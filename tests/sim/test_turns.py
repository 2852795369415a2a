"""Turns that are short and lie apart: that others come between them, and that it is over with the run."""

from dataclasses import replace
from random import Random

from coordinator.core.groups.assignment.assignors import assignor
from tests.sim import turns
from tests.sim.mix import draw_mix
from tests.sim.test_world import calm_mix
from tests.sim.world import World


def between_turns(seed: int, between_ms: int) -> dict[str, int]:
    """Return how often something came between two turns of each kind, in a world of small slices."""
    mix = calm_mix(seed, "member-joined", "member-left")
    mix = replace(
        mix,
        topics={"t1": 6},
        shards=1,
        limits=replace(mix.limits, slice_partitions=1),
        turn_partitions=1,
        between_turns_ms=between_ms,
    )
    world = World(seed, mix, Random(seed))
    with turns.turns_of(mix.turn_partitions):
        world.run()
    return {kind: world.checker.coverage[f"while {kind}"] for kind in turns.KINDS}


def test_others_come_between_two_turns_of_each_kind() -> None:
    at_once, apart = between_turns(0, between_ms=0), between_turns(0, between_ms=3)
    # Nobody of it loses its connection while it reads, so none comes back to claims.
    assert all(apart[kind] > 2 * at_once[kind] for kind in turns.KINDS[:3]), (at_once, apart)


def test_turns_apart_are_drawn_and_so_are_turns_at_once() -> None:
    drawn = {(mix.turn_partitions, mix.between_turns_ms) for mix in (draw_mix(Random(seed)) for seed in range(100))}
    assert drawn == {(partitions, ms) for partitions in turns.PARTITIONS for ms in turns.BETWEEN_MS}


def test_turns_are_as_long_as_before_once_a_run_is_over() -> None:
    whole = assignor.PARTITIONS_A_TURN
    with turns.turns_of(1):
        in_a_run = assignor.PARTITIONS_A_TURN
    assert (in_a_run, assignor.PARTITIONS_A_TURN) == (1, whole)
