"""What a member gets of a topic is one record: which partitions are in it, where they start, and under which epoch."""

from coordinator.core.groups.hard.records import MOST_TOGETHER, CommittedPart, Granted, TopicCommit, decode_record
from coordinator.core.groups.hard.replay.replay import replay
from coordinator.core.groups.hard.snapshot import records_of
from coordinator.core.groups.hard.state import Grant, ShardState
from coordinator.protocol.ids import EARLIEST
from coordinator.protocol.parts import ResetPolicy, StartHint
from tests.helpers.node_member import Member
from tests.helpers.node_world import WALL_OFFSET_MS, NodeWorld

T0, T1, T2, T3, T4 = [("t", number) for number in range(5)]


def grants_of(world: NodeWorld, since: int = 0) -> list[Granted]:
    """Return the grants in the group's log from a place of it on."""
    records = [decode_record(data) for data in world.written[world.node.shard_of("g")]]
    for at, record in enumerate(records):
        assert not isinstance(record, Granted) or record.owner_epoch == at
    return [record for record in records[since:] if isinstance(record, Granted)]


def end_of(world: NodeWorld) -> int:
    return len(world.written[world.node.shard_of("g")])


def rebuilt(state: ShardState) -> ShardState:
    empty = ShardState()
    for record in records_of(state):
        replay(empty, record, None)
    return empty


def epochs(member: Member) -> set[int]:
    return {part.owner_epoch for part in member.owned.values()}


def test_partitions_of_a_topic_that_start_alike_are_granted_by_one_record() -> None:
    world = NodeWorld({"t": 3})
    m1 = world.join("m1")
    (record,) = grants_of(world)
    at_ms = world.now_ms - world.limits.rebalance_window_ms + WALL_OFFSET_MS
    assert record == Granted(
        "g",
        "m1",
        "t",
        "id-t",
        (0, 1, 2),
        record.owner_epoch,
        TopicCommit("t", "id-t", at_ms, (0, 1, 2), (100, 100, 100), (), (7, 7, 7)),
        "latest, by the group's policy",
    )
    assert epochs(m1) == {record.owner_epoch}
    assert world.group().grants[T0] is world.group().grants[T2]
    assert world.group().offsets[T1] == CommittedPart("t", "id-t", 1, 100, 7, "", at_ms, None)


def test_every_member_and_every_topic_has_a_record_of_its_own() -> None:
    world = NodeWorld({"t": 4, "u": 2})
    m1 = world.join("m1", topics=("t", "u"))
    m2 = world.join("m2", topics=("t", "u"))
    before = end_of(world)
    m1.stop_all()
    news = grants_of(world, before)
    assert [(record.member_id, record.topic, record.partitions) for record in grants_of(world)[:2]] == [
        ("m1", "t", (0, 1, 2, 3)),
        ("m1", "u", (0, 1)),
    ]
    assert [(record.member_id, record.topic) for record in news] == [("m2", "t"), ("m2", "u")]
    assert {(record.topic, number) for record in news for number in record.partitions} == set(m2.owned)


def test_partitions_with_and_without_a_committed_offset_are_granted_by_different_records() -> None:
    world = NodeWorld({"t": 3})
    m1 = world.join("m1")
    m1.commit(T1, 130)
    m1.leave()
    world.kafka.topics["t"] = 5
    world.poll_topics()
    before = end_of(world)
    m2 = world.join("m2")
    said = [(record.partitions, record.starts is None, record.why) for record in grants_of(world, before)]
    later = "earliest, because the partition is newer than the group's first look at the topic"
    assert sorted(said) == [((0, 1, 2), True, "the committed offset"), ((3, 4), False, later)]
    assert {partition: part.offset for partition, part in m2.owned.items()} == {
        T0: 100,
        T1: 130,
        T2: 100,
        T3: 10,
        T4: 10,
    }


def test_starts_for_different_reasons_are_in_different_records() -> None:
    world = NodeWorld({"t": 4})
    hints = [
        StartHint("t", "id-t", 0, 31, from_checkpoint=False),
        StartHint("t", "id-t", 1, EARLIEST, from_checkpoint=False),
        StartHint("t", "id-t", 2, 31, from_checkpoint=False),
    ]
    m1 = world.join("m1", hints=hints)
    said = {record.partitions: (record.starts.offsets, record.why) for record in grants_of(world) if record.starts}
    assert said == {
        (0, 2): ((31, 31), "offset 31, by an option of a member"),
        (1,): ((10,), "earliest, by an option of a member"),
        (3,): ((100,), "latest, by the group's policy"),
    }
    assert {partition: part.offset for partition, part in m1.owned.items()} == {T0: 31, T1: 10, T2: 31, T3: 100}


def test_leader_epochs_are_written_where_kafka_has_said_them() -> None:
    world = NodeWorld({"t": 2})
    world.join("m1", hints=[StartHint("t", "id-t", 0, 31, from_checkpoint=False)])
    assert [record.starts.leader_epochs for record in grants_of(world) if record.starts] == [(), (7,)]


def test_partitions_that_somebody_gone_left_running_are_taken_over_with_those_that_are_free() -> None:
    world = NodeWorld({"t": 4})
    m1 = world.join("m1", reset_policy=ResetPolicy("earliest"))
    for partition in (T1, T3):
        m1.run(partition, 10, 20)
    m1.close()
    world.advance(world.limits.closed_connection_grace_ms)
    assert world.owners() == {T1: "m1", T3: "m1"}
    before = end_of(world)
    m2 = world.join("m2")
    (record,) = grants_of(world, before)
    assert (record.partitions, record.starts, record.why) == ((0, 1, 2, 3), None, "the committed offset")
    assert epochs(m2) == {record.owner_epoch}
    group = world.group()
    assert {grant for _, grant in group.grants.items()} == {Grant("m2", "id-t", record.owner_epoch)}
    assert (set(group.owned), group.stopping) == ({"m2"}, {})
    (taken,) = world.events("taken-over")
    assert (taken.member_id, taken.partitions, taken.duration_ms) == ("m2", (T1, T3), 1_000)


def test_a_record_has_no_more_partitions_than_are_kept_together() -> None:
    count = 2 * MOST_TOGETHER + 5
    world = NodeWorld({"t": count})
    m1 = world.join("m1")
    records = grants_of(world)
    assert [len(record.partitions) for record in records] == [MOST_TOGETHER, MOST_TOGETHER, 5]
    assert [number for record in records for number in record.partitions] == list(range(count))
    assert all(record.starts and record.starts.partitions == record.partitions for record in records)
    assert epochs(m1) == {record.owner_epoch for record in records}


def test_one_that_is_granted_again_has_an_epoch_of_its_own_and_the_others_keep_theirs() -> None:
    world = NodeWorld({"t": 3})
    m1, m2 = world.join("m1"), world.join("m2")
    (moved,) = m1.stopping
    before = m1.epoch(T0)
    m1.stopped(moved)
    assert m2.epoch(moved) > before
    assert epochs(m1) == {before}
    assert m1.commit(T0, 120).committed == 120


def test_replay_of_the_log_and_of_a_snapshot_gives_the_same_state() -> None:
    world = NodeWorld({"t": MOST_TOGETHER + 5, "u": 3}, shards=1)
    m1 = world.join("m1", topics=("t", "u"), reset_policy=ResetPolicy("earliest"), wants_streams=True, streams=2)
    m1.commit(T1, 20)
    m1.run(T2, 10, 15)
    world.join("m2", topics=("t", "u"))
    before = world.state(0)
    snapshot = rebuilt(before)
    assert snapshot == before
    log = [decode_record(data) for data in world.written[0]]
    again = ShardState()
    for at, record in enumerate(log):
        replay(again, record, at)
    assert again == before
    world.restart()
    assert world.state(0).groups == before.groups


def test_snapshot_has_one_record_for_what_was_granted_together() -> None:
    world = NodeWorld({"t": 6}, shards=1)
    m1 = world.join("m1")
    m1.run(T2, 100, 110)
    granted = [record for record in records_of(world.state(0)) if isinstance(record, Granted)]
    assert granted == [Granted("g", "m1", "t", "id-t", (0, 1, 2, 3, 4, 5), m1.epoch(T0))]
    world.join("m2")
    m1.stop_all()
    granted = [record for record in records_of(world.state(0)) if isinstance(record, Granted)]
    assert len(granted) == len({grant.owner_epoch for _, grant in world.group().grants.items()})
    assert rebuilt(world.state(0)) == world.state(0)
