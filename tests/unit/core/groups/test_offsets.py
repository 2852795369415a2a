"""Committed offsets as operators and members of auto commit see them."""

from coordinator.protocol.columns import OffsetToCommit, in_columns
from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.messages import (
    CommitOffsets,
    CommitOffsetsResponse,
    ErrorResponse,
    FetchOffsets,
    FetchOffsetsResponse,
    Ping,
    PingResponse,
)
from coordinator.protocol.parts import CommittedOffset
from tests.helpers.node_world import WALL_OFFSET_MS, NodeWorld

T0, T1 = ("t", 0), ("t", 1)


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
