"""The records of an iteration: given one at a time, while their rows stay where they are until they are given.

So a partition that is asked back in the middle is let go of with what was given, and the rest is read by whoever has it
next.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from spark_kcoord.consumer.core.machine import Piece

__all__ = ["Iteration"]


class Iteration:
    """Some records and the pieces they were made of, in order; `at` is the index of the one given last."""

    __slots__ = ("at", "changes", "count", "noted_at", "pieces", "records")

    def __init__(self, pieces: Sequence[Piece], records: Sequence[Any], changes: int, now_s: float) -> None:
        self.pieces = list(pieces)
        self.records = records
        self.count = len(records)
        self.at = -1
        self.changes = changes
        self.noted_at = now_s

    def take_given(self) -> list[Piece]:
        """Return what was given since this was asked last, as pieces that were returned."""
        if self.at < 0:
            return []
        given, left = [], self.at + 1
        offset = self.records[self.at].offset
        while self.pieces and left:
            piece = self.pieces[0]
            if piece.rows.num_rows > left:
                given.append(Piece(piece.key, None, offset + 1, piece.chunk))
                self.pieces[0] = Piece(piece.key, piece.rows.slice(left), piece.next_offset, piece.chunk)
                break
            left -= piece.rows.num_rows
            given.append(self.pieces.pop(0))
        self.records = self.records[self.at + 1 :]
        self.count, self.at = len(self.records), -1
        return given
