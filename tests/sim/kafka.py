"""Kafka as the simulation needs it: topics with an identity, partitions with a begin and an end, and bad days.

Records have no content: a record is its topic id, partition and offset. It remembers what it ever answered about
offsets, so that a start that nobody said can be told from one that somebody did.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from random import Random

from coordinator.core.effects import OffsetToResolve
from coordinator.core.events import ResolvedOffset, TopicMetadata
from coordinator.protocol.ids import EARLIEST, LATEST
from spark_kcoord.errors import UnknownTopicError
from tests.sim.transactions import Transactions

CLUSTER = "cluster-1"
BROKERS = {1: ("k1", 9092), 2: ("k2", 9092)}


@dataclass(slots=True)
class Topic:
    """One topic; a topic that is made again is another one."""

    topic_id: str
    begins: list[int]
    ends: list[int]


class Kafka:
    """The brokers."""

    def __init__(self, dice: Random, topics: Mapping[str, int], transactional: float = 0.0) -> None:
        self._dice = dice
        self.transactions = Transactions(dice, transactional)
        self._old_ends: dict[tuple[str, int], int] = {}
        self._had_old_ends: set[tuple[str, int]] = set()
        self._stable_ends: dict[tuple[str, int, int], int] = {}
        """The newest topic that was answered for with an end before which everybody can read all, as `_answered`."""
        self.topics: dict[str, Topic] = {}
        self.aside: set[str] = set()
        """Topics to which only those write who have made them."""
        self.is_away = False
        self._answered: dict[tuple[str, int, int], int] = {}
        """The newest topic that was answered for, by topic name, partition and the offset named."""
        self._made = 0
        for name, partitions in topics.items():
            self.create(name, partitions)

    def has(self, name: str, number: int) -> bool:
        """Say whether a partition exists."""
        return name in self.topics and number < len(self.topics[name].ends)

    @property
    def longest(self) -> int:
        """Return how many records the partition has that has the most."""
        topics = self.topics.values()
        return max(
            (end - begin for topic in topics for begin, end in zip(topic.begins, topic.ends, strict=True)), default=0
        )

    def create(self, name: str, partitions: int, dice: Random | None = None) -> None:
        dice = dice or self._dice
        self._made += 1
        begins = [dice.choice((3, 10, 50)) for _ in range(partitions)]
        ends = [begin + dice.choice((0, 5, 30)) for begin in begins]
        self.topics[name] = Topic(f"id-{self._made}", begins, ends)

    def delete(self, name: str) -> None:
        del self.topics[name]

    def grow(self, name: str, dice: Random | None = None) -> None:
        topic = self.topics[name]
        topic.begins.append(0)
        topic.ends.append((dice or self._dice).choice((0, 4)))

    def retain(self, name: str, number: int, begin: int) -> None:
        """Delete the oldest records of a partition."""
        topic = self.topics[name]
        topic.begins[number] = min(max(topic.begins[number], begin), topic.ends[number])

    def append(self) -> None:
        """Write some records somewhere."""
        names = sorted(self.topics.keys() - self.aside)
        if names:
            topic = self.topics[self._dice.choice(names)]
            number = self._dice.randrange(len(topic.ends))
            topic.ends[number] = self.transactions.append((topic.topic_id, number), topic.ends[number])
            topic.ends[number] += self._dice.choice((1, 1, 3, 10))

    def end_transactions(self) -> None:
        """Have every transaction end."""
        for topic in self.topics.values():
            for number, end in enumerate(topic.ends):
                topic.ends[number] = self.transactions.finish((topic.topic_id, number), end)

    def stable_end(self, name: str, number: int) -> int:
        """Return up to where everybody can read a partition."""
        topic = self.topics[name]
        return self._stable(topic, number)

    def _stable(self, topic: Topic, number: int) -> int:
        # Of a transaction whose first records are deleted, what is left begins where the log does.
        return max(topic.begins[number], self.transactions.stable((topic.topic_id, number), topic.ends[number]))

    def forget_an_end(self) -> tuple[str, int] | None:
        """Have a broker answer an end as it was a moment ago, once a partition; return which, if there is any."""
        every = [
            (name, number)
            for name, topic in sorted(self.topics.items())
            for number, (begin, end) in enumerate(zip(topic.begins, topic.ends, strict=True))
            if begin < end and (topic.topic_id, number) not in self._had_old_ends
        ]
        if not every:
            return None
        name, number = self._dice.choice(every)
        topic = self.topics[name]
        self._had_old_ends.add((topic.topic_id, number))
        oldest = max(topic.begins[number], topic.ends[number] - 20)
        self._old_ends[topic.topic_id, number] = self._dice.randrange(oldest, topic.ends[number])
        return topic.topic_id, number

    def remember_the_end(self, log: tuple[str, int]) -> None:
        """Have the broker know where a partition ends again."""
        self._old_ends.pop(log, None)

    def _answered_end(self, name: str, number: int, *, is_read_committed: bool) -> int:
        """Return the end that a broker answers."""
        topic = self.topics[name]
        log = (topic.topic_id, number)
        end = topic.ends[number]
        stable = self._stable(topic, number)
        known = max(topic.begins[number], min(self._old_ends.get(log, end), stable if is_read_committed else end))
        if known <= stable:
            self._stable_ends[name, number, known] = _number(topic.topic_id)
        return known

    # ---- asked by the coordinator -----------------------------------------------------------------------------------

    def metadata(self, names: Iterable[str], *, lists_all: bool) -> tuple[dict[str, TopicMetadata], frozenset[str]]:
        """Return what there is and the names of what there is not."""
        found, absent = {}, set()
        for name in sorted({*names, *self.topics} if lists_all else names):
            topic = self.topics.get(name)
            if topic is None:
                absent.add(name)
            else:
                leaders = tuple(leader_of(number) for number in range(len(topic.ends)))
                found[name] = TopicMetadata(name, topic.topic_id, leaders)
        return found, frozenset(absent)

    def is_missing(self, name: str, topic_id: str, partition: int, offset: int) -> bool:
        """Say whether a partition does not have an offset; of a topic that is gone nobody can tell."""
        topic = self.topics.get(name)
        if topic is None or topic.topic_id != topic_id:
            return True
        return not topic.begins[partition] <= offset <= topic.ends[partition]

    def ends_before(self, name: str, topic_id: str, partition: int, offset: int) -> bool:
        """Say whether a partition of this very topic ends before an offset."""
        topic = self.topics.get(name)
        return topic is not None and topic.topic_id == topic_id and topic.ends[partition] < offset

    def resolve(self, wishes: Sequence[OffsetToResolve]) -> tuple[ResolvedOffset, ...]:
        return tuple(self._resolve(wish) for wish in wishes)

    def _resolve(self, wish: OffsetToResolve) -> ResolvedOffset:
        topic = self.topics.get(wish.topic)
        if self.is_away or topic is None or wish.partition >= len(topic.ends) or self._dice.random() < 0.05:
            return ResolvedOffset(wish.topic, wish.partition, None, why="the partition has no leader")
        begin = topic.begins[wish.partition]
        end = self._answered_end(wish.topic, wish.partition, is_read_committed=wish.is_read_committed)
        if wish.timestamp_ms == EARLIEST:
            offset = begin
        elif wish.timestamp_ms == LATEST:
            offset = end
        else:
            offset = LATEST if begin == end else begin + (end - begin) // 2
        if offset >= 0:
            self._answered[wish.topic, wish.partition, offset] = _number(topic.topic_id)
        return ResolvedOffset(wish.topic, wish.partition, offset, leader_epoch=1)

    def was_answered(self, name: str, topic_id: str, partition: int, offset: int) -> bool:
        """Say whether an offset was ever named for a topic.

        Kafka does not say of which topic it speaks: when one was made again, what is meant for the new one can be taken
        for the old one's, which is gone.
        """
        return self._answered.get((name, partition, offset), 0) >= _number(topic_id)

    def has_surely(self, name: str, partition: int, offset: int) -> bool:
        """Say whether a partition has an offset and no broker ever told an old end of it."""
        topic = self.topics.get(name)
        if topic is None or partition >= len(topic.ends) or (topic.topic_id, partition) in self._had_old_ends:
            return False
        return topic.begins[partition] <= offset <= topic.ends[partition]

    def was_stable_end(self, name: str, topic_id: str, partition: int, offset: int) -> bool:
        """Say whether an offset was ever answered as an end before which there was no open transaction.

        As with `was_answered`, what is meant for the new topic can be taken for the old one's: of the transactions of
        that nothing is left to pass over, and where the new one starts is decided under its own id.
        """
        return self._stable_ends.get((name, partition, offset), 0) >= _number(topic_id)

    # ---- asked by queries -------------------------------------------------------------------------------------------

    def ends(
        self, partitions: Sequence[tuple[str, int]], *, is_read_committed: bool = False
    ) -> dict[tuple[str, int], int] | None:
        """Return the ends of the partitions that exist, as far as the asker reads, or None when Kafka cannot say.

        Raises UnknownTopicError naming topics that are gone.
        """
        if self.is_away:
            return None
        return {
            key: self._answered_end(*key, is_read_committed=is_read_committed) for key, _ in self._found(partitions)
        }

    def begins(self, partitions: Sequence[tuple[str, int]]) -> dict[tuple[str, int], int] | None:
        """Return the first offsets of the partitions that exist; as `ends`."""
        return None if self.is_away else {key: topic.begins[key[1]] for key, topic in self._found(partitions)}

    def _found(self, partitions: Sequence[tuple[str, int]]) -> list[tuple[tuple[str, int], Topic]]:
        gone = sorted({name for name, _ in partitions if name not in self.topics})
        if gone:
            raise UnknownTopicError(f"Kafka has no topic {', '.join(gone)}.", gone)
        return [(key, self.topics[key[0]]) for key in partitions if self.has(*key)]


def leader_of(number: int) -> int:
    """Return the broker that leads the partitions of a number."""
    return 1 + number % len(BROKERS)


def _number(topic_id: str) -> int:
    return int(topic_id.removeprefix("id-"))
