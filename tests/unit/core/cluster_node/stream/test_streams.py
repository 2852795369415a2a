"""A follower is sent records in order, no further ahead of its disk than the window, from memory or from the disk."""

from coordinator.core.cluster_node.effects import ReadLog
from coordinator.core.cluster_node.events import LogRead
from coordinator.core.cluster_node.stream.streams import Stream, Streams
from coordinator.core.cluster_node.stream.tail import Tail, Tails
from coordinator.core.log.entry import Batch, batch_bytes
from coordinator.core.replica.effects import AnswerFetch, PushRecords
from coordinator.core.replica.events import BelowLogStart

RECORD = b"x" * 95
SIZE = batch_bytes((RECORD,))


def batch(offset: int, count: int = 1, epoch: int = 1) -> Batch:
    return Batch(offset, epoch, (RECORD,) * count)


def push(begin: int, end: int, *, fetch: int = 1, epoch: int = 1, shard: int = 0, peer: int = 2) -> PushRecords:
    return PushRecords(shard, peer, epoch, fetch, begin, end, 0)


def sent(streams: Streams, kept: Tail, durable_end: int = 0) -> list[tuple[int, int, int]]:
    """Take all that is due; returns follower, shard and the number of records of each."""
    taken = []
    for stream in streams.due():
        batches = streams.take(stream, kept, durable_end)
        if isinstance(batches, tuple):
            taken.append((stream.push.follower, stream.push.shard, len(offsets(batches))))
    return taken


def tail(begin: int, end: int, most_bytes: int = 10**6) -> Tail:
    made = Tail(most_bytes)
    for offset in range(begin, end):
        made.add(batch(offset))
    return made


def due(streams: Streams) -> list[Stream]:
    return list(streams.due())


def offsets(batches: object) -> list[int]:
    assert isinstance(batches, tuple)
    return [offset for each in batches for offset in range(each.base_offset, each.end)]


def read_of(asked: ReadLog, *batches: Batch) -> LogRead:
    return LogRead(asked.shard, asked.follower, asked.leader_epoch, asked.fetch, asked.begin, batches)


def test_tail_keeps_what_is_newest_and_knows_where_it_begins() -> None:
    kept = tail(0, 10, most_bytes=3 * SIZE)
    assert kept.begin == 7
    assert kept.read(6, 10**6) is None
    assert offsets(kept.read(8, 10**6)) == [8, 9]
    assert offsets(kept.read(7, SIZE)) == [7]
    assert kept.read(10, 10**6) == ()


def test_all_tails_together_have_a_limit_and_what_was_appended_longest_ago_goes_first() -> None:
    kept = Tails(10**6, 5 * SIZE)
    for offset in range(3):
        kept.add(1, batch(offset))
    for shard in (2, 3):
        kept.add(shard, batch(7))
    assert [kept[shard].begin for shard in (1, 2, 3)] == [0, 7, 7]
    kept.add(2, batch(8))
    assert [kept[shard].begin for shard in (1, 2, 3)] == [1, 7, 7]
    for offset in range(8, 11):
        kept.add(3, batch(offset))
    assert [kept[shard].begin for shard in (1, 2, 3)] == [None, 8, 7]
    kept.add(1, batch(3, 20))
    assert [kept[shard].begin for shard in (1, 2, 3)] == [3, None, None], "the newest batch stays, however large"
    kept.drop(1)
    assert (kept[1].begin, kept.bytes) == (None, 0)


def test_tail_hands_out_the_part_of_a_batch_that_is_asked_for() -> None:
    kept = Tail(10**6)
    kept.add(batch(5, count=4))
    assert kept.read(7, 1) == (batch(7, count=2),)


def test_stream_is_ahead_of_the_followers_disk_by_its_window_and_no_more() -> None:
    streams, kept = Streams(2 * SIZE, 10**6), tail(0, 6)
    streams.push(push(0, 6))
    assert offsets(streams.take(due(streams)[0], kept, 0)) == [0, 1]
    assert due(streams) == []
    streams.progressed(2, 0, 1, 1, 1)
    assert due(streams) == [], "what was sent together counts until all of it has come"
    streams.progressed(2, 0, 1, 1, 2)
    assert offsets(streams.take(due(streams)[0], kept, 0)) == [2, 3]


def test_what_is_older_than_the_tail_is_read_once_and_then_sent() -> None:
    streams, kept = Streams(10**6, 10**6), tail(4, 6)
    streams.push(push(0, 6))
    asked = streams.take(due(streams)[0], kept, 5)
    assert asked == ReadLog(0, 2, 1, 1, 0, 10**6)
    assert due(streams) == []
    streams.was_read(read_of(asked, batch(0, count=3)))
    assert offsets(streams.take(due(streams)[0], kept, 5)) == [0, 1, 2]


def test_nothing_is_read_that_is_not_on_the_disk_yet() -> None:
    streams, kept = Streams(10**6, 10**6), tail(4, 6)
    streams.push(push(2, 6))
    assert streams.take(due(streams)[0], kept, 2) is None
    assert len(due(streams)) == 1, "it is looked at again"


def test_another_fetch_begins_where_it_says_and_what_was_read_for_the_one_before_is_dropped() -> None:
    streams, kept = Streams(10**6, 10**6), tail(4, 6)
    streams.push(push(0, 6))
    asked = streams.take(due(streams)[0], kept, 5)
    assert isinstance(asked, ReadLog)
    streams.push(push(5, 6, fetch=2))
    streams.was_read(read_of(asked, batch(0, count=3)))
    assert offsets(streams.take(due(streams)[0], kept, 5)) == [5]


def test_progress_of_another_fetch_makes_no_room() -> None:
    streams, kept = Streams(SIZE, 10**6), tail(0, 6)
    streams.push(push(0, 6, fetch=2))
    streams.take(due(streams)[0], kept, 0)
    for epoch, fetch in ((1, 1), (2, 2)):
        streams.progressed(2, 0, epoch, fetch, 6)
    assert due(streams) == []


def test_a_stream_ends_with_its_connection_or_its_shard() -> None:
    for end in (lambda streams: streams.end_peer(2), lambda streams: streams.end_shard(0)):
        streams = Streams(10**6, 10**6)
        streams.push(push(0, 6))
        end(streams)
        assert due(streams) == []


def test_a_stream_whose_records_were_let_go_goes_on_above_them() -> None:
    streams, kept = Streams(10**6, 10**6), tail(8, 9)
    streams.push(push(0, 9))
    asked = streams.take(due(streams)[0], kept, 9)
    assert isinstance(asked, ReadLog)
    assert streams.skip(LogRead(0, 2, 1, 1, 0, None), 8) == ()
    assert offsets(streams.take(due(streams)[0], kept, 9)) == [8], "the follower sees that something is missing"


def test_a_follower_is_told_where_records_were_let_go_and_none_come_after_them() -> None:
    streams, kept = Streams(10**6, 10**6), tail(8, 9)
    streams.push(push(0, 9))
    assert isinstance(streams.take(due(streams)[0], kept, 9), ReadLog)
    assert streams.skip(LogRead(0, 2, 1, 7, 0, None), 9) == (), "that was another fetch"
    below = AnswerFetch(0, 2, 1, 1, BelowLogStart(9))
    assert streams.skip(LogRead(0, 2, 1, 1, 0, None), 9) == (below,)
    assert due(streams) == []


def test_what_a_later_fetch_shows_to_be_on_the_disk_leaves_the_window_before_that_is_sent_anything() -> None:
    streams, kept = Streams(2 * SIZE, 10**6), tail(0, 4)
    streams.push(push(0, 2))
    assert sent(streams, kept) == [(2, 0, 2)]
    streams.progressed(2, 0, 1, 2, 2)
    streams.push(push(2, 4, fetch=2))
    streams.progressed(2, 0, 1, 1, 4)
    assert sent(streams, kept) == [(2, 0, 2)]
    assert sent(streams, kept) == [], "what a former fetch is said to have had counts for none of it"


def test_all_shards_together_are_ahead_of_one_followers_disk_by_no_more_than_a_window_of_their_own() -> None:
    streams, kept = Streams(2 * SIZE, peer_window_bytes=3 * SIZE), tail(0, 6)
    for shard in range(3):
        streams.push(push(0, 6, shard=shard))
    streams.push(push(0, 6, peer=3))
    assert sent(streams, kept) == [(2, 0, 2), (2, 1, 1), (3, 0, 2)]
    streams.progressed(2, 0, 1, 1, 2)
    assert sent(streams, kept) == [(2, 2, 2)], "the shard that has waited longest is next"
    streams.progressed(2, 1, 1, 1, 1)
    assert sent(streams, kept) == [(2, 0, 1)]


def test_what_is_read_or_ended_counts_in_a_followers_window() -> None:
    streams, kept = Streams(2 * SIZE, peer_window_bytes=2 * SIZE), tail(4, 6)
    for shard in range(2):
        streams.push(push(0, 6, shard=shard))
    (first,) = due(streams)[:1]
    asked = streams.take(first, kept, 5)
    assert isinstance(asked, ReadLog)
    assert due(streams) == [], "room is kept for what is being read"
    streams.was_read(read_of(asked, batch(0, count=2)))
    assert sent(streams, kept) == [(2, 0, 2)]
    streams.end_shard(0)
    assert [stream.push.shard for stream in due(streams)] == [1]


def test_a_contact_that_ends_and_begins_lets_no_more_be_ahead_of_a_disk_that_stands() -> None:
    streams, kept = Streams(4 * SIZE, 6 * SIZE), tail(0, 40)
    begin, taken = 0, 0
    for fetch in range(1, 6):
        streams.push(push(begin, 40, fetch=fetch))
        streams.progressed(2, 0, 1, fetch, 0)
        count = sum(count for *_, count in sent(streams, kept))
        begin, taken = begin + count, taken + count
        streams.end_peer(2)
    assert taken == 4
    streams.progressed(2, 0, 1, 6, 4)
    streams.push(push(4, 40, fetch=6))
    assert sent(streams, kept) == [(2, 0, 4)], "it has said what is on its disk before there was more to send"


def test_what_did_not_come_before_a_contact_ended_is_under_way_no_longer() -> None:
    streams, kept = Streams(4 * SIZE, 6 * SIZE), tail(0, 40)
    streams.push(push(0, 40))
    assert sent(streams, kept) == [(2, 0, 4)]
    streams.end_peer(2)
    streams.push(push(0, 40, fetch=2))
    assert sent(streams, kept) == [(2, 0, 4)]
    streams.progressed(2, 0, 1, 2, 4)
    assert sent(streams, kept) == [(2, 0, 4)]
