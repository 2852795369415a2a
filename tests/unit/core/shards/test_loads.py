"""What a load of a shard after a bug must not cost others, nor what comes after it: answers, topics, snapshots."""

from collections.abc import Callable

import pytest

from coordinator.core.effects import LoadShard
from coordinator.core.events import Ticked
from coordinator.core.groups.hard.journal import Journal
from coordinator.core.groups.hard.life_records import LogOpened
from coordinator.core.groups.hard.records import Record
from coordinator.core.limits import Limits
from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.messages import DescribeGroup, ErrorResponse, FetchOffsets, ListGroups
from coordinator.protocol.messages.operators import ChangePause
from tests.helpers.node_world import Member, NodeWorld

T0 = ("t", 0)
PAUSE = ChangePause("g", (T0,), True, "me", is_dry_run=False)
RESUME = ChangePause("g", (T0,), False, "me", is_dry_run=False)


class PlantedError(Exception):
    """A bug that a test has planted."""


@pytest.fixture
def plant(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Have one of the next decisions of a shard be replayed and kept, and then raise."""
    decide = Journal.decide
    left: dict[int, int] = {}

    def failing(journal: Journal, *records: Record) -> None:
        decide(journal, *records)
        if not isinstance(records[0], LogOpened) and journal.shard in left:
            left[journal.shard] -= 1
            if left[journal.shard] == 0:
                del left[journal.shard]
                raise PlantedError

    def plant_one(shard: int, calls: int = 1) -> None:
        left[shard] = calls

    monkeypatch.setattr(Journal, "decide", failing)
    return plant_one


def world_with_bugs(limits: Limits | None = None) -> NodeWorld:
    world = NodeWorld({"t": 2}, limits=limits)
    world.bugs = []
    return world


def group_beside(world: NodeWorld) -> str:
    """Return a group of another shard than that of `g`."""
    names = (f"other-{number}" for number in range(100))
    return next(name for name in names if world.node.shard_of(name) != world.node.shard_of("g"))


def tick(world: NodeWorld) -> None:
    world.happen(Ticked(world.now_ms + world.wall_offset_ms))


def with_a_turn_taken(world: NodeWorld) -> Member:
    """Return a tool whose requests wait for a turn, since what is asked for at once was answered."""
    tool = world.connect()
    for _ in range(10):
        tool.send(DescribeGroup("g"))
    assert tool.answer(10) is None, "the last one waits"
    return world.connect()


def left_by_a_load(world: NodeWorld, plant: Callable[..., None]) -> Member:
    """Return a member whose shard has met its second bug, so that it is away for half a second."""
    member = world.join("m1")
    plant(world.node.shard_of("g"))
    member.send(PAUSE)
    world.advance(100)
    member = world.reconnect(member)
    plant(world.node.shard_of("g"))
    member.send(PAUSE)
    return member


def test_topic_that_grows_during_a_load_is_read_whole_after_it(plant: Callable[..., None]) -> None:
    world = world_with_bugs()
    member = left_by_a_load(world, plant)
    world.kafka.topics["t"] = 3
    world.poll_topics()
    world.advance(1_000)
    member = world.reconnect(member)
    world.poll_topics()
    world.advance(1_000)
    assert member.owned.keys() == {("t", 0), ("t", 1), ("t", 2)}


def test_answers_of_the_step_that_meets_a_bug_are_owed_to_nobody(plant: Callable[..., None]) -> None:
    """Who asked is closed and asks again: an answer that was thrown away would never come."""
    world = world_with_bugs(Limits(page_items=8))
    world.join("m1")
    with_a_turn_taken(world)
    reader, operator = world.connect(), world.connect()
    asked = reader.send(FetchOffsets("g"))
    operator.send(PAUSE)
    plant(world.node.shard_of("g"))
    world.advance(500)
    assert world.bugs
    assert operator.closed_why is not None
    assert reader.answer(asked) is not None or reader.closed_why is not None


def test_list_that_shows_what_a_bug_undid_is_never_told(plant: Callable[..., None]) -> None:
    world = world_with_bugs(Limits(page_items=8))
    world.join("m1")
    with_a_turn_taken(world)
    first, reader, second = world.connect(), world.connect(), world.connect()
    first.send(PAUSE)
    asked = reader.send(ListGroups())
    second.send(RESUME)
    plant(world.node.shard_of("g"), calls=3)
    world.advance(500)
    assert world.bugs
    assert reader.answer(asked) is not None or reader.closed_why is not None


def test_bug_in_a_list_of_groups_costs_no_shard_a_load(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is read of all shards, and nothing is changed: that of the member who asks is as good as the others."""

    def failing(*_: object) -> None:
        raise PlantedError

    world = world_with_bugs()
    member = world.join("m1")
    monkeypatch.setattr("coordinator.core.requests.routing.summaries", failing)
    member.send(ListGroups())
    assert member.closed_why is not None
    assert not [effect for effect in world.effects if isinstance(effect, LoadShard)]
    assert [bug.why.count("is loaded again") for bug in world.bugs or ()] == [0]


def test_no_snapshot_is_made_of_what_a_bug_left_behind(plant: Callable[..., None]) -> None:
    world = world_with_bugs(Limits(snapshot_interval_records=12))
    world.is_snapshot_written_at_once = False
    shard, beside = world.node.shard_of("g"), group_beside(world)
    member, other = world.join("m1"), world.join("m9", group_id=beside)
    for offset in range(110, 130):  # the snapshot of this shard grows, and that of the other waits for it
        assert other.commit(T0, offset).error is ErrorCode.NONE
    for offset in range(110, 130):
        assert member.commit(T0, offset).error is ErrorCode.NONE
    newcomer = world.joining("m2")
    assert newcomer.register().error is ErrorCode.NONE
    plant(world.node.shard_of(beside))
    other.send(ChangePause(beside, (T0,), True, "me", is_dry_run=False))
    plant(shard)
    world.now_ms += 50
    tick(world)
    assert [bug.why.split(" met ")[0] for bug in world.bugs or ()] == ["ChangePause (1 partitions)", "Ticked"]
    world.is_snapshot_written_at_once = True
    world.advance(500)
    member = world.reconnect(member)
    for offset in range(130, 134):
        assert member.commit(T0, offset).error is ErrorCode.NONE
    lives, group = list(world.state(shard).lives), world.group()
    world.restart()
    assert list(world.state(shard).lives)[:-1] == lives
    assert world.group() == group


def test_topics_of_other_shards_are_asked_about_while_one_is_loaded(plant: Callable[..., None]) -> None:
    """A log that is read for long, or cannot be read, keeps its own groups waiting and no others."""
    world = world_with_bugs()
    world.kafka.topics["u"] = 1
    member = left_by_a_load(world, plant)
    newcomer = world.join("m9", group_id=group_beside(world), topics=("u",))
    assert newcomer.owned.keys() == {("u", 0)}
    assert world.watched == {"t", "u"}
    assert world.connect().ask(FetchOffsets("g"), ErrorResponse).error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    world.advance(1_000)
    assert world.reconnect(member).owned.keys() == {("t", 0), ("t", 1)}
