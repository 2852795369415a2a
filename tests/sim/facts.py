"""What happened outside of the log: who read what and gave it to its sink, and what Kafka has and has said."""

from collections.abc import Iterable

from coordinator.core.groups.partitions.partition_table import TopicPartition
from coordinator.protocol.parts import Claim
from tests.sim.kafka import Kafka
from tests.sim.log.state import ClaimEntry, Owner
from tests.sim.outputs import Outputs

OwnedLog = tuple[str, int, str, int]
"""Topic id, partition, member and owner epoch: what one owner reads."""


class WorldFacts:
    """The facts of one run."""

    def __init__(self, kafka: Kafka) -> None:
        self.is_calm = False
        self._kafka = kafka
        self.outputs = Outputs()
        self._delivered: dict[OwnedLog, set[tuple[int, int]]] = {}
        self._processed: dict[OwnedLog, tuple[int, int]] = {}
        self._highest_delivered: dict[tuple[str, int], int] = {}
        self._reached: dict[tuple[str, int], int] = {}
        self._ambiguous: set[OwnedLog] = set()
        """Owner epochs from before the coordinator got another disk, which may be given a second time."""
        self.delivered = 0
        self.duplicates = 0

    # ---- noted ------------------------------------------------------------------------------------------------------

    def deliver(self, member_id: str, claims: Iterable[Claim]) -> None:
        """Note that ranges were read and given to a sink."""
        for claim in claims:
            key = (claim.topic_id, claim.partition, member_id, claim.owner_epoch)
            self._delivered.setdefault(key, set()).add((claim.from_offset, claim.until_offset))
            self._count(claim.topic_id, claim.partition, claim.from_offset, claim.until_offset)

    def process(self, log: OwnedLog, from_offset: int, until_offset: int) -> None:
        """Note that a consumer begins its next poll after it was given the records of a range."""
        begin, end = self._processed.get(log, (from_offset, from_offset))
        if from_offset > end:
            begin = from_offset
        self._processed[log] = (begin, max(end, until_offset))
        self._count(log[0], log[1], from_offset, until_offset)

    def seek(self, log: OwnedLog, offset: int) -> None:
        """Note that a consumer's user sought an offset that Kafka has: all before it counts as done."""
        _, end = self._processed.get(log, (0, 0))
        self._processed[log] = (0, max(end, offset))
        self.reach(log[0], log[1], offset)

    def _count(self, topic_id: str, partition: int, from_offset: int, until_offset: int) -> None:
        highest = self._highest_delivered.get((topic_id, partition), 0)
        self.delivered += until_offset - from_offset
        self.duplicates += max(0, min(highest, until_offset) - from_offset)
        self._highest_delivered[topic_id, partition] = max(highest, until_offset)
        self.reach(topic_id, partition, until_offset)

    def reach(self, topic_id: str, partition: int, offset: int) -> None:
        """Note that somebody got as far as an offset or was sent there."""
        self._reached[topic_id, partition] = max(self._reached.get((topic_id, partition), 0), offset)

    def begin_anew(self) -> None:
        """Take note that owner epochs may come a second time: what was processed under one so far proves nothing."""
        self._ambiguous.update(self._processed)

    def started(self, topic: str, topic_id: str, partition: int, offset: int) -> None:
        if not topic_id and topic in self._kafka.topics:
            topic_id = self._kafka.topics[topic].topic_id
        self.outputs.started(topic_id, partition, offset)

    def released(self, claim: ClaimEntry, topic_id: str) -> None:
        self.outputs.released(topic_id, claim.partition[1], *claim.range)

    # ---- asked by the rules -----------------------------------------------------------------------------------------

    def was_delivered(self, claim: ClaimEntry, topic_id: str) -> bool:
        ranges = self._delivered.get((topic_id, claim.partition[1], claim.member_id, claim.owner_epoch))
        return ranges is not None and claim.range in ranges

    def was_processed(self, owner: Owner, partition: TopicPartition, from_offset: int, until_offset: int) -> bool:
        span = self._processed.get((owner.topic_id, partition[1], owner.member_id, owner.owner_epoch))
        if span is None:
            return from_offset == until_offset
        return span[0] <= from_offset and until_offset <= span[1]

    def may_come_twice(self, owner: Owner, partition: TopicPartition) -> bool:
        return (owner.topic_id, partition[1], owner.member_id, owner.owner_epoch) in self._ambiguous

    def is_ambiguous(self, log: OwnedLog) -> bool:
        return log in self._ambiguous

    def was_reached(self, topic_id: str, partition: int, offset: int) -> bool:
        return offset <= self._reached.get((topic_id, partition), -1)

    def was_answered(self, topic: str, topic_id: str, partition: int, offset: int) -> bool:
        return self._kafka.was_answered(topic, topic_id, partition, offset)

    def was_stable_end(self, topic: str, topic_id: str, partition: int, offset: int) -> bool:
        return self._kafka.was_stable_end(topic, topic_id, partition, offset)

    def is_missing(self, topic: str, topic_id: str, partition: int, offset: int) -> bool:
        return self._kafka.is_missing(topic, topic_id, partition, offset)
