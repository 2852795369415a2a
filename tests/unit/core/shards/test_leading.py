"""A node begins to lead a shard and resigns: its epoch begins with a record, and nothing that waited outlives it."""

import pytest

from coordinator.core.effects import Append, LoadShard, Respond, WriteSnapshot
from coordinator.core.events import (
    ConnectionOpened,
    GateMoved,
    LeadershipGiven,
    LeadershipGoesOn,
    LeadershipTaken,
    OffsetsResolved,
    RequestArrived,
    ShardServes,
    ShardStalled,
    StandbyDropped,
    Ticked,
)
from coordinator.core.groups.hard.life_records import LeaderBegan, LogOpened
from coordinator.core.groups.hard.records import decode_record
from coordinator.core.limits import Limits
from coordinator.core.node import Node
from coordinator.core.requests.finding import Neighbours
from coordinator.protocol.columns import OffsetToCommit, in_columns
from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.messages import (
    CommitOffsets,
    CommitOffsetsResponse,
    DescribeGroup,
    ErrorResponse,
    FetchOffsets,
    FetchOffsetsResponse,
    FindCoordinator,
    FindCoordinatorResponse,
    ListGroups,
    ListGroupsResponse,
    Ping,
    PingResponse,
    Response,
)
from coordinator.protocol.messages.operators import ResetOffsets
from coordinator.protocol.parts import NodeAddress, ResetTarget
from tests.helpers.node_member import Member
from tests.helpers.node_world import NodeWorld
from tests.helpers.planted_bugs import PlantedBugError, plant

T0 = ("t", 0)


def resign(world: NodeWorld, group_id: str = "g") -> None:
    world.happen(LeadershipTaken(world.node.shard_of(group_id), "node 2 leads it"))


def forget(world: NodeWorld, group_id: str = "g") -> None:
    """Resign, and have no standby, so that all of the log is loaded."""
    resign(world, group_id)
    world.happen(StandbyDropped(world.node.shard_of(group_id)))


def lead(world: NodeWorld, group_id: str = "g", leader_epoch: int = 5) -> None:
    """Begin to lead, and replay all there is."""
    world.happen(LeadershipGiven(world.node.shard_of(group_id), leader_epoch))
    world.advance(100)


def group_beside(world: NodeWorld) -> str:
    """Return a group of another shard than that of `g`."""
    names = (f"other-{number}" for number in range(100))
    return next(name for name in names if world.node.shard_of(name) != world.node.shard_of("g"))


def committing(member: Member, offset: int = 150) -> CommitOffsets:
    return CommitOffsets("g", in_columns((OffsetToCommit("t", 0, offset, member.epoch(T0)),)))


def refusal(response: Response | None) -> ErrorCode:
    assert isinstance(response, ErrorResponse)
    return response.error


# ---- epochs ---------------------------------------------------------------------------------------------------------


def test_every_start_leads_in_the_epoch_after_the_last_which_begins_with_a_record() -> None:
    world = NodeWorld(shards=1)
    world.restart()
    world.restart()
    epochs = [append.leader_epoch for append in world.effects if isinstance(append, Append)]
    records = [decode_record(data) for data in world.written[0]]
    assert epochs == [1, 2, 3]
    assert [type(record) for record in records] == [LeaderBegan, LogOpened] * 3
    assert [record.leader_epoch for record in records if isinstance(record, LeaderBegan)] == epochs
    assert world.connect().ask(FindCoordinator("g"), FindCoordinatorResponse).leader_epoch == 3


def test_first_record_of_a_leader_is_that_of_its_epoch_and_nothing_is_said_before_it_is_committed() -> None:
    world = NodeWorld({"t": 2})
    world.join("m1")
    shard, end = world.node.shard_of("g"), len(world.written[world.node.shard_of("g")])
    resign(world)
    world.is_durable_at_once = False
    lead(world, leader_epoch=7)
    began = decode_record(world.written[shard][end])
    assert (began.leader_epoch, world.epochs[shard]) == (7, 7)  # type: ignore[union-attr]
    tool = world.connect()
    asked = tool.send(FetchOffsets("g"))
    assert tool.answer(asked) is None
    world.sync()
    assert tool.answer(asked) is not None


def test_an_epoch_that_is_not_new_changes_nothing() -> None:
    world = NodeWorld({"t": 2})
    member = world.join("m1")
    before = len(world.effects)
    world.happen(LeadershipGiven(world.node.shard_of("g"), 1))
    assert world.effects[before:] == []
    assert member.ask(Ping(0), PingResponse).error is ErrorCode.NONE


def test_leader_that_is_to_lead_in_a_later_epoch_leaves_its_own_first() -> None:
    world = NodeWorld({"t": 2})
    member = world.join("m1")
    lead(world, leader_epoch=2)
    assert member.closed_why is not None
    assert world.reconnect(member).owned.keys() == {("t", 0), ("t", 1)}


def test_what_was_read_for_a_former_epoch_is_not_replayed() -> None:
    world = NodeWorld({"t": 2})
    world.join("m1")
    world.is_load_late = True
    resign(world)
    lead(world, leader_epoch=2)
    resign(world)
    lead(world, leader_epoch=3)
    (_, former), (_, newest) = world.loads
    tool = world.connect()
    world.happen(world.read(former))
    world.advance(100)
    assert refusal(tool.ask(FetchOffsets("g"), ErrorResponse)) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    world.happen(world.read(newest))
    world.advance(100)
    assert tool.ask(FetchOffsets("g"), FetchOffsetsResponse).error is ErrorCode.NONE
    assert world.epochs[world.node.shard_of("g")] == 3


def test_load_that_ends_after_its_leader_has_resigned_is_void() -> None:
    world = NodeWorld({"t": 2})
    world.join("m1")
    world.is_load_late = True
    resign(world)
    lead(world, leader_epoch=2)
    resign(world)
    world.happen(world.read(world.loads[0][1]))
    world.advance(100)
    assert refusal(world.connect().ask(FetchOffsets("g"), ErrorResponse)) is ErrorCode.NOT_COORDINATOR


# ---- what waited ----------------------------------------------------------------------------------------------------


def test_nothing_that_waited_is_said_after_its_leader_has_resigned_nor_in_its_next_epoch() -> None:
    world = NodeWorld({"t": 2})
    member, tool = world.join("m1"), world.connect()
    world.is_durable_at_once = False
    asked = member.send(committing(member))
    read = tool.send(FetchOffsets("g"))
    resign(world)
    why = f"shard {world.node.shard_of('g')} is led by this node no longer: node 2 leads it"
    assert [member.closed_why, tool.closed_why] == [why, why]
    world.sync()
    lead(world)
    world.sync()
    assert [member.answer(asked), tool.answer(read)] == [None, None]
    world.is_durable_at_once = True
    assert world.committed()[T0] == 150, "what was appended may be true all the same"


def test_list_that_waits_for_another_shard_is_not_said_when_one_of_its_shards_is_led_no_longer() -> None:
    world = NodeWorld({"t": 2})
    member = world.join("m1")
    other = world.join("m9", group_id=group_beside(world))
    world.is_durable_at_once = False
    tool = world.connect()
    member.send(committing(member))
    asked = tool.send(ListGroups())
    resign(world, group_beside(world))
    world.sync()
    assert (tool.answer(asked), tool.closed_why is not None, other.closed_why is not None) == (None, True, True)
    assert member.closed_why is None


def test_members_and_whoever_waits_for_the_shard_are_closed_and_an_answer_of_kafka_is_for_nobody() -> None:
    world = NodeWorld({"t": 2})
    member, tool, newcomer = world.join("m1"), world.connect(), world.joining("m2", topics=("u",))
    world.kafka.is_late = True
    tool.send(ResetOffsets("g", (ResetTarget("t", 0, "earliest"),), "me", is_dry_run=False))
    newcomer.send(newcomer.registration)  # type: ignore[arg-type]
    resign(world)
    assert None not in {member.closed_why, tool.closed_why, newcomer.closed_why}
    lead(world)
    world.answer_late()
    world.happen(OffsetsResolved(1, ()))
    assert world.group().controls.resets == {}


def test_what_waits_for_its_turn_was_not_decided_and_is_refused() -> None:
    world = NodeWorld({"t": 2}, limits=Limits(page_items=8))
    world.join("m1")
    tool = world.connect()
    asked = [tool.send(DescribeGroup("g")) for _ in range(10)]
    assert tool.answer(asked[-1]) is None
    resign(world)
    world.advance(500)
    assert refusal(tool.answer(asked[-1])) is ErrorCode.NOT_COORDINATOR
    assert tool.closed_why is None


def test_shard_that_is_not_led_says_so_and_others_go_on() -> None:
    world = NodeWorld({"t": 2})
    world.join("m1")
    other, tool = world.join("m9", group_id=group_beside(world)), world.connect()
    resign(world)
    assert refusal(tool.ask(FetchOffsets("g"), ErrorResponse)) is ErrorCode.NOT_COORDINATOR
    assert refusal(tool.ask(ListGroups(), ErrorResponse)) is ErrorCode.NOT_COORDINATOR
    assert tool.ask(FindCoordinator("g"), FindCoordinatorResponse).error is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert other.closed_why is None
    assert other.ask(Ping(0), PingResponse).error is ErrorCode.NONE
    world.is_load_late = True
    lead(world)
    assert refusal(tool.ask(FetchOffsets("g"), ErrorResponse)) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert tool.ask(FindCoordinator("g"), FindCoordinatorResponse).leader_epoch == 5
    assert world.watched == {"t"}


def test_to_resign_twice_is_to_resign_once() -> None:
    world = NodeWorld({"t": 2})
    resign(world)
    before = len(world.effects)
    resign(world)
    assert world.effects[before:] == []


# ---- hard and soft state --------------------------------------------------------------------------------------------


def test_shard_that_is_led_again_is_as_after_a_start() -> None:
    world = NodeWorld({"t": 4})
    one, other = world.join("m1"), world.join("m2")
    owners, group = world.owners(), world.group()
    resign(world)
    assert "g" not in world.state(world.node.shard_of("g")).groups
    lead(world)
    assert (world.group(), world.owners()) == (group, owners)
    for member in (one, other):
        assert world.reconnect(member).owned.keys() == {
            key for key, owner in owners.items() if owner == member.member_id
        }
    assert world.connect().ask(ListGroups(), ListGroupsResponse).groups[0].group_id == "g"


def test_time_in_which_nobody_led_counts_against_no_member() -> None:
    world = NodeWorld({"t": 2})
    world.join("m1", session_timeout_ms=10_000)
    world.advance(9_000)
    resign(world)
    world.advance(60_000)
    lead(world)
    world.advance(9_500)
    assert world.group().members.keys() == {"m1"}
    world.advance(1_000)
    assert world.group().members.keys() == set()


def test_time_in_which_nobody_led_was_not_lived() -> None:
    world = NodeWorld({"t": 2})
    world.join("m1")
    shard = world.node.shard_of("g")
    world.advance(120_000)
    lived_ms = world.state(shard).lived_ms
    resign(world)
    world.advance(3_600_000)
    lead(world)
    world.advance(60_000)
    assert lived_ms < world.state(shard).lived_ms < lived_ms + 130_000


def test_snapshot_that_waits_for_its_records_goes_with_its_leader_and_another_is_made_later() -> None:
    world = NodeWorld({"t": 2}, limits=Limits(snapshot_interval_records=12))
    member = world.join("m1")
    world.is_durable_at_once = False
    for offset in range(110, 124):
        member.send(committing(member, offset))
    assert not any(isinstance(effect, WriteSnapshot) for effect in world.effects)
    resign(world)
    world.sync()
    assert not any(isinstance(effect, WriteSnapshot) for effect in world.effects)
    world.is_durable_at_once = True
    lead(world)
    member = world.reconnect(member)
    for offset in range(130, 144):
        assert member.commit(T0, offset).error is ErrorCode.NONE
    group = world.group()
    assert any(isinstance(effect, WriteSnapshot) for effect in world.effects)
    world.restart()
    assert world.group() == group


def test_shard_with_very_many_members_begins_in_slices_and_all_have_their_time_from_the_end() -> None:
    world = NodeWorld({"t": 2}, limits=Limits(slice_bytes=5_000))
    for number in range(200):
        world.join(f"m{number}", is_settled=False, session_timeout_ms=10_000)
    world.settle()
    forget(world)
    world.happen(LeadershipGiven(world.node.shard_of("g"), 2))
    tool, steps = world.connect(), 0
    while isinstance(tool.ask(FetchOffsets("g"), Response), ErrorResponse):
        world.now_ms += 500
        world.happen(Ticked(world.now_ms + world.wall_offset_ms))
        steps += 1
    records = len(world.written[world.node.shard_of("g")])
    assert steps > records // 100 + 4, "a hundred records are replayed in a step here, and fifty members begin in one"
    world.advance(9_900)
    assert len(world.group().members) == 200
    world.advance(200)
    assert len(world.group().members) < 200


def test_shards_are_replayed_one_after_the_other_in_slices() -> None:
    world = NodeWorld({"t": 2}, limits=Limits(slice_bytes=200))
    groups = ("g", group_beside(world))
    for group_id in groups:
        member = world.join(f"m-{group_id}", group_id=group_id)
        for offset in range(150, 500):
            member.commit(T0, offset)
    for group_id in groups:
        forget(world, group_id)
    before = len(world.effects)
    for group_id in groups:
        world.happen(LeadershipGiven(world.node.shard_of(group_id), 2))
    assert [type(effect) for effect in world.effects[before:]].count(LoadShard) == 2
    tool, served = world.connect(), []
    for _ in range(200):
        world.happen(Ticked(world.now_ms + world.wall_offset_ms))
        served.append([type(tool.ask(FetchOffsets(group_id), Response)) for group_id in groups])
        if served[-1] == [FetchOffsetsResponse] * 2:
            break
    first = [kind for kind, _ in served].index(FetchOffsetsResponse)
    second = [kind for _, kind in served].index(FetchOffsetsResponse)
    assert 2 < first < second - 2, "each takes several steps, and the second begins when the first is whole"


# ---- as a replica leads ---------------------------------------------------------------------------------------------


def test_a_leader_that_knows_the_end_of_its_log_begins_its_epoch_before_the_load() -> None:
    world = NodeWorld({"t": 2})
    world.join("m1")
    shard, end = world.node.shard_of("g"), len(world.written[world.node.shard_of("g")])
    resign(world)
    world.is_load_late = True
    world.happen(LeadershipGiven(shard, 5, end))
    (began,) = (decode_record(data) for data in world.written[shard][end:])
    assert isinstance(began, LeaderBegan)
    assert began.leader_epoch == 5
    world.is_load_late = False
    world.advance(200)
    assert world.node.is_loaded(shard)
    after = [type(decode_record(data)) for data in world.written[shard][end:]]
    assert after[:2] == [LeaderBegan, LogOpened]
    assert LeaderBegan not in after[2:]


def test_a_leader_that_goes_on_keeps_its_members_and_what_waits() -> None:
    world = NodeWorld({"t": 2})
    member = world.join("m1")
    shard = world.node.shard_of("g")
    world.is_durable_at_once = False
    asked = member.send(committing(member))
    end = len(world.written[shard])
    world.happen(LeadershipGoesOn(shard, 5, end))
    assert decode_record(world.written[shard][end]).leader_epoch == 5  # type: ignore[union-attr]
    assert member.answer(asked) is None
    world.is_durable_at_once = True
    world.sync()
    assert member.answer(asked) is not None
    assert member.ask(Ping(0), PingResponse).error is ErrorCode.NONE


@pytest.mark.parametrize("is_after", [False, True])
def test_a_leader_that_goes_on_keeps_the_record_of_its_epoch_also_when_it_meets_a_bug(is_after: bool) -> None:
    world = NodeWorld({"t": 2})
    member = world.join("m1")
    shard, end = world.node.shard_of("g"), len(world.written[world.node.shard_of("g")])
    world.bugs = []
    plant(world.node, shard, 1, is_after=is_after)
    world.happen(LeadershipGoesOn(shard, 5, end))
    assert [type(bug.error) for bug in world.bugs] == [PlantedBugError]
    assert decode_record(world.written[shard][end]).leader_epoch == 5  # type: ignore[union-attr]
    world.advance(200)
    assert member.closed_why is not None
    assert world.node.is_loaded(shard)
    assert world.reconnect(member).owned.keys() == {("t", 0), ("t", 1)}
    began = [record for data in world.written[shard] if isinstance(record := decode_record(data), LeaderBegan)]
    assert [record.leader_epoch for record in began] == [1, 5]


def test_what_is_decided_among_others_waits_for_the_round_that_comes_next() -> None:
    world = NodeWorld({"t": 2})
    member, shard = world.join("m1"), world.node.shard_of("g")
    world.node.gates.next_round = 3
    world.node.gates.ask_others(shard, has_others=True)
    asked = member.send(Ping(0))
    assert member.answer(asked) is None
    world.happen(GateMoved(shard, 1, len(world.written[shard]), 2))
    assert member.answer(asked) is None
    world.happen(GateMoved(shard, 1, len(world.written[shard]), 3))
    assert member.answer(asked) is not None


def test_a_gate_that_another_epoch_moves_lets_nothing_out() -> None:
    world = NodeWorld({"t": 2})
    member, shard = world.join("m1"), world.node.shard_of("g")
    world.is_durable_at_once = False
    asked = member.send(committing(member))
    world.happen(GateMoved(shard, 2, 10_000, None))
    assert member.answer(asked) is None


def test_a_stalled_shard_refuses_undecided_and_nobody_expires_for_the_time_of_it() -> None:
    world = NodeWorld({"t": 2})
    member, shard = world.join("m1", session_timeout_ms=2_000), world.node.shard_of("g")
    world.happen(ShardStalled(shard))
    records = len(world.written[shard])
    assert refusal(member.ask(committing(member), ErrorResponse)) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    world.advance(5_000)
    assert len(world.written[shard]) == records
    world.happen(ShardServes(shard))
    world.advance(1_500)
    assert member.ask(committing(member), CommitOffsetsResponse).error is ErrorCode.NONE


def test_a_stop_has_its_full_time_again_after_a_stall() -> None:
    world = NodeWorld({"t": 2})
    first, shard = world.join("m1", rebalance_timeout_ms=3_000, session_timeout_ms=30_000), world.node.shard_of("g")
    world.join("m2", rebalance_timeout_ms=3_000, session_timeout_ms=30_000)
    assert world.owners() == {T0: "m1", ("t", 1): "m1"}, "the first was asked for one and has not let go"
    world.happen(ShardStalled(shard))
    world.advance(5_000)
    world.happen(ShardServes(shard))
    world.advance(2_500)
    assert world.owners() == {T0: "m1", ("t", 1): "m1"}
    world.advance(1_000)
    assert sorted(world.owners().values()) == ["m1", "m2"]
    assert first.closed_why is None


def test_a_node_of_a_cluster_begins_without_leading_anything() -> None:
    node = Node(Limits(), 2, NodeAddress(1, "127.0.0.1", 9191), ("broker:9092",))
    node.join(0, 1_000, "life-1")
    assert node.step(ConnectionOpened(1, "h"), 0) == []
    (answer,) = node.step(RequestArrived(1, 1, FetchOffsets("g")), 1)
    assert isinstance(answer, Respond)
    assert isinstance(answer.response, ErrorResponse)
    assert answer.response.error is ErrorCode.NOT_COORDINATOR


def test_a_node_that_knows_who_leads_a_shard_sends_members_there() -> None:
    node = Node(Limits(), 2, NodeAddress(1, "127.0.0.1", 9191), ("broker:9092",))
    node.join(0, 1_000, "life-1")
    other = NodeAddress(2, "n2", 9191)
    node.know(Neighbours({node.shard_of("g"): (7, other)}), 1)
    node.step(ConnectionOpened(1, "h"), 0)
    (answer,) = node.step(RequestArrived(1, 1, FindCoordinator("g")), 1)
    assert isinstance(answer, Respond)
    found = answer.response
    assert isinstance(found, FindCoordinatorResponse)
    assert (found.error, found.coordinator, found.leader_epoch) == (ErrorCode.NONE, other, 7)
