"""The input that is read while the disk is behind: everything, small requests only, or nothing.

Records of members wait in memory until the disk has them, up to a limit at which the node ends. Long before it those
that send much at once are left unread, so that they wait; pings and small commits go on. If that is not enough, nobody
is read until the disk has caught up. Knows nothing of connections.
"""

LARGE_INPUT_BYTES = 64 * 1024
"""More than this at once is much: a commit of some thousand partitions."""
_LARGE_HELD_AT = 4
_ALL_HELD_AT = 2
"""The parts of the limit at which input is held; it is released at half of the smaller one."""


class InputBound:
    """Decides what is held by how much waits; `look` is told of it whenever it has changed."""

    def __init__(self, max_pending_bytes: int) -> None:
        self.least_bytes = max_pending_bytes // _LARGE_HELD_AT
        """Nothing is held below this."""
        self._all_bytes = max_pending_bytes // _ALL_HELD_AT
        self._release_bytes = self.least_bytes // 2
        self._above_bytes: int | None = None

    @property
    def is_holding(self) -> bool:
        """Say whether anything is held."""
        return self._above_bytes is not None

    def look(self, waiting_bytes: int) -> tuple[int | None, bool]:
        """Return above how many bytes at once input is to be held, None for not at all, and whether that is new."""
        before = self._above_bytes
        if waiting_bytes > self._all_bytes:
            self._above_bytes = 0
        elif waiting_bytes > self.least_bytes:
            self._above_bytes = LARGE_INPUT_BYTES if before is None else before
        elif waiting_bytes <= self._release_bytes:
            self._above_bytes = None
        return self._above_bytes, self._above_bytes != before
