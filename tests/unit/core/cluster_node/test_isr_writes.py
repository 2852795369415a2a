"""A leader's in-sync set is written over the version that it knows, once ZooKeeper was read under that."""

from dataclasses import replace

from msgspec import structs

from coordinator.core.cluster.image import Image
from coordinator.core.cluster.znodes import Bucket, Cluster, LiveNode, NodeState, ShardEntry, Versioned, decode_bucket
from coordinator.core.cluster.zookeeper import (
    ZkApplied,
    ZkCheck,
    ZkMulti,
    ZkMultiDone,
    ZkOutcome,
    ZkRefusal,
    ZkRefused,
    ZkSet,
    ZkUnknown,
)
from coordinator.core.cluster_node.isr_writes import REFUSED_WAIT_MS, IsrWrites
from coordinator.core.replica.effects import ChangeIsr
from coordinator.core.replica.events import IsrWritten, WriteOutcome

CLUSTER = Cluster(cluster_id="c", shards=2, buckets=1, replication_factor=3, min_insync_replicas=2)
ENTRY = ShardEntry(leader=1, leader_node_epoch=0, leader_epoch=4, isr=(1, 2), replicas=(1, 2, 3))
CHANGE = ChangeIsr(0, 4, 7, (1, 2, 3), 9, ((3, 5),))


def live(node_epoch: int = 5, state: NodeState = NodeState.READY) -> Versioned[LiveNode]:
    value = LiveNode(node_epoch=node_epoch, directory_id="d", addresses={}, rack="", release="", state=state)
    return Versioned(value, 6, owner=1)


def image(version: int = 7, third: Versioned[LiveNode] | None = None) -> Image:
    bucket = Bucket(shards={0: ENTRY, 1: ENTRY})
    lives = {3: live() if third is None else third}
    return Image(cluster=Versioned(CLUSTER, 0), live=lives, buckets={0: Versioned(bucket, version)})


def wanting(change: ChangeIsr = CHANGE) -> IsrWrites:
    writes = IsrWrites(1)
    writes.want(change)
    return writes


def ended(outcome: WriteOutcome) -> IsrWritten:
    return IsrWritten(100, 0, 9, outcome)


def outcome_of(outcome: ZkOutcome) -> tuple[IsrWrites, tuple[IsrWritten | None, ZkMulti | None]]:
    writes = wanting()
    (multi,), _ = writes.go_on(image(), 1, 100)
    return writes, writes.done(ZkMultiDone(1, multi.request_id, outcome), 100)


def test_the_whole_bucket_is_written_and_whoever_joins_is_checked_after_it() -> None:
    (multi,), reported = wanting().go_on(image(), 1, 100)
    written, *checks = multi.operations
    assert isinstance(written, ZkSet)
    assert (written.path, written.version, reported) == ("/shards/0", 7, [])
    bucket = decode_bucket("/shards/0", written.data)
    assert isinstance(bucket, Bucket)
    assert (bucket.shards[0].isr, bucket.shards[1]) == ((1, 2, 3), ENTRY)
    assert checks == [ZkCheck("/nodes/known/3", 5), ZkCheck("/nodes/live/3", 6)]


def test_a_bucket_that_has_another_version_is_not_written() -> None:
    assert wanting().go_on(image(8), 1, 100) == ([], [ended(WriteOutcome.VERSION_MISMATCH)])


def test_a_bucket_that_is_not_known_under_that_version_is_read_first() -> None:
    writes = wanting()
    assert writes.go_on(image(6), 1, 100) == ([], [])
    assert writes.needs_read
    assert len(writes.go_on(image(7), 1, 100)[0]) == 1


def test_who_is_not_registered_as_it_fetched_or_drains_is_not_tried() -> None:
    for third in (live(node_epoch=4), live(state=NodeState.DRAINING)):
        assert wanting().go_on(image(third=third), 1, 100) == ([], [ended(WriteOutcome.NOT_REGISTERED)])
    gone = replace(image(), live={})
    assert wanting().go_on(gone, 1, 100) == ([], [ended(WriteOutcome.NOT_REGISTERED)])


def test_the_first_refusal_says_what_was_wrong() -> None:
    assert outcome_of(ZkApplied((8, 5, 6)))[1][0] == ended(WriteOutcome.DONE)
    version = ZkRefused(0, ZkRefusal.BAD_VERSION, "")
    assert outcome_of(version)[1] == (ended(WriteOutcome.VERSION_MISMATCH), None)
    registration = ZkRefused(2, ZkRefusal.BAD_VERSION, "")
    assert outcome_of(registration)[1] == (ended(WriteOutcome.NOT_REGISTERED), None)


def test_an_outcome_that_was_lost_is_told_when_writing_is_possible_again() -> None:
    writes, heard = outcome_of(ZkUnknown("the connection broke"))
    assert heard == (None, None)
    assert writes.has_work
    assert writes.go_on(image(), 2, 100) == ([], [ended(WriteOutcome.UNKNOWN)])
    assert not writes.has_work


def test_what_was_read_of_a_registration_does_not_tell_how_a_write_ended_whose_outcome_was_lost() -> None:
    for gone in ({}, {3: live(node_epoch=6)}, {3: live(state=NodeState.DRAINING)}):
        writes, _ = outcome_of(ZkUnknown("it may arrive yet"))
        writes.go_on(image(), 2, 100)
        again = structs.replace(CHANGE, request=10)
        writes.want(again)
        seen = replace(image(), live=gone)  # the write may have been made before that, and after the bucket was read
        (multi,), reported = writes.go_on(seen, 2, 100)
        assert reported == []
        assert list(multi.operations[1:]) == [ZkCheck("/nodes/known/3", 5), ZkCheck("/nodes/live/3", 6)]
        refused = ZkRefused(2, ZkRefusal.BAD_VERSION, "")
        done, _ = writes.done(ZkMultiDone(2, multi.request_id, refused), 100)
        assert done == IsrWritten(100, 0, 10, WriteOutcome.NOT_REGISTERED)


def test_a_change_that_was_never_tried_is_not_tried_for_who_is_gone() -> None:
    for other in (structs.replace(CHANGE, expected_version=8), structs.replace(CHANGE, isr=(1, 3))):
        writes, _ = outcome_of(ZkUnknown("it may arrive yet"))
        writes.go_on(image(), 2, 100)
        writes.want(structs.replace(other, request=10))
        seen = replace(image(other.expected_version), live={})
        assert writes.go_on(seen, 2, 100) == ([], [IsrWritten(100, 0, 10, WriteOutcome.NOT_REGISTERED)])


def test_a_refusal_that_nobodys_write_explains_is_waited_out() -> None:
    writes, heard = outcome_of(ZkRefused(0, ZkRefusal.NO_AUTH, ""))
    assert heard == (None, None)
    assert writes.go_on(image(), 1, 101)[1] == [IsrWritten(101, 0, 9, WriteOutcome.UNKNOWN)]
    writes.want(CHANGE)
    assert writes.go_on(image(), 1, 100 + REFUSED_WAIT_MS - 1) == ([], [])
    assert len(writes.go_on(image(), 1, 100 + REFUSED_WAIT_MS)[0]) == 1


def test_a_leader_that_resigned_writes_nothing_more() -> None:
    writes = wanting()
    writes.forget(0)
    assert writes.go_on(image(), 1, 100) == ([], [])


def test_an_end_of_a_write_of_a_former_epoch_is_not_taken_for_that_of_a_later_one() -> None:
    for has_resigned in (True, False):
        for outcome in (ZkApplied((8, 5, 6)), ZkRefused(0, ZkRefusal.BAD_VERSION, ""), ZkUnknown("broken")):
            writes = wanting()
            (multi,), _ = writes.go_on(image(), 1, 100)
            if has_resigned:
                writes.forget(0)
            writes.want(structs.replace(CHANGE, leader_epoch=5, expected_version=9, isr=(1,), joining=()))
            writes.go_on(image(), 1, 100)
            ended_now, made = writes.done(ZkMultiDone(1, multi.request_id, outcome), 100)
            assert ended_now is None, "requests are counted anew in each epoch"
            assert (made is multi) == isinstance(outcome, ZkApplied), "what was written is known nevertheless"
            assert writes.go_on(image(), 1, 100)[1] == []


def test_an_end_that_was_lost_is_not_told_in_a_later_epoch() -> None:
    writes, _ = outcome_of(ZkUnknown("the connection broke"))
    writes.want(structs.replace(CHANGE, leader_epoch=5, expected_version=9))
    assert writes.go_on(image(), 1, 100)[1] == []
