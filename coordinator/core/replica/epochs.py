"""The beginnings of the leader epochs in a replica's log, and what follows for two logs that are compared.

Every leader epoch begins with a record of its own, so a log is told apart from another one by its end and the epochs of
its records. Two logs whose records at one offset have the same epoch are equal up to there. Nothing here knows the
records themselves, or whether they are on disk anywhere else.
"""

from typing import Final

import msgspec
from msgspec.structs import replace

from coordinator.core.log.storage import OpenedLog

NO_EPOCH: Final = -1
"""The epoch of the record before the first one."""


class ReplicaLog(msgspec.Struct, frozen=True):
    """The log of one replica: the records of `start` to `end`, of which those below `durable_end` are synced.

    `number` grows whenever the log is cut, replaced or deleted, so that a late report about records that are gone is
    told from one about those that came after; it had `first_number` when it was opened or installed. `epochs` holds
    each epoch with the offset of its first record, ascending; the first one may begin below `start`, for the record
    that a snapshot ends with has an epoch too.
    """

    start: int = 0
    end: int = 0
    durable_end: int = 0
    number: int = 0
    epochs: tuple[tuple[int, int], ...] = ()
    first_number: int = 0

    @property
    def last_epoch(self) -> int:
        """Return the epoch of the last record, NO_EPOCH when there never was one."""
        return self.epochs[-1][0] if self.epochs else NO_EPOCH

    def epoch_before(self, offset: int) -> int:
        """Return the epoch of the record before `offset`, which is not below the log's start."""
        for epoch, first in reversed(self.epochs):
            if first < offset:
                return epoch
        return NO_EPOCH

    def end_of(self, epoch: int) -> tuple[int, int]:
        """Return the greatest epoch of the log that is not above `epoch`, and where its records end."""
        end = self.end
        for own, first in reversed(self.epochs):
            if own <= epoch:
                return own, end
            end = first
        return NO_EPOCH, 0

    def continues(self, end: int, last_epoch: int) -> bool:
        """Return whether a log of this end and last epoch is the begin of this one."""
        return end <= self.end and self.epoch_before(end) == last_epoch

    def appended(self, epoch: int, end: int) -> "ReplicaLog":
        """Return the log with records of `epoch` up to `end`."""
        assert end > self.end, "an append ends above the log"
        assert epoch >= self.last_epoch, "epochs never go back in a log"
        epochs = self.epochs if epoch == self.last_epoch else (*self.epochs, (epoch, self.end))
        return replace(self, end=end, epochs=epochs)

    def synced(self, end: int) -> "ReplicaLog":
        """Return the log with what is below `end` durable; a report that came late changes nothing."""
        return self if end <= self.durable_end else replace(self, durable_end=min(end, self.end))

    def cut(self, end: int) -> "ReplicaLog":
        """Return the log without what is at or above `end`, under a new number."""
        assert self.start <= end < self.end, "a cut takes away what is there"
        return replace(
            self,
            end=end,
            durable_end=min(self.durable_end, end),
            number=self.number + 1,
            epochs=tuple((epoch, first) for epoch, first in self.epochs if first < end),
        )

    def without(self, end: int) -> "ReplicaLog":
        """Return the log without records from `end` on that have never been in it: it is the same log."""
        return replace(self.cut(end), number=self.number)

    def started_at(self, start: int) -> "ReplicaLog":
        """Return the log without the records below `start`, which a snapshot stands for."""
        assert start <= self.end, "a log does not start above its end"
        if start <= self.start:
            return self
        known = self.epoch_before(start)
        return replace(self, start=start, epochs=tuple(pair for pair in self.epochs if pair[0] >= known))

    def is_about(self, number: int) -> bool:
        """Return whether what was said under a number is true of what this log begins with, whatever was cut since."""
        return self.first_number <= number <= self.number

    def renumbered(self, number: int) -> "ReplicaLog":
        """Return the log as one that was opened under a number."""
        return replace(self, number=number, first_number=number)


EMPTY_LOG: Final = ReplicaLog()
"""The log of a replica that has never had a record."""


def log_opened(opened: OpenedLog) -> ReplicaLog:
    """Return the log of a replica as its disk has opened it, with the number that it was opened under; all durable."""
    log = ReplicaLog(opened.start, opened.end, opened.end, epochs=opened.epochs)
    return log.renumbered(opened.number)
