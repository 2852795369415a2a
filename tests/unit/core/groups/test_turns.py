"""Whatever grows with a group is done in turns: what one step does has a bound that no group's size moves."""

import pytest

from coordinator.core.effects import Append
from coordinator.core.groups.hard.operator_records import PauseChanged
from coordinator.core.groups.hard.records import (
    EventsNoted,
    GroupExpired,
    MemberRemoved,
    Record,
    StopBegan,
    TargetsAssigned,
    decode_record,
)
from coordinator.core.limits import Limits
from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.ids import MAX_NAMED
from coordinator.protocol.messages import CommitOffsets, ErrorResponse, Request, Response
from coordinator.protocol.messages.operators import (
    CancelResets,
    CancelResetsResponse,
    ChangePause,
    ChangePauseResponse,
    DeleteOffsets,
    ReleaseClaims,
    ResetOffsets,
)
from coordinator.protocol.messages.pages import ask_for_all
from coordinator.protocol.parts import ResetTarget, TopicOffsets
from tests.helpers.node_world import NodeWorld

LARGE = MAX_NAMED + 500


def steps_of(world: NodeWorld, since: int) -> list[list[Record]]:
    """Return what each step wrote, from some effect on."""
    return [
        [decode_record(data) for data in effect.records]
        for effect in world.effects[since:]
        if isinstance(effect, Append)
    ]


def pause(world: NodeWorld, *, is_paused: bool) -> ChangePauseResponse:
    request = ChangePause("g", None, is_paused, "ann", "", is_dry_run=False)
    return world.connect().ask(request, ChangePauseResponse)


def test_a_large_group_is_paused_and_resumed_in_slices() -> None:
    world = NodeWorld({"t": LARGE})
    member = world.join("m1")
    since = len(world.effects)
    response = pause(world, is_paused=True)
    assert (len(response.partitions), response.partition_count) == (MAX_NAMED, LARGE)
    world.settle()
    assert len(member.stopping) == LARGE
    steps = steps_of(world, since)
    assert [type(record) for record in steps[0]] == [PauseChanged, EventsNoted]
    stopped = [sum(len(record.partitions) for record in step if isinstance(record, StopBegan)) for step in steps]
    assert max(stopped) <= Limits().slice_partitions
    (event,) = world.events("paused")
    assert (len(event.partitions), event.partition_count) == (100, LARGE)
    member.stop_all()
    world.settle()
    assert not world.owners()
    pause(world, is_paused=False)
    world.settle()
    assert len(member.owned) == LARGE
    assert member.is_complete


def test_a_large_group_can_be_resumed_while_it_is_being_paused() -> None:
    world = NodeWorld({"t": LARGE})
    member = world.join("m1")
    pause(world, is_paused=True)
    pause(world, is_paused=False)
    world.settle()
    member.stop_all()
    world.settle()
    assert len(member.owned) == LARGE
    assert member.is_complete


def test_groups_that_are_forgotten_at_the_same_time_are_forgotten_in_turns() -> None:
    limits = Limits(slice_members=7, offsets_retention_ms=10_000)
    world = NodeWorld({}, limits=limits)
    for number in range(60):
        world.connect().send(CommitOffsets(f"g{number}", (TopicOffsets("gone", (0,), (1,)),)))
    since = len(world.effects)
    world.advance(limits.offsets_retention_ms + 1_000)
    steps = steps_of(world, since)
    expired = [sum(isinstance(record, GroupExpired) for record in step) for step in steps]
    assert sum(expired) == 60
    assert max(expired) <= limits.slice_members


def test_groups_without_offsets_that_are_forgotten_weigh_more_than_partitions_that_move() -> None:
    """As many groups as partitions move in one step were forgotten in one, which took it over 20 ms."""
    limits = Limits(slice_partitions=60, slice_members=1_000, offsets_retention_ms=10_000)
    world = NodeWorld({}, limits=limits, shards=1)
    for number in range(100):
        world.connect().send(CommitOffsets(f"g{number}", (TopicOffsets("gone", (0,), (1,)),)))
    since = len(world.effects)
    world.advance(limits.offsets_retention_ms + 1_000)
    expired = [sum(isinstance(record, GroupExpired) for record in step) for step in steps_of(world, since)]
    assert (sum(expired), max(expired)) == (100, 15)


def test_a_rebalance_waits_for_a_step_without_a_removal_of_a_member_with_much() -> None:
    """Both were one step, which took as long as the two together."""
    world = NodeWorld({"t": 3_000})
    for name in ("m1", "m2", "m3"):
        world.join(name)
    for member in tuple(world.members.values()):
        member.stop_all()
    world.settle()
    since = len(world.effects)
    world.advance(11_000)
    steps = [{type(record) for record in step} for step in steps_of(world, since)]
    assert any(MemberRemoved in kinds for kinds in steps)
    assert not [kinds for kinds in steps if {MemberRemoved, TargetsAssigned} <= kinds]
    assert not world.group().members


def test_request_of_an_operator_that_names_more_than_one_step_can_take_is_refused() -> None:
    world = NodeWorld({"t": 1})
    world.join("m1")
    named = tuple(("t", number) for number in range(MAX_NAMED + 1))
    targets = tuple(ResetTarget("t", number, "earliest") for number in range(MAX_NAMED + 1))
    for request in (
        ChangePause("g", named, True, "ann", is_dry_run=False),
        DeleteOffsets("g", named, "ann", is_dry_run=False),
        ReleaseClaims("g", named, "ann", is_dry_run=False),
        ResetOffsets("g", targets, "ann", is_dry_run=False),
    ):
        response = world.connect().ask(request, ErrorResponse)
        assert response.error is ErrorCode.INVALID_REQUEST
        assert "2001 partitions are named and at most 2000 may be" in response.message


def test_members_with_much_that_fall_silent_together_are_removed_one_a_step() -> None:
    limits = Limits(slice_members=4)
    world = NodeWorld({"t": 1_200}, limits=limits)
    for name in ("m1", "m2", "m3"):
        world.join(name)
    for member in tuple(world.members.values()):
        member.stop_all()
    world.settle()
    assert {len(owned) for owned in world.group().owned.values()} == {400}
    since = len(world.effects)
    world.advance(11_000)
    removed = [sum(isinstance(record, MemberRemoved) for record in step) for step in steps_of(world, since)]
    assert (sum(removed), max(removed)) == (3, 1)


@pytest.mark.parametrize("is_dry_run", [True, False])
def test_all_resets_of_a_large_group_are_cancelled_in_turns(is_dry_run: bool) -> None:
    """All were dropped in one step, however many were pending."""
    world = NodeWorld({"t": 2 * LARGE})
    member = world.join("m1")
    tool = world.connect()
    for begin in range(0, 2 * LARGE, MAX_NAMED):
        numbers = range(begin, min(begin + MAX_NAMED, 2 * LARGE))
        targets = tuple(ResetTarget("t", number, "earliest") for number in numbers)
        tool.send(ResetOffsets("g", targets, "ann", is_dry_run=False))
        world.advance(1_000)
    assert len(world.group().controls.resets) == 2 * LARGE
    dropped: list[int] = []

    def ask(request: Request) -> Response:
        world.advance(1_000)
        response = tool.ask(request, CancelResetsResponse)
        dropped.append(len(response.results))
        return response

    whole = ask_for_all(ask, CancelResets("g", None, "ann", is_dry_run=is_dry_run))
    assert isinstance(whole, CancelResetsResponse)
    assert dropped == [MAX_NAMED, MAX_NAMED, 1_000]
    assert [result.partition for result in whole.results] == list(range(2 * LARGE))
    assert len(world.group().controls.resets) == (2 * LARGE if is_dry_run else 0)
    member.stop_all()
    world.advance(1_000)
    assert len(member.owned) == 2 * LARGE
    assert {part.offset for part in member.owned.values()} == ({10} if is_dry_run else {100})
