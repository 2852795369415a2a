"""Worlds of slow micro-batches, scripted: of what is commits due, and of what nobody may expect any."""

from dataclasses import replace
from random import Random

import pytest

from coordinator.protocol.parts import Subscription
from tests.sim.directed import EARLIEST
from tests.sim.fleet import Application
from tests.sim.log.state import ViolationError
from tests.sim.mix import Mix, draw_mix
from tests.sim.progress_watch import STUCK_MS, ProgressWatch
from tests.sim.query import Checkpoint
from tests.sim.sink import Sink
from tests.sim.slow import TIMEOUT_MS
from tests.sim.world import World

T1, T2 = ("t1", 0), ("t2", 0)


def slow_mix() -> Mix:
    return replace(
        draw_mix(Random(1)),
        topics={"t1": 1, "t2": 1},
        handover="takeover",
        claim_timeout_ms=None,
        session_timeout_ms=3_000,
        rebalance_timeout_ms=TIMEOUT_MS,
        policy=EARLIEST,
        transactional=0.0,
        crash_at_step=0.0,
        limit=5,
        slow_batch=1.0,
        weights={},
        is_slow=True,
    )


@pytest.fixture
def world() -> World:
    """Return a world in which two topics hold more than can be read in two minutes."""
    world = World(1, slow_mix(), Random(1))
    for topic in world.kafka.topics.values():
        topic.begins[0], topic.ends[0] = 0, 1_000
    world.coordinator.start()
    return world


def run(world: World, *topics: str, is_available_now: bool = False) -> Application:
    """Have a query run that reads topics, and wait until it is a member."""
    application = Application(
        host=f"q{len(world.fleet.applications)}",
        subscription=Subscription(topics=topics),
        assignors=("sticky",),
        streams=1,
        instance_id=None,
        checkpoint=Checkpoint(),
        sink=Sink(knows_numbers=True, seen=world.checker.coverage),
        prefers_available_now=is_available_now,
        jvm=f"jvm-{len(world.fleet.applications)}",
    )
    world.fleet.applications.append(application)
    world.fleet.launch(application)
    world.schedule.run_until(world.schedule.now_ms + 5_000)
    assert application.process is not None
    assert application.process.has_joined
    return application


def watch(world: World, ms: int) -> None:
    """Have the watch look for so long; raises ViolationError."""
    world.schedule.after(0, ProgressWatch(world).look)
    world.schedule.run_until(world.schedule.now_ms + ms)


def member_of(application: Application) -> str:
    assert application.process is not None
    return application.process.member_id


def test_what_came_to_a_run_that_ends_by_itself_waits_for_the_next_run(world: World) -> None:
    stream = run(world, "t1")
    ending = run(world, "t1", "t2", is_available_now=True)
    assert world.group.owners[T1].member_id == member_of(stream)
    world.fleet.remove(stream)
    watch(world, STUCK_MS + 10_000)
    assert world.group.owners[T1].member_id == member_of(ending)
    assert world.group.owners[T2].member_id == member_of(ending)


def test_a_claim_that_waits_for_its_query_is_waited_for_while_nobody_else_reads_the_topic(world: World) -> None:
    gone = run(world, "t1")
    run(world, "t2")
    while not world.group.owners[T1].has_running_claim:
        world.schedule.run_until(world.schedule.now_ms + 10)
    world.fleet.remove(gone)
    watch(world, STUCK_MS + 10_000)
    assert world.group.owners[T1].is_abandoned


@pytest.mark.parametrize("is_available_now", [False, True])
def test_what_its_owner_is_to_read_and_does_not_commit_is_stuck(
    world: World, monkeypatch: pytest.MonkeyPatch, *, is_available_now: bool
) -> None:
    monkeypatch.setattr(world, "batch_ms", lambda: 2 * STUCK_MS)
    run(world, "t1", is_available_now=is_available_now)
    with pytest.raises(ViolationError, match=r"^stuck: nothing of \('t1', 0\) was committed for 60000 ms"):
        watch(world, STUCK_MS + 10_000)
