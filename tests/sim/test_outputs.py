"""Records that are in outputs twice are found under `hold`, and what a person has read again is not."""

from collections import Counter

import pytest
from msgspec.structs import replace

from coordinator.core.groups.hard import operator_records as o
from coordinator.core.groups.hard import records as r
from tests.sim.log.state import ViolationError
from tests.sim.outputs import NOT_AS_THEY_WERE, Outputs
from tests.sim.sink import Sink
from tests.sim.test_checker import (
    CLAIM,
    GONE,
    HELD,
    RUNNING,
    TOPIC_ID,
    P,
    World,
    committed,
    delete,
    joined,
    offered,
    plan_reset,
    released,
)


def a_judged_world() -> tuple[World, Outputs, Sink]:
    world = World(HELD, joined("m1", instance_id="one"))
    outputs = world.checker.facts.outputs
    outputs.is_judged = True
    return world, outputs, Sink(knows_numbers=False, seen=Counter())


def test_a_record_that_is_written_twice_under_hold_is_named() -> None:
    _, outputs, sink = a_judged_world()
    outputs.write(sink, 0, [CLAIM])
    outputs.write(sink, 0, [CLAIM])
    overlapping = replace(CLAIM, from_offset=14, until_offset=16, owner_epoch=7)
    with pytest.raises(ViolationError, match=r"^twice-under-hold: 1 records from offset 14 on"):
        outputs.write(sink.another(), 0, [overlapping])
    with pytest.raises(ViolationError, match=r"^twice-under-hold: "):
        outputs.write(sink, 1, [overlapping])
    outputs.write(sink, 1, [replace(overlapping, topic_id="id-2"), replace(overlapping, partition=1)])


def test_what_an_operator_sets_back_or_releases_may_be_written_once_more() -> None:
    world, outputs, sink = a_judged_world()
    outputs.write(sink, 0, [CLAIM])
    world.append(plan_reset(13), released(), o.ResetApplied("g", "t", TOPIC_ID, 0, 13, None, 0))
    outputs.write(sink, 1, [replace(CLAIM, from_offset=13)])
    with pytest.raises(ViolationError, match=r"^twice-under-hold: "):
        outputs.write(sink, 2, [replace(CLAIM, from_offset=13, owner_epoch=7)])


def test_what_lies_above_an_offset_that_is_named_anew_may_be_written_once_more() -> None:
    world, outputs, sink = a_judged_world()
    outputs.write(sink, 0, [CLAIM])
    world.append(released(), r.OffsetsCommitted("g", (committed(12, None),)))
    with pytest.raises(ViolationError, match=r"^twice-under-hold: "):
        outputs.write(sink, 1, [replace(CLAIM, from_offset=12)])
    world.append(delete(), r.OffsetsCommitted("g", (committed(12, None),)))
    outputs.write(sink, 2, [replace(CLAIM, from_offset=12)])


def test_an_operators_word_for_a_group_that_has_not_seen_the_topic_is_meant_for_the_one_that_there_is() -> None:
    world, outputs, sink = a_judged_world()
    outputs.write(sink, 0, [CLAIM])
    world.append(r.MemberRemoved("g", "m1", keeps_running_claims=False), r.GroupEmptied("g", 0))
    world.append(o.GroupDeleted("g", "ann", "", 0), r.GroupSettings("g", 0, "", None, "hold", is_target_stale=False))
    world.append(r.OffsetsCommitted("g", (replace(committed(12, None), topic_id=""),)))
    outputs.write(sink, 1, [replace(CLAIM, from_offset=12)])
    with pytest.raises(ViolationError, match=r"^twice-under-hold: "):
        outputs.write(sink, 2, [replace(CLAIM, from_offset=10, until_offset=12)])


def test_a_claim_that_an_operator_releases_may_be_read_by_its_old_owner_and_by_the_next() -> None:
    world, outputs, sink = a_judged_world()
    world.append(offered(10, 15), RUNNING, GONE, o.ClaimsReleased("g", (P,), "ann", "", 0))
    outputs.write(sink, 0, [CLAIM])
    outputs.write(sink.another(), 0, [replace(CLAIM, owner_epoch=7)])
    with pytest.raises(ViolationError, match=r"^twice-under-hold: "):
        outputs.write(sink.another(), 0, [replace(CLAIM, owner_epoch=9)])


@pytest.mark.parametrize("fault", sorted(NOT_AS_THEY_WERE))
def test_nothing_is_judged_of_outputs_once_it_is_forgotten_what_was_written(fault: str) -> None:
    _, outputs, sink = a_judged_world()
    outputs.write(sink, 0, [CLAIM])
    outputs.fault("process-killed")
    assert outputs.is_judged
    outputs.fault(fault)
    outputs.write(sink, 1, [CLAIM])
