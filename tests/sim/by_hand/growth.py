"""The look-ups of a consumer without a group: the product's own, answered by the simulated Kafka.

Each is made on its own thread as always, and waited for, so that a seed gives one history.
"""

from collections.abc import Callable, Collection
from typing import Any

from spark_kcoord.consumer.conduct.growth import Grown, Growth
from spark_kcoord.consumer.conduct.kafka import Lookup
from spark_kcoord.consumer.errors import KafkaUnavailableError, TopicUnknownError
from spark_kcoord.consumer.settings import Settings
from spark_kcoord.consumer.subscription import Subscription
from tests.sim.kafka import Kafka
from tests.sim.process import TopicPartition

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
        self._on_grown = on_grown

    def look(self, subscription: Subscription) -> Grown | None:
        """Look as always, and wait for the thread."""
        found = super().look(subscription)
        if self._asked is not None:
            self._asked.thread.join()
        if found is not None:
            self._on_grown(found.partitions, subscription)
        return found
