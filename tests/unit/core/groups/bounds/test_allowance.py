"""State is bounded in bytes: what would pass a limit is refused with the limit, and what frees state never is."""

import pytest
from msgspec.structs import replace

from coordinator.core.groups.hard.account import ANONYMOUS, bytes_of, recount
from coordinator.core.limits import Limits
from coordinator.protocol.columns import OffsetToCommit, in_columns
from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.messages import (
    CommitOffsets,
    CommitOffsetsResponse,
    ErrorResponse,
    FetcherStopped,
    FetcherStoppedResponse,
    Ping,
    PingResponse,
    RegisterConsumerResponse,
)
from coordinator.protocol.messages.operators import (
    ChangeDrain,
    ChangePause,
    ChangePauseResponse,
    DeleteGroup,
    DeleteGroupResponse,
    DeleteOffsets,
    DeleteOffsetsResponse,
    ResetOffsets,
    ResetOffsetsResponse,
)
from coordinator.protocol.parts import FinalOffset, PartitionResult, ResetTarget, StartHint, Subscription
from tests.helpers.node_member import Member
from tests.helpers.node_world import NodeWorld, replace_registration

T0 = ("t", 0)
ROOM = 4_000
SMALL = Limits(group_max_bytes=ROOM)
LONG = "x" * 4_000


def commit(member: Member, metadata: str, offset: int = 110, *, group_id: str = "g") -> tuple[PartitionResult, ...]:
    wish = OffsetToCommit(*T0, offset, member.epoch(T0) if member.owned else None, None, metadata)
    return member.ask(CommitOffsets(group_id, in_columns((wish,))), CommitOffsetsResponse).refused


def test_commit_that_has_no_room_is_refused_with_the_limit_and_what_to_do() -> None:
    world = NodeWorld({"t": 1}, limits=SMALL)
    m1 = world.join("m1")
    used = bytes_of(world.group())
    (result,) = commit(m1, LONG)
    assert result.error is ErrorCode.STATE_LIMIT_REACHED
    assert result.committed == 100
    assert result.message == (
        f"this would take 4000 bytes of state more, the group takes {used} already, and the limit is 4000; delete "
        "offsets or groups that nobody needs (`kcoord group delete-offsets`, `kcoord group delete`), commit less "
        "metadata, or raise group.group_max_bytes"
    )
    assert bytes_of(world.group()) == used


def test_members_go_on_committing_what_takes_no_more() -> None:
    world = NodeWorld({"t": 1}, limits=SMALL)
    m1 = world.join("m1")
    assert commit(m1, "x" * 3_000, 120) == ()
    assert [result.error for result in commit(m1, LONG, 121)] == [ErrorCode.STATE_LIMIT_REACHED]
    assert commit(m1, "y" * 3_000, 122) == ()
    assert m1.commit(T0, 130).error is ErrorCode.NONE
    assert world.group().offsets.bytes < 100
    assert commit(m1, "x" * 3_000, 131) == ()


def test_ping_tells_what_had_no_room() -> None:
    world = NodeWorld({"t": 1}, limits=SMALL)
    m1 = world.join("m1")
    wish = OffsetToCommit(*T0, 120, m1.epoch(T0), None, LONG)
    response = m1.ask(Ping(0, in_columns((wish,))), PingResponse)
    assert [result.error for result in response.refused] == [ErrorCode.STATE_LIMIT_REACHED]
    assert response.accepted == 0


def test_release_is_never_refused_and_leaves_metadata_out_that_has_no_room() -> None:
    world = NodeWorld({"t": 1}, limits=SMALL)
    m1 = world.join("m1")
    final = FinalOffset(*T0, m1.epoch(T0), 120, None, LONG)
    response = m1.ask(FetcherStopped((final,)), FetcherStoppedResponse)
    assert [(result.error, result.committed) for result in response.results] == [(ErrorCode.NONE, 120)]
    assert world.group().offsets[T0].metadata == ""


def test_advance_that_lets_go_leaves_metadata_out_that_has_no_room() -> None:
    world = NodeWorld({"t": 1}, limits=SMALL)
    m1 = world.join("m1")
    response = m1.advance(released=[FinalOffset(*T0, m1.epoch(T0), 120, None, LONG)])
    assert [(result.error, result.committed) for result in response.released] == [(ErrorCode.NONE, 120)]
    assert world.group().offsets[T0].metadata == ""


@pytest.mark.parametrize(
    ("limits", "limit"),
    [
        (Limits(group_max_bytes=1_000_000, principal_max_bytes=5_000), "principal Address:10.0.0.1 take"),
        (Limits(group_max_bytes=1_000_000, node_max_bytes=5_000), "all groups of this node take"),
    ],
)
def test_groups_of_a_principal_and_of_a_node_are_bounded_together(limits: Limits, limit: str) -> None:
    world = NodeWorld({}, limits=limits, shards=4)
    refused: list[PartitionResult] = []
    for number in range(40):
        refused += commit(world.connect(), "", group_id=f"g{number}")
    assert 10 < len(refused) < 30
    assert {result.error for result in refused} == {ErrorCode.STATE_LIMIT_REACHED}
    assert all(limit in result.message for result in refused)
    kept = next(iter(world.state(0).groups))
    deleted = world.connect().ask(DeleteGroup(kept, "ann", is_dry_run=False), DeleteGroupResponse)
    assert deleted.error is ErrorCode.NONE
    assert commit(world.connect(), "", group_id="g100") == ()


def test_offsets_of_an_operator_are_taken_as_long_as_there_is_room() -> None:
    world = NodeWorld({}, limits=SMALL)
    wishes = [OffsetToCommit("gone", number, 5) for number in range(200)]
    response = world.connect().ask(CommitOffsets("g", in_columns(wishes)), CommitOffsetsResponse)
    taken = [("gone", number) for number in range(response.accepted)]
    assert 50 < response.accepted < 100
    assert response.accepted + len(response.refused) == 200
    assert world.committed() == dict.fromkeys(taken, 5)
    group = world.group()
    assert bytes_of(group) == recount(group) <= ROOM
    delete = DeleteOffsets("g", tuple(taken[:20]), "ann", is_dry_run=False)
    assert world.connect().ask(delete, DeleteOffsetsResponse).error is ErrorCode.NONE
    again = world.connect().ask(CommitOffsets("g", in_columns(wishes[:10])), CommitOffsetsResponse)
    assert again.accepted == 10


def test_member_that_says_more_than_there_is_room_for_is_refused() -> None:
    world = NodeWorld({"t": 1}, limits=SMALL)
    hints = [StartHint("t", "", number, 5, False) for number in range(1_000)]
    response = world.joining("m1", hints=hints).register()
    assert response.error is ErrorCode.STATE_LIMIT_REACHED
    assert "raise group.group_max_bytes" in response.message
    assert world.joining("m1", hints=hints[:3]).register().error is ErrorCode.NONE


def test_member_whose_topics_have_more_partitions_than_there_is_room_for_is_refused() -> None:
    world = NodeWorld({"t": 1, "large": 200}, limits=SMALL)
    assert world.joining("m1", topics=("large",)).register().error is ErrorCode.STATE_LIMIT_REACHED
    m1 = world.join("m1", topics=("t",))
    assert world.joining("m2", topics=("t", "large")).register().error is ErrorCode.STATE_LIMIT_REACHED
    assert m1.is_complete


def test_member_that_is_back_is_let_in_whatever_the_group_takes() -> None:
    world = NodeWorld({"t": 100}, limits=Limits(group_max_bytes=9_000))
    m1 = world.join("m1")
    assert len(m1.owned) == 100
    world.limits = Limits(group_max_bytes=1_024)
    world.restart()
    again = world.reconnect(m1)
    world.settle()
    assert len(again.owned) == 100
    assert again.commit(T0, 120).error is ErrorCode.NONE


@pytest.mark.parametrize("changes", [{}, {"incarnation": "another", "pid": 4_000_000, "client_id": "on-a-long-host"}])
def test_member_that_is_back_and_shows_where_it_is_is_let_in_by_a_full_node(changes: dict[str, object]) -> None:
    """Else a lost connection ended every query of a node that others have filled."""
    world = NodeWorld({"t": 100})
    m1 = world.join("m1")
    world.limits = Limits(node_max_bytes=1_024)
    world.restart()
    hints = tuple(StartHint("t", "id-t", number, 120, True, m1.epoch(("t", number))) for number in range(100))
    again = world.reconnect(m1, hints=hints, **changes)
    world.settle()
    assert len(again.owned) == 100
    assert again.commit(T0, 120).error is ErrorCode.NONE
    group = world.group()
    assert group.members["m1"].facts.hints == ()
    assert bytes_of(group) == recount(group)


def test_member_that_is_back_by_a_pattern_is_let_in_though_more_topics_match() -> None:
    world = NodeWorld({"t": 2})
    m1 = world.join("m1", subscription=Subscription(pattern="t.*"))
    world.limits = Limits(node_max_bytes=1_024)
    world.kafka.topics["tt"] = 3
    world.restart()
    again = world.reconnect(m1)
    world.settle()
    assert len(again.owned) == 5


def test_member_that_is_back_and_wants_more_is_refused_by_a_full_node() -> None:
    world = NodeWorld({"t": 20, "u": 2})
    m1 = world.join("m1")
    world.limits = Limits(node_max_bytes=1_024)
    world.restart()
    assert m1.registration is not None
    for changes in ({"subscription": Subscription(("t", "u"))}, {"instance_id": "i" * 200}):
        asked = replace_registration(m1.registration, {"member_id": "m1", **changes})
        refused = world.connect().ask(asked, RegisterConsumerResponse)
        assert refused.error is ErrorCode.STATE_LIMIT_REACHED
    assert world.reconnect(m1).member_id == "m1"


def fill(world: NodeWorld, group_id: str = "full") -> None:
    """Have others take whatever room a node has left, up to the last byte."""
    tool = world.connect()
    for size in (3_000, 200, 0):
        refused = 0
        for number in range(1_000):
            wish = OffsetToCommit("gone", 10_000 * size + number, 5, metadata="m" * size)
            refused += len(tool.ask(CommitOffsets(group_id, in_columns([wish])), CommitOffsetsResponse).refused)
            if refused:
                break
        assert refused, "it never was full"


def test_member_that_was_removed_comes_back_to_a_node_that_others_have_filled_since() -> None:
    """A closed connection removes who has no running claim; its room would be others' before it is back."""
    world = NodeWorld({"t": 4}, limits=Limits(node_max_bytes=50_000))
    m1 = world.join("m1")
    m1.commit(T0, 120)
    fill(world)
    m1.close()
    fill(world)
    assert world.joining("other", group_id="new").register().error is ErrorCode.STATE_LIMIT_REACHED
    hints = tuple(StartHint("t", "id-t", number, 120, True) for number in range(4))
    again = world.reconnect(m1, hints=hints)
    world.settle()
    assert len(again.owned) == 4
    assert again.commit(T0, 121).error is ErrorCode.NONE


def test_what_is_kept_for_those_that_come_back_has_an_end_and_is_for_no_new_topics() -> None:
    world = NodeWorld({"t": 4, "u": 1}, limits=Limits(node_max_bytes=50_000))
    world.join("m0")
    fill(world)
    assert world.joining("m1", topics=("t", "u")).register().error is ErrorCode.STATE_LIMIT_REACHED
    answers = [world.joining(f"m{number}").register() for number in range(2, 50)]
    assert answers[0].error is ErrorCode.NONE
    assert answers[-1].error is ErrorCode.STATE_LIMIT_REACHED
    assert bytes_of(world.group()) + bytes_of(world.group("full")) < 50_000 * 18 // 16


def test_operators_stop_a_group_that_has_filled_the_node() -> None:
    """What members own cannot be deleted: were there no room to pause it, nothing could ever be freed."""
    world = NodeWorld({"t": 4}, limits=Limits(node_max_bytes=50_000))
    m1 = world.join("m1")
    fill(world)
    tool = world.connect()
    pause = ChangePause("g", (T0,), True, "ann", "it fills the node", is_dry_run=False)
    assert tool.ask(pause, ChangePauseResponse).partitions == (T0,)
    m1.stopped(T0)
    world.settle()
    deleted = tool.ask(DeleteOffsets("g", (T0,), "ann", is_dry_run=False), DeleteOffsetsResponse)
    assert [result.error for result in deleted.results] == [ErrorCode.NONE]


@pytest.mark.parametrize("is_full_meanwhile", [False, True])
def test_resets_that_wait_for_kafka_are_held_against_the_room_that_there_is_then(is_full_meanwhile: bool) -> None:
    world = NodeWorld({"t": 4}, limits=Limits(node_max_bytes=50_000))
    world.join("m1")
    world.kafka.is_late = True
    tool = world.connect()
    targets = [ResetTarget("t", number, "earliest") for number in range(4)]
    asked = [tool.send(ResetOffsets("g", (target,), "ann", "w" * 1_000, is_dry_run=False)) for target in targets]
    if is_full_meanwhile:
        fill(world)
    world.kafka.is_late = False
    world.answer_late()
    refused = [isinstance(tool.answer(correlation_id), ErrorResponse) for correlation_id in asked]
    assert refused == ([False, False, True, True] if is_full_meanwhile else [False] * 4)
    assert sum(world.state(shard).bytes_of.get(ANONYMOUS, 0) for shard in range(2)) <= 50_000 * 17 // 16


def test_reset_that_replaces_another_counts_what_its_reason_takes_more() -> None:
    short = ResetOffsets("g", (ResetTarget(*T0, "earliest"),), "ann", "w", is_dry_run=False)
    world = NodeWorld({"t": 1})
    world.join("m1")
    assert world.connect().ask(short, ResetOffsetsResponse).error is ErrorCode.NONE
    full = NodeWorld({"t": 1}, limits=Limits(group_max_bytes=bytes_of(world.group())))
    full.join("m1")
    tool = full.connect()
    assert tool.ask(short, ResetOffsetsResponse).error is ErrorCode.NONE
    assert tool.ask(replace(short, why="w" * 1_000), ErrorResponse).error is ErrorCode.STATE_LIMIT_REACHED
    assert tool.ask(replace(short, why="v"), ResetOffsetsResponse).error is ErrorCode.NONE


def test_operators_are_refused_what_the_group_has_no_room_to_remember() -> None:
    world = NodeWorld({"t": 3}, limits=Limits(group_max_bytes=3_500))
    world.join("m1")
    tool = world.connect()
    named = tuple(("t", number) for number in range(3))
    why = "w" * 1_000
    targets = tuple(ResetTarget(*partition, "earliest") for partition in named)
    for request in (
        ChangePause("g", named, True, "ann", why, is_dry_run=False),
        ResetOffsets("g", targets, "ann", why, is_dry_run=False),
    ):
        assert tool.ask(request, ErrorResponse).error is ErrorCode.STATE_LIMIT_REACHED
        as_if = replace(request, is_dry_run=True)
        assert tool.ask(as_if, ErrorResponse).error is ErrorCode.STATE_LIMIT_REACHED, "a dry run shows what would come"
    paused = tool.ask(ChangePause("g", named[:2], True, "ann", why, is_dry_run=False), ChangePauseResponse)
    assert paused.partitions == named[:2]
    world.settle()
    assert tool.ask(ChangeDrain("g", "m1", True, "ann", why, is_dry_run=False), ErrorResponse).error is (
        ErrorCode.STATE_LIMIT_REACHED
    )
    assert tool.ask(ChangePause("g", named, False, "ann", why, is_dry_run=False), ChangePauseResponse).partitions
    group = world.group()
    assert bytes_of(group) == recount(group)
