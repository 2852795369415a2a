"""Worlds in which one thing goes wrong and no other: what a full mix may hide, and what it may leave out."""

from collections.abc import Callable
from dataclasses import replace
from random import Random

import pytest

from tests.sim.directed import (
    calm,
    consumers_by_hand,
    consumers_that_do_not_wait,
    leaders_that_know_no_topic,
    processes_that_come_back,
    slow_partitions_to_and_fro,
    topics_that_come_back,
)
from tests.sim.faults import FAULT_OF
from tests.sim.mix import Mix, draw_mix
from tests.sim.run import run_seed
from tests.sim.world import World


def calm_mix(seed: int, *faults: str) -> Mix:
    """Return a small mix of only these faults."""
    return calm(draw_mix(Random(seed)), *faults)


def live_through(mix: Mix, seed: int = 0) -> World:
    """Run a mix to its end; raises ViolationError."""
    world = World(seed, mix, Random(seed))
    world.run()
    return world


NEED_ANOTHER_FIRST = {
    "topic-vanished",
    "resets-cancelled",
    "checkpoint-restored",
    "disk-restored",
    "subscription-widened",
}
"""Faults that break nothing before another one came, or in a world of this shape."""


@pytest.mark.parametrize("fault", sorted(FAULT_OF.keys() - NEED_ANOTHER_FIRST))
def test_a_fault_that_comes_alone_breaks_no_promise(fault: str) -> None:
    world = live_through(calm_mix(1, fault))
    assert world.checker.coverage[f"fault {fault}"] >= 2
    assert world.checker.counts.acked


@pytest.mark.parametrize(("first", "then"), [("topic-made", "topic-vanished"), ("operator-reset", "resets-cancelled")])
def test_faults_that_need_another_before_them_break_no_promise(first: str, then: str) -> None:
    world = live_through(replace(calm_mix(2, first, then), fault_every_ms=300, network_delays_ms=(80, 300)))
    assert world.checker.coverage[f"fault {then}"]


@pytest.mark.parametrize("handover", ["takeover", "hold"])
def test_queries_read_on_from_where_an_operator_has_set_them_back(handover: str) -> None:
    mix = replace(calm_mix(5, "operator-reset"), consumers=0.0, handover=handover, claim_timeout_ms=None)
    world = live_through(mix)
    assert world.checker.counts.resets >= 5
    assert world.checker.facts.duplicates > 0


@pytest.mark.parametrize("handover", ["takeover", "hold"])
def test_nothing_is_read_twice_where_nobody_dies_or_is_late(handover: str) -> None:
    mix = replace(calm_mix(4, "node-killed", "kafka-away"), consumers=0.0, handover=handover, claim_timeout_ms=None)
    patient = {"session_timeout_ms": 30_000, "rebalance_timeout_ms": 60_000, "coordinator_timeout_ms": 30_000}
    mix = replace(mix, two_sources=0.0)  # the second of one query is refused, and then both end
    world = live_through(replace(mix, **patient))
    assert world.checker.facts.delivered > 0
    assert world.checker.facts.duplicates == 0


def test_consumers_read_on_while_their_memory_is_full_of_what_they_pause() -> None:
    mix = replace(calm_mix(6, "member-joined", "connection-reset"), consumers=1.0, append_every_ms=60)
    coverage = live_through(replace(mix, fetched_records=8)).checker.coverage
    assert coverage["memory full"] > 0
    assert coverage["memory full of what is paused"] > 0


def test_consumers_by_hand_go_on_in_topics_that_are_made_again_and_grow() -> None:
    coverage = live_through(consumers_by_hand(Random(3)), 3).checker.coverage
    assert coverage["by hand began in a group"] > 0
    assert coverage["by hand began without a group"] > 0
    assert coverage["by hand returned from the beginning of a topic made again"] > 0
    assert coverage["by hand found of a topic that it reads"] > 0
    assert coverage["by hand committed"] > 0


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize(
    "draw",
    [
        processes_that_come_back,
        topics_that_come_back,
        consumers_that_do_not_wait,
        consumers_by_hand,
        slow_partitions_to_and_fro,
        leaders_that_know_no_topic,
    ],
)
def test_worlds_that_are_made_for_a_mistake_break_no_promise_without_it(
    draw: Callable[[Random], Mix], seed: int
) -> None:
    outcome = run_seed(seed, draw=draw)
    assert outcome.broken is None, outcome.broken.shown
    assert not outcome.is_void, outcome
