"""A query that never commits: the coordinator hears of no claim and no commit, and the checkpoint says where it is."""

import pytest

from coordinator.protocol.parts import Claim, PartitionResult
from spark_kcoord.errors import UnreadBatchError
from spark_kcoord.member.client import AssignedPartition
from spark_kcoord.microbatch.query_member import QueryMember
from spark_kcoord.microbatch.read_only.member import ReadOnlyMember
from spark_kcoord.microbatch.read_only.positions import ReadOnlyPositions
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


def a_query_at_100(starts: tuple[int, ...] = (10, 10)) -> tuple[FakeMember, FakeEnds, QueryMember, StreamOffset]:
    """Return a query of two partitions that has read [start, 100) of each."""
    member = FakeMember(tuple(owned(number, start) for number, start in enumerate(starts)))
    ends = FakeEnds({0: 100, 1: 100})
    session = read_only(member, ends)
    first = session.next_offset(session.identity, None, is_single_run=False)
    session.readable(first)
    ends.ends = {0: 200, 1: 200}
    return member, ends, session, first


@pytest.mark.parametrize("others", [(owned(0, 10),), (owned(0, 10), owned(1, 10, is_stopping=True))])
def test_a_partition_that_was_away_for_a_batch_goes_on_where_it_was_also_after_a_restart(
    others: tuple[AssignedPartition, ...],
) -> None:
    member, ends, session, first = a_query_at_100()
    member.partitions = others

    second = session.next_offset(first, None, is_single_run=False)

    assert second.ranges == (claim(0, 100, 200), claim(1, 100, 100))
    session.readable(second)
    member.partitions, ends.ends = (owned(0, 10), owned(1, 500, epoch=9)), {0: 200, 1: 600}
    assert session.next_offset(second, None, is_single_run=False).claims == (claim(1, 100, 600, epoch=9),)
    again = read_only(FakeMember(member.partitions), ends, second)
    assert again.next_offset(second, None, is_single_run=False).claims == (claim(1, 100, 600, epoch=9),)


def test_a_partition_that_nothing_was_read_of_goes_on_where_its_checkpoint_shows_it() -> None:
    member, ends, session, first = a_query_at_100(starts=(10, 100))
    assert first.ranges == (claim(0, 10, 100), claim(1, 100, 100))
    member.partitions = (owned(0, 10),)
    second = session.next_offset(first, None, is_single_run=False)
    session.readable(second)
    member.partitions, ends.ends = (owned(0, 10), owned(1, 500, epoch=9)), {0: 200, 1: 600}

    assert session.next_offset(second, None, is_single_run=False).claims == (claim(1, 100, 600, epoch=9),)


def test_a_partition_that_was_wanted_back_before_it_was_shown_keeps_no_place() -> None:
    member, _, session, first = a_query_at_100(starts=(10,))
    member.partitions = (owned(0, 10), owned(1, 500, is_stopping=True))
    second = session.next_offset(first, None, is_single_run=False)
    assert second.ranges == (claim(0, 100, 200),)
    session.readable(second)
    member.partitions = (owned(0, 10), owned(1, 30, epoch=9))

    assert session.next_offset(second, None, is_single_run=False).claims == (claim(1, 30, 200, epoch=9),)


def test_a_partition_that_is_away_for_long_stays_in_each_checkpoint() -> None:
    member, ends, session, offset = a_query_at_100()
    member.partitions = (owned(0, 10),)
    for end in (200, 300, 400):
        ends.ends = {0: end}
        offset = session.next_offset(offset, None, is_single_run=False)
        session.readable(offset)

    assert offset.ranges == (claim(0, 300, 400), claim(1, 100, 100))


def test_a_topic_that_is_gone_or_another_by_now_is_not_carried_along() -> None:
    start = StreamOffset(
        "c", "g", "m-1", (Claim("gone", "gone-id", 0, 7, 5, 9), claim(0, 5, 9), claim(1, 5, 9), claim(2, 5, 9))
    )
    member = FakeMember((owned(0, 9, epoch=8),))
    session = a_session(ReadOnlyMember(member, start), FakeEnds({0: 12}), fail=False, is_committing=False)

    latest = session.next_offset(start, None, is_single_run=False)

    assert latest.ranges == (claim(0, 9, 12, epoch=8), claim(1, 9, 9), claim(2, 9, 9))
    session.readable(latest)
    member.partitions = (owned(0, 0, epoch=9, topic_id="new"),)
    assert session.next_offset(latest, None, is_single_run=False).ranges == (claim(0, 0, 12, epoch=9, topic_id="new"),)


def test_a_query_that_commits_keeps_no_place_for_what_it_lost() -> None:
    member, ends = FakeMember((owned(0, 10), owned(1, 10))), FakeEnds({0: 100, 1: 100})
    session = a_session(member, ends)
    first = session.next_offset(session.identity, None, is_single_run=False)
    session.readable(first)
    member.partitions, ends.ends = (owned(0, 10),), {0: 200, 1: 200}

    assert session.next_offset(first, None, is_single_run=False).ranges == (claim(0, 100, 200),)


def test_a_position_that_is_gone_goes_on_where_the_answer_to_the_report_says() -> None:
    positions = ReadOnlyPositions(StreamOffset("c", "g", "m-1", (claim(0, 5, 90),)))
    held = FakeMember((owned(0, 90),)).assignment()
    positions.show(held)

    positions.take_report([PartitionResult("t", 0, committed=40)])

    assert positions.show(held).partitions[0].start == 40


def test_a_position_that_was_given_up_is_no_place_to_go_on_at() -> None:
    start = StreamOffset("c", "g", "m-1", (claim(0, 10, 100), claim(1, 10, 100)))
    member, ends = FakeMember((owned(0, 10), owned(1, 10))), FakeEnds({0: 200, 1: 40})
    session = a_session(ReadOnlyMember(member, start), ends, fail=False, is_committing=False)

    given_up = session.next_offset(start, None, is_single_run=False)

    assert [lost.position for lost in member.reported] == [100]
    assert given_up.ranges == (claim(0, 100, 200),)
    member.partitions, ends.ends = (owned(0, 10), owned(1, 0, epoch=9)), {0: 200, 1: 150}
    again = read_only(FakeMember(member.partitions), ends, given_up)
    assert again.next_offset(given_up, None, is_single_run=False).claims == (claim(1, 0, 150, epoch=9),)
    session.readable(given_up)
    anew = session.next_offset(given_up, None, is_single_run=False)
    assert anew.claims == (claim(1, 0, 150, epoch=9),)
    session.readable(anew)
    member.partitions, ends.ends = (owned(0, 10),), {0: 300}
    assert session.next_offset(anew, None, is_single_run=False).ranges[1] == claim(1, 150, 150, epoch=9)


def test_a_partition_that_is_not_asked_for_any_more_keeps_no_place() -> None:
    start = StreamOffset("c", "g", "m-1", (Claim("left", "left-id", 0, 7, 5, 9), claim(0, 5, 9), claim(1, 5, 9)))
    reader = ReadOnlyMember(FakeMember((owned(0, 9),)), start)
    session = a_session(reader, FakeEnds({0: 12}), is_committing=False, reads=lambda topic, partition: topic == "t")

    assert session.next_offset(start, None, is_single_run=False).ranges == (claim(0, 9, 12), claim(1, 9, 9))
