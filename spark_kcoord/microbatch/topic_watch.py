"""The check that the topics that a query has positions in are still those that it began with.

A topic that is deleted is taken out of its owners' assignments, and one that is made again comes back under the same
name as another topic. Either looks like a rebalance to a member, and what it had not read is gone. So the ids of all
that a checkpoint shows and of all that a plan was ever made with are kept, and compared whenever grants change; Kafka
is asked about topics of which partitions have left or are wanted back, also of those that came back and left between
two plans. A topic that came and went so for the first time was never read here, and one that the query does not ask
for any more is no loss. What is to be done about a loss is not decided here.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import cache
from typing import Final

from coordinator.protocol.ids import TopicPartition
from coordinator.protocol.parts import Claim, LostPosition
from spark_kcoord.errors import KafkaAwayError
from spark_kcoord.member.core.held.holdings import Assignment
from spark_kcoord.microbatch.commands import Planning, ReadTopicIds, ask_topic_ids
from spark_kcoord.microbatch.stream_offset import StreamOffset

__all__ = ["TopicWatch", "reads_all"]

_log = logging.getLogger(__name__)

ASK_AGAIN_S: Final = 1.0
"""The time that Kafka is left alone after it could not be asked about topics."""
SHOWN: Final = 5
"""The number of partitions of a topic that an error names."""


def reads_all(_topic: str, _partition: int) -> bool:
    """Say of every partition that the query asks for it."""
    return True


class TopicWatch:
    """The topics of one query; `clock` returns monotonic seconds, and `reads` says what the query still asks for."""

    def __init__(self, clock: Callable[[], float], reads: Callable[[str, int], bool] = reads_all) -> None:
        self._clock = clock
        self._reads = cache(reads)  # a pattern takes tens of microseconds a name, and each micro-batch asks
        self._ids: dict[str, list[str]] = {}
        self._held: dict[TopicPartition, str] = {}
        self._read_to: dict[TopicPartition, int] = {}
        self._seen: Assignment | None = None
        self._gone: set[str] = set()
        self._given_up: dict[TopicPartition, int] = {}
        """The owner epochs of the newest grants whose positions were given up."""
        self._ask_at = float("-inf")

    @property
    def has_looked(self) -> bool:
        """Tell whether an assignment was looked at before."""
        return self._seen is not None

    def has_seen(self, assignment: Assignment) -> bool:
        """Say whether there is nothing to look for, which an idle query asks many times a second."""
        return assignment is self._seen

    def look(self, start: StreamOffset, assignment: Assignment) -> Planning[Mapping[str, str]]:
        """Return the topics that are lost since the last look, each with a sentence, which is said once.

        `start` counts at the first look; what later ones name was granted in between.
        """
        if self._seen is None:
            wanted = [one for one in start.ranges if self._reads(one.topic, one.partition)]
            self._hold({(one.topic, one.partition): one.topic_id for one in wanted})
        if self.has_seen(assignment):
            return {}
        self._read_to |= {(one.topic, one.partition): one.until_offset for one in start.ranges}
        granted = {(one.topic, one.partition): one.topic_id for one in assignment.partitions}
        lost = self._made_again((one.topic, one.topic_id) for one in assignment.partitions)
        if not granted and not assignment.is_complete:
            # The session is lost, or the first grants are on their way.
            return lost
        # What is wanted back is asked about too: the next micro-batch leaves it out, and so does what a restart knows.
        staying = {(one.topic, one.partition) for one in assignment.partitions if not one.is_stopping}
        departed = {key[0] for key in self._held if key not in staying} | self._came_and_went(assignment, staying)
        departed -= lost.keys() | self._gone
        if departed:
            if self._clock() < self._ask_at:
                return lost
            try:
                ids = yield from ask_topic_ids(ReadTopicIds(tuple(sorted(departed))))
            except KafkaAwayError as error:
                _log.warning("%s Whether topics were deleted is asked again.", error)
                self._ask_at = self._clock() + ASK_AGAIN_S
                return lost
            lost |= self._made_again(ids.items())
            lost |= self.note_gone(departed - ids.keys())
        self._seen = assignment
        self._held = {key: topic_id for key, topic_id in granted.items() if topic_id}
        self._read_to = {(one.topic, one.partition): one.start for one in assignment.partitions}
        return lost

    def _came_and_went(self, assignment: Assignment, staying: Collection[TopicPartition]) -> set[str]:
        """Return the topics known here that were granted since the last look and are not there to be planned with."""
        before = self._seen.last_grants if self._seen is not None else {}
        granted = {topic for topic, epoch in assignment.last_grants.items() if before.get(topic) != epoch}
        return (granted & self._ids.keys()) - {topic for topic, _ in staying}

    def note_gone(self, topics: Iterable[str]) -> dict[str, str]:
        """Take note that Kafka does not know topics any more; return those not told of before, with a sentence."""
        news = sorted(set(topics) - self._gone)
        self._gone.update(news)
        return {
            topic: f"Kafka does not know topic {topic} any more: it was deleted. What the query had not read of it is "
            f"gone{self._shown(topic)}."
            for topic in news
        }

    def note_known(self, topics: Iterable[str]) -> None:
        """Take note that Kafka knows topics, also some that it did not know before."""
        self._gone.difference_update(topics)

    def note_given_up(self, lost: LostPosition) -> None:
        """Take note that a grant was given up because Kafka does not have its position: the next one starts anew."""
        self._given_up[lost.topic, lost.partition] = lost.owner_epoch

    def may_come_back(self, one: Claim) -> bool:
        """Say whether a range that is not owned now is still asked for, of a topic that is there as far as is known.

        One that was given up is not: the log may have grown over its position by the time that it is read again.
        """
        known = self._ids.get(one.topic)
        is_same = not known or not one.topic_id or one.topic_id == known[-1]
        is_given_up = one.owner_epoch <= self._given_up.get((one.topic, one.partition), -1)
        is_there = is_same and one.topic not in self._gone and not is_given_up
        return is_there and self._reads(one.topic, one.partition)

    def _hold(self, partitions: Mapping[TopicPartition, str]) -> None:
        for key, topic_id in partitions.items():
            if topic_id:
                self._held[key] = topic_id
                self._ids.setdefault(key[0], []).append(topic_id)

    def _made_again(self, found: Iterable[tuple[str, str]]) -> dict[str, str]:
        """Compare topics and ids with those known; while one is handed over, grants of both topics can be held."""
        lost = {}
        for topic, topic_id in sorted(set(found)):
            known = self._ids.setdefault(topic, [])
            if not topic_id or topic_id in known:
                continue
            if known and topic not in self._gone:
                lost[topic] = (
                    f"Topic '{topic}' has been deleted and created again: the query knows it as {known[-1]} and Kafka "
                    f"as {topic_id}. What the query had not read of the old topic is gone{self._shown(topic)}."
                )
            known.append(topic_id)
        return lost

    def _shown(self, topic: str) -> str:
        known = [(key[1], offset) for key, offset in sorted(self._read_to.items()) if key[0] == topic]
        if not known:
            return ""
        shown = ", ".join(f"{topic}-{number} up to offset {offset}" for number, offset in known[:SHOWN])
        more = f" and {len(known) - SHOWN} more" if len(known) > SHOWN else ""
        return f"; it had read {shown}{more}"
