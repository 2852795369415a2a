"""Everything that a fetcher says of a partition, as frozen values, and what it is told to fetch.

A partition is fetched under a token, which grows whenever what was fetched before counts no more: a grant, a seek. What
comes under an old token is dropped. Rows are any value with `num_rows`, `slice` and a column of offsets.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, Protocol, TypeAlias

from spark_kcoord.errors import KcoordError
from spark_kcoord.fetch.records.plain import NO_EPOCH, epoch_at
from spark_kcoord.fetch.topic_range import TopicPartition

__all__ = [
    "AT_BEGINNING",
    "AT_END",
    "NO_EPOCH",
    "Chunk",
    "Fetched",
    "OutOfRange",
    "Resolved",
    "Rows",
    "Trouble",
    "Truncated",
    "Wanted",
]

AT_BEGINNING: Final = -2
AT_END: Final = -1
"""Positions that Kafka is to be asked for; the numbers are those of its ListOffsets."""


class Rows(Protocol):
    """Rows of one partition, as an Arrow record batch has them."""

    @property
    def num_rows(self) -> int:
        """The number of rows."""

    def slice(self, offset: int, length: int) -> Any:
        """Return some of the rows."""

    def column(self, name: str) -> Any:
        """Return a column by its name; an element of it has `as_py`."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """A partition that is to be fetched from a position on, which may be AT_BEGINNING or AT_END.

    Without a `topic_id` it is of whatever topic has the name; the position is then of the topic with the `named_id`,
    which may have been made again since, where that is known.
    """

    topic_id: str | None
    token: int
    position: int
    last_epoch: int = NO_EPOCH
    named_id: str | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Chunk:
    """Offsets [start, next_offset) of a partition: its rows, None where there are none, and the bytes they take.

    `epochs` says by which leader they were written: pairs of the offset before which an epoch counts, and the epoch.
    `end` is the offset after the last readable record of the log, `high_watermark` that of its last record. `topic_id`
    is that of the topic that they were fetched from, None where it has none.
    """

    key: TopicPartition
    token: int
    start: int
    next_offset: int
    rows: Any
    size: int
    epochs: tuple[tuple[int, int], ...] = ()
    end: int | None = None
    high_watermark: int | None = None
    topic_id: str | None = None

    def epoch_at(self, offset: int) -> int:
        """Return the epoch of the leader that wrote an offset of the chunk, NO_EPOCH where that is not known."""
        return epoch_at(self.epochs, offset)


@dataclass(frozen=True, slots=True)
class Resolved:
    """The position that was asked for as AT_BEGINNING or AT_END, and the id of the topic that it is of, where known."""

    key: TopicPartition
    token: int
    position: int
    topic_id: str | None = None


@dataclass(frozen=True, slots=True)
class OutOfRange:
    """Kafka does not have this position; nothing more is fetched under the token.

    `is_new_topic` says that the topic was deleted and made again since it was asked first.
    """

    key: TopicPartition
    token: int
    position: int
    is_new_topic: bool = False


@dataclass(frozen=True, slots=True)
class Truncated:
    """The log has another history than was fetched, from `position` on at the latest; nothing more is fetched."""

    key: TopicPartition
    token: int
    position: int


@dataclass(frozen=True, slots=True)
class Trouble:
    """Nothing can be fetched from this position on, for a reason that the program has to know.

    With `is_of_record` it is the record batch there that cannot be read.
    """

    key: TopicPartition
    token: int
    position: int
    error: KcoordError
    is_of_record: bool = False


Fetched: TypeAlias = Chunk | Resolved | OutOfRange | Truncated | Trouble
