"""Whatever grows with a group is done in turns: what one step does has a bound that no group's size moves."""

from coordinator.core.effects import Append
from coordinator.core.groups.operator_records import PauseChanged
from coordinator.core.groups.records import GroupExpired, MemberRemoved, Record, StopBegan, decode_record
from coordinator.core.limits import Limits
from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.ids import MAX_NAMED
from coordinator.protocol.messages import CommitOffsets, ErrorResponse
from coordinator.protocol.operator_messages import (
    ChangePause,
    ChangePauseResponse,
    DeleteOffsets,
    ReleaseClaims,
    ResetOffsets,
)
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
    assert [type(record) for record in steps[0]] == [PauseChanged]
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
