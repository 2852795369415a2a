"""The topics of a consumer without a group: all their partitions, looked up now and then beside its calls.

A look-up is made on a thread of its own, so that no call waits for a Kafka that is slow; its outcome is taken by a
later call, which Ctrl-C may end: it is there until that says that it took it. What is found of a topic for the first
time is read by the policy, and what comes later of it from its beginning, also where something else is subscribed to as
well by then. What was found and is not found again is read on until another look has not found it either: a broker may
be late, and what is forgotten would be read again from its beginning.
"""

from __future__ import annotations

import logging
import math
import threading
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from coordinator.protocol.ids import TopicPartition as Key
from spark_kcoord.consumer.conduct.kafka import Lookup
from spark_kcoord.consumer.core.held import Held
from spark_kcoord.consumer.settings import Settings
from spark_kcoord.consumer.subscription import NOTHING, Subscription
from spark_kcoord.options.kafka_settings import KafkaSettings
from spark_kcoord.options.topic_patterns import matching_topics
from spark_kcoord.threads import Reply, start_once

__all__ = ["Growth", "Grown"]

_log = logging.getLogger(__name__)

GROWTH_S = 30.0
"""The time between two looks."""
RETRY_S = 1.0
_SHOWN = 8
"""The number of partitions that a log line names."""


@dataclass(frozen=True, slots=True)
class Grown:
    """All partitions that there are, with the ids of their topics, which not every broker says.

    `read_before` are the topics among theirs that were subscribed to when it was looked last.
    """

    partitions: Mapping[Key, str | None]
    read_before: frozenset[str]


@dataclass(frozen=True, slots=True)
class _Asked:
    of: Subscription
    at_s: float
    answer: Reply[dict[Key, str | None]]
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
        self._missing: dict[Key, float] = {}
        """Partitions that are read and are not found any more, by the time of the first look that did not find them."""
        self.next_at = -math.inf
        """The time at which it is to be looked again."""

    def look_soon(self) -> None:
        """Note that something else is subscribed to."""
        self.next_at = -math.inf

    def forget(self) -> None:
        """Note that nothing is subscribed to: whatever is found next is found for the first time."""
        self._read, self._missing = NOTHING, {}

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
            answer = Reply[dict[Key, str | None]]()
            thread = threading.Thread(target=self._run, args=(subscription, answer), name="kcoord-topics", daemon=True)
            self._asked = asked = _Asked(subscription, self._clock(), answer, thread)
            self.next_at = self._clock() + GROWTH_S
        if asked is not None:
            start_once(asked.thread)
        return None

    def missing(self, found: Grown, read: Iterable[Held]) -> list[Key]:
        """Return which of the partitions that are read are to be read on though they were not found.

        They are of topics that are subscribed to and were not made again since, and no look found them missing so long
        before this one.
        """
        asked = self._asked
        unseen = [held for held in read if held.key not in found.partitions]
        if not unseen or asked is None:
            return []
        ids = {topic: topic_id for (topic, _), topic_id in found.partitions.items()}
        subscribed = self._topics(asked.of, {held.grant.topic for held in unseen})
        made_again = {held.key for held in unseen if _are_two(held.named_id, ids.get(held.grant.topic))}
        gone = [held.key for held in unseen if held.grant.topic in subscribed and held.key not in made_again]
        kept = [key for key in gone if asked.at_s - self._missing.get(key, asked.at_s) < GROWTH_S]
        _say("Kafka does not name %s any more; read on until it has not for %d s", set(kept) - self._missing.keys())
        _say("Kafka has not named %s for %d s; no longer read", set(gone).difference(kept))
        return kept

    def taken(self, missing: Iterable[Key]) -> None:
        """Say that what was found is read, and what is missing is read on.

        Partitions of these topics that come from now on are read from their beginning.
        """
        if self._asked is not None:
            self._read = self._asked.of
            self._missing = {key: self._missing.get(key, self._asked.at_s) for key in missing}
        self.next_at = self._clock() + GROWTH_S
        self._asked = None

    def close(self) -> None:
        """Close the connections, unless a look-up is using them, which closes them when it has ended."""
        if self._asked is None or self._asked.answer.done():
            self._lookup.close()

    def _run(self, subscription: Subscription, answer: Reply[dict[Key, str | None]]) -> None:
        try:
            answer.set_result(self._all_partitions(subscription))
        except BaseException as error:  # noqa: BLE001 - told by the call that takes it
            answer.set_exception(error)
        self._lookup.close()
        self._ring()

    def _all_partitions(self, subscription: Subscription) -> dict[Key, str | None]:
        timeout_s = self._settings["request_timeout_ms"] / 1000
        names = subscription.names() if subscription.pattern is None else self._lookup.names(timeout_s)
        topics = self._topics(subscription, names)
        look_up = self._lookup.existing if self._settings["wait_for_topics"] else self._lookup.topics_of
        return look_up(topics, timeout_s) if topics else {}

    def _topics(self, subscription: Subscription, names: Collection[str]) -> Sequence[str]:
        """Return which of some topics are subscribed to."""
        exclude = {*self._settings["exclude"], *subscription.exclude}
        if subscription.pattern is not None:
            return matching_topics(subscription.pattern, exclude, names)
        return [topic for topic in subscription.topics if topic in names and topic not in exclude]


def _are_two(one_id: str | None, other_id: str | None) -> bool:
    return one_id is not None and other_id is not None and one_id != other_id


def _say(what: str, partitions: Collection[Key]) -> None:
    if partitions:
        shown = ", ".join(f"{topic}-{number}" for topic, number in sorted(partitions)[:_SHOWN])
        more = f" and {len(partitions) - _SHOWN} more" if len(partitions) > _SHOWN else ""
        _log.warning(what, shown + more, GROWTH_S)
