"""A query that never commits: the coordinator hears of no claim and no commit, and the checkpoint says where it is."""

import pytest

from spark_kcoord.errors import UnreadBatchError
from spark_kcoord.microbatch.query_member import QueryMember
from spark_kcoord.microbatch.read_only.member import ReadOnlyMember
from spark_kcoord.microbatch.stream_offset import StreamOffset
from tests.helpers.fake_member import FakeEnds, FakeMember, a_session, claim, owned


def read_only(member: FakeMember, ends: FakeEnds, first: StreamOffset | None = None) -> QueryMember:
    first = first or StreamOffset("c", "g", "m-1")
    return a_session(ReadOnlyMember(member, first), ends, is_committing=False)


def test_batches_follow_each_other_without_a_word_to_the_coordinator() -> None:
    member, ends = FakeMember((owned(0, 5),)), FakeEnds({0: 9})
    session = read_only(member, ends)

    first = session.next_offset(session.identity, 2, is_single_run=False)
    assert session.readable(first) == first.claims == (claim(0, 5, 7),)
    second = session.next_offset(first, None, is_single_run=False)
    assert session.readable(second) == second.claims == (claim(0, 7, 9),)
    assert session.next_offset(second, None, is_single_run=False) == second
    ends.ends[0] = 11
    assert session.next_offset(second, None, is_single_run=False).claims == (claim(0, 9, 11),)
    assert member.advanced == []


def test_a_restarted_query_goes_on_where_its_checkpoint_is_under_whatever_epoch() -> None:
    start = StreamOffset("c", "g", "m-1", (claim(0, 5, 9, epoch=7), claim(1, 3, 3, epoch=7)))
    session = read_only(FakeMember((owned(0, 2, epoch=30), owned(1, 0, epoch=31))), FakeEnds({0: 12, 1: 4}), start)

    latest = session.next_offset(start, None, is_single_run=False)

    assert latest.claims == (claim(0, 9, 12, epoch=30), claim(1, 3, 4, epoch=31))


def test_a_partition_that_was_moved_here_starts_at_the_groups_offset() -> None:
    member = FakeMember((owned(0, 5),))
    session = read_only(member, FakeEnds({0: 9, 1: 9}))
    first = session.next_offset(session.identity, None, is_single_run=False)
    session.readable(first)
    member.partitions = (owned(0, 5), owned(1, 6))

    assert session.next_offset(first, None, is_single_run=False).claims == (claim(1, 6, 9),)


def test_a_replayed_batch_is_read_as_it_was() -> None:
    end = StreamOffset("c", "g", "m-1", (claim(0, 5, 9, epoch=7),))
    member = FakeMember((owned(0, 2, epoch=30),), closed_claims=frozenset({0}))
    session = read_only(member, FakeEnds({0: 9}), end)

    assert session.readable(end) == end.claims
    assert session.next_offset(end, None, is_single_run=False) == end


def test_a_batch_that_nobody_planned_is_no_progress_also_for_a_restart_from_the_checkpoint() -> None:
    member, ends = FakeMember((owned(0, 5),)), FakeEnds({0: 9})
    session = read_only(member, ends)
    first = session.next_offset(session.identity, 2, is_single_run=False)

    noted = session.next_offset(first, None, is_single_run=False)

    assert noted.ranges == (claim(0, 5, 5),)
    for _ in range(2):
        with pytest.raises(UnreadBatchError, match=r"\[5, 7\) of t-0 are not read") as unread:
            session.next_offset(noted, None, is_single_run=False)
    assert "noted in this one that these ranges are not read" in str(unread.value)
    again = read_only(FakeMember((owned(0, 30, epoch=9),)), ends, noted)
    assert again.next_offset(noted, None, is_single_run=False).claims == (claim(0, 5, 9, epoch=9),)
