"""What the tasks of micro-batches read: the product's own `RangeProgress` over the answers of simulated brokers.

A broker answers with too little, with nothing, late, with an error, or not at all, or does not know its topics yet.
Some partitions were compacted: the offsets that hold nothing are the same in every read. Some have a remote tier, which
is slow at times: what is below the local part of a log is then not sent, without an error. What the progress calls read
reaches the sink, and a range that ends well without a record that Kafka has, or had and lost while losses fail the
read, is a broken promise.
"""

import math
import struct
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING

import kafka.errors as kafka_errors

from coordinator.protocol.parts import Claim
from spark_kcoord.errors import KafkaAwayError
from spark_kcoord.fetch.progress import TOPIC_GONE, RangeProgress
from spark_kcoord.fetch.requests import PartAnswer
from spark_kcoord.fetch.topic_range import TopicRange
from spark_kcoord.options.kafka_settings import KafkaSettings
from tests.helpers.record_batches import Row, record_batch
from tests.sim.kafka import Topic
from tests.sim.log.state import ViolationError

if TYPE_CHECKING:
    from tests.sim.world import World

SETTINGS = KafkaSettings(servers=("k:1",))
PASSING = (
    kafka_errors.NotLeaderForPartitionError,
    kafka_errors.KafkaConnectionError,
    kafka_errors.UnknownError,
)
LONG_POLL_MS = 500
HOLE_EVERY, HOLE_LENGTH = 11, 7
EXPECTED_ENDS = ("cannot be read. Kafka at", "Nothing was skipped", "could not be asked what it has")
"""Words of the errors that reading may end with in a world full of faults."""
ANSWERS = ("short", "crowded", "error", "out of range", "topic gone", "slow tier", "hole", "question lost", "unaware")
"""Everything that an answer can be beside whole."""
_HEADER = bytes(record_batch([Row()]))
_LAST_DELTA_AT = 23


@dataclass(frozen=True, slots=True)
class ReadingMix:
    """How brokers answer fetches in one run."""

    is_tiered: bool
    is_compacted: bool
    timeout_s: float
    trouble: float
    """Chance that an answer is not whole."""
    slow_tier: float
    """Chance that a read of the remote tier makes it slow for a while."""
    unaware: float = 0.0
    """Chance that a leader does not know a topic for a while which Kafka has, as one that was just started."""


def draw_reading(dice: Random) -> ReadingMix:
    """Draw how brokers answer in one run."""
    is_tiered = dice.random() < 0.4
    return ReadingMix(
        is_tiered=is_tiered,
        is_compacted=not is_tiered and dice.random() < 0.5,  # as in Kafka: a topic is the one or the other
        timeout_s=dice.choice((1.0, 4.0, 20.0)),
        trouble=dice.choice((0.0, 0.05, 0.3)),
        slow_tier=dice.choice((0.05, 0.3)),
    )


class NothingCameError(Exception):
    """The next records of a range take time."""


@dataclass(slots=True)
class _Reading:
    """One range under way, and what was read of it."""

    progress: RangeProgress
    has_holes: bool
    is_to_be_whole: bool = True
    """What is lost fails the read."""
    parts: list[tuple[int, int]] = field(default_factory=list)

    def is_hole(self, offset: int) -> bool:
        """Say whether compaction took an offset."""
        return self.has_holes and (offset + 3 * self.progress.wanted.partition) % HOLE_EVERY < HOLE_LENGTH


class Brokers:
    """Answers fetches, and reads ranges by what was answered."""

    def __init__(self, world: "World") -> None:
        self._world = world
        self._mix = world.mix.reading
        self._local_starts: dict[tuple[str, int], int] = {}
        self._slow_until_ms = self._unaware_until_ms = 0

    def read(self, name: str, claims: Iterable[Claim], *, fail_on_data_loss: bool | None = None) -> Iterator[int]:
        """Read ranges to their ends; yields how many milliseconds nothing comes. Raises what the product raises."""
        fails = self._world.fails_on_data_loss if fail_on_data_loss is None else fail_on_data_loss
        readings = [
            _Reading(self._progress(claim, fails), self._mix.is_compacted, is_to_be_whole=fails)
            for claim in (
                TopicRange(claim.topic, claim.topic_id, claim.partition, claim.from_offset, claim.until_offset)
                for claim in claims
            )
        ]
        while unread := [reading for reading in readings if not reading.progress.is_done]:
            now = self._world.schedule.now_ms / 1000
            for reading in unread:
                while not reading.progress.is_done and self._advance(reading, now):
                    """Take what comes at once."""
            waiting = [reading.progress.ready_at for reading in unread if not reading.progress.is_done]
            if waiting:
                yield max(self._world.dice.choice((1, 20, LONG_POLL_MS)), math.ceil((min(waiting) - now) * 1000))
        for reading in readings:
            self._must_be_whole(name, reading)

    def read_at_once(self, name: str, wanted: TopicRange) -> Iterator[tuple[int, int]]:
        """Yield the offsets [start, end) of a range that come without waiting, for a consumer, to which losses matter.

        Raises NothingCameError when the rest takes time. What a consumer reads was never compacted: who looks at it
        knows of no holes.
        """
        is_whole = self._world.fails_on_data_loss
        reading = _Reading(self._progress(wanted, fail_on_data_loss=True), has_holes=False, is_to_be_whole=is_whole)
        now = self._world.schedule.now_ms / 1000
        while not reading.progress.is_done:
            if self._advance(reading, now):
                yield reading.parts[-1]
            elif not reading.progress.is_done:
                raise NothingCameError
        self._must_be_whole(name, reading)

    def _progress(self, wanted: TopicRange, fail_on_data_loss: bool) -> RangeProgress:
        return RangeProgress(
            wanted,
            SETTINGS,
            fail_on_data_loss=fail_on_data_loss,
            timeout_s=self._mix.timeout_s,
            uniform=self._world.dice.uniform,
        )

    def _advance(self, reading: _Reading, now: float) -> bool:
        """Ask once for the next records of a range; return whether any came."""
        progress = reading.progress
        if progress.ready_at > now:
            return False
        answer = self._answer(reading)
        if answer.error is not None:
            errno = getattr(answer.error, "errno", None)
            if self._topic(progress.wanted) is None and errno in TOPIC_GONE:
                progress.miss(answer.error, now)  # metadata is asked again, and says so too
            elif progress.fail(answer.error, now):
                self._compare(progress, now)
            return False
        part = progress.take(answer, now)
        if part is not None:
            reading.parts.append((part.start, part.end))
        elif progress.is_in_doubt:
            progress.settle(self._local_start_said(progress.wanted), now)
        return part is not None

    # ---- answers ----------------------------------------------------------------------------------------------------

    def _answer(self, reading: _Reading) -> PartAnswer:
        wanted, position = reading.progress.wanted, reading.progress.position
        topic = self._topic(wanted)
        if self._world.kafka.is_away:
            return PartAnswer(kafka_errors.KafkaConnectionError("reset by peer"))
        if topic is None:
            self._count("topic gone")
            return PartAnswer(kafka_errors.UnknownTopicIdError(wanted.topic))
        if self._mix.unaware and self._is_unaware():
            self._count("unaware")
            return PartAnswer(kafka_errors.UnknownTopicIdError(wanted.topic))
        begin, end = topic.begins[wanted.partition], topic.ends[wanted.partition]
        if not begin <= position <= end:
            self._count("out of range")
            return PartAnswer(kafka_errors.OffsetOutOfRangeError(wanted.topic))
        trouble = self._trouble()
        if trouble == "error":
            return PartAnswer(self._world.dice.choice(PASSING)(wanted.topic))
        if trouble == "crowded":
            return PartAnswer(None, log_start=begin, readable_end=end, had_its_turn=False)
        if position < self._local_start(wanted, topic) and self._tier_is_slow():
            self._count("slow tier")
            return PartAnswer(None, log_start=begin, readable_end=end, had_its_turn=True)
        is_hole = reading.is_hole
        first = next((offset for offset in range(position, end) if not is_hole(offset)), end)
        if first > position:
            self._count("hole")
        until = min(end, first + self._world.dice.randint(1, 9)) if trouble == "short" else end
        last = next((offset for offset in range(until - 1, first, -1) if not is_hole(offset)), first)
        records = _batch(first, last + 1) if first < end else b""
        return PartAnswer(None, records, log_start=begin, readable_end=end, had_its_turn=True)

    def _trouble(self) -> str:
        if self._world.is_healing or self._world.dice.random() >= self._mix.trouble:
            return ""
        trouble = self._world.dice.choice(("short", "short", "crowded", "error"))
        self._count(trouble)
        return trouble

    def _topic(self, wanted: TopicRange) -> Topic | None:
        topic = self._world.kafka.topics.get(wanted.topic)
        return topic if topic is not None and topic.topic_id == wanted.topic_id else None

    # ---- the remote tier --------------------------------------------------------------------------------------------

    def _local_start(self, wanted: TopicRange, topic: Topic) -> int:
        """Return where the leader's own part of a log begins, which only grows, and not beyond what is there."""
        begin, end = topic.begins[wanted.partition], topic.ends[wanted.partition]
        if not self._mix.is_tiered:
            return begin
        key = (topic.topic_id, wanted.partition)
        known = max(begin, self._local_starts.get(key, begin))
        if self._world.dice.random() < 0.2:
            known = max(known, end - self._world.dice.choice((0, 1, 5, 20)))
        self._local_starts[key] = known
        return known

    def _local_start_said(self, wanted: TopicRange) -> int | None:
        """Return what the leader says of its own part when it is asked, None when no answer comes."""
        topic = self._world.kafka.topics.get(wanted.topic)
        is_lost = not self._world.is_healing and self._world.dice.random() < self._mix.trouble
        if is_lost:
            self._count("question lost")
        if self._world.kafka.is_away or is_lost or topic is None or wanted.partition >= len(topic.ends):
            return None
        return self._local_start(wanted, topic)

    def _tier_is_slow(self) -> bool:
        now_ms, dice = self._world.schedule.now_ms, self._world.dice
        if self._world.is_healing:
            return False
        if now_ms >= self._slow_until_ms and dice.random() < self._mix.slow_tier:
            self._slow_until_ms = now_ms + dice.choice((300, 1_500, 6_000))
        return now_ms < self._slow_until_ms

    def _is_unaware(self) -> bool:
        now_ms, dice = self._world.schedule.now_ms, self._world.dice
        if self._world.is_healing:
            return False
        if now_ms >= self._unaware_until_ms and dice.random() < self._mix.unaware:
            self._unaware_until_ms = now_ms + dice.choice((300, 1_500, 6_000, 12_000))
        return now_ms < self._unaware_until_ms

    # ---- what is left -----------------------------------------------------------------------------------------------

    def _compare(self, progress: RangeProgress, now: float) -> None:
        if self._world.kafka.is_away:
            raise KafkaAwayError("Kafka could not be asked what it has.")
        topic, number = self._topic(progress.wanted), progress.wanted.partition
        if topic is None:
            progress.miss(kafka_errors.UnknownTopicOrPartitionError(progress.wanted.topic), now)
        else:
            progress.compare(topic.begins[number], topic.ends[number], now)

    def _must_be_whole(self, name: str, reading: _Reading) -> None:
        """Raise ViolationError when a range ended well without records that Kafka has or was not to lose."""
        wanted = reading.progress.wanted
        unread = [offset for offset in _between(wanted.start, wanted.end, reading.parts) if not reading.is_hole(offset)]
        topic = self._topic(wanted)
        if topic is not None and not reading.is_to_be_whole:
            unread = [offset for offset in unread if offset >= topic.begins[wanted.partition]]
        if unread and (topic is not None or reading.is_to_be_whole):
            raise ViolationError("lost-record", f"{name} ended {wanted} well and never read {unread}")

    def _count(self, answer: str) -> None:
        self._world.checker.coverage[f"answer {answer}"] += 1


def _between(start: int, end: int, parts: Sequence[tuple[int, int]]) -> list[int]:
    """Return the offsets of [start, end) that are in none of the parts."""
    return [offset for offset in range(start, end) if not any(first <= offset < until for first, until in parts)]


def _batch(first: int, until: int) -> bytes:
    """Return a batch of the offsets [first, until) as far as anybody looks at it who decodes no records."""
    batch = bytearray(_HEADER)
    struct.pack_into(">q", batch, 0, first)
    struct.pack_into(">i", batch, _LAST_DELTA_AT, until - first - 1)
    return bytes(batch)
