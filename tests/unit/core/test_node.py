"""The node's order of things: records first, then what was decided upon them; and what a node asks for."""

from coordinator.core.effects import Append, Halt, Respond, WakeAt, WatchTopics, WriteSnapshot
from coordinator.core.events import (
    BecameDurable,
    ConnectionOpened,
    EndOffsetsRead,
    RequestArrived,
    SnapshotWritten,
    Ticked,
)
from coordinator.core.groups.hard.account import bytes_of
from coordinator.core.limits import Limits
from coordinator.core.node import Node
from coordinator.core.requests.finding import Neighbours
from coordinator.core.shards.snapshots import REST_MS
from coordinator.protocol.columns import OffsetToCommit, in_columns
from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.messages import (
    CommitOffsets,
    DescribeGroup,
    DescribeGroupResponse,
    FetchOffsets,
    FindCoordinator,
    FindCoordinatorResponse,
    ListGroups,
    ListGroupsResponse,
    Ping,
    PingResponse,
)
from coordinator.protocol.parts import GroupSummary, NodeAddress, Subscription
from tests.helpers.loading import given
from tests.helpers.node_world import NodeWorld

T0 = ("t", 0)


def group_in(world: NodeWorld, shard: int) -> str:
    """Return a group id whose group lives in a shard."""
    return next(name for name in (f"g{number}" for number in range(100)) if world.node.shard_of(name) == shard)


def test_late_answer_about_a_topic_that_nobody_watches_any_more_is_not_kept() -> None:
    world = NodeWorld({"t": 2})
    world.join("m1").leave()
    world.kafka.topics["u"] = 2
    world.happen(world.kafka.read({"u"}))
    world.kafka.topics["u"] = 3
    m2 = world.join("m2", subscription=Subscription(partitions=(("u", 2),)))
    assert m2.owned.keys() == {("u", 2)}


def test_send_waits_until_its_records_are_durable() -> None:
    world = NodeWorld(is_durable_at_once=False)
    m1 = world.joining("m1")
    m1.send(m1.registration)  # type: ignore[arg-type]
    assert (m1.inbox, any(isinstance(effect, Append) for effect in world.effects)) == ([], True)
    world.sync()
    assert [type(said).__name__ for said in m1.inbox] == ["RegisterConsumerResponse", "StartFetcher", "StartFetcher"]


def test_read_waits_for_the_records_it_was_decided_upon() -> None:
    world = NodeWorld(is_durable_at_once=False)
    m1 = world.joining("m1")
    m1.send(m1.registration)  # type: ignore[arg-type]
    tool = world.connect()
    asked = tool.send(FetchOffsets("g"))
    assert tool.answer(asked) is None
    world.sync()
    assert tool.answer(asked) is not None


def test_sends_to_a_connection_keep_their_order() -> None:
    world = NodeWorld({"t": 1}, is_durable_at_once=False)
    m1 = world.joining("m1")
    m1.send(m1.registration)  # type: ignore[arg-type]
    m1.send(Ping(0))
    world.sync()
    names = [type(said).__name__ for said in m1.inbox]
    assert names == ["RegisterConsumerResponse", "StartFetcher", "StartFetcher", "PingResponse"]


def test_connection_is_closed_after_what_was_said_on_it() -> None:
    world = NodeWorld()
    m1 = world.join("m1")
    world.is_durable_at_once = False
    m1.send(CommitOffsets("g", in_columns((OffsetToCommit("t", 0, 150, m1.epoch(T0)),))))
    again = world.connect()
    again.send(m1.registration)  # type: ignore[arg-type]
    assert m1.closed_why is None
    world.sync()
    assert type(m1.inbox[-1]).__name__ == "CommitOffsetsResponse"
    assert m1.closed_why == "member m1 has registered on a new connection"


def test_partly_durable_log_releases_only_what_is_covered() -> None:
    world = NodeWorld({"t": 1}, shards=1, is_durable_at_once=False)
    m1 = world.joining("m1")
    m1.send(m1.registration)  # type: ignore[arg-type]
    first_end = len(world.written[0])
    m2 = world.joining("m2")
    asked = m2.send(m2.registration)  # type: ignore[arg-type]
    world.happen(BecameDurable(0, first_end))
    assert (len(m1.inbox), m2.answer(asked)) == (3, None)


def test_failed_disk_halts_the_node_and_nothing_parked_is_ever_said() -> None:
    world = NodeWorld(is_durable_at_once=False)
    m1 = world.joining("m1")
    m1.send(m1.registration)  # type: ignore[arg-type]
    world.fail_disk()
    assert world.halted == Halt("the disk failed, so nothing more can be promised: input/output error")
    world.sync()
    assert (m1.inbox, world.happen(Ticked(0))) == ([], [])


def test_step_has_one_append_a_shard_and_it_comes_first() -> None:
    world = NodeWorld()
    m1 = world.joining("m1")
    m1.register()
    for index, effect in enumerate(world.effects):
        if isinstance(effect, Append):
            assert not isinstance(world.effects[index - 1], Respond) or index == 0
    effects = world.node.step(RequestArrived(m1.connection_id, 99, Ping(0)), world.now_ms)
    assert [type(effect) for effect in effects] == [Respond]


def test_list_of_groups_waits_for_every_shard() -> None:
    world = NodeWorld({"t": 1}, shards=2, is_durable_at_once=False)
    for shard in range(2):
        member = world.joining("m1", group_id=group_in(world, shard))
        member.send(member.registration)  # type: ignore[arg-type]
    tool = world.connect()
    asked = tool.send(ListGroups())
    world.sync(0)
    assert tool.answer(asked) is None
    world.sync(1)
    names = sorted(group_in(world, shard) for shard in range(2))
    expected = tuple(GroupSummary(name, "Stable", 1, 1, bytes_of(world.group(name))) for name in names)
    assert tool.answer(asked) == ListGroupsResponse(expected)


def test_node_finds_itself_as_coordinator() -> None:
    world = NodeWorld()
    world.join("m1")
    found = world.connect().ask(FindCoordinator("g"), FindCoordinatorResponse)
    here = NodeAddress(1, "127.0.0.1", 9191)
    assert (found.coordinator, found.nodes, found.shard) == (here, (here,), world.node.shard_of("g"))
    assert (found.kafka_bootstrap, found.kafka_cluster_id) == (("broker:9092",), "kafka-1")
    assert world.connect().ask(FindCoordinator(""), FindCoordinatorResponse).error is ErrorCode.INVALID_GROUP_ID


def test_shard_of_a_group_is_fixed() -> None:
    node = NodeWorld(shards=8).node
    assert [node.shard_of(name) for name in ("flights", "g", "größe")] == [5, 0, 7]


def test_node_asks_to_be_woken_for_the_end_of_the_window() -> None:
    world = NodeWorld()
    world.join("m1")
    before = world.now_ms
    world.join("m2", is_settled=False)
    assert [effect for effect in world.effects if isinstance(effect, WakeAt)][-1] == WakeAt(before + 50)


def test_topics_are_watched_while_a_group_has_seen_them() -> None:
    world = NodeWorld({"t": 1, "u": 1})
    world.join("m1")
    world.join("m2", group_id="h", topics=("u",))
    assert [effect.topics for effect in world.effects if isinstance(effect, WatchTopics)] == [{"t"}, {"t", "u"}]
    world.restart()
    assert world.watched == {"t", "u"}


def test_snapshot_is_written_once_its_records_are_durable_and_bounds_the_next_load() -> None:
    world = NodeWorld({"t": 2}, shards=1, limits=Limits(snapshot_interval_records=15))
    m1 = world.join("m1")
    assert (len(world.written[0]) < 15, world.snapshots) == (True, {})
    world.is_durable_at_once = False
    for offset in range(200, 220):
        m1.send(CommitOffsets("g", in_columns((OffsetToCommit("t", 0, offset, m1.epoch(T0)),))))
    assert world.snapshots == {}
    world.sync()
    end, records = world.snapshots[0]
    assert (15 <= end < len(world.written[0]), len(records) < end) == (True, True)
    before = world.group()
    world.written[0][:end] = [b"not read any more"] * end
    world.restart()
    assert world.group() == before


def test_snapshot_that_takes_many_steps_is_as_of_its_beginning_whatever_happens_meanwhile() -> None:
    limits = Limits(snapshot_interval_records=20, slice_bytes=50)
    world = NodeWorld({"t": 2, "u": 1}, shards=1, limits=limits)
    m1 = world.join("m1")
    other = world.join("m2", group_id="h", topics=("u",))
    epoch = m1.epoch(T0)
    offset = 200
    while not world.snapshots:
        offset += 1
        assert offset < 300
        m1.send(CommitOffsets("g", in_columns((OffsetToCommit("t", 0, offset, epoch),))))
        if len(world.written[0]) == 22:
            other.leave()
        world.advance(REST_MS)
    end, records = world.snapshots[0]
    assert len(world.written[0]) > end + 2
    loaded = Node(limits, 1, NodeAddress(1, "127.0.0.1", 9191), ("broker:9092",))
    loaded.load(0, given(records, end, []))
    from_log = Node(limits, 1, NodeAddress(1, "127.0.0.1", 9191), ("broker:9092",))
    from_log.load(0, given(None, 0, [(0, world.written[0][:end])]))
    assert loaded.hard_state(0) == from_log.hard_state(0)
    before = {group_id: world.group(group_id) for group_id in ("g", "h")}
    world.restart()
    assert {group_id: world.group(group_id) for group_id in ("g", "h")} == before


def test_snapshot_is_handed_out_in_pieces_each_after_the_one_before_it_is_written() -> None:
    limits = Limits(snapshot_interval_records=30, slice_bytes=100, snapshot_piece_bytes=200)
    world = NodeWorld({"t": 40, "u": 40}, shards=1, limits=limits)
    m1 = world.join("m1", topics=("t", "u"))
    world.is_snapshot_written_at_once = False
    for offset in range(200, 240):
        m1.send(CommitOffsets("g", in_columns((OffsetToCommit("t", 0, offset, m1.epoch(T0)),))))
    for _ in range(20):
        world.advance(REST_MS)
    written = [effect for effect in world.effects if isinstance(effect, WriteSnapshot)]
    assert [(each.index, each.is_last) for each in written] == [(0, False)]
    while not written[-1].is_last:
        world.happen(SnapshotWritten(0, written[-1].end_offset, is_whole=False))
        for _ in range(20):
            world.advance(REST_MS)
        before, written = written, [effect for effect in world.effects if isinstance(effect, WriteSnapshot)]
        assert written[:-1] == before
    assert [each.index for each in written] == list(range(len(written)))
    assert len(written) == 5
    assert max(sum(map(len, each.records)) for each in written) < 1_000
    records = [record for each in written for record in each.records]
    end = written[0].end_offset
    loaded = Node(limits, 1, NodeAddress(1, "127.0.0.1", 9191), ("broker:9092",))
    loaded.load(0, given(records, end, []))
    from_log = Node(limits, 1, NodeAddress(1, "127.0.0.1", 9191), ("broker:9092",))
    from_log.load(0, given(None, 0, [(0, world.written[0][:end])]))
    assert loaded.hard_state(0) == from_log.hard_state(0)


def test_report_of_a_piece_of_a_snapshot_that_was_thrown_away_says_nothing_of_the_one_that_grows() -> None:
    limits = Limits(snapshot_interval_records=30, slice_bytes=100, snapshot_piece_bytes=200)
    world = NodeWorld({"t": 40, "u": 40}, shards=1, limits=limits)
    m1 = world.join("m1", topics=("t", "u"))
    world.is_snapshot_written_at_once = False
    for offset in range(200, 240):
        m1.send(CommitOffsets("g", in_columns((OffsetToCommit("t", 0, offset, m1.epoch(T0)),))))

    def pieces() -> list[WriteSnapshot]:
        for _ in range(20):
            world.advance(REST_MS)
        return [effect for effect in world.effects if isinstance(effect, WriteSnapshot)]

    while not (written := pieces())[-1].is_last:
        before = len(written)
        world.happen(SnapshotWritten(0, written[-1].end_offset - 1, is_whole=False))
        world.happen(SnapshotWritten(0, written[-1].end_offset - 1, is_whole=True))
        assert len(pieces()) == before
        world.happen(SnapshotWritten(0, written[-1].end_offset, is_whole=False))
    world.happen(SnapshotWritten(0, written[-1].end_offset, is_whole=False))
    assert len(pieces()) == len(written)
    world.happen(SnapshotWritten(0, written[-1].end_offset, is_whole=True))
    for offset in range(240, 280):
        m1.send(CommitOffsets("g", in_columns((OffsetToCommit("t", 0, offset, m1.epoch(T0)),))))
    assert len(pieces()) == len(written) + 1


def test_snapshot_is_due_by_bytes_and_of_a_large_shard_by_half_of_what_it_weighs() -> None:
    limits = Limits(snapshot_interval_bytes=20_000)
    world = NodeWorld({"t": 1}, shards=1, limits=limits)
    m1 = world.join("m1")

    def commits_until_a_snapshot(metadata: str) -> int:
        before, count = world.snapshots.get(0), 0
        while world.snapshots.get(0) == before:
            count += 1
            assert count < 1_000
            commit = OffsetToCommit("t", 0, 200, m1.epoch(T0), metadata=metadata)
            m1.send(CommitOffsets("g", in_columns((commit,))))
            world.advance(REST_MS)
        return count

    assert 20_000 // 340 < commits_until_a_snapshot("") < 20_000 // 256
    assert commits_until_a_snapshot("x" * 4_000) == 20_000 // 4_300 + 1
    for number in range(40):
        world.connect().send(
            CommitOffsets(f"h{number}", in_columns((OffsetToCommit("t", 0, 1, metadata="x" * 3_000),)))
        )
    while sum(map(len, world.snapshots[0][1])) < 120_000:
        commits_until_a_snapshot("")
    count = commits_until_a_snapshot("")
    assert 60_000 // 340 < count < 100_000 // 256, count


def test_description_shows_members_partitions_and_lag() -> None:
    world = NodeWorld({"t": 1})
    world.join("m1")
    world.happen(EndOffsetsRead({T0: 130}))
    described = world.describe()
    (member,) = described.members
    (partition,) = described.partitions
    assert (described.state, described.assignor, described.handover) == ("Stable", "sticky", "takeover")
    assert (member.member_id, member.host, member.pid, member.owned, member.target) == ("m1", "10.0.0.1", 42, 1, 1)
    assert (partition.committed, partition.end_offset, partition.member_id) == (100, 130, "m1")
    unknown = world.connect().ask(DescribeGroup("nobody"), DescribeGroupResponse)
    assert unknown.error is ErrorCode.GROUP_ID_NOT_FOUND


def test_request_on_a_connection_that_is_not_open_is_dropped() -> None:
    world = NodeWorld()
    assert world.happen(RequestArrived(77, 1, Ping(0))) == []
    world.happen(ConnectionOpened(77, "10.0.0.9"))
    assert len(world.happen(RequestArrived(77, 1, Ping(0)))) == 1


def test_description_says_for_how_long_a_program_has_not_polled_as_of_the_last_ping() -> None:
    world = NodeWorld({"t": 1})
    member, query = world.join("m1", is_settled=False), world.join("m2")
    for said, shown in ((None, None), (700, 700), (-5, 0), (2**62, 2**62)):
        assert member.ask(Ping(0, (), said), PingResponse).error is ErrorCode.NONE
        query.ping()
        assert [one.unpolled_ms for one in world.describe().members] == [shown, None]
    member.close()
    assert [one.unpolled_ms for one in world.describe().members if not one.connected] in ([], [None])


def test_timeline_is_bounded_and_read_from_a_number_on() -> None:
    world = NodeWorld({"t": 1}, limits=Limits(timeline_length=3))
    world.join("m1").leave()
    world.settle()
    sequences = [event.sequence for event in world.events()]
    assert len(sequences) == 3
    assert sequences == list(range(sequences[0], sequences[0] + 3))


def test_description_says_why_kafka_does_not_answer_until_it_does() -> None:
    world = NodeWorld({"t": 1})
    member = world.join("m1")
    assert world.describe().kafka_failure == ""
    world.kafka.is_away = True
    world.poll_topics()
    assert world.describe().kafka_failure == "Kafka at broker:9092 cannot be reached: connection refused"
    world.kafka.is_away = False
    world.poll_topics()
    assert (world.describe().kafka_failure, member.closed_why) == ("", None)


def test_a_member_is_told_with_a_ping_who_would_lead_next_whenever_that_has_changed() -> None:
    world = NodeWorld({"t": 1}, shards=1)
    member = world.join("m1")
    own, second, third = (NodeAddress(number, f"n{number}", 7600) for number in (1, 2, 3))
    told = []
    for live in ((own, second), (own, second), (third, own, second), (own,)):
        world.machine.know(Neighbours(nodes=live, replicas={0: (3, 1, 2)}), world.now_ms)
        told += [member.ask(Ping(0), PingResponse).successors for _ in range(2)]
    assert told == [(second,), None, None, None, (third, second), None, (), None]
    member.close()
    returned = world.join("m1")
    assert returned.ask(Ping(0), PingResponse).successors == ()
