"""A bug of ours costs one request and one load of a shard: the node stays, and others notice no more than a restart."""

from collections.abc import Callable
from typing import Any

import pytest

from coordinator.core.effects import CloseConnection, LoadShard
from coordinator.core.events import AppendRefused, ShardUnreadable, Ticked, TopicsRead
from coordinator.core.groups.hard.journal import Journal
from coordinator.core.groups.hard.life_records import LogOpened
from coordinator.core.groups.hard.records import EventsNoted, Record
from coordinator.core.limits import Limits
from coordinator.core.shards.loads import LONGEST_PAUSE_MS
from coordinator.protocol.columns import OffsetToCommit, in_columns
from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.messages import (
    CommitOffsets,
    CommitOffsetsResponse,
    ErrorResponse,
    FetchOffsets,
    FetchOffsetsResponse,
    ListGroups,
    ListGroupsResponse,
    Ping,
    PingResponse,
)
from coordinator.protocol.messages.operators import ResetOffsets
from coordinator.protocol.parts import ResetTarget
from tests.helpers.node_member import Member
from tests.helpers.node_world import NodeWorld

T0 = ("t", 0)


class PlantedError(Exception):
    """A bug that a test has planted."""


@pytest.fixture
def plant(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Have the next record of a shard be replayed and kept, and then raise; but not one of the timeline."""
    decide = Journal.decide

    def plant_one(times: int = 1, shard: int | None = None) -> None:
        left = [times]

        def failing(journal: Journal, *records: Record) -> None:
            decide(journal, *records)
            is_passed_over = isinstance(records[0], LogOpened | EventsNoted)
            if left[0] and shard in {None, journal.shard} and not is_passed_over:
                left[0] -= 1
                raise PlantedError("secret of a member")

        monkeypatch.setattr(Journal, "decide", failing)

    return plant_one


def world_with_bugs(**facts: Any) -> NodeWorld:
    world = NodeWorld({"t": 2}, **facts)
    world.bugs = []
    return world


def committing(member: Member, offset: int = 150) -> CommitOffsets:
    return CommitOffsets("g", in_columns((OffsetToCommit("t", 0, offset, member.epoch(T0)),)))


def group_beside(world: NodeWorld, group_id: str = "g") -> str:
    """Return a group of another shard."""
    names = (f"other-{number}" for number in range(100))
    return next(name for name in names if world.node.shard_of(name) != world.node.shard_of(group_id))


def test_bug_in_a_request_closes_its_connection_and_changes_nothing(plant: Callable[..., None]) -> None:
    world = world_with_bugs()
    member = world.join("m1")
    before, end = world.committed(), len(world.written[world.node.shard_of("g")])
    plant()
    member.send(committing(member))
    assert (
        member.closed_why
        == "CommitOffsets (1 offsets) met a bug of the coordinator's, which is in its log; connect again"
    )
    assert [type(said) for said in member.inbox].count(CommitOffsetsResponse) == 0
    world.advance(100)
    assert (world.committed(), len(world.written[world.node.shard_of("g")])) == (before, end + 1)  # a life begins
    again = world.reconnect(member)
    assert again.commit(T0, 150).error is ErrorCode.NONE
    assert world.halted is None


def test_bug_is_told_with_its_request_and_place_and_nothing_that_was_said(plant: Callable[..., None]) -> None:
    world = world_with_bugs()
    member = world.join("m1")
    plant()
    member.send(committing(member))
    assert world.bugs is not None
    (bug,) = world.bugs
    shard = world.node.shard_of("g")
    assert bug.why.startswith("CommitOffsets (1 offsets) met a bug at test_bugs.py:")
    assert bug.why.endswith(f"(PlantedError); shard {shard} is loaded again from its log")
    assert isinstance(bug.error, PlantedError)


def test_what_was_decided_before_a_bug_is_still_said(plant: Callable[..., None]) -> None:
    world = world_with_bugs(is_durable_at_once=False)
    joining = world.joining("m1")
    joining.send(joining.registration)  # type: ignore[arg-type]
    world.sync()
    world.settle()
    world.sync()
    asked = joining.send(committing(joining, 120))
    plant()
    joining.send(committing(joining, 150))
    answer = joining.answer(asked)
    assert isinstance(answer, CommitOffsetsResponse)
    assert (answer.accepted, joining.closed_why is not None) == (1, True)
    world.advance(100)
    world.sync()
    world.is_durable_at_once = True
    assert world.committed()[T0] == 120


def test_members_of_the_shard_come_back_as_after_a_restart(plant: Callable[..., None]) -> None:
    world = world_with_bugs()
    one, other = world.join("m1"), world.join("m2")
    owners = world.owners()
    plant()
    one.send(committing(one))
    assert other.closed_why == f"shard {world.node.shard_of('g')} is loaded again after a bug; connect again"
    world.advance(100)
    for member in (one, other):
        assert world.reconnect(member).owned.keys() == {
            key for key, owner in owners.items() if owner == member.member_id
        }
    assert world.owners() == owners


def test_other_shards_go_on(plant: Callable[..., None]) -> None:
    world = world_with_bugs()
    beside = group_beside(world)
    member, other = world.join("m1"), world.join("m9", group_id=beside)
    plant(shard=world.node.shard_of("g"))
    member.send(committing(member))
    assert other.closed_why is None
    assert other.ask(Ping(0), PingResponse).error is ErrorCode.NONE


def test_shard_that_is_loaded_says_so(plant: Callable[..., None]) -> None:
    world = world_with_bugs()
    member, tool = world.join("m1"), world.connect()
    plant(times=2)
    member.send(committing(member))
    world.advance(100)
    again = world.reconnect(member)
    again.send(committing(again))
    world.advance(100)
    refused = tool.ask(FetchOffsets("g"), ErrorResponse)
    assert refused.error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert refused.message == f"shard {world.node.shard_of('g')} is being loaded; try again"
    assert tool.ask(ListGroups(), ErrorResponse).error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    late = world.connect()
    assert late.ask(member.registration, ErrorResponse).error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS  # type: ignore[arg-type]
    world.advance(600)
    assert tool.ask(FetchOffsets("g"), FetchOffsetsResponse).error is ErrorCode.NONE
    assert tool.ask(ListGroups(), ListGroupsResponse).groups[0].group_id == "g"


def test_pause_before_a_load_grows_with_each_bug_and_is_forgiven(plant: Callable[..., None]) -> None:
    world = world_with_bugs()
    member = world.join("m1")
    pauses = []
    for _ in range(9):
        plant()
        before = len(world.effects)
        member.send(committing(member))
        (reload,) = [effect for effect in world.effects[before:] if isinstance(effect, LoadShard)]
        pauses.append(reload.after_ms)
        world.advance(reload.after_ms + 200)
        member = world.reconnect(member)
    assert pauses == [0, 500, 1_000, 2_000, 4_000, *(LONGEST_PAUSE_MS,) * 4]
    for _ in range(8):
        world.advance(9_000)
        member.ask(Ping(0), PingResponse)
    plant()
    before = len(world.effects)
    member.send(committing(member))
    assert [effect.after_ms for effect in world.effects[before:] if isinstance(effect, LoadShard)] == [0]


def test_bug_in_what_a_timer_does_costs_its_shard_a_load(plant: Callable[..., None]) -> None:
    world = world_with_bugs()
    beside = group_beside(world)
    world.join("m9", group_id=beside)
    member, newcomer = world.join("m1"), world.joining("m2")
    assert newcomer.register().error is ErrorCode.NONE
    plant(shard=world.node.shard_of("g"))
    world.settle()
    assert world.bugs is not None
    assert [bug.why.split(" met ")[0] for bug in world.bugs] == ["Ticked"]
    world.advance(200)
    assert world.reconnect(member).owned.keys() == {("t", 0), ("t", 1)}
    assert world.reconnect(newcomer).registration is not None


def test_bug_in_an_answer_of_kafka_costs_its_shard_a_load(plant: Callable[..., None]) -> None:
    world = world_with_bugs()
    world.kafka.is_late = True
    member = world.joining("m1")
    member.register()
    world.settle()
    plant()
    world.answer_late()
    assert world.bugs is not None
    assert [bug.why.split(" met ")[0] for bug in world.bugs] == ["OffsetsResolved"]
    world.kafka.is_late = False
    world.advance(200)
    again = world.reconnect(member)
    world.advance(2_000)
    assert again.owned.keys() == {("t", 0), ("t", 1)}


def test_answer_of_kafka_that_cannot_be_taken_in_is_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    world = world_with_bugs()
    member = world.join("m1")
    world.happen(TopicsRead(None, frozenset(), {}, {}, None))  # type: ignore[arg-type]
    assert world.bugs is not None
    assert [bug.why.split(" met ")[0] for bug in world.bugs] == ["TopicsRead"]
    assert member.ask(Ping(0), PingResponse).error is ErrorCode.NONE


def test_whoever_waits_for_an_answer_of_the_shard_is_closed(plant: Callable[..., None]) -> None:
    """Nobody would ever answer: what the shard knew of the question is gone."""
    world = world_with_bugs()
    member, tool, newcomer = world.join("m1"), world.connect(), world.joining("m2", topics=("u",))
    world.kafka.is_late = world.kafka.is_away = True
    tool.send(ResetOffsets("g", (ResetTarget("t", 0, "earliest"),), "me", is_dry_run=False))
    newcomer.send(newcomer.registration)  # type: ignore[arg-type]
    plant()
    member.send(committing(member))
    assert None not in {tool.closed_why, newcomer.closed_why}


def test_answer_to_a_question_of_before_the_bug_is_for_nobody(plant: Callable[..., None]) -> None:
    world = world_with_bugs()
    member, tool = world.join("m1"), world.connect()
    world.kafka.is_late = True
    tool.send(ResetOffsets("g", (ResetTarget("t", 0, "earliest"),), "me", is_dry_run=False))
    plant()
    member.send(committing(member))
    world.advance(100)
    world.answer_late()
    assert world.group().controls.resets == {}


def test_large_shard_is_loaded_in_slices(plant: Callable[..., None]) -> None:
    world = world_with_bugs(limits=Limits(slice_bytes=200))
    member = world.join("m1")
    for offset in range(150, 170):
        member.commit(T0, offset)
    plant()
    member.send(committing(member, 200))
    tool = world.connect()
    world.happen(Ticked(world.now_ms + world.wall_offset_ms))
    assert tool.ask(FetchOffsets("g"), ErrorResponse).error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    world.advance(200)
    assert tool.ask(FetchOffsets("g"), FetchOffsetsResponse).offsets[0].offset == 169


def test_shard_whose_log_cannot_be_read_is_read_again_later(plant: Callable[..., None]) -> None:
    world = world_with_bugs()
    member = world.join("m1")
    shard = world.node.shard_of("g")
    plant(times=2)
    member.send(committing(member))
    world.advance(100)
    member = world.reconnect(member)
    member.send(committing(member))
    world.loads.clear()
    done = world.happen(ShardUnreadable(shard, world.epochs[shard], "its writes have not finished in 30 s"))
    assert [effect.after_ms for effect in done if isinstance(effect, LoadShard)] == [1_000]
    world.advance(1_200)
    assert world.reconnect(member).commit(T0, 150).error is ErrorCode.NONE


def test_records_that_the_log_does_not_take_are_nobodys(plant: Callable[..., None]) -> None:
    """Answers that rest on them are never said, though the log reaches their offsets with others later."""
    world = world_with_bugs(is_durable_at_once=False)
    member = world.joining("m1")
    member.send(member.registration)  # type: ignore[arg-type]
    world.sync()
    world.settle()
    world.sync()
    shard = world.node.shard_of("g")
    end = len(world.written[shard])
    asked = member.send(committing(member))
    del world.written[shard][end:]
    world.happen(AppendRefused(shard, end, ValueError("a bug")))
    assert member.closed_why is not None
    world.advance(100)
    world.sync()
    assert world.group().offsets[T0].position_of(0)[0] != 150
    again = world.connect()
    again.send(member.registration)  # type: ignore[arg-type]
    world.sync()
    assert member.answer(asked) is None


def test_snapshot_that_cannot_be_made_costs_no_load(monkeypatch: pytest.MonkeyPatch) -> None:
    world = world_with_bugs(limits=Limits(snapshot_interval_records=5))
    member = world.join("m1")

    def failing(*_: object) -> None:
        raise PlantedError

    monkeypatch.setattr(Journal, "grow_snapshot", failing)
    for offset in range(110, 120):
        assert member.commit(T0, offset).error is ErrorCode.NONE
    assert world.bugs
    assert all("another is made later" in bug.why for bug in world.bugs)
    assert len(world.bugs) < 5
    assert not any(isinstance(effect, LoadShard | CloseConnection) for effect in world.effects)
