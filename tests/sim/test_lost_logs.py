"""The one commit of what nobody read that is excused: of a claim that an old copy brings back after it was over."""

from collections.abc import Set

import pytest

from coordinator.core.groups.hard import records as r
from coordinator.core.groups.hard.replay.replay import replay
from coordinator.core.groups.hard.state import ShardState
from tests.sim.log.model import LogCopy
from tests.sim.log.state import ViolationError
from tests.sim.test_checker import RUNNING, P, World, finished, joined, offered

EXCUSE = "a claim of an old copy is done by a checkpoint"
REMOVED = r.MemberRemoved("g", "m1", keeps_running_claims=False)


def a_world_back_at_a_running_claim(*lost: r.Record, told: Set[str] = frozenset()) -> World:
    """Put a copy back in which a claim of m1 runs, in place of a log that went on with these records."""
    world = World(offered(10, 15), RUNNING)
    copies = world.checker.copy_logs()
    world.append(*lost)
    put_back(world, copies, told)
    return world


def put_back(world: World, copies: list[tuple[LogCopy, int]], told: Set[str] = frozenset()) -> None:
    world.checker.disk_exchanged(copies, told)
    ((copy, world.end),) = copies
    world.state = ShardState()
    for record in copy.records[: world.end]:
        replay(world.state, record, None)
    world.checker.recovered(0, world.end, world.state, 0)


def excused(world: World) -> int:
    return world.checker.logs[0].excuses[EXCUSE]


def test_a_claim_that_was_over_is_done_for_a_process_that_knows_a_checkpoint_alone() -> None:
    world = a_world_back_at_a_running_claim(REMOVED)
    world.append(joined("m1", incarnation="process-2"), finished(15))
    assert excused(world) == 1
    world.checker.look_back()


def test_a_claim_that_still_ran_when_the_disk_was_lost_is_not() -> None:
    world = a_world_back_at_a_running_claim()
    with pytest.raises(ViolationError, match=r"^lost-record: "):
        world.append(joined("m1", incarnation="process-2"), finished(15))
    assert excused(world) == 0


def test_a_process_that_lived_through_the_loss_and_had_been_told_is_not_excused() -> None:
    lost = (joined("m1", incarnation="process-2"), REMOVED)
    world = a_world_back_at_a_running_claim(*lost, told={"process-2"})
    with pytest.raises(ViolationError, match=r"^lost-record: "):
        world.append(joined("m1", incarnation="process-2"), finished(15))


def test_a_process_that_the_copy_knows_is_not_excused() -> None:
    world = a_world_back_at_a_running_claim(REMOVED)
    with pytest.raises(ViolationError, match=r"^lost-record: "):
        world.append(finished(15))


def test_a_claim_that_began_to_run_after_the_copy_is_not_excused() -> None:
    world = World(offered(10, 15))
    copies = world.checker.copy_logs()
    world.append(RUNNING, REMOVED)
    put_back(world, copies)
    with pytest.raises(ViolationError, match=r"^lost-record: "):
        world.append(joined("m1", incarnation="process-2"), RUNNING, finished(15))


def test_reading_an_excused_commit_again_is_no_excuse_more() -> None:
    world = a_world_back_at_a_running_claim(REMOVED)
    world.append(joined("m1", incarnation="process-2"), finished(15))
    world.checker.became_durable(0, world.end)
    put_back(world, world.checker.copy_logs(), {"process-2"})
    assert excused(world) == 1


def test_what_was_over_in_an_earlier_lost_log_stays_excused() -> None:
    world = World(offered(10, 15), RUNNING)
    copies = world.checker.copy_logs()
    world.append(REMOVED)
    put_back(world, copies)
    put_back(world, copies)
    world.append(joined("m1", incarnation="process-2"), finished(15))
    assert excused(world) == 1
    assert world.checker.group("g", 0).committed(P, "id-1") == 15
