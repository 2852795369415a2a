"""The fetcher of a plain consumer, in a Kafka that is simulated.

In most runs all that there is of a partition comes at once, when nothing of it is left. In some its memory is small
until the faults end: then it has worked when a poll begins, by what the poll before has told it, and by the product's
own rules for how much may be asked for, which partition is next, and what it is told of what is free and what is
parked. A request to a broker that has no records for it waits there, and with it the room for what it may bring.
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from coordinator.protocol.vocabulary import IsolationLevel
from spark_kcoord.consumer.core.machine import ConsumerMachine
from spark_kcoord.consumer.core.memory import Memory, parked
from spark_kcoord.errors import DataLossError, KafkaAwayError, UnknownTopicError
from spark_kcoord.fetch.decoding.columns import arrow_schema
from spark_kcoord.fetch.tailing.fetched import AT_BEGINNING, Chunk, Fetched, OutOfRange, Resolved, Wanted
from spark_kcoord.fetch.tailing.parts import Part, Parts
from spark_kcoord.fetch.tailing.room import Room
from spark_kcoord.fetch.topic_range import TopicRange
from tests.sim.kafka import leader_of
from tests.sim.log.state import ViolationError
from tests.sim.process import TopicPartition
from tests.sim.reading import NothingCameError

if TYPE_CHECKING:
    from tests.sim.world import World

SCHEMA = arrow_schema(("topic", "partition", "offset"))
WAIT_S = 0.5
"""The longest that a broker waits for records; with it, what a request may bring is taken from the others."""
PARTITION_RECORDS = 4
"""Records of one partition that an answer has at most, where memory is small."""
ALL_RECORDS = 10_000
"""The memory that there is in the end, when what piled up is to be read in bounded time."""


@dataclass(frozen=True, slots=True)
class _Asked:
    """A request to a broker: for which partitions, how many records, and until when it may wait."""

    parts: tuple[Part, ...]
    most: int
    until_s: float


class Fetcher:
    """What comes between two polls of a consumer. A record takes one byte."""

    def __init__(self, world: "World", name: str, level: str) -> None:
        self._world = world
        self._kafka = world.kafka
        self._name = name
        self._is_read_committed = level == IsolationLevel.READ_COMMITTED
        most = world.mix.fetched_records
        self._room = Room(most, PARTITION_RECORDS, most) if most is not None else None
        self._memory = Memory(*((most, PARTITION_RECORDS) if most is not None else (ALL_RECORDS, ALL_RECORDS)))
        self._parts = Parts(Random(f"fetcher of {name}").uniform)
        self._out: dict[int, _Asked] = {}
        self.in_vain: set[TopicPartition] = set()
        """The partitions that were asked for since the poll before, for whose answers a broker or Kafka is to blame."""

    def fetch(self, machine: ConsumerMachine) -> list[Fetched]:
        """Return what has come; the machine takes it, and `taken` follows."""
        self.in_vain.clear()
        if self._room is not None:
            if self._world.is_healing:
                self._room.max_bytes = self._room.partition_bytes = self._room.answer_bytes = ALL_RECORDS
                self._memory.max_bytes = self._memory.partition_bytes = ALL_RECORDS
            news = list(self._work(self._room))
            self._want(machine)
            return news
        machine.wanted()
        return [
            news
            for held in machine
            if held.may_be_fetched and not held.buffer
            for news in self._of(held.key, Wanted(held.grant.topic_id, held.token, held.fetch_at, held.last_epoch))
        ]

    def ask_for(self, keys: Collection[TopicPartition]) -> None:
        """Note which partitions a poll names, none for all."""
        self._memory.ask_for(keys)

    def taken(self, machine: ConsumerMachine) -> None:
        """Tell the fetcher what is free, what is parked, and what is wanted now, as the product's flow does."""
        room = self._room
        if room is not None:
            held = sum(chunk.size for one in machine for chunk in one.buffer)
            self._memory.set_aside(machine)
            self._want(machine)
            self._memory.tell(machine, room.free)
            self._world.checker.coverage["memory full"] += room.left() <= 0
            self._world.checker.coverage["memory full of what is paused"] += parked(machine) >= room.max_bytes
            self._world.checker.coverage["memory full of what is not named"] += any(one.is_set_aside for one in machine)
            if room.held_bytes != held:
                raise ViolationError("memory", f"{self._name} holds {held}, and its fetcher counts {room}")

    def _want(self, machine: ConsumerMachine) -> None:
        wanted = machine.wanted()
        if wanted is not None:
            self._parts.adopt(wanted)
            machine.is_wanted(wanted)

    # ---- with little memory -----------------------------------------------------------------------------------------

    def _work(self, room: Room) -> Iterator[Fetched]:
        """Yield all that comes until there is no room, or no broker has anything more."""
        now_s = self._world.schedule.now_ms / 1000
        for part in self._parts.unresolved(now_s):
            yield from self._take(part, 0, now_s)
        while True:
            for broker, asked in list(self._out.items()):
                news = list(self._answer(room, asked, now_s))
                if news or asked.until_s <= now_s or any(part.key in self.in_vain for part in asked.parts):
                    del self._out[broker]
                    for part in asked.parts:
                        part.is_out = False
                room.held_bytes += sum(one.size for one in news if isinstance(one, Chunk))
                yield from news
            if not self._ask(room, now_s):
                return

    def _ask(self, room: Room, now_s: float) -> bool:
        """Ask each broker that is not asked for all that it leads; say if one was asked."""
        left = room.left() - sum(asked.most for asked in self._out.values())
        if left <= 0:
            return False
        by_broker: dict[int, list[Part]] = {}
        for part in self._parts.ready(now_s):
            broker = leader_of(part.key[1])
            if broker not in self._out:
                by_broker.setdefault(broker, []).append(part)
        for number, (broker, parts) in enumerate(by_broker.items()):
            most = room.share(left, len(by_broker) - number)
            left -= most
            for part in parts:
                part.is_out = True
            self._out[broker] = _Asked(tuple(parts), most, now_s + WAIT_S)
        return bool(by_broker)

    def _answer(self, room: Room, asked: _Asked, now_s: float) -> Iterator[Fetched]:
        """Yield what a broker answers: records of the first partitions that have some, as many as there may be."""
        left = asked.most
        for part in asked.parts:
            if self._parts.is_current(part):
                for news in self._take(part, min(left, room.partition_bytes), now_s):
                    left -= news.size if isinstance(news, Chunk) else 0
                    yield news

    def _take(self, part: Part, most: int, now_s: float) -> Iterator[Fetched]:
        """Yield what comes of one partition, and have it stand behind that."""
        wanted = Wanted(part.topic_id, part.token, part.position, part.last_epoch)
        has_records = False
        for news in self._of(part.key, wanted, most):
            if isinstance(news, Resolved):
                part.position = news.position
            elif isinstance(news, Chunk):
                if news.rows is None and news.end == part.end:
                    continue
                part.position, part.end = news.next_offset, news.end
                has_records = has_records or news.rows is not None
            else:
                part.is_stopped = True
            yield news
        if part.key in self.in_vain:
            self._parts.put_off(part, now_s)
        elif has_records:
            self._parts.served(part)

    # ---- what Kafka has ---------------------------------------------------------------------------------------------

    def _of(self, key: TopicPartition, wanted: Wanted, most: int | None = None) -> Iterator[Fetched]:
        """Yield what comes of a partition at once, at most up to where its log ends."""
        ends = self._ask_ends(key)
        if ends is None or not self._is_same_topic(key, wanted):
            self.in_vain.add(key)
            return
        begin, end, high_watermark = ends
        if wanted.position < 0:
            yield Resolved(key, wanted.token, begin if wanted.position == AT_BEGINNING else end)
            return
        if not begin <= wanted.position <= high_watermark:
            yield OutOfRange(key, wanted.token, wanted.position)
            return
        until = end if most is None else min(end, wanted.position + most)
        if end <= wanted.position:
            yield Chunk(key, wanted.token, wanted.position, wanted.position, None, 0, (), end, high_watermark)
            return
        if until <= wanted.position:
            return
        topic_range = TopicRange(key[0], wanted.topic_id, key[1], wanted.position, until)
        stable = self._kafka.stable_end(*key)
        if self._is_read_committed and end > stable:
            raise ViolationError(
                "unstable-read", f"{self._name} reads {topic_range}, and all is decided up to {stable}"
            )
        try:
            for start, after in self._world.brokers.read_at_once(self._name, topic_range):
                rows = rows_of(key, start, after)
                yield Chunk(key, wanted.token, start, after, rows, after - start, (), end, high_watermark)
        except (NothingCameError, KafkaAwayError):
            self.in_vain.add(key)
        except DataLossError:
            yield OutOfRange(key, wanted.token, wanted.position)

    def _is_same_topic(self, key: TopicPartition, wanted: Wanted) -> bool:
        topic = self._kafka.topics.get(key[0])
        return topic is not None and topic.topic_id == wanted.topic_id and key[1] < len(topic.ends)

    def _ask_ends(self, key: TopicPartition) -> tuple[int, int, int] | None:
        try:
            begins = self._kafka.begins([key])
            ends = self._kafka.ends([key], is_read_committed=self._is_read_committed)
            marks = self._kafka.ends([key])
        except UnknownTopicError:
            return None
        if not begins or not ends or not marks:
            return None
        return begins[key], ends[key], marks[key]


def rows_of(key: TopicPartition, start: int, end: int) -> pa.RecordBatch:
    """Return the records of a range, of which only the place is known."""
    columns: dict[str, Any] = {
        "topic": [key[0]] * (end - start),
        "partition": [key[1]] * (end - start),
        "offset": range(start, end),
    }
    return pa.RecordBatch.from_arrays([pa.array(columns[f.name], f.type) for f in SCHEMA], schema=SCHEMA)
