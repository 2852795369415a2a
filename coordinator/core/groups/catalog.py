"""What a node last heard from Kafka: topics, brokers, ends and whether Kafka answers at all.

It is soft: gone with a restart and read again. It knows no groups and decides nothing.
"""

from collections.abc import Mapping

from coordinator.core.events import EndOffsetsRead, TopicMetadata, TopicsRead


class Catalog:
    """The newest answers of Kafka."""

    __slots__ = ("_brokers", "_ends", "_topics", "bootstrap", "cluster_id", "failure")

    def __init__(self, bootstrap: tuple[str, ...]) -> None:
        self.bootstrap = bootstrap
        self.cluster_id: str | None = None
        self.failure: str | None = None
        self._topics: dict[str, TopicMetadata] = {}
        self._brokers: Mapping[int, tuple[str, int]] = {}
        self._ends: dict[tuple[str, int], int] = {}

    def read_topics(self, event: TopicsRead) -> frozenset[str]:
        """Take in an answer and return the topics whose id or number of partitions is not what it was."""
        self.failure = None
        self.cluster_id = event.cluster_id or self.cluster_id
        self._brokers = event.brokers
        changed = set()
        for name, topic in event.topics.items():
            before = self._topics.get(name)
            if before is None or (before.topic_id, before.partitions) != (topic.topic_id, topic.partitions):
                changed.add(name)
            self._topics[name] = topic
        for name in event.absent:
            self._topics.pop(name, None)
        return frozenset(changed)

    def read_ends(self, event: EndOffsetsRead) -> None:
        """Take in end offsets; one that could not be read is no longer known."""
        self._ends = dict(event.ends)

    def keep_only(self, topics: frozenset[str]) -> None:
        """Forget topics that are no longer watched: what is known of them grows old."""
        for name in [name for name in self._topics if name not in topics]:
            del self._topics[name]

    def topic(self, name: str) -> TopicMetadata | None:
        """Return a topic if Kafka has said that it exists."""
        return self._topics.get(name)

    def leader_of(self, topic: str, partition: int) -> tuple[str, int] | None:
        """Return host and port of the broker that leads a partition, when known."""
        metadata = self._topics.get(topic)
        if metadata is None or partition >= metadata.partitions:
            return None
        broker = metadata.leaders[partition]
        return self._brokers.get(broker) if broker is not None else None

    def end_of(self, topic: str, partition: int) -> int | None:
        """Return the end of a partition, when known."""
        return self._ends.get((topic, partition))

    def why_unreachable(self) -> str:
        """Say what is known of why Kafka does not answer: its last failure, which names its addresses."""
        return self.failure or f"Kafka at {', '.join(self.bootstrap)} has not answered yet"
