"""The position of the log of the member's group, by what its coordinator has said: kept, and shown when it registers.

A coordinator whose log does not reach there has lost some of it, or has another one, and says so. Pure bookkeeping.
"""

from collections.abc import Sequence

from coordinator.protocol.messages import AdvanceResponse, ConfirmClaimsResponse, Response, StartFetcher
from coordinator.protocol.parts import LogPosition, StartPartition

__all__ = ["KnownLog"]


class KnownLog:
    """The newest position that is known; `position` is None before anything was told."""

    def __init__(self, position: LogPosition | None = None) -> None:
        self.position = position

    def begin(self, position: LogPosition | None) -> None:
        """Take what the answer to a registration says, which counts from then on whatever was known before."""
        if position is not None:
            self.position = position

    def hear(self, said: Response | StartFetcher) -> None:
        """Take from an answer or a push of the same connection that the log has come further."""
        if isinstance(said, StartFetcher):
            self._raise(_end_of(said.partitions))
        elif isinstance(said, AdvanceResponse | ConfirmClaimsResponse) and said.log_end is not None:
            self._raise(said.log_end)

    def _raise(self, end: int) -> None:
        position = self.position
        if position is not None and position.end < end:
            self.position = LogPosition(position.incarnation, end)


def _end_of(granted: Sequence[StartPartition]) -> int:
    """Return where a log ends at least in which these grants are."""
    return max((part.owner_epoch + 1 for part in granted), default=0)
