"""The newest answers of Kafka to a node: topics, brokers, ends and whether Kafka answers at all.

It is soft: gone with a restart and read again. It knows no groups and decides nothing.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from coordinator.core.events import EndOffsetsRead, TopicMetadata, TopicsRead

_ABSENCES_OF_A_DELETED_TOPIC: Final = 2
"""The times in a row that Kafka has to say that a topic does not exist: a broker that lags says it once."""


class Catalog:
    """The newest answers of Kafka."""

    __slots__ = (
        "_absences",
        "_brokers",
        "_ends",
        "_noted_before",
        "_noted_ends",
        "_topics",
        "_watched",
        "all_topics",
        "bootstrap",
        "cluster_id",
        "ends_read_ms",
        "failure",
        "listings",
    )

    def __init__(self, bootstrap: tuple[str, ...]) -> None:
        self.bootstrap = bootstrap
        self.cluster_id: str | None = None
        self.failure: str | None = None
        self.all_topics: frozenset[str] | None = None
        """The names of all topics that a pattern may match, while there is one and once Kafka has said them.

        Kafka's internal topics are not among them, whoever reads one by its name.
        """
        self.listings = 0
        """A count of the changes of these names."""
        self.ends_read_ms = 0
        """The time at which all ends were read last."""
        self._absences: dict[str, int] = {}
        self._topics: dict[str, TopicMetadata] = {}
        self._watched = 0
        self._brokers: Mapping[int, tuple[str, int]] = {}
        self._ends: Mapping[tuple[str, int], int] = {}
        self._noted_ends: dict[tuple[str, int], int] = {}
        self._noted_before: dict[tuple[str, int], int] = {}

    def read_topics(self, event: TopicsRead) -> frozenset[str]:
        """Take in an answer and return the topics that are gone or whose id or size is not what it was."""
        self.failure = None
        self.cluster_id = event.cluster_id or self.cluster_id
        self._brokers = event.brokers
        changed = set()
        for name, topic in event.topics.items():
            before = self._topics.get(name)
            if before is None or (before.topic_id, before.partitions) != (topic.topic_id, topic.partitions):
                changed.add(name)
            self._topics[name] = topic
            self._absences.pop(name, None)
        absent = set(event.absent)
        if event.is_whole and self.all_topics is not None:
            absent.update(self.all_topics.difference(event.topics, event.refused))
        for name in absent:
            self._topics.pop(name, None)
            self._absences[name] = self._absences.get(name, 0) + 1
            if self._absences[name] == _ABSENCES_OF_A_DELETED_TOPIC:
                changed.add(name)
        if event.is_whole:
            stay = (name for name in self.all_topics or () if not self.is_deleted(name))
            names = frozenset(name for name, topic in event.topics.items() if not topic.is_internal).union(stay)
            if names != self.all_topics:
                self.all_topics = names
                self.listings += 1
        return frozenset(changed)

    def is_deleted(self, name: str) -> bool:
        """True when Kafka has said of a topic more than once in a row that it does not exist."""
        return self._absences.get(name, 0) >= _ABSENCES_OF_A_DELETED_TOPIC

    def read_ends(self, event: EndOffsetsRead, now_ms: int) -> None:
        """Take in end offsets; one that could not be read is no longer known."""
        self._ends = event.ends
        self.ends_read_ms = now_ms
        self._noted_before, self._noted_ends = self._noted_ends, {}

    def note_end(self, topic: str, partition: int, end: int) -> None:
        """Take in an end that Kafka has said between two readings of all ends, for as long as these may be older."""
        self._noted_ends[topic, partition] = end

    def keep_only(self, topics: frozenset[str], *, lists_all: bool) -> None:
        """Forget topics that are no longer watched: what is known of them grows old."""
        self._watched = len(topics)
        if lists_all:
            return
        self.all_topics = None
        for name in [name for name in self._topics if name not in topics]:
            del self._topics[name]
        for name in [name for name in self._absences if name not in topics]:
            del self._absences[name]

    @property
    def unknown_topics(self) -> int:
        """The number of watched topics of which Kafka has not told; at least so many while it tells of others too."""
        return max(0, self._watched - len(self._topics))

    def topic(self, name: str) -> TopicMetadata | None:
        """Return a topic if Kafka has said that it exists."""
        return self._topics.get(name)

    def leaders_of(self, topic: str, numbers: Iterable[int]) -> Iterator[tuple[str | None, int | None]]:
        """Yield host and port of the broker that leads each of some partitions, when known."""
        metadata, brokers = self._topics.get(topic), self._brokers
        leaders = metadata.leaders if metadata is not None else ()
        for number in numbers:
            broker = leaders[number] if number < len(leaders) else None
            yield (None, None) if broker is None else brokers.get(broker, (None, None))

    def end_of(self, topic: str, partition: int) -> int | None:
        """Return the end of a partition, when known."""
        key = (topic, partition)
        end = self._ends.get(key)
        if self._noted_ends or self._noted_before:
            noted = self._noted_ends.get(key, self._noted_before.get(key))
            return noted if end is None else end if noted is None else max(end, noted)
        return end

    def why_unreachable(self) -> str:
        """Say what is known of why Kafka does not answer: its last failure, which names its addresses."""
        return self.failure or f"Kafka at {', '.join(self.bootstrap)} has not answered yet"
