"""Records, batches and iterations out of what a poll gives, as flows: for every kind of shell.

What a call returned counts as returned from the next call on. So whatever ends a call by an exception, Ctrl-C and a
cancelled task among it, what it was about to return comes with the next one.
"""

from __future__ import annotations

import math
import time
from collections.abc import Collection, Sequence
from typing import Any

import pyarrow as pa

from spark_kcoord.consumer.conduct.flows import Flows
from spark_kcoord.consumer.conduct.wishes import Flow
from spark_kcoord.consumer.core.chunk_rows import Piece
from spark_kcoord.consumer.errors import RecordDeserializationError
from spark_kcoord.consumer.iteration import Iteration
from spark_kcoord.consumer.rows import records_of
from spark_kcoord.consumer.settings import Settings
from spark_kcoord.consumer.values import TopicPartition
from spark_kcoord.fetch.decoding.columns import arrow_schema

__all__ = ["Reading"]

Key = tuple[str, int]


class Reading:
    """The calls of one consumer that return records.

    In each call `begin` comes first, and `fail` last in one that ends by an exception.
    """

    def __init__(self, settings: Settings, flows: Flows) -> None:
        self._settings = settings
        self._flows = flows
        self._columns = list(arrow_schema(settings["columns"]).names)
        self._iteration: Iteration | None = None
        self.was_iterated = False
        """True if the last call that read was a step of an iteration."""
        self._passed: dict[Key, int] = {}
        """Records that cannot be made and whose errors have given way to records of others, by their offsets."""

    def begin(self) -> None:
        """Begin a call of any kind: what the one before returned counts as returned."""
        machine = self._flows.machine
        if self._iteration is not None:
            machine.mark_returned(self._iteration.given())
        machine.settle()

    def mark(self) -> tuple[Iteration | None, int]:
        """Return where it stands, for `fail`."""
        iteration = self._iteration
        return iteration, -1 if iteration is None else iteration.at

    def fail(self, mark: tuple[Iteration | None, int]) -> None:
        """Note that a call ends by an exception: what it was about to return comes again."""
        iteration, at = mark
        if iteration is not None:
            iteration.at = at
        self._iteration = iteration
        self._flows.machine.take_back()

    # ---- a poll -----------------------------------------------------------------------------------------------------

    def records(
        self, timeout_s: float, max_records: Any, keys: Collection[Key] = ()
    ) -> Flow[dict[TopicPartition, list[Any]]]:
        """Return the next records by partition."""
        pieces = yield from self._pieces(timeout_s, self._most(max_records), None, keys)
        made = self._made(pieces)
        found: dict[TopicPartition, list[Any]] = {}
        for piece, records in made:
            known = found.setdefault(TopicPartition(*piece.key), records)
            if known is not records:
                known.extend(records)
        self._flows.machine.mark_returned([piece for piece, _ in made])
        return found

    def batches(
        self, timeout_s: float, max_records: Any, max_bytes: int | None, keys: Collection[Key] = ()
    ) -> Flow[list[pa.RecordBatch]]:
        """Return the next rows as record batches, each of one partition."""
        most = 2**62 if max_records is None else self._most(max_records)
        if max_bytes is not None and (not isinstance(max_bytes, int) or isinstance(max_bytes, bool)):
            raise TypeError("max_bytes must be an integer")
        if max_bytes is not None and max_bytes <= 0:
            raise ValueError("max_bytes must be positive")
        pieces = yield from self._pieces(timeout_s, most, max_bytes, keys)
        found = [piece.rows.select(self._columns) for piece in pieces]
        self._flows.machine.mark_returned(pieces)
        return found

    def _pieces(
        self, timeout_s: float, most: int, max_bytes: int | None, keys: Collection[Key]
    ) -> Flow[tuple[Piece, ...]]:
        self._iteration, self.was_iterated = None, False
        pieces = yield from self._flows.poll(timeout_s, most, max_bytes, keys)
        return pieces

    def _made(self, pieces: Sequence[Piece]) -> list[tuple[Piece, list[Any]]]:
        """Return the records of pieces, each with the piece that they are all of.

        A record that cannot be made keeps those behind it in its partition back, and no others. Its error is raised
        when there is nothing else to return, or else by the call after the one that returned something else.
        """
        made, failures = self._made_as_far_as_they_go(pieces)
        given = {piece.key for piece, _ in made}
        stuck = {key: failure for key, failure in failures.items() if key not in given}
        due = [key for key, failure in stuck.items() if not made or self._passed.get(key) == failure.offset]
        # The one that is told comes last of all, so that the others are told before it is told again.
        last = {key: stuck[key].offset for key in sorted(stuck, key=lambda key: key in due[:1])}
        self._flows.pass_over(last)
        if due:
            self._passed.pop(due[0], None)
            raise stuck[due[0]]
        self._passed |= {key: failure.offset for key, failure in failures.items()}
        return made

    def _made_as_far_as_they_go(
        self, pieces: Sequence[Piece]
    ) -> tuple[list[tuple[Piece, list[Any]]], dict[Key, RecordDeserializationError]]:
        key_deserializer, value_deserializer = self._settings["key_deserializer"], self._settings["value_deserializer"]
        made: list[tuple[Piece, list[Any]]] = []
        failures: dict[Key, RecordDeserializationError] = {}
        for piece in pieces:
            if piece.key in failures:
                continue
            records, failure = records_of(piece, key_deserializer, value_deserializer)
            if failure is None:
                made.append((piece, records))
                continue
            failures[piece.key] = failure
            if records:
                rows = piece.rows.slice(0, len(records))
                made.append((Piece(piece.key, rows, records[-1].offset + 1, piece.chunk), records))
        return made, failures

    def _most(self, max_records: Any) -> int:
        most = self._settings["max_poll_records"] if max_records is None else max_records
        if not isinstance(most, int) or isinstance(most, bool):
            raise TypeError("max_records must be an integer")
        if most <= 0:
            raise ValueError("max_records must be positive")
        return most

    # ---- a record at a time -----------------------------------------------------------------------------------------

    def at_once(self, keys: Collection[Key] = ()) -> Any:
        """Return the next record where nothing has to be looked at before, else None."""
        iteration = self._iteration
        if iteration is None or iteration.keys != keys or iteration.changes != self._flows.machine.changes:
            return None
        return iteration.at_once()

    def next_record(self, keys: Collection[Key] = (), timeout_s: float | None = None) -> Flow[Iteration | None]:
        """Return an iteration that has a next record, None when none came in time; those before count as done.

        The time-out is `consumer_timeout_ms` unless another is given. `give` follows.
        """
        flows = self._flows
        self.was_iterated = True
        if timeout_s is None:
            timeout_ms = self._settings["consumer_timeout_ms"]
            timeout_s = timeout_ms / 1000 if timeout_ms != math.inf else 1e9
        iteration = self._iteration
        if iteration is not None and not iteration.is_over and iteration.keys == keys:
            flows.must_be_open()
            flows.note_done()
            yield from flows.attend()
            if iteration.changes == flows.machine.changes:
                iteration.noted_at = time.monotonic()
                return iteration
        self._iteration = None
        pieces = yield from flows.poll(timeout_s, self._most(None), None, keys)
        if not pieces:
            return None
        made = self._made(pieces)
        records = [record for _, of_piece in made for record in of_piece]
        return Iteration([piece for piece, _ in made], records, flows.machine.changes, keys)

    def give(self, iteration: Iteration) -> Any:
        """Return the next record of an iteration; from the next call on it counts as returned."""
        record = iteration.records[iteration.at + 1]
        iteration.at += 1
        self._iteration = iteration
        return record

    def forget(self) -> None:
        """End an iteration: the records that it has not given are fetched rows again."""
        self._iteration = None
