"""Everything that a consumer does without waiting, and the arguments of the rest, checked: for every kind of shell.

Seeking, pausing and looking are the same for a blocking and an asyncio consumer; so is what a call may be given.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from spark_kcoord.consumer.conduct.flows import Flows
from spark_kcoord.consumer.core.machine import Owed, Piece, Told
from spark_kcoord.consumer.errors import OffsetUnknownError, RecordDeserializationError
from spark_kcoord.consumer.rows import records_of
from spark_kcoord.consumer.settings import Settings
from spark_kcoord.consumer.subscription import must_be_offset, must_be_partitions
from spark_kcoord.consumer.values import ConsumerRebalanceListener, TopicPartition

__all__ = ["Calls", "check_timeout"]


def check_timeout(timeout_ms: Any, default_ms: float) -> float:
    """Return a time-out in seconds; raises ValueError for what is none."""
    value = default_ms if timeout_ms is None else timeout_ms
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"a time-out is a number of milliseconds, not {timeout_ms!r}")
    if not value >= 0:
        raise ValueError(f"a time-out must not be negative: {timeout_ms!r}")
    return value / 1000


class Calls:
    """The calls of a consumer that do not wait. `lock` is entered by each; `before` is done first."""

    def __init__(self, settings: Settings, flows: Flows) -> None:
        self._settings = settings
        self._flows = flows

    # ---- what a poll gives ------------------------------------------------------------------------------------------

    def records(
        self, pieces: Sequence[Piece]
    ) -> tuple[list[tuple[Piece, list[Any]]], RecordDeserializationError | None]:
        """Return the records of pieces, each with the piece that they are all of, and why they end early, if so."""
        key_deserializer, value_deserializer = self._settings["key_deserializer"], self._settings["value_deserializer"]
        made = []
        for piece in pieces:
            records, error = records_of(piece, key_deserializer, value_deserializer)
            if error is not None:
                if records:
                    rows = piece.rows.slice(0, len(records))
                    made.append((Piece(piece.key, rows, records[-1].offset + 1, piece.chunk), records))
                return made, error
            made.append((piece, records))
        return made, None

    def check_max(self, max_records: Any) -> int:
        """Return how many records a poll returns at most; raises TypeError or ValueError."""
        most = self._settings["max_poll_records"] if max_records is None else max_records
        if not isinstance(most, int) or isinstance(most, bool):
            raise TypeError("max_records must be an integer")
        if most <= 0:
            raise ValueError("max_records must be positive")
        return most

    # ---- where it stands --------------------------------------------------------------------------------------------

    def assignment(self) -> set[TopicPartition]:
        """Return what is read now."""
        return {TopicPartition(*key) for key in self._flows.machine.keys}

    def subscription(self) -> set[str] | None:
        """Return the topics that are subscribed to, None without a subscription; of a pattern those that came."""
        subscription = self._flows.subscription
        if subscription.is_empty:
            return None
        if subscription.pattern is not None:
            return {topic for topic, _ in self._flows.machine.keys}
        return subscription.names()

    def paused(self) -> set[TopicPartition]:
        """Return what is paused."""
        return {TopicPartition(*held.key) for held in self._flows.machine if held.is_paused}

    def pause(self, partitions: Iterable[TopicPartition]) -> None:
        """Return nothing of partitions until they are resumed."""
        self._flows.machine.pause(self._held(partitions))
        self._flows.fetch()

    def resume(self, partitions: Iterable[TopicPartition]) -> None:
        """Return records of partitions again."""
        self._flows.machine.resume(self._held(partitions))
        self._flows.fetch()

    def seek(self, partition: TopicPartition, offset: Any) -> None:
        """Go on at an offset."""
        (key,) = self._held((partition,))
        self._flows.machine.seek(key, must_be_offset(offset))
        self._flows.fetch()

    def seek_all(self, partitions: Iterable[TopicPartition], position: int) -> None:
        """Go on at the beginning or the end of partitions, of all without any."""
        named = must_be_partitions(partitions)
        keys = self._held(named) if named else list(self._flows.machine.keys)
        if not keys:
            raise ValueError("No partitions are currently assigned")
        for key in keys:
            self._flows.machine.seek(key, position)
        self._flows.fetch()

    def seek_to(self, keys: Sequence[tuple[str, int]], committed: Mapping[Any, Any]) -> None:
        """Go on where the group is; raises OffsetUnknownError where it is nowhere, and then nothing is sought."""
        unknown = [key for key in keys if key not in committed]
        if unknown:
            shown = ", ".join(f"{topic}-{number}" for topic, number in unknown)
            raise OffsetUnknownError(f"Group '{self._settings.group_id}' has no committed offset of {shown}.", unknown)
        for key in keys:
            self._flows.machine.seek(key, committed[key].offset)
        self._flows.fetch()

    def highwater(self, partition: TopicPartition) -> int | None:
        """Return the offset after the last record of a log, None before the first fetch."""
        (key,) = self._held((partition,))
        self._flows.fetch()
        return self._flows.held(key).high_watermark

    def lag(self, partition: TopicPartition) -> int | None:
        """Return how many offsets are to be returned yet, None before the first fetch."""
        (key,) = self._held((partition,))
        self._flows.fetch()
        held = self._flows.held(key)
        return None if held.end is None or held.position is None else max(0, held.end - held.position)

    def owner_epoch(self, partition: TopicPartition) -> int | None:
        """Return the fencing token of a partition, None for one that was assigned by hand."""
        (key,) = self._held((partition,))
        return self._flows.held(key).grant.owner_epoch

    def stream_of(self, partition: TopicPartition) -> int | None:
        """Return the stream that reads a partition, None where the group does not spread them."""
        (key,) = self._held((partition,))
        return self._flows.held(key).grant.stream

    def _held(self, partitions: Iterable[TopicPartition]) -> list[tuple[str, int]]:
        keys = [(one.topic, one.partition) for one in must_be_partitions(partitions)]
        for key in keys:
            self._flows.held(key)
        return keys

    # ---- listeners --------------------------------------------------------------------------------------------------

    def tell(self, owed: Owed) -> Any:
        """Tell the listener; what its method returns comes back, which may be a coroutine."""
        listener = self._flows.listener
        assert listener is not None
        partitions = {TopicPartition(*key) for key in owed.partitions}
        if owed.news is Told.REVOKED:
            return listener.on_partitions_revoked(partitions)
        if owed.news is Told.ASSIGNED:
            return listener.on_partitions_assigned(partitions)
        # A listener of kafka-python's knows two kinds of news.
        lost = getattr(listener, "on_partitions_lost", listener.on_partitions_revoked)
        return lost(partitions)


def check_listener(listener: Any) -> ConsumerRebalanceListener | None:
    """Return a listener; raises TypeError for what is none."""
    if listener is None:
        return None
    for name in ("on_partitions_revoked", "on_partitions_assigned"):
        if not callable(getattr(listener, name, None)):
            raise TypeError(f"a listener has a method {name}; {type(listener).__name__} has none")
    found: ConsumerRebalanceListener = listener
    return found
