"""A replica begins with the log that is on its disk, and the disk and the replica go on to agree about it."""

from coordinator.core.log.entry import Batch
from coordinator.core.replica.epochs import NO_EPOCH, ReplicaLog, log_opened
from tests.helpers.memory_disk import MemoryClusterDisk


def disk() -> MemoryClusterDisk:
    return MemoryClusterDisk(1, on_durable=lambda *_: None, on_failure=lambda why: print(why))


def test_a_new_log_is_empty_and_has_no_epoch() -> None:
    log = log_opened(disk().open_log(7, 3))
    assert log == ReplicaLog(number=3, first_number=3)
    assert log.last_epoch == NO_EPOCH


def test_what_a_replica_counts_is_what_is_on_its_disk_after_each_change() -> None:
    on = disk()
    log = log_opened(on.open_log(0, 0))
    for batch in (Batch(0, 1, (b"", b"")), Batch(2, 1, (b"",)), Batch(3, 4, (b"", b"")), Batch(5, 6, (b"", b""))):
        on.append_batches(0, log.number, [batch])
        log = log.appended(batch.leader_epoch, batch.end)
    assert log_opened(on.open_log(0, 0)) == log.synced(7)

    log = log.cut(4)
    on.truncate(0, 4, log.number)
    on.append_batches(0, log.number, [Batch(4, 5, (b"", b""))])
    log = log.appended(5, 6)
    assert log_opened(on.open_log(0, log.number)) == log.synced(6).renumbered(1)

    on.write_snapshot(0, 5, 9, [b"state"])
    on.flush()
    log = log.started_at(5)
    assert log_opened(on.open_log(0, log.number)) == log.synced(6).renumbered(1)
    on.close()
    on.restart()
    assert log_opened(on.open_log(0, log.number)) == log.synced(6).renumbered(1), "and on the disk as well"
