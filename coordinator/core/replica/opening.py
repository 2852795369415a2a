"""The image of a log that a disk has opened: where it starts and ends, and where each leader epoch begins in it.

All of it is synced again before it is handed on, so all of it is durable. Nothing here knows files.
"""

from coordinator.core.log.storage import OpenedLog
from coordinator.core.replica.epochs import ReplicaLog


def log_opened(opened: OpenedLog) -> ReplicaLog:
    """Return the log of a replica as its disk has opened it, with the number that it was opened under."""
    log = ReplicaLog(opened.start, opened.end, opened.end, epochs=opened.epochs)
    return log.renumbered(opened.number)
