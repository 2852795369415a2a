"""Committed offsets as operators and members of auto commit see them."""

import pytest

from coordinator.core.groups.hard.records import MOST_TOGETHER
from coordinator.core.groups.hard.tables.committed_table import Together
from coordinator.core.groups.partitions.partition_table import TopicPartition
from coordinator.core.log.entry import MAX_BATCH_BYTES, batch_bytes
from coordinator.protocol.columns import OffsetToCommit, in_columns
from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.ids import MAX_NAMED, MAX_TOPIC_LENGTH
from coordinator.protocol.messages import (
    CommitOffsets,
    CommitOffsetsResponse,
    ErrorResponse,
    FetchOffsets,
    FetchOffsetsResponse,
    Ping,
    PingResponse,
)
from coordinator.protocol.parts import CommittedOffset, TopicOffsets
from tests.helpers.node_member import Member
from tests.helpers.node_world import WALL_OFFSET_MS, NodeWorld

T0, T1 = ("t", 0), ("t", 1)


def records_of_log(world: NodeWorld) -> int:
    return sum(map(len, world.written))


def test_operator_commits_only_what_nobody_owns() -> None:
    world = NodeWorld({"t": 1})
    m1 = world.join("m1")
    asked = CommitOffsets("g", in_columns((OffsetToCommit("t", 0, 200),)))
    (owned,) = world.connect().ask(asked, CommitOffsetsResponse).refused
    assert (owned.error, "owned by m1" in owned.message) == (ErrorCode.PARTITION_OWNED, True)
    m1.leave()
    free = world.connect().ask(asked, CommitOffsetsResponse)
    assert (free.refused, free.accepted, world.committed()) == ((), 1, {T0: 200})


def test_operator_may_commit_for_a_group_to_come() -> None:
    world = NodeWorld({"t": 1})
    asked = CommitOffsets("g", in_columns((OffsetToCommit("t", 0, 42, metadata="by hand"),)))
    world.connect().ask(asked, CommitOffsetsResponse)
    assert world.join("m1").owned[T0].offset == 42


def test_one_commit_may_name_topics_in_any_order_and_a_partition_twice() -> None:
    world = NodeWorld({"t": 2, "u": 1})
    m1 = world.join("m1", topics=("t", "u"))
    wanted = [(("t", 0), 110), (("u", 0), 120), (("t", 1), 130), (("t", 0), 140), (("t", 0), 135), (("u", 0), 119)]
    asked = [OffsetToCommit(*partition, offset, m1.epoch(partition)) for partition, offset in wanted]
    response = m1.ask(CommitOffsets("g", in_columns(asked)), CommitOffsetsResponse)
    assert [(result.topic, result.partition) for result in response.refused] == [("t", 0), ("u", 0)]
    assert {result.error for result in response.refused} == {ErrorCode.INVALID_REQUEST}
    assert "before the committed offset 140" in response.refused[0].message
    assert response.accepted == 4
    assert world.committed() == {("t", 0): 140, ("t", 1): 130, ("u", 0): 120}


def test_operator_moves_nothing_back_even_when_kafka_is_away() -> None:
    world = NodeWorld({"t": 1})
    world.join("m1").leave()
    world.kafka.is_away = True
    world.restart()
    asked = CommitOffsets("g", in_columns((OffsetToCommit("t", 0, 99),)))
    (result,) = world.connect().ask(asked, CommitOffsetsResponse).refused
    assert (result.error, world.committed()) == (ErrorCode.INVALID_REQUEST, {T0: 100})


def test_operator_commits_nothing_of_another_life_of_a_topic_and_what_is_of_the_present_one_may_go_back() -> None:
    world = NodeWorld({"t": 1})
    world.join("m1").leave()
    assert world.committed() == {T0: 100}

    def commit(offset: int, topic_id: str) -> list[ErrorCode]:
        asked = CommitOffsets("g", in_columns((OffsetToCommit("t", 0, offset, topic_id=topic_id),)))
        return [result.error for result in world.connect().ask(asked, CommitOffsetsResponse).refused]

    assert commit(120, "id-of-before") == [ErrorCode.UNKNOWN_TOPIC_ID]
    assert world.committed() == {T0: 100}
    assert commit(120, "id-t") == []
    world.kafka.is_away = True
    world.restart()
    assert commit(7, "id-anew") == [ErrorCode.UNKNOWN_TOPIC_ID], "nobody has said that it was made again"
    assert (commit(130, "id-t"), world.committed()) == ([], {T0: 130})


@pytest.mark.parametrize("topic_id", ["x" * 300, "a\nb", "\x1b[2J"])
def test_the_id_of_a_topic_that_is_none_is_refused_and_neither_kept_nor_repeated(topic_id: str) -> None:
    world = NodeWorld({"t": 1})
    asked = CommitOffsets("g", in_columns(OffsetToCommit("u", at, 5, topic_id=topic_id) for at in range(300)))
    response = world.connect().ask(asked, CommitOffsetsResponse)
    assert {result.error for result in response.refused} == {ErrorCode.INVALID_REQUEST}
    assert (response.accepted, world.committed()) == (0, {})
    assert max(len(result.message) for result in response.refused) < 200


@pytest.mark.parametrize("partition", [("a/b", 0), ("\U0001d565" * 249, 0), ("t", 2**40), ("t", -1), ("..", 0)])
def test_operator_commits_for_nothing_that_kafka_cannot_have(partition: tuple[str, int]) -> None:
    world = NodeWorld()
    asked = CommitOffsets("g", in_columns((OffsetToCommit(*partition, 5), OffsetToCommit("u", 0, 6))))
    response = world.connect().ask(asked, CommitOffsetsResponse)
    assert [result.error for result in response.refused] == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    assert (response.accepted, world.committed()) == (1, {("u", 0): 6})


def test_owner_epoch_from_a_connection_without_a_member_is_refused() -> None:
    world = NodeWorld()
    asked = CommitOffsets("g", in_columns((OffsetToCommit("t", 0, 42, owner_epoch=3),)))
    assert world.connect().ask(asked, ErrorResponse).error is ErrorCode.UNKNOWN_MEMBER_ID


def test_member_commits_for_its_own_group_only() -> None:
    world = NodeWorld()
    response = world.join("m1").ask(CommitOffsets("another", ()), CommitOffsetsResponse)
    assert response.error is ErrorCode.INVALID_REQUEST


def test_metadata_is_limited_in_bytes() -> None:
    world = NodeWorld({"t": 1})
    m1 = world.join("m1")
    epoch = m1.epoch(T0)
    for metadata, errors in [("é" * 2048, []), ("é" * 2049, [ErrorCode.OFFSET_METADATA_TOO_LARGE])]:
        asked = CommitOffsets("g", in_columns((OffsetToCommit("t", 0, 150, epoch, metadata=metadata),)))
        response = m1.ask(asked, CommitOffsetsResponse)
        assert ([result.error for result in response.refused], response.accepted) == (errors, 1 - len(errors))


def test_ping_carries_offsets_of_auto_commit() -> None:
    world = NodeWorld({"t": 1})
    m1 = world.join("m1")
    response = m1.ask(Ping(1, in_columns((OffsetToCommit("t", 0, 150, m1.epoch(T0)),))), PingResponse)
    assert (response.refused, response.accepted, world.committed()) == ((), 1, {T0: 150})


def test_fetched_offsets_are_what_exists_and_nothing_else() -> None:
    world = NodeWorld({"t": 1})
    m1 = world.join("m1")
    asked = CommitOffsets("g", in_columns((OffsetToCommit("t", 0, 150, m1.epoch(T0), 3, "note"),)))
    m1.ask(asked, CommitOffsetsResponse)
    response = world.connect().ask(FetchOffsets("g", (T0, T1)), FetchOffsetsResponse)
    at_ms = world.now_ms + WALL_OFFSET_MS
    assert response.offsets == (CommittedOffset("t", "id-t", 0, 150, 3, "note", at_ms),)


def test_unknown_group_has_no_offsets_to_fetch() -> None:
    world = NodeWorld()
    response = world.connect().ask(FetchOffsets("nobody"), FetchOffsetsResponse)
    assert (response.error, response.message) == (ErrorCode.GROUP_ID_NOT_FOUND, "there is no group 'nobody'")


def plain_commit(world: NodeWorld, member: Member, offsets: dict[TopicPartition, int]) -> CommitOffsetsResponse:
    asked = [OffsetToCommit(*key, offset, member.epoch(key)) for key, offset in offsets.items()]
    return member.ask(CommitOffsets("g", in_columns(asked)), CommitOffsetsResponse)


def test_what_is_committed_together_is_one_value_and_one_record() -> None:
    world = NodeWorld({"t": 3})
    m1 = world.join("m1")
    before = records_of_log(world)
    response = plain_commit(world, m1, {("t", number): 110 + number for number in range(3)})
    assert (response.accepted, response.refused) == (3, ())
    assert world.committed() == {("t", 0): 110, ("t", 1): 111, ("t", 2): 112}
    rows = world.group().offsets.rows("t")
    assert isinstance(rows[0], Together)
    assert rows[0] is rows[1] is rows[2]
    assert records_of_log(world) == before + 1


@pytest.mark.parametrize("refused", [0, 1, 2])
def test_one_offset_that_is_refused_does_not_touch_the_others(refused: int) -> None:
    world = NodeWorld({"t": 3})
    m1 = world.join("m1")
    offsets = {("t", number): 99 if number == refused else 110 for number in range(3)}
    response = plain_commit(world, m1, offsets)
    assert [(result.partition, result.error) for result in response.refused] == [(refused, ErrorCode.INVALID_REQUEST)]
    assert response.accepted == 2
    assert world.committed() == {("t", number): 100 if number == refused else 110 for number in range(3)}


def test_commit_of_very_many_partitions_is_kept_in_pieces() -> None:
    count = 3 * MOST_TOGETHER
    world = NodeWorld({"t": count})
    m1 = world.join("m1")
    assert plain_commit(world, m1, {("t", number): 200 + number for number in range(count)}).accepted == count
    assert world.committed() == {("t", number): 200 + number for number in range(count)}
    assert plain_commit(world, m1, {("t", 5): 900}).accepted == 1
    world.restart()
    assert world.committed() == {("t", number): 900 if number == 5 else 200 + number for number in range(count)}


def test_partitions_that_do_not_ascend_are_committed_all_the_same() -> None:
    world = NodeWorld({"t": 2})
    m1 = world.join("m1")
    epochs = (m1.epoch(T1), m1.epoch(T0))
    asked = CommitOffsets("g", (TopicOffsets("t", (1, 0), (120, 110), epochs),))
    assert m1.ask(asked, CommitOffsetsResponse).accepted == 2
    assert world.committed() == {T0: 110, T1: 120}


def test_a_topic_without_partitions_commits_nothing() -> None:
    world = NodeWorld({"t": 1})
    m1 = world.join("m1")
    before = records_of_log(world)
    response = m1.ask(CommitOffsets("g", (TopicOffsets("t", (), ()),)), CommitOffsetsResponse)
    assert (response.accepted, response.refused, records_of_log(world)) == (0, (), before)


def test_member_cannot_commit_without_owner_epochs() -> None:
    world = NodeWorld({"t": 1})
    m1 = world.join("m1")
    (result,) = m1.ask(CommitOffsets("g", (TopicOffsets("t", (0,), (120,)),)), CommitOffsetsResponse).refused
    assert (result.error, "none was given" in result.message) == (ErrorCode.FENCED_OWNER_EPOCH, True)


def test_topics_of_a_commit_see_what_those_before_them_committed() -> None:
    world = NodeWorld({"t": 1})
    m1 = world.join("m1")
    epochs = (m1.epoch(T0),)
    asked = CommitOffsets("g", (TopicOffsets("t", (0,), (150,), epochs), TopicOffsets("t", (0,), (140,), epochs)))
    response = m1.ask(asked, CommitOffsetsResponse)
    assert (response.accepted, len(response.refused), world.committed()) == (1, 1, {T0: 150})


def test_topics_of_a_commit_are_one_record() -> None:
    world = NodeWorld({"t": 2, "u": 2})
    m1 = world.join("m1", topics=("t", "u"))
    before = records_of_log(world)
    offsets = {(topic, number): 120 for topic in ("t", "u") for number in range(2)}
    assert plain_commit(world, m1, {**offsets, ("u", 1): 99}).accepted == 3
    assert (records_of_log(world), world.committed()) == (before + 1, {**offsets, ("u", 1): 100})


def test_the_largest_commit_of_an_operator_fits_the_log() -> None:
    world = NodeWorld({})
    topics = tuple(
        TopicOffsets(letter * MAX_TOPIC_LENGTH, tuple(range(MAX_NAMED // 2)), (5,) * (MAX_NAMED // 2))
        for letter in "tu"
    )
    response = world.connect().ask(CommitOffsets("g", topics), CommitOffsetsResponse)
    assert (response.accepted, response.refused) == (MAX_NAMED, ())
    assert all(batch_bytes((record,)) <= MAX_BATCH_BYTES for records in world.written for record in records)


def test_commit_of_an_operator_that_one_step_cannot_take_is_refused_whole() -> None:
    world = NodeWorld({})
    numbers = tuple(range(MAX_NAMED + 1))
    response = world.connect().ask(CommitOffsets("g", (TopicOffsets("t", numbers, numbers),)), ErrorResponse)
    assert response.error is ErrorCode.INVALID_REQUEST
    assert "names 2001 partitions in one list and at most 2000 may be named" in response.message


def test_what_a_member_has_lost_is_not_its_own_because_it_committed_it_before() -> None:
    world = NodeWorld({"t": 2})
    m1 = world.join("m1")
    offsets = {T0: 110, T1: 110}
    epochs = {key: m1.epoch(key) for key in offsets}
    assert plain_commit(world, m1, offsets).accepted == 2
    world.join("m2", is_settled=False)
    world.advance(1_000)
    m1.stop_all()
    assert sorted(world.owners().values()) == ["m1", "m2"]
    asked = in_columns(OffsetToCommit(*key, 120, epoch) for key, epoch in epochs.items())
    response = m1.ask(CommitOffsets("g", asked), CommitOffsetsResponse)
    assert (response.accepted, [result.error for result in response.refused]) == (1, [ErrorCode.FENCED_OWNER_EPOCH])


def test_what_a_member_has_claimed_is_not_committed_because_it_committed_it_before() -> None:
    world = NodeWorld({"t": 2})
    m1 = world.join("m1")
    assert plain_commit(world, m1, {T0: 110, T1: 110}).accepted == 2
    m1.run(T0, 110, 120)
    response = plain_commit(world, m1, {T0: 115, T1: 115})
    assert (response.accepted, [result.partition for result in response.refused]) == (1, [0])


def test_what_was_committed_before_is_not_gone_back_to_by_the_same_commit() -> None:
    world = NodeWorld({"t": 2})
    m1 = world.join("m1")
    assert plain_commit(world, m1, {T0: 110, T1: 120}).accepted == 2
    assert plain_commit(world, m1, {T0: 110, T1: 119}).accepted == 1
    assert world.committed() == {T0: 110, T1: 120}
