"""Limits by who asks: groups of a principal, members that come and go, offsets beyond the end, names of topics."""

from coordinator.core.effects import Notice
from coordinator.core.events import EndOffsetsRead
from coordinator.core.limits import Limits
from coordinator.core.node_wide import AHEAD_OF_END, GROUPS_OF_PRINCIPAL, SHORT_STAYS, UNKNOWN_TOPICS
from coordinator.core.security.principal import ANONYMOUS, Principal
from coordinator.protocol.columns import OffsetToCommit, in_columns
from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.messages import (
    Advance,
    AdvanceResponse,
    CommitOffsets,
    CommitOffsetsResponse,
    FetcherStopped,
    FetcherStoppedResponse,
    RegisterConsumer,
    RegisterConsumerResponse,
)
from coordinator.protocol.messages.operators import DeleteGroup, DeleteGroupResponse
from coordinator.protocol.parts import FinalOffset, Subscription, TopicClaims
from tests.helpers.node_member import Member
from tests.helpers.node_world import NodeWorld

ALICE = Principal("User", "alice")
FEW = Limits(principal_max_groups=2, short_stays_burst=3, short_stays_per_s=1)
T0 = ("t", 0)
FAR = 2**63 - 1


def commit(tool: Member, group_id: str, offset: int = 1, owner_epoch: int | None = None) -> CommitOffsetsResponse:
    offsets = in_columns([OffsetToCommit("t", 0, offset, owner_epoch=owner_epoch)])
    return tool.ask(CommitOffsets(group_id, offsets), CommitOffsetsResponse)


def register(world: NodeWorld, host: str, member_id: str, principal: Principal = ANONYMOUS) -> RegisterConsumerResponse:
    asked = RegisterConsumer(
        group_id="g",
        member_id=member_id,
        incarnation=f"process-of-{member_id}",
        subscription=Subscription(topics=("t",)),
        client_id="c",
        pid=1,
        session_timeout_ms=10_000,
        rebalance_timeout_ms=60_000,
    )
    return world.connect(host, principal).ask(asked, RegisterConsumerResponse)


def come_and_go(world: NodeWorld, count: int, host: str = "10.0.0.1", *, after_ms: int = 0) -> list[ErrorCode]:
    """Register members one after another, each of which goes at once or after a while; return what each was told."""
    codes = []
    for number in range(count):
        codes.append(register(world, host, f"m-{host}-{world.now_ms}-{number}").error)
        member = list(world.members.values())[-1]
        for _ in range(after_ms // 1_000):
            world.advance(1_000)
            if codes[-1] is ErrorCode.NONE:
                member.ping()
        member.close()
    return codes


def limits_reached(world: NodeWorld) -> list[dict[str, object]]:
    return [
        dict(effect.fields) for effect in world.effects if isinstance(effect, Notice) and effect.kind == "limit-reached"
    ]


def test_one_address_makes_so_many_groups_and_another_is_not_shut_out() -> None:
    world = NodeWorld(limits=FEW, shards=4)
    assert [commit(world.connect(), f"g{number}").error for number in range(3)] == [
        ErrorCode.NONE,
        ErrorCode.NONE,
        ErrorCode.GROUP_MAX_SIZE_REACHED,
    ]
    assert register(world, "10.0.0.1", "m").error is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert limits_reached(world)[0] == {"host": "10.0.0.1", "setting": GROUPS_OF_PRINCIPAL}
    assert world.node.node_wide.reached[GROUPS_OF_PRINCIPAL] == 2
    assert commit(world.connect("10.0.0.2"), "g3").error is ErrorCode.NONE
    assert commit(world.connect("10.0.0.2"), "g0", 2).error is ErrorCode.NONE, "a group that is there is no new one"
    assert commit(world.connect("10.0.0.1", ALICE), "g4").error is ErrorCode.NONE, "a principal has its own"


def test_groups_are_counted_again_after_a_restart_and_no_more_once_they_are_deleted() -> None:
    world = NodeWorld(limits=FEW, shards=4)
    for number in range(2):
        commit(world.connect("10.0.0.9"), f"g{number}")
    before = [world.state(shard) for shard in range(4)]
    world.restart()
    assert [(state.groups_of, state.bytes_of) for state in before] == [
        (world.state(shard).groups_of, world.state(shard).bytes_of) for shard in range(4)
    ]
    assert commit(world.connect("10.0.0.9"), "g2").error is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert world.connect().ask(DeleteGroup("g0", "ann", is_dry_run=False), DeleteGroupResponse).error is ErrorCode.NONE
    assert commit(world.connect("10.0.0.9"), "g2").error is ErrorCode.NONE
    assert world.node.usage.most_groups == 2


def test_members_that_come_and_go_have_to_wait_and_those_of_another_address_do_not() -> None:
    world = NodeWorld(limits=FEW)
    assert come_and_go(world, 4) == [ErrorCode.NONE] * 3 + [ErrorCode.COORDINATOR_NOT_AVAILABLE]
    assert limits_reached(world) == [{"host": "10.0.0.1", "setting": SHORT_STAYS}]
    assert come_and_go(world, 1, "10.0.0.2") == [ErrorCode.NONE]
    written = sum(map(len, world.written))
    assert set(come_and_go(world, 100)) == {ErrorCode.COORDINATOR_NOT_AVAILABLE}
    assert sum(map(len, world.written)) == written, "who is refused writes nothing"
    world.advance(1_000)
    assert come_and_go(world, 2) == [ErrorCode.NONE, ErrorCode.COORDINATOR_NOT_AVAILABLE]


def test_members_that_stay_cost_nothing_however_many_come_at_once() -> None:
    world = NodeWorld(limits=FEW)
    for number in range(20):
        assert register(world, "10.0.0.1", f"m{number}").error is ErrorCode.NONE


def test_a_member_that_has_stayed_for_a_while_may_go() -> None:
    world = NodeWorld(limits=FEW)
    assert come_and_go(world, 6, after_ms=60_000) == [ErrorCode.NONE] * 6


def test_a_member_that_is_back_in_time_is_let_in_whatever_came_and_went() -> None:
    world = NodeWorld(limits=FEW)
    stays = world.join("stays")
    come_and_go(world, 4)
    assert world.reconnect(stays).member_id == "stays"


def with_ends(world: NodeWorld, end: int) -> None:
    world.happen(EndOffsetsRead({("t", number): end for number in range(4)}))


def test_nobody_commits_beyond_the_end_of_a_partition() -> None:
    world = NodeWorld()
    m1 = world.join("m1")
    with_ends(world, 500)
    slack = world.limits.commit_ahead_max
    for offset in (FAR, 500 + slack + 1):
        (refused,) = commit(m1, "g", offset, m1.epoch(T0)).refused
        assert refused.error is ErrorCode.INVALID_REQUEST
        assert "beyond the end" in refused.message
        (refused,) = commit(world.connect("10.6.6.6"), "other", offset).refused
        assert refused.error is ErrorCode.INVALID_REQUEST
    assert limits_reached(world)[1] == {"host": "10.6.6.6", "setting": AHEAD_OF_END}
    assert "other" not in {group for shard in range(2) for group in world.state(shard).groups}
    assert commit(m1, "g", 500 + slack, m1.epoch(T0)).accepted == 1, "what may have been written meanwhile is taken"


def test_an_end_that_was_said_long_ago_or_not_at_all_refuses_nothing() -> None:
    world = NodeWorld()
    m1 = world.join("m1", session_timeout_ms=60_000)
    assert commit(m1, "g", 10**12, m1.epoch(T0)).accepted == 1
    with_ends(world, 500)
    world.advance(world.limits.ends_known_for_ms - 1_000)
    m1.ping()
    world.advance(1_001)
    assert commit(m1, "g", 10**13, m1.epoch(T0)).accepted == 1


def test_nobody_claims_beyond_the_end_and_lets_go_there_without_the_offset() -> None:
    world = NodeWorld()
    m1 = world.join("m1")
    with_ends(world, 500)
    epoch = m1.epoch(T0)
    begin = world.committed()[T0]
    claims = (TopicClaims("t", world.kafka.topic_id("t"), (0,), (epoch,), (begin,), (FAR,)),)
    answer = m1.ask(Advance((), claims), AdvanceResponse)
    assert answer.error is ErrorCode.INVALID_REQUEST
    assert "beyond the end" in answer.message
    stopped = m1.ask(FetcherStopped((FinalOffset(*T0, epoch, FAR),)), FetcherStoppedResponse)
    assert [result.error for result in stopped.results] == [ErrorCode.NONE]
    assert world.committed()[T0] == begin
    assert world.node.node_wide.reached[AHEAD_OF_END] == 2


def commit_topics(tool: Member, *topics: str, group_id: str = "g") -> dict[str, ErrorCode]:
    asked = in_columns([OffsetToCommit(topic, 0, 11) for topic in topics])
    refused = tool.ask(CommitOffsets(group_id, asked), CommitOffsetsResponse).refused
    return {each.topic: each.error for each in refused}


def test_topics_that_nobody_knows_are_bounded_and_those_that_kafka_has_told_of_are_not() -> None:
    world = NodeWorld({"t": 1, "u": 1}, limits=Limits(unknown_topics_max=3))
    tool = world.connect("10.6.6.6")
    assert commit_topics(tool, "i1", "t", "i2") == {}
    assert commit_topics(tool, "i3", "i4", "t", group_id="h") == {"i4": ErrorCode.STATE_LIMIT_REACHED}
    assert commit_topics(tool, "i5", group_id="not-made") == {"i5": ErrorCode.STATE_LIMIT_REACHED}
    assert limits_reached(world) == [{"host": "10.6.6.6", "setting": UNKNOWN_TOPICS}] * 2
    assert world.watched == {"t", "i1", "i2", "i3"}
    assert "not-made" not in {group for shard in range(2) for group in world.state(shard).groups}
    world.join("m1", topics=("u",), group_id="of-members")
    assert commit_topics(tool, "u", "i1") == {}, "Kafka has told of one, and the group knows the other"


def test_there_is_room_for_other_unknown_topics_when_those_are_made_or_their_group_is_deleted() -> None:
    world = NodeWorld({}, limits=Limits(unknown_topics_max=2))
    tool = world.connect()
    assert commit_topics(tool, "i1", "i2") == {}
    world.kafka.topics["i1"] = 1
    world.poll_topics()
    assert commit_topics(tool, "i3", "i4") == {"i4": ErrorCode.STATE_LIMIT_REACHED}
    tool.ask(DeleteGroup("g", "ann", "", is_dry_run=False), DeleteGroupResponse)
    assert commit_topics(tool, "i4", "i5") == {}
    assert commit_topics(tool, "i6") == {"i6": ErrorCode.STATE_LIMIT_REACHED}
