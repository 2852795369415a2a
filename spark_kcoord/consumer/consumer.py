"""A plain consumer: `poll` for records, `commit` what is done, share the group with streaming queries and others.

It is one member of its group, on the thread that uses it; the member's session lives on a thread of its own, so that a
consumer that takes its time stays a member. Partitions change hands only in `poll`: what the polls before returned
counts as done when `poll` is called again, and no earlier. It decides nothing about where records come from.
"""

from __future__ import annotations

import logging
import math
import os
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import TracebackType
from typing import Final, Protocol, Self, TypeAlias

from coordinator.protocol.ids import TopicPartition
from spark_kcoord.extras import naming_the_extra

with naming_the_extra("A consumer"):
    import pyarrow as pa

from coordinator.protocol.columns import OffsetToCommit
from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.parts import FinalOffset, LostPosition, PartitionResult, ResetPolicy
from coordinator.protocol.vocabulary import AssignorName, IsolationLevel
from spark_kcoord.consumer.positions_behind import PositionsBehind
from spark_kcoord.consumer.records import KafkaRecords, Position, Records, Rows, Turns
from spark_kcoord.errors import DataLossError, KcoordError
from spark_kcoord.fetch.decoding.columns import COLUMNS, arrow_schema
from spark_kcoord.member.client import Assignment, Joined, MemberClient, MemberSettings, fetch_offsets
from spark_kcoord.member.core.held.holdings import AssignedPartition, starts_anew
from spark_kcoord.options.kafka_settings import KafkaSettings, parse_kafka_options
from spark_kcoord.options.source_options import host_ports

__all__ = ["Consumer", "ConsumerSettings"]

_log = logging.getLogger(__name__)

Listener: TypeAlias = Callable[[Sequence[TopicPartition]], None]

_NEEDED: Final = ("topic", "partition", "offset")

REPORT_PAUSE_S: Final = 1.0
"""The time that a partition is left alone when a report that its position is gone has changed nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerSettings:
    """The identity of a consumer and what it reads; times in milliseconds.

    `coordinators` are `host:port`. Exactly one of `topics`, `pattern` and `partitions` is given. `start` says where to
    begin where the group has no offset: earliest, latest or none; the group's first member to name one decides. `kafka`
    holds `kafka.*` options as a Spark source takes them; without servers the coordinator tells where Kafka is. A poll
    returns `max_poll_records` rows at most, of `columns`, which hold at least topic, partition and offset.
    """

    coordinators: Sequence[str]
    group_id: str
    topics: Sequence[str] = ()
    pattern: str | None = None
    partitions: Sequence[TopicPartition] = ()
    exclusions: Sequence[str] = ()
    client_id: str = field(default_factory=lambda: f"kcoord-python-{socket.gethostname()}-{os.getpid()}")
    instance_id: str | None = None
    streams: int = 1
    assignors: Sequence[str] = (AssignorName.STICKY, AssignorName.RANGE)
    start: str | None = None
    auto_commit: bool = True
    session_timeout_ms: int = 10_000
    rebalance_timeout_ms: int = 300_000
    ping_interval_ms: int | None = None
    coordinator_timeout_ms: int = 120_000
    join_timeout_ms: int = 9_000
    fetch_timeout_ms: int = 30_000
    max_poll_records: int = 10_000
    columns: Sequence[str] = tuple(name for name in COLUMNS if name != "headers")
    wait_for_topics: bool = False
    kafka: Mapping[str, str] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        """Refuse columns without which rows cannot be told apart."""
        missing = [name for name in _NEEDED if name not in self.columns]
        if missing:
            raise ValueError(f"columns must hold {', '.join(missing)}")
        if self.max_poll_records <= 0:
            raise ValueError("max_poll_records must be positive")

    def member_settings(self) -> MemberSettings:
        """Return the settings of the member that this consumer is; raises ValueError for what cannot be asked."""
        return MemberSettings(
            coordinators=host_ports(self.coordinators),
            group_id=self.group_id,
            client_id=self.client_id,
            topics=tuple(self.topics),
            pattern=self.pattern,
            partitions=tuple(self.partitions),
            exclusions=tuple(self.exclusions),
            instance_id=self.instance_id,
            streams=self.streams,
            assignors=tuple(self.assignors),
            session_timeout_ms=self.session_timeout_ms,
            rebalance_timeout_ms=self.rebalance_timeout_ms,
            ping_interval_ms=self.ping_interval_ms,
            reset_policy=None if self.start is None else ResetPolicy(self.start),
            wait_for_topics=self.wait_for_topics,
            coordinator_timeout_ms=self.coordinator_timeout_ms,
            join_timeout_ms=self.join_timeout_ms,
            auto_commit=self.auto_commit,
            lets_go_itself=False,
            isolation_level=IsolationLevel(self.kafka_settings(()).isolation_level),
        )

    def kafka_settings(self, told: Sequence[str]) -> KafkaSettings:
        """Return how to reach Kafka; `told` are the servers that the coordinator names."""
        settings = parse_kafka_options({name.lower(): text for name, text in self.kafka.items()})
        return settings if settings.servers else replace(settings, servers=tuple(told))


class Member(Protocol):
    """The member client as a consumer needs it; every call may raise KcoordError."""

    def join(self) -> Joined:
        """Wait until the member is registered."""

    def assignment(self) -> Assignment:
        """Return what the member owns now, without waiting."""

    def wait_for_change(self, known: Assignment, *, timeout_s: float) -> Assignment:
        """Wait for another assignment than this one, and return what there is when time is over."""

    def note_positions(self, offsets: Sequence[OffsetToCommit]) -> None:
        """Say up to where partitions are done."""

    def commit(self, offsets: Sequence[OffsetToCommit]) -> tuple[PartitionResult, ...]:
        """Commit offsets."""

    def release(self, finals: Sequence[FinalOffset]) -> None:
        """Let go of partitions."""

    def report_out_of_range(self, partitions: Sequence[LostPosition]) -> tuple[PartitionResult, ...]:
        """Have partitions start anew by the group's policy, if the coordinator finds their positions gone too."""

    def leave(self, finals: Sequence[FinalOffset] = ()) -> None:
        """Leave the group."""

    def close(self) -> None:
        """Close the connection."""


@dataclass(slots=True)
class _Held:
    """A partition this consumer has: what it was granted, where it reads on, and up to where all is done."""

    granted: AssignedPartition
    position: int
    done: int
    left_alone_until: float = float("-inf")

    @property
    def key(self) -> TopicPartition:
        return (self.granted.topic, self.granted.partition)

    @property
    def where(self) -> Position:
        return Position(self.granted.topic_id, self.granted.owner_epoch, self.position)

    def to_commit(self, offset: int) -> OffsetToCommit:
        return OffsetToCommit(*self.key, offset, self.granted.owner_epoch)


class Consumer:
    """One consumer, used by one thread; a context manager that closes it.

    `on_assigned` and `on_revoked` are called from `poll` with the partitions that came or are about to go, the latter
    while they can still be committed; `on_lost` with those that went without warning. With `auto_commit` the offsets
    that are done go to the coordinator with the pings, and with what is given back. Every call raises KcoordError when
    the coordinator refuses for good, or stays away for longer than `coordinator_timeout_ms`.
    """

    def __init__(
        self,
        settings: ConsumerSettings,
        *,
        on_assigned: Listener | None = None,
        on_revoked: Listener | None = None,
        on_lost: Listener | None = None,
        member: Member | None = None,
        records: Records | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._settings = settings
        self._on_assigned = on_assigned
        self._on_revoked = on_revoked
        self._on_lost = on_lost
        self._member = member if member is not None else MemberClient(settings.member_settings())
        self._records = records
        self._clock = clock
        self._empty = pa.RecordBatch.from_pylist([], schema=arrow_schema(tuple(settings.columns)))
        self._behind = PositionsBehind(clock)
        self._turns: Turns | None = None
        self._joined: Joined | None = None
        self._seen: Assignment | None = None
        self._held: dict[TopicPartition, _Held] = {}
        self._given_back: dict[tuple[str, int, int], FinalOffset] = {}
        self._is_closed = False

    def __enter__(self) -> Self:
        """Return the consumer."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Close it."""
        self.close()

    # ---- records ----------------------------------------------------------------------------------------------------

    def poll(self, timeout_s: float = 1.0) -> pa.RecordBatch:
        """Return the next rows, all of one partition and in order, or none when there are none in time.

        What polls before returned is done by now. The first call joins the group. While Kafka does not answer it may
        take longer, `fetch_timeout_ms` at most. Raises DataLossError where a position is gone and the policy is none.
        """
        turns = self._ready()
        self._note_done()
        deadline = self._clock() + timeout_s
        while True:
            assignment = self._member.assignment()
            self._take(assignment)
            rows = self._next_rows(turns)
            if rows is not None:
                self._held[rows.key].position = rows.next_offset
                if rows.batch.num_rows:
                    return rows.batch
                continue
            left_s = deadline - self._clock()
            if left_s <= 0:
                return self._empty
            self._member.wait_for_change(assignment, timeout_s=min(left_s, self._idle_s(turns, left_s)))

    def _ready(self) -> Turns:
        if self._is_closed:
            raise KcoordError("The consumer is closed.")
        if self._turns is None:
            self._joined = self._member.join()
            if self._records is None:
                kafka = self._settings.kafka_settings(self._joined.kafka_bootstrap)
                self._records = KafkaRecords(
                    kafka, tuple(self._settings.columns), self._settings.fetch_timeout_ms / 1000
                )
            self._turns = Turns(self._records, self._settings.max_poll_records, self._empty, self._clock)
        return self._turns

    def _note_done(self) -> None:
        moved = [held for held in self._held.values() if held.position != held.done]
        for held in moved:
            held.done = held.position
        if moved and self._settings.auto_commit:
            self._member.note_positions([held.to_commit(held.position) for held in moved])

    def _next_rows(self, turns: Turns) -> Rows | None:
        # Before anything is read: rows in hand would be lost with a report that fails.
        self._look_behind(turns)
        now = self._clock()
        positions = {key: held.where for key, held in self._held.items() if held.left_alone_until <= now}
        try:
            return turns.next_rows(positions)
        except DataLossError as error:
            self._start_anew(error)
            return None

    def _idle_s(self, turns: Turns, left_s: float) -> float:
        """Return how long it is no use to look for rows, at most `left_s`."""
        left_alone_until = min((held.left_alone_until for held in self._held.values()), default=math.inf)
        return min(left_s, max(turns.look_again_in_s(), left_alone_until - self._clock()))

    def _look_behind(self, turns: Turns) -> None:
        """Have partitions start anew that were cut back below their positions, and of which nothing would ever come."""
        assert self._records is not None
        positions = {key: held.where for key, held in self._held.items()}
        marks = self._behind.look(self._records, positions, turns.ends)
        gone = [self._held[key] for key in sorted(marks) if self._held[key].left_alone_until <= self._clock()]
        if gone:
            shown = "; ".join(
                f"{held.key[0]}-{held.key[1]} ends at offset {marks[held.key]}, before offset {held.position}"
                for held in gone
            )
            self._report(
                gone,
                DataLossError(
                    f"Kafka does not have any more what this group would go on with: {shown}. A partition was "
                    "truncated, or its topic was deleted and created again."
                ),
            )

    def _start_anew(self, error: DataLossError) -> None:
        """Have the partitions whose positions the brokers do not have start by the group's policy."""
        assert self._records is not None
        first, end = self._records.earliest_offsets(self._held), self._records.high_watermarks(self._held)
        gone = [
            held
            for key, held in self._held.items()
            if key in first and key in end and not first[key] <= held.position <= end[key]
        ]
        if not gone:
            raise error
        self._report(gone, error)

    def _report(self, gone: Sequence[_Held], error: DataLossError) -> None:
        """Report positions that the brokers do not have, and go on as the coordinator says.

        It asks Kafka too; a partition about which it finds otherwise is left alone for a while, or goes on at the
        group's offset where Kafka has that one.
        """
        group_id = self._settings.group_id
        parts = [LostPosition(*held.key, held.granted.owner_epoch, held.position) for held in gone]
        for held, result in zip(gone, self._member.report_out_of_range(parts), strict=True):
            if result.error is ErrorCode.OFFSET_OUT_OF_RANGE:
                raise DataLossError(f"{error} {result.message}.") from error
            if result.error is not ErrorCode.NONE:
                _log.warning("group %s: %s The coordinator says: %s.", group_id, error, result.message)
                held.left_alone_until = self._clock() + REPORT_PAUSE_S
            elif starts_anew(result):
                _log.warning("group %s: %s Going on by the group's policy.", group_id, error)
                del self._held[held.key]
            else:
                _log.warning("group %s: %s Going on at the group's offset %s.", group_id, error, result.committed)
                assert result.committed is not None, "what neither starts anew nor is refused names the group's offset"
                held.position = held.done = result.committed

    # ---- partitions -------------------------------------------------------------------------------------------------

    def assignment(self) -> tuple[TopicPartition, ...]:
        """Return the partitions that the last poll knew as this consumer's, sorted."""
        return tuple(sorted(self._held))

    def position(self, topic: str, partition: int) -> int:
        """Return the offset after the last row returned, or where the partition starts."""
        held = self._held.get((topic, partition))
        if held is None:
            raise KcoordError(f"{topic}-{partition} is not this consumer's now.")
        return held.position

    def _take(self, assignment: Assignment) -> None:
        if assignment is self._seen:
            return
        self._seen = assignment
        now = {(part.topic, part.partition): part for part in assignment.partitions}
        epochs = {key: part.owner_epoch for key, part in now.items()}
        lost = [key for key, held in self._held.items() if epochs.get(key) != held.granted.owner_epoch]
        for key in lost:
            del self._held[key]
        # Whatever a listener raises, the poll is over and everything that was to change hands has done so.
        try:
            _tell(self._on_lost, lost)
        finally:
            try:
                self._give_back(now)
            finally:
                self._begin(now)

    def _begin(self, now: Mapping[TopicPartition, AssignedPartition]) -> None:
        new = [part for key, part in now.items() if key not in self._held and not part.is_stopping]
        for part in new:
            self._held[part.topic, part.partition] = _Held(part, part.position, part.position)
        _tell(self._on_assigned, [(part.topic, part.partition) for part in new])

    def _give_back(self, now: Mapping[TopicPartition, AssignedPartition]) -> None:
        stopping = dict.fromkeys((*key, part.owner_epoch) for key, part in now.items() if part.is_stopping)
        revoked = [held for key, held in self._held.items() if (*key, held.granted.owner_epoch) in stopping]
        try:
            _tell(self._on_revoked, [held.key for held in revoked])
        finally:
            for held in revoked:
                self._given_back[*held.key, held.granted.owner_epoch] = self._final(held)
                del self._held[held.key]
            # One that is asked back once more lost its release with a connection.
            self._given_back = {grant: self._given_back.get(grant, FinalOffset(*grant)) for grant in stopping}
            if self._given_back:
                self._member.release(tuple(self._given_back.values()))

    def _final(self, held: _Held) -> FinalOffset:
        offset = held.done if self._settings.auto_commit and held.done > held.granted.position else None
        return FinalOffset(*held.key, held.granted.owner_epoch, offset)

    # ---- offsets ----------------------------------------------------------------------------------------------------

    def commit(self, offsets: Mapping[TopicPartition, int] | None = None) -> None:
        """Commit the offsets after all rows that were returned, or those given, of partitions this consumer has.

        Raises KcoordError naming what was refused and why; the other offsets are committed.
        """
        self._ready()
        if offsets is None:
            offsets = {key: held.position for key, held in self._held.items()}
        foreign = sorted(set(offsets) - self._held.keys())
        if foreign:
            names = ", ".join(f"{topic}-{partition}" for topic, partition in foreign)
            raise KcoordError(f"Offsets of {names} cannot be committed: they are not this consumer's now.")
        asked = [self._held[key].to_commit(offset) for key, offset in sorted(offsets.items())]
        refused = []
        for one, result in zip(asked, self._member.commit(asked), strict=True):
            held = self._held[one.topic, one.partition]
            if result.error is ErrorCode.NONE:
                held.done = max(held.done, one.offset)
            else:
                refused.append(f"{one.topic}-{one.partition}: {result.message or result.error.name}")
        if refused:
            raise KcoordError(
                f"Offsets of group '{self._settings.group_id}' were refused: {'; '.join(refused)}. Whoever has those "
                "partitions now reads them again."
            )

    def committed(self) -> dict[TopicPartition, int]:
        """Return the group's committed offsets, of all its partitions that have one."""
        timeout_s = self._settings.join_timeout_ms / 1000
        return fetch_offsets(host_ports(self._settings.coordinators), self._settings.group_id, timeout_s=timeout_s)

    # ---- the end ----------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Give everything back and leave the group; a consumer with an instance id stays a member for its session.

        With `auto_commit` what was done before the last poll is committed; commit before, to add what it returned.
        Harmless when done twice.
        """
        if self._is_closed:
            return
        self._is_closed = True
        if self._turns is not None:
            self._turns.forget()
        try:
            if self._joined is None:
                self._member.close()
            elif self._settings.instance_id is None:
                self._member.leave([self._final(held) for held in self._held.values()])
            else:
                self._close_static()
        finally:
            if self._records is not None:
                self._records.close()

    def _close_static(self) -> None:
        done = [held.to_commit(held.done) for held in self._held.values() if held.done > held.granted.position]
        try:
            if done and self._settings.auto_commit:
                self._member.commit(done)
        finally:
            # A member that is not closed comes back with its coordinator, and keeps its place and its partitions.
            self._member.close()


def _tell(listener: Listener | None, partitions: Sequence[TopicPartition]) -> None:
    if listener is not None and partitions:
        listener(partitions)
