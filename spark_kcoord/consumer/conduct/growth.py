"""The topics of a consumer without a group: all their partitions, looked up now and then beside its calls.

A look-up is made on a thread of its own, so that no call waits for a Kafka that is slow; its outcome is taken by a
later call, which Ctrl-C may end: it is there until that says that it took it. What is found of a topic for the first
time is read by the policy, and what comes later of it from its beginning, also where something else is subscribed to as
well by then.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from coordinator.protocol.ids import TopicPartition as Key
from spark_kcoord.consumer.conduct.kafka import Lookup
from spark_kcoord.consumer.settings import Settings
from spark_kcoord.consumer.subscription import NOTHING, Subscription
from spark_kcoord.options.kafka_settings import KafkaSettings
from spark_kcoord.options.topic_patterns import matching_topics
from spark_kcoord.threads import Reply, start_once

__all__ = ["Growth", "Grown"]

GROWTH_S = 30.0
"""The time between two looks."""
RETRY_S = 1.0


@dataclass(frozen=True, slots=True)
class Grown:
    """All partitions that there are, and the topics among theirs that were subscribed to when it was looked last."""

    partitions: tuple[Key, ...]
    read_before: frozenset[str]


@dataclass(frozen=True, slots=True)
class _Asked:
    of: Subscription
    answer: Reply[tuple[Key, ...]]
    thread: threading.Thread


class Growth:
    """The look-ups of one consumer. `ring` is called on a thread of theirs when one has ended."""

    def __init__(
        self,
        settings: Settings,
        kafka: Callable[[], KafkaSettings],
        ring: Callable[[], None],
        clock: Callable[[], float],
    ) -> None:
        self._settings = settings
        self._lookup = Lookup(kafka)
        self._ring = ring
        self._clock = clock
        self._asked: _Asked | None = None
        self._read = NOTHING
        """The subscription of which topics were found last."""
        self.next_at = -math.inf
        """The time at which it is to be looked again."""

    def look_soon(self) -> None:
        """Note that something else is subscribed to."""
        self.next_at = -math.inf

    def forget(self) -> None:
        """Note that nothing is subscribed to: whatever is found next is found for the first time."""
        self._read = NOTHING

    def look(self, subscription: Subscription) -> Grown | None:
        """Return what was found, until that is `taken`, and look again when it is time; raises ConsumerError."""
        asked = self._asked
        if asked is not None and asked.answer.done():
            if asked.of == subscription:
                try:
                    partitions = asked.answer.result()
                except BaseException:
                    self._asked, self.next_at = None, self._clock() + RETRY_S
                    raise
                return Grown(partitions, frozenset(self._topics(self._read, {topic for topic, _ in partitions})))
            self._asked = asked = None
        if asked is None and self._clock() >= self.next_at:
            answer = Reply[tuple[Key, ...]]()
            thread = threading.Thread(target=self._run, args=(subscription, answer), name="kcoord-topics", daemon=True)
            self._asked = asked = _Asked(subscription, answer, thread)
            self.next_at = self._clock() + GROWTH_S
        if asked is not None:
            start_once(asked.thread)
        return None

    def taken(self) -> None:
        """Say that what was found is read: what comes of its topics from now on is read from its beginning."""
        if self._asked is not None:
            self._read = self._asked.of
        self.next_at = self._clock() + GROWTH_S
        self._asked = None

    def close(self) -> None:
        """Close the connections, unless a look-up is using them, which closes them when it has ended."""
        if self._asked is None or self._asked.answer.done():
            self._lookup.close()

    def _run(self, subscription: Subscription, answer: Reply[tuple[Key, ...]]) -> None:
        try:
            answer.set_result(self._all_partitions(subscription))
        except BaseException as error:  # noqa: BLE001 - told by the call that takes it
            answer.set_exception(error)
        self._lookup.close()
        self._ring()

    def _all_partitions(self, subscription: Subscription) -> tuple[Key, ...]:
        timeout_s = self._settings["request_timeout_ms"] / 1000
        names = subscription.names() if subscription.pattern is None else self._lookup.names(timeout_s)
        topics = self._topics(subscription, names)
        look_up = self._lookup.existing if self._settings["wait_for_topics"] else self._lookup.topics_of
        return tuple(look_up(topics, timeout_s)) if topics else ()

    def _topics(self, subscription: Subscription, names: Collection[str]) -> Sequence[str]:
        """Return which of some topics are subscribed to."""
        exclude = {*self._settings["exclude"], *subscription.exclude}
        if subscription.pattern is not None:
            return matching_topics(subscription.pattern, exclude, names)
        return [topic for topic in subscription.topics if topic in names and topic not in exclude]
