"""Worlds in which little goes wrong, and that often: what a full mix may hide, and what it draws too seldom.

A known mistake that takes much to come together is hunted in the world that is made for it, in which no promise is
broken without it. Each of them is a mix drawn from the seed as any other, with what it is about put in. Some seeds have
such a world without a mistake planted, for it shows what nobody knows yet as well.
"""

from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import Final

from coordinator.protocol.parts import ResetPolicy
from tests.sim.mix import Mix, draw_mix
from tests.sim.query import LONG_ORPHAN_MS
from tests.sim.reading import ReadingMix
from tests.sim.slow import slow

EARLIEST = ResetPolicy("earliest")
_AS_KAFKA_IS = ReadingMix(is_tiered=False, is_compacted=False, timeout_s=20.0, trouble=0.0, slow_tier=0.0)


def calm(mix: Mix, *faults: str) -> Mix:
    """Return a mix as a small one of only these faults."""
    return replace(
        mix,
        safety_ms=20_000,
        topics={"t1": 4},
        passing_topics=("p1", "p2"),
        applications=3,
        subscriptions=("topics", "topics", "pattern"),
        consumers=0.5,
        policy=EARLIEST,
        slow_batch=0.0,
        crash_at_step=0.0,
        by_hand=0,
        fault_every_ms=800,
        weights=dict.fromkeys(faults, 1.0),
    )


def _of_queries(mix: Mix, *faults: str) -> Mix:
    """Return a mix as one of ordinary queries, which a network and a disk in good order serve."""
    return replace(
        calm(mix, *faults),
        applications=2,
        most_applications=3,
        consumers=0.0,
        two_sources=0.0,
        readers=0.0,
        start_hints=0.0,
        transactional=0.0,
        reading=_AS_KAFKA_IS,
        network_delays_ms=(0, 1, 5),
        sync_delays_ms=(0, 1),
        coordinator_timeout_ms=30_000,
        is_slow=False,
        is_losing=False,
        is_full=False,
    )


def processes_that_come_back(dice: Random) -> Mix:
    """Draw a group that holds, whose Spark drivers die at any step while their former processes find their way in."""
    return replace(
        _of_queries(draw_mix(dice), "process-killed", "member-joined"),
        subscriptions=("topics",),
        handover="hold",
        claim_timeout_ms=None,
        session_timeout_ms=6_000,
        safety_ms=60_000,
        crash_at_step=0.06,
        orphans_ms=(0, LONG_ORPHAN_MS),
        append_every_ms=60,
    )


def topics_that_come_back(dice: Random) -> Mix:
    """Draw queries that fail when data is lost and whose topics are handed to and fro until they are deleted."""
    faults = {"member-joined": 0.5, "member-left": 0.5, "topic-vanished-when-back": 6.0, "topic-vanished": 0.1}
    return replace(
        _of_queries(draw_mix(dice)),
        safety_ms=40_000,
        topics={f"t{number}": 1 for number in range(1, 8)},
        passing_topics=(),
        subscriptions=("pattern",),
        handover="takeover",
        claim_timeout_ms=None,
        assignors=(("round-robin",),),
        slow_batch=0.8,
        rebalance_timeout_ms=1_500,
        fails_on_data_loss=True,
        fault_every_ms=300,
        weights=faults,
    )


def consumers_that_do_not_wait(dice: Random) -> Mix:
    """Draw consumers whose commits are still out when they ask for the next ones, since answers take long."""
    return replace(
        calm(draw_mix(dice), "connection-reset", "member-joined", "member-left"),
        topics={"t1": 6},
        passing_topics=(),
        subscriptions=("topics",),
        consumers=1.0,
        handover="takeover",
        claim_timeout_ms=None,
        session_timeout_ms=6_000,
        network_delays_ms=(20, 80),
        sync_delays_ms=(50, 200, 500),
        append_every_ms=60,
        is_slow=False,
        is_losing=False,
        is_full=False,
    )


def consumers_with_little_memory(dice: Random) -> Mix:
    """Draw consumers whose fetchers hold few records, of partitions that always have more."""
    return replace(
        calm(draw_mix(dice), "member-joined", "member-left"),
        safety_ms=60_000,
        topics={"t1": 6},
        passing_topics=(),
        subscriptions=("topics",),
        applications=2,
        consumers=1.0,
        fetched_records=dice.choice((8, 20)),
        append_every_ms=40,
    )


def consumers_by_hand(dice: Random) -> Mix:
    """Draw consumers by hand beside members of which nothing is known but that they come and go."""
    return replace(calm(draw_mix(dice), "member-joined", "member-left", "node-killed", "kafka-away"), by_hand=4)


def slow_partitions_to_and_fro(dice: Random) -> Mix:
    """Draw slow queries whose partitions are given back, by the next change, to whom they were just taken from."""
    return replace(
        slow(_of_queries(draw_mix(dice))),
        topics={"t1": 6},
        passing_topics=(),
        subscriptions=("topics",),
        assignors=(("round-robin",),),
        fault_every_ms=2_000,
    )


def much_in_short_turns(dice: Random) -> Mix:
    """Draw a group of many partitions, all of whose work is cut into the shortest turns, with others between them.

    Its queries are slow and hold, they lose their connections and die, and some do not come back.
    """
    mix = draw_mix(dice)
    faults = {"connection-reset": 6.0, "process-killed": 1.0, "member-joined": 2.0, "member-left": 2.0}
    faults |= {"partitions-paused": 2.0, "claims-released": 2.0}
    return replace(
        _of_queries(mix),
        topics={"t1": 10},
        passing_topics=(),
        subscriptions=("topics",),
        applications=3,
        most_applications=4,
        handover="hold",
        claim_timeout_ms=1_500,
        session_timeout_ms=6_000,
        rebalance_timeout_ms=1_500,
        slow_batch=0.5,
        crash_at_step=0.01,
        append_every_ms=60,
        fault_every_ms=300,
        weights=faults,
        limits=replace(mix.limits, slice_partitions=1, push_max_partitions=2),
        turn_partitions=1,
        between_turns_ms=3,
    )


def leaders_that_know_no_topic(dice: Random) -> Mix:
    """Draw queries that pass over what is lost, of brokers that do not know for a while what they lead."""
    return replace(
        _of_queries(draw_mix(dice), "process-killed"),
        passing_topics=(),
        subscriptions=("topics",),
        fails_on_data_loss=False,
        reading=replace(_AS_KAFKA_IS, timeout_s=dice.choice((1.0, 4.0)), unaware=0.05),
    )


_DIRECTED: Final = (
    processes_that_come_back,
    topics_that_come_back,
    much_in_short_turns,
    leaders_that_know_no_topic,
)


def world_of(seed: int) -> Callable[[Random], Mix]:
    """Return what draws the world of a seed: those that end in 7 have one of these, all others a full mix."""
    return _DIRECTED[seed // 10 % len(_DIRECTED)] if seed % 10 == 7 else draw_mix
