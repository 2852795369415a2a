"""The look-ups of a consumer without a group: the product's own, answered by the simulated Kafka.

Each is made on its own thread as always, and waited for, so that a seed gives one history. Now and then the broker that
answers is late and does not name a topic that there is, which is not to be forgotten for that.
"""

from collections.abc import Callable, Collection, Iterable
from typing import Any

from spark_kcoord.consumer.conduct.growth import Grown, Growth
from spark_kcoord.consumer.conduct.kafka import Lookup
from spark_kcoord.consumer.core.held import Held
from spark_kcoord.consumer.errors import KafkaUnavailableError, TopicUnknownError
from spark_kcoord.consumer.settings import Settings
from spark_kcoord.consumer.subscription import Subscription
from tests.sim.kafka import Kafka
from tests.sim.log.state import ViolationError
from tests.sim.process import TopicPartition

LATE = 3
"""Each so many looks one is answered by a broker that is late."""
OnGrown = Callable[[Collection[TopicPartition], Subscription], object]


def _nowhere() -> Any:
    raise AssertionError("nothing is connected to")


class _Topics(Lookup):
    """The topics of the simulated Kafka."""

    def __init__(self, kafka: Kafka) -> None:
        super().__init__(_nowhere)
        self._kafka = kafka

    def topics_of(self, topics: Collection[str], timeout_s: float) -> dict[TopicPartition, str | None]:
        missing = sorted(set(topics) - self._kafka.topics.keys())
        if missing:
            raise TopicUnknownError(f"Kafka has no topic {', '.join(missing)}.")
        return self.existing(topics, timeout_s)

    def existing(self, topics: Collection[str], timeout_s: float) -> dict[TopicPartition, str | None]:
        if self._kafka.is_away:
            raise KafkaUnavailableError(f"Kafka gave no answer within {timeout_s:g} s.")
        known = {name: self._kafka.topics[name] for name in sorted(topics) if name in self._kafka.topics}
        return {(name, number): topic.topic_id for name, topic in known.items() for number in range(len(topic.ends))}

    def names(self, timeout_s: float) -> set[str]:
        if self._kafka.is_away:
            raise KafkaUnavailableError(f"Kafka gave no answer within {timeout_s:g} s.")
        return set(self._kafka.topics)


class HandGrowth(Growth):
    """The look-ups of one consumer. `on_grown` hears what is found, and by which subscription, when it is taken."""

    def __init__(self, settings: Settings, kafka: Kafka, clock: Callable[[], float], on_grown: OnGrown) -> None:
        super().__init__(settings, _nowhere, lambda: None, clock)
        self._lookup = _Topics(kafka)
        self._kafka = kafka
        self._on_grown = on_grown
        self._looks = 0

    def _all_partitions(self, subscription: Subscription) -> dict[TopicPartition, str | None]:
        found = super()._all_partitions(subscription)
        self._looks += 1
        if not found or self._looks % LATE or not self._settings["wait_for_topics"]:
            return found
        unnamed = min(topic for topic, _ in found)
        return {key: topic_id for key, topic_id in found.items() if key[0] != unnamed}

    def look(self, subscription: Subscription) -> Grown | None:
        """Look as always, and wait for the thread."""
        found = super().look(subscription)
        if self._asked is not None:
            self._asked.thread.join()
        return found

    def missing(self, found: Grown, read: Iterable[Held]) -> list[TopicPartition]:
        """Tell what is read from now on, of which some was not found; raises ViolationError for what is forgotten."""
        missing, asked = super().missing(found, read), self._asked
        assert asked is not None
        for held in read:
            name, number = held.key
            topic = self._kafka.topics.get(name)
            is_there = topic is not None and topic.topic_id == held.named_id and number < len(topic.ends)
            if is_there and name in asked.of.names() and held.key not in found.partitions and held.key not in missing:
                raise ViolationError("forgotten", f"one look did not find {held.key}, and it is read no more")
        self._on_grown([*found.partitions, *missing], asked.of)
        return missing
