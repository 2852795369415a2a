"""Worlds in which topics go, made again or for good, under queries that fail when data is lost, with little else.

In a mix of everything such a query has mostly been told that losses are tolerated, or has died of something else,
before it could keep silent. Micro-batches are long: a topic that goes between two calls is missed by a query that looks
at nothing but what it is granted and where that ends.
"""

from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.sim.mix import Mix

CHANCE = 0.06
FAULTS = {
    "topic-recreated": 0.5,
    "topic-made": 4.0,
    "topic-vanished": 3.0,
    "member-joined": 2.0,
    "member-left": 2.0,
    "process-killed": 0.5,
    "connection-reset": 0.5,
}


def maybe_losing(mix: "Mix", dice: Random) -> "Mix":
    """Return a mix that was drawn, or make it such a world."""
    if mix.is_slow or dice.random() >= CHANCE:
        return mix
    return replace(
        mix,
        is_losing=True,
        applications=4,
        most_applications=6,
        subscriptions=("topics", "pattern", "pattern"),
        passing_topics=("p1", "p2"),
        consumers=0.0,
        readers=0.0,
        two_sources=0.0,
        crash_at_step=0.0,
        slow_batch=0.8,
        rebalance_timeout_ms=3_000,
        fails_on_data_loss=True,
        fault_every_ms=1_000,
        weights=dict(FAULTS),
    )
