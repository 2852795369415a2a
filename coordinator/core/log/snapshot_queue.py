"""The pieces of snapshots that wait to be written, by shard and in their order; holds the rule that pieces continue.

Not thread-safe: its owner holds a lock.
"""

from collections import deque
from collections.abc import Callable

from coordinator.core.log.snapshot import SnapshotPiece


class SnapshotQueue:
    """Pieces of at most one snapshot a shard."""

    def __init__(self) -> None:
        self._waiting: dict[int, deque[SnapshotPiece]] = {}
        self._next: dict[int, tuple[int, int]] = {}
        """The end offset and the index of the piece that continues a snapshot which is not whole."""

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def add(self, shard: int, piece: SnapshotPiece) -> bool:
        """Have a piece wait; piece 0 takes the place of all that wait.

        One of a snapshot that was given up is let go: False. Raises ValueError for one that does not continue what
        there is.
        """
        wanted = self._next.get(shard)
        if piece.index == 0:
            self.give_up(shard)
        elif wanted is None:
            return False
        elif wanted != (piece.end_offset, piece.index):
            raise ValueError(
                f"shard {shard}: piece {piece.index} of the snapshot at {piece.end_offset} came, but piece {wanted[1]} "
                f"of the one at {wanted[0]} was next"
            )
        if piece.is_last:
            self._next.pop(shard, None)
        else:
            self._next[shard] = (piece.end_offset, piece.index + 1)
        self._waiting.setdefault(shard, deque()).append(piece)
        return True

    def has(self, shard: int) -> bool:
        """Tell whether a piece waits."""
        return shard in self._waiting

    def is_begun(self, shard: int) -> bool:
        """Tell whether there is a snapshot whose last piece has not come."""
        return shard in self._next

    def reaches_above(self, shard: int, offset: int) -> bool:
        """Tell whether a snapshot that is not written ends above an offset."""
        ends = [piece.end_offset for piece in self._waiting.get(shard, ())]
        return max([*ends, *self._next.get(shard, ())[:1]], default=offset) > offset

    def give_up(self, shard: int) -> None:
        """Let the pieces of a shard go; the next one has to begin a snapshot."""
        self._waiting.pop(shard, None)
        self._next.pop(shard, None)

    def take(self, durable_end_of: Callable[[int], int]) -> dict[int, SnapshotPiece]:
        """Take of each shard the first piece, if the log is durable up to the end of its snapshot."""
        taken: dict[int, SnapshotPiece] = {}
        for shard, pieces in list(self._waiting.items()):
            if pieces[0].end_offset <= durable_end_of(shard):
                taken[shard] = pieces.popleft()
                if not pieces:
                    del self._waiting[shard]
        return taken

    def take_first(self) -> dict[int, SnapshotPiece]:
        """Take of each shard the first piece."""
        taken = {shard: pieces.popleft() for shard, pieces in self._waiting.items()}
        self._waiting = {shard: pieces for shard, pieces in self._waiting.items() if pieces}
        return taken
