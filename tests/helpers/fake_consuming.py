"""A consumer whose member and Kafka are the test: nothing waits, and time is what the test says."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar
from weakref import WeakSet

import pyarrow as pa

from coordinator.protocol.columns import OffsetToCommit
from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.parts import FinalOffset, PartitionResult
from spark_kcoord.consumer.async_consumer import AsyncConsumer
from spark_kcoord.consumer.conduct.flows import Flows
from spark_kcoord.consumer.conduct.wishes import Wait
from spark_kcoord.consumer.consumer import Consumer
from spark_kcoord.errors import KcoordError
from spark_kcoord.fetch.decoding.columns import arrow_schema
from spark_kcoord.fetch.tailing.counts import FetchCounts
from spark_kcoord.fetch.tailing.fetched import Chunk, Fetched, OutOfRange, Resolved, Wanted
from spark_kcoord.member.core.effects import Joined
from spark_kcoord.member.core.events import AnyCall, CommitCall, JoinCall, LeaveCall, ReportCall
from spark_kcoord.member.core.held.holdings import AssignedPartition, Assignment
from spark_kcoord.member.settings import MemberSettings

Key = tuple[str, int]

SCHEMA = arrow_schema(("key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "headers"))


def owned(partition: int, start: int = 0, epoch: int = 7, *, is_stopping: bool = False) -> AssignedPartition:
    return AssignedPartition("t", "id", partition, epoch, start, start, is_stopping, has_claim=False)


Headers = Sequence[tuple[str, bytes | None]]


def rows(key: Key, offsets: Sequence[int], headers: Mapping[int, Headers] | None = None) -> pa.RecordBatch:
    known = headers or {}
    made = [
        {
            "key": None,
            "value": b"%d" % offset,
            "topic": key[0],
            "partition": key[1],
            "offset": offset,
            "timestamp": offset,
            "timestampType": 0,
            "headers": [{"key": name, "value": value} for name, value in known[offset]] if offset in known else None,
        }
        for offset in offsets
    ]
    return pa.RecordBatch.from_pylist(made, schema=SCHEMA)


def chunk(
    key: Key,
    token: int,
    start: int,
    end: int,
    *,
    offsets: Sequence[int] | None = None,
    headers: Mapping[int, Headers] | None = None,
) -> Chunk:
    """Return the offsets [start, end) of a partition, all of them with a row unless told which."""
    found = range(start, end) if offsets is None else offsets
    made = rows(key, found, headers) if found else None
    return Chunk(key, token, start, end, made, 10 * len(found), ((end, 3),), end, end)


@dataclass
class FakeMember:
    """A member whose coordinator is the test."""

    settings: MemberSettings
    given: Assignment = field(default_factory=lambda: Assignment((owned(0),), is_complete=True))
    failure: KcoordError | None = None
    is_left_alone: bool = False
    noted: list[tuple[OffsetToCommit, ...]] = field(default_factory=list)
    committed: list[tuple[OffsetToCommit, ...]] = field(default_factory=list)
    released: list[tuple[FinalOffset, ...]] = field(default_factory=list)
    reported: list[Any] = field(default_factory=list)
    report_answers: list[PartitionResult] = field(default_factory=list)
    refusals: dict[int, ErrorCode] = field(default_factory=dict)
    left_with: list[FinalOffset] | None = None
    resubscribed: list[MemberSettings] = field(default_factory=list)
    polls: int = 0
    is_closed: bool = False
    learned: tuple[tuple[str, int], ...] = ()
    holds_answers: bool = False
    held_answers: list[tuple[Future[Any], Any]] = field(default_factory=list)

    @property
    def coordinators(self) -> tuple[tuple[str, int], ...]:
        return (*self.learned, *self.settings.coordinators)

    def give(self, *partitions: AssignedPartition, is_complete: bool = True) -> None:
        self.given = Assignment(partitions, is_complete=is_complete)

    def ask(self, call: AnyCall, timeout_ms: int | None = None) -> Future[Any]:
        answer: Future[Any] = Future()
        result: Any = None
        if isinstance(call, JoinCall) and self.failure is not None:
            answer.set_exception(self.failure)
            return answer
        if isinstance(call, JoinCall):
            result = Joined("m1", "cluster", ("kafka:9092",), ())
        elif isinstance(call, CommitCall):
            self.committed.append(call.offsets)
            result = tuple(
                PartitionResult("t", asked.partition, self.refusals.get(asked.partition, ErrorCode.NONE), "it is m2's")
                for asked in call.offsets
            )
        elif isinstance(call, ReportCall):
            self.reported += call.partitions
            result = tuple(self.report_answers)
        elif isinstance(call, LeaveCall):
            self.left_with = list(call.finals)
        if self.holds_answers:
            self.held_answers.append((answer, result))
        else:
            answer.set_result(result)
        return answer

    def answer(self) -> None:
        for answer, result in self.held_answers:
            answer.set_result(result)
        self.held_answers.clear()

    def assignment(self) -> Assignment:
        if self.failure is not None:
            raise self.failure
        return self.given

    def note_positions(self, offsets: Sequence[OffsetToCommit]) -> None:
        self.noted.append(tuple(offsets))

    def release(self, finals: Sequence[FinalOffset]) -> None:
        self.released.append(tuple(finals))

    def polled(self) -> None:
        self.polls += 1

    def resubscribe(self, settings: MemberSettings) -> None:
        self.resubscribed.append(settings)

    def close(self) -> None:
        self.is_closed = True


@dataclass
class FakeFetcher:
    """Partitions [begin, end) of records that hold their offset; what is wanted is there when it is asked for."""

    ends: dict[Key, int]
    begins: dict[Key, int] = field(default_factory=dict)
    rows_of_chunk: int = 4
    headers: dict[int, Headers] = field(default_factory=dict)
    """Headers of records by their offset."""
    topic_id: str | None = None
    """The id of the topic that has the name now."""
    wanted: dict[Key, Wanted] = field(default_factory=dict)
    news_now: list[Fetched] = field(default_factory=list)
    """News that come beside the records."""
    untaken: list[Fetched] = field(default_factory=list)
    at: dict[tuple[Key, int], int] = field(default_factory=dict)
    held_bytes: int = 0
    parked_bytes: int = 0
    is_closed: bool = False

    def want(self, wanted: Mapping[Key, Wanted]) -> None:
        self.wanted = dict(wanted)

    def taken(self, news: Sequence[Fetched]) -> None:
        for one in news:
            if self.untaken and self.untaken[0] is one:
                del self.untaken[0]

    def news(self) -> list[Fetched]:
        news, self.news_now = self.news_now, []
        for key, one in self.wanted.items():
            position = self.at.get((key, one.token), one.position)
            if one.named_id not in (None, self.topic_id):
                news.append(OutOfRange(key, one.token, position, is_new_topic=True))
                continue
            if position < 0:
                position = self.begins.get(key, 0) if position == -2 else self.ends.get(key, 0)
                news.append(Resolved(key, one.token, position, self.topic_id))
            while position < self.ends.get(key, 0):
                end = min(self.ends[key], position + self.rows_of_chunk)
                made = chunk(key, one.token, position, end, headers=self.headers)
                news.append(replace(made, topic_id=self.topic_id))
                position = end
            self.at[key, one.token] = position
        self.held_bytes += sum(one.size for one in news if isinstance(one, Chunk))
        self.untaken += news
        return list(self.untaken)

    def counts(self) -> FetchCounts:
        return FetchCounts(requests=3, fetches=2, fetched_bytes=99, latency_total_ms=50.0, latency_max_ms=40.0)

    def free(self, freed_bytes: int, parked_bytes: int) -> None:
        self.held_bytes -= freed_bytes
        self.parked_bytes = parked_bytes

    def close(self) -> None:
        self.is_closed = True

    def abandon(self) -> None:
        self.is_closed = True


class Heard:
    """A listener that keeps what it hears, and does what a test wants with it."""

    def __init__(self) -> None:
        self.heard: list[tuple[str, list[int]]] = []
        self.then: dict[str, Callable[[], object]] = {}

    def on_partitions_revoked(self, revoked: Any) -> None:
        self._hear("revoked", revoked)

    def on_partitions_assigned(self, assigned: Any) -> None:
        self._hear("assigned", assigned)

    def on_partitions_lost(self, lost: Any) -> None:
        self._hear("lost", lost)

    def _hear(self, what: str, partitions: Any) -> None:
        self.heard.append((what, sorted(one.partition for one in partitions)))
        if what in self.then:
            self.then[what]()


class AsyncRig(AsyncConsumer):
    """An asyncio consumer with its fakes: `member`, `kafka`, and `now` is the time, which waits let pass.

    While `is_still` a wait ends when the bell rings alone.
    """

    def __init__(self, ends: dict[Key, int] | None = None, topics: Sequence[str] = ("t",), **settings: Any) -> None:
        self.now = 0.0
        self.is_still = False
        self.members: list[FakeMember] = []
        self.kafka = FakeFetcher({("t", 0): 10} if ends is None else ends)
        self.listener = Heard()
        self.while_waiting: list[Callable[[], object]] = []
        known: dict[str, Any] = {"coordinators": "c:1", "group_id": "g"}
        super().__init__(**(known | settings))
        if topics:
            self.subscribe(topics, listener=self.listener)  # type: ignore[arg-type]

    @property
    def member(self) -> FakeMember:
        return self.members[-1]

    def _make_flows(self, ring: Callable[[], None]) -> Flows:
        return Flows(self._settings, ring, lambda: self.now, member=self._make_member, fetcher=lambda *_: self.kafka)

    def _make_member(self, settings: MemberSettings, on_change: Callable[[], None]) -> FakeMember:
        self.members.append(FakeMember(settings))
        return self.members[-1]

    async def _perform(self, wish: Any) -> Any:
        if isinstance(wish, Wait):
            if self.while_waiting:
                self.while_waiting.pop(0)()
            elif self.is_still:
                await self._bell.wait(wish.seconds)
            else:
                self.now += wish.seconds
            await asyncio.sleep(0)
            return None
        return await super()._perform(wish)

    async def offsets(
        self, *partitions: Any, timeout_ms: float = 0, max_records: int | None = None
    ) -> list[tuple[int, int]]:
        """Poll, and return partition and offset of each record."""
        found = await self.getmany(*partitions, timeout_ms=timeout_ms, max_records=max_records)
        return [(record.partition, record.offset) for records in found.values() for record in records]


class Rig(Consumer):
    """A consumer with its fakes: `member`, `kafka`, and `now` is the time."""

    made: ClassVar[WeakSet["Rig"]] = WeakSet()
    """All that were made and are not forgotten, to be closed."""

    def __init__(self, ends: dict[Key, int] | None = None, topics: Sequence[str] = ("t",), **settings: Any) -> None:
        self.now = 0.0
        self.members: list[FakeMember] = []
        self.kafka = FakeFetcher({("t", 0): 10} if ends is None else ends)
        self.listener = Heard()
        self.while_waiting: list[Callable[[], object]] = []
        self.waits: list[float] = []
        known: dict[str, Any] = {"coordinators": "c:1", "group_id": "g"}
        super().__init__(**(known | settings))
        Rig.made.add(self)
        if topics:
            self.subscribe(topics, listener=self.listener)  # type: ignore[arg-type]

    @property
    def member(self) -> FakeMember:
        return self.members[-1]

    def _make_flows(self, ring: Callable[[], None]) -> Flows:
        return Flows(self._settings, ring, lambda: self.now, member=self._make_member, fetcher=lambda *_: self.kafka)

    def _make_member(self, settings: MemberSettings, on_change: Callable[[], None]) -> FakeMember:
        self.members.append(FakeMember(settings))
        return self.members[-1]

    def _perform(self, wish: Any) -> Any:
        if type(wish).__name__ == "Wait":
            self.waits.append(wish.seconds)
            self.now += wish.seconds
            if self.while_waiting:
                self.while_waiting.pop(0)()
            return None
        return super()._perform(wish)

    @classmethod
    def close_all(cls) -> None:
        """Close what a test has made and not closed, its coordinator there again: a close waits for its answers."""
        for rig in list(cls.made):
            rig.listener.then.clear()
            for member in rig.members:
                member.holds_answers = False
                member.answer()
            rig.close()

    def offsets(self, timeout_ms: float = 0, max_records: int | None = None) -> list[tuple[int, int]]:
        """Poll, and return partition and offset of each record."""
        found = self.poll(timeout_ms, max_records)
        return [(record.partition, record.offset) for records in found.values() for record in records]
