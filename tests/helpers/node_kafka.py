"""Kafka of a node's virtual world: topics, their ends, and days on which it answers late, wrongly or not at all."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from msgspec.structs import replace

from coordinator.core.effects import ResolveOffsets
from coordinator.core.events import OffsetsResolved, ResolvedOffset, TopicMetadata, TopicsRead
from coordinator.core.groups.partitions.partition_table import TopicPartition
from coordinator.protocol.ids import EARLIEST, LATEST


@dataclass
class FakeKafka:
    """Topics with a number of partitions each; every partition begins at 10 and ends at 100 unless told."""

    topics: dict[str, int]
    ids: dict[str, str] = field(default_factory=dict)
    begins: dict[TopicPartition, int] = field(default_factory=dict)
    ends: dict[TopicPartition, int] = field(default_factory=dict)
    stable: dict[TopicPartition, int] = field(default_factory=dict)
    """Last stable offsets, where they are not the ends."""
    at_timestamp: dict[TopicPartition, int] = field(default_factory=dict)
    internal: set[str] = field(default_factory=set)
    """Topics that are Kafka's own, as `__consumer_offsets` is."""
    is_away: bool = False
    is_late: bool = False
    """Questions about offsets are kept until NodeWorld.answer_late, and answered as things are when they were asked."""
    cannot_resolve: bool = False
    answers_left: int | None = None
    """The number of further questions about offsets that it has an answer to; None for all."""
    absent: set[TopicPartition] = field(default_factory=set)
    refused: dict[str, str] = field(default_factory=dict)
    resolved: list[ResolveOffsets] = field(default_factory=list)
    told: dict[str, TopicMetadata] = field(default_factory=dict)
    """Topics as they were when they were read last, which is how a lookup tells of those that are polled."""

    def topic_id(self, topic: str) -> str:
        return self.ids.get(topic, f"id-{topic}")

    def read(self, watched: Iterable[str], *, lists_all: bool = False) -> TopicsRead:
        present = {
            topic: TopicMetadata(topic, self.topic_id(topic), (1,) * self.topics[topic], topic in self.internal)
            for topic in sorted({*watched, *(self.topics if lists_all else ())})
            if topic in self.topics and topic not in self.refused
        }
        refused = {topic: why for topic, why in self.refused.items() if topic in watched}
        absent = frozenset(watched) - set(present) - set(refused)
        self.told = {topic: known for topic, known in self.told.items() if topic not in absent} | present
        return TopicsRead(present, absent, refused, {1: ("broker", 9092)}, "kafka-1", lists_all)

    def answer(self, asked: ResolveOffsets, watched: frozenset[str]) -> list[TopicsRead | OffsetsResolved]:
        """Answer as the port does, which reads topics first where nobody polls them or where that is wanted."""
        topics = {item.topic for item in asked.offsets}
        if self.cannot_resolve or not (asked.asks_topics or topics - watched):
            return [self.resolve(asked)]
        read = replace(self.read(topics), absent=frozenset())
        return [read, self.resolve(asked)]

    def resolve(self, asked: ResolveOffsets) -> OffsetsResolved:
        self.resolved.append(asked)
        answers = []
        for item in asked.offsets:
            partition = (item.topic, item.partition)
            offset: int | None
            if self.cannot_resolve or self.answers_left == 0:
                answers.append(ResolvedOffset(item.topic, item.partition, None, why="no leader"))
                continue
            if partition in self.absent:
                why = f"Kafka has no partition {item.partition} of topic {item.topic}, which has {item.partition}"
                answers.append(ResolvedOffset(item.topic, item.partition, None, why=why, is_absent=True))
                continue
            if item.timestamp_ms == EARLIEST:
                offset = self.begins.get(partition, 10)
            elif item.timestamp_ms == LATEST:
                offset = self.ends.get(partition, 100)
                if item.is_read_committed:
                    offset = self.stable.get(partition, offset)
            else:
                offset = self.at_timestamp.get(partition, -1)
            answers.append(ResolvedOffset(item.topic, item.partition, offset, leader_epoch=7))
        if self.answers_left:
            self.answers_left -= 1
        names = set() if self.cannot_resolve else {item.topic for item in asked.offsets}
        topics = {topic: self.told[topic] for topic in sorted(names) if topic in self.told}
        return OffsetsResolved(asked.lookup_id, tuple(answers), topics)
