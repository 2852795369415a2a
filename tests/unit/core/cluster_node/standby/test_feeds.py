"""A standby is fed what is committed and on the disk, from memory or as it was read, and in turns."""

from msgspec.structs import replace

from coordinator.core.cluster_node.effects import ReadLog, ReadSnapshot
from coordinator.core.cluster_node.events import LogRead, SnapshotRead
from coordinator.core.cluster_node.standby.feeds import (
    FEEDS_OF_A_STEP,
    MOST_READ_AT_ONCE,
    OWN_STANDBY,
    PAUSE_MS,
    SHORT_PAUSE_MS,
    StandbyFeeds,
)
from coordinator.core.events import StandbyDropped, StandbyFed
from coordinator.core.groups.hard.journal import RECORD_WEIGHT
from coordinator.core.log.entry import Batch
from coordinator.core.log.snapshot import SnapshotPiece
from coordinator.core.replica.epochs import ReplicaLog

EPOCH = 3


def batch(begin: int, end: int, mark: str = "r") -> Batch:
    return Batch(begin, EPOCH, tuple(f"{mark}{offset}".encode() for offset in range(begin, end)))


class Fed:
    """The feeds of a node, of logs that are durable to their end unless a test says otherwise."""

    def __init__(self, slice_bytes: int = 100_000, most_bytes: int = 10_000) -> None:
        self.logs: dict[int, ReplicaLog] = {}
        self.feeds = StandbyFeeds(slice_bytes, most_bytes, self.logs.__getitem__)

    def follow(self, shard: int, start: int = 0, end: int = 0, committed: int = 0) -> None:
        self.logs[shard] = ReplicaLog(start, end, end)
        self.feeds.begin(shard, EPOCH, committed, None)

    def append(self, shard: int, appended: Batch) -> None:
        self.feeds.appended(shard, (appended,))
        self.logs[shard] = replace(self.logs[shard], end=appended.end, durable_end=appended.end)

    def records(self) -> list[bytes]:
        """Return the records that are fed in a tick."""
        return [record for fed in self.feeds.next() if isinstance(fed, StandbyFed) for record in fed.records]

    def reads(self) -> list[ReadLog | ReadSnapshot]:
        return [fed for fed in self.feeds.next() if isinstance(fed, ReadLog | ReadSnapshot)]


def answer(read: ReadLog | ReadSnapshot, *batches: Batch) -> LogRead:
    assert isinstance(read, ReadLog)
    return LogRead(read.shard, read.follower, read.leader_epoch, read.fetch, read.begin, batches)


def test_only_what_is_committed_is_fed() -> None:
    fed = Fed()
    fed.follow(0)
    fed.append(0, batch(0, 5))
    assert fed.records() == []
    fed.feeds.committed_to(0, 3)
    assert fed.records() == [b"r0", b"r1", b"r2"]
    fed.feeds.committed_to(0, 5)
    assert fed.records() == [b"r3", b"r4"]


def test_only_what_is_on_the_disk_here_is_fed() -> None:
    fed = Fed()
    fed.follow(0)
    fed.append(0, batch(0, 5))
    fed.logs[0] = replace(fed.logs[0], durable_end=2)
    fed.feeds.committed_to(0, 5)
    assert fed.records() == [b"r0", b"r1"]
    fed.logs[0] = replace(fed.logs[0], durable_end=5)
    assert fed.records() == [b"r2", b"r3", b"r4"]


def test_what_was_cut_is_not_fed() -> None:
    fed = Fed()
    fed.follow(0)
    fed.append(0, batch(0, 5, "old"))
    fed.feeds.cut(0, 2)
    fed.append(0, batch(2, 4, "new"))
    fed.feeds.committed_to(0, 4)
    assert fed.records() == [b"old0", b"old1", b"new2", b"new3"]


def test_what_was_read_counts_up_to_where_it_was_committed_when_it_was_asked_for() -> None:
    fed = Fed()
    fed.follow(0, end=5, committed=3)
    (read,) = fed.reads()
    assert (read.shard, read.follower) == (0, OWN_STANDBY)
    fed.feeds.cut(0, 3)
    fed.append(0, batch(3, 5, "new"))
    fed.feeds.committed_to(0, 5)
    fed.feeds.was_read(answer(read, batch(0, 5, "old")))
    assert fed.records() == [b"old0", b"old1", b"old2", b"new3", b"new4"]


def test_an_answer_to_a_former_feed_counts_for_nothing() -> None:
    fed = Fed()
    fed.follow(0, end=3, committed=3)
    (read,) = fed.reads()
    fed.feeds.end(0)
    fed.follow(0, end=3, committed=3)
    fed.feeds.was_read(answer(read, batch(0, 3, "old")))
    assert fed.records() == []


def test_a_feed_begins_with_the_snapshot_on_the_disk_piece_by_piece() -> None:
    fed = Fed()
    fed.follow(0, start=7, end=7, committed=7)
    dropped, read = fed.feeds.next()
    assert dropped == StandbyDropped(0)
    assert read == ReadSnapshot(0, OWN_STANDBY, EPOCH, 1, None, 0)
    piece = SnapshotPiece(7, EPOCH, (b"a",), is_last=False)
    fed.feeds.was_read(SnapshotRead(0, OWN_STANDBY, EPOCH, 1, 0, piece, 50))
    first, again = fed.feeds.next()
    assert first == StandbyFed(0, EPOCH, 7, (b"a",), is_snapshot=True, is_complete=False)
    assert again == ReadSnapshot(0, OWN_STANDBY, EPOCH, 1, 7, 50)
    fed.feeds.was_read(SnapshotRead(0, OWN_STANDBY, EPOCH, 1, 50, SnapshotPiece(7, EPOCH, (b"b",), 1), 90))
    assert fed.feeds.next() == [StandbyFed(0, EPOCH, 7, (b"b",), is_snapshot=True)]
    fed.append(0, batch(7, 9))
    fed.feeds.committed_to(0, 9)
    assert fed.records() == [b"r7", b"r8"]


def test_a_snapshot_that_is_gone_has_the_standby_begin_anew() -> None:
    fed = Fed()
    fed.follow(0, start=7, end=7, committed=7)
    fed.feeds.next()
    fed.feeds.was_read(SnapshotRead(0, OWN_STANDBY, EPOCH, 1, 0, None))
    assert fed.feeds.next() == [StandbyDropped(0), ReadSnapshot(0, OWN_STANDBY, EPOCH, 1, None, 0)]


def test_all_standbys_together_are_fed_about_a_slice_in_a_tick_and_in_turns() -> None:
    fed = Fed(slice_bytes=30)
    for shard in (0, 1):
        fed.follow(shard)
        fed.append(shard, batch(0, 40))
        fed.feeds.committed_to(shard, 40)
    ticks: list[int] = []
    shards: set[int] = set()
    while fed.feeds.is_behind or not ticks:
        now = [each for each in fed.feeds.next() if isinstance(each, StandbyFed)]
        shards |= {each.shard for each in now} if len(ticks) < 2 else set()
        ticks.append(sum(len(each.records) for each in now))
    assert sum(ticks) == 80
    assert max(ticks) <= 16
    assert shards == {0, 1}


def test_a_feed_rests_little_while_more_waits_than_one_takes_and_longer_once_it_is_all_fed() -> None:
    fed = Fed(slice_bytes=10 * FEEDS_OF_A_STEP * RECORD_WEIGHT)
    fed.follow(0)
    fed.append(0, batch(0, 25))
    fed.feeds.committed_to(0, 25)
    pauses = []
    while fed.records():
        pauses.append(fed.feeds.pause_ms)
    assert pauses == [SHORT_PAUSE_MS, SHORT_PAUSE_MS, PAUSE_MS]


def test_large_records_weigh_what_they_are_and_small_ones_what_a_replay_of_each_takes() -> None:
    fed = Fed(slice_bytes=40 * FEEDS_OF_A_STEP * RECORD_WEIGHT, most_bytes=1_000_000)
    fed.follow(0)
    small, large = (b"s",) * 100, (bytes(15 * RECORD_WEIGHT),) * 100
    fed.append(0, Batch(0, EPOCH, small + large))
    fed.feeds.committed_to(0, 200)
    ticks = [fed.records() for _ in range(6)]
    assert [len(records) for records in ticks[:2]] == [40, 40]
    assert {len(records) for records in ticks[3:]} == {3}


def test_what_has_no_room_in_memory_is_read_from_the_disk() -> None:
    fed = Fed(most_bytes=20)
    fed.follow(0)
    fed.append(0, batch(0, 50))
    fed.feeds.committed_to(0, 50)
    (read,) = fed.reads()
    fed.feeds.was_read(answer(read, batch(0, 50)))
    assert len(fed.records()) == 50


def test_so_many_shards_are_read_at_once_at_most() -> None:
    fed = Fed()
    for shard in range(MOST_READ_AT_ONCE + 3):
        fed.follow(shard, end=5, committed=5)
    assert len(fed.reads()) == MOST_READ_AT_ONCE
    assert fed.reads() == []


def test_a_standby_that_met_a_bug_is_fed_again_in_the_next_epoch() -> None:
    fed = Fed()
    fed.follow(0, end=5, committed=5)
    fed.reads()
    fed.feeds.failed(0)
    fed.feeds.committed_to(0, 5)
    fed.feeds.begin(0, EPOCH, 5, None)
    assert fed.feeds.next() == []
    fed.feeds.begin(0, EPOCH + 1, 5, None)
    assert len(fed.reads()) == 1
