"""The image of a log that was read from a disk: where it starts and ends, and where each leader epoch begins in it.

A disk hands on what it finds, a snapshot and the batches after it. All of it is synced again before it is handed on, so
all of it is durable. Nothing here knows files.
"""

from collections.abc import Iterable

from coordinator.core.log.entry import Batch
from coordinator.core.replica.epochs import EMPTY_LOG, ReplicaLog


def log_found(log_number: int, snapshot: tuple[int, int] | None, batches: Iterable[Batch]) -> ReplicaLog:
    """Return the log of a replica that is opened under a number.

    `snapshot` is its end and the epoch of the last record that it stands for, which is not the epoch in which it was
    made: by that epoch the log is compared with others. The batches follow one another from there.
    """
    log = EMPTY_LOG
    if snapshot is not None:
        end, last_epoch = snapshot
        log = ReplicaLog(start=end, end=end, epochs=((last_epoch, end - 1),))
    for batch in batches:
        assert batch.base_offset == log.end, "a disk hands on a log without gaps"
        log = log.appended(batch.leader_epoch, batch.end)
    return log.synced(log.end).renumbered(log_number)
