"""Offsets to commit in columns: what goes in comes out, and columns that do not fit together are no message."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator.protocol.codec import decode_request, encode_message
from coordinator.protocol.columns import OffsetToCommit, in_columns, one_by_one, results_of
from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.messages import CommitOffsets
from coordinator.protocol.parts import PartitionResult, TopicOffsets

OFFSETS = st.builds(
    OffsetToCommit,
    topic=st.sampled_from(["t", "u"]),
    partition=st.integers(0, 4),
    offset=st.integers(0, 9),
    owner_epoch=st.none() | st.integers(0, 3),
    leader_epoch=st.none() | st.integers(0, 3),
    metadata=st.sampled_from(["", "note"]),
)


@given(st.lists(OFFSETS, max_size=10))
def test_columns_hold_every_offset_and_those_of_a_partition_in_their_order(asked: list[OffsetToCommit]) -> None:
    columns = in_columns(asked)
    assert len({each.topic for each in columns}) == len(columns)
    assert all(list(each.partitions) == sorted(each.partitions) for each in columns)
    back = list(one_by_one(columns))
    assert len(back) == len(asked)
    for key in {(each.topic, each.partition) for each in asked}:
        assert [each for each in back if (each.topic, each.partition) == key] == [
            each for each in asked if (each.topic, each.partition) == key
        ]


def test_what_no_offset_has_takes_no_bytes() -> None:
    plain = in_columns([OffsetToCommit("t", 1, 5), OffsetToCommit("t", 0, 4)])
    assert plain == (TopicOffsets("t", (0, 1), (4, 5)),)


@pytest.mark.parametrize("column", ["offsets", "owner_epochs", "leader_epochs", "metadata"])
def test_columns_that_are_not_equally_long_are_refused_before_anything_looks_at_them(column: str) -> None:
    good = TopicOffsets("t", (0, 1), (4, 5), (7, 7), (8, 8), ("a", "b"))
    with pytest.raises(ValueError, match="the columns of 2 partitions of a topic are not equally long"):
        msgspec.structs.replace(good, **{column: getattr(good, column)[:1]})
    uneven = msgspec.to_builtins(CommitOffsets("g", (good,)))
    place = good.__struct_fields__.index(column)
    uneven[2][0][place] = uneven[2][0][place][:1]
    assert decode_request(encode_message(CommitOffsets("g", (good,)))) == CommitOffsets("g", (good,))
    with pytest.raises(msgspec.DecodeError, match="not equally long"):
        decode_request(msgspec.msgpack.encode(uneven))


def test_what_is_not_refused_is_accepted() -> None:
    asked = (OffsetToCommit("t", 0, 4), OffsetToCommit("t", 1, 5))
    fenced = PartitionResult("t", 1, ErrorCode.FENCED_OWNER_EPOCH, "it is m2's")
    assert results_of(asked, (fenced,)) == (PartitionResult("t", 0, committed=4), fenced)


def test_offsets_of_two_lives_of_a_topic_are_columns_of_their_own() -> None:
    asked = [OffsetToCommit("t", 1, 5, topic_id="new"), OffsetToCommit("t", 0, 9, topic_id="old")]
    columns = in_columns(asked)
    assert [(each.partitions, each.topic_id) for each in columns] == [((1,), "new"), ((0,), "old")]
    assert list(one_by_one(columns)) == asked
