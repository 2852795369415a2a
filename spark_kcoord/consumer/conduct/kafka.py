"""Kafka as a consumer needs it: a fetcher that follows partitions, and look-ups that block.

Both are made when they are first needed, with connections of their own. A look-up whose call was interrupted is made
anew, since nobody knows what it was waiting for. Errors are the consumer's own.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final, Protocol

from coordinator.protocol.ids import TopicPartition as Key
from spark_kcoord.consumer.errors import ConsumerError, TopicUnknownError
from spark_kcoord.consumer.settings import own_error
from spark_kcoord.errors import KcoordError, UnknownTopicError
from spark_kcoord.fetch.decoding.columns import COLUMNS
from spark_kcoord.fetch.offsets import KafkaLookup, TopicPartitions
from spark_kcoord.fetch.tailing.counts import FetchCounts
from spark_kcoord.fetch.tailing.fetched import Fetched, Wanted
from spark_kcoord.fetch.tailing.tailer import Tailer
from spark_kcoord.options.kafka_settings import KafkaSettings

__all__ = ["Fetcher", "Lookup", "MakeFetcher", "make_fetcher"]

_SPARE_S: Final = 0.02
"""No call is to outlast its time-out; the reason is told rather than that the time is over."""


class Fetcher(Protocol):
    """A fetcher that follows partitions; nothing here waits."""

    def want(self, wanted: Mapping[Key, Wanted]) -> None:
        """Fetch exactly these from now on."""

    def news(self) -> list[Fetched]:
        """Return what came and was not taken yet."""

    def taken(self, news: Sequence[Fetched]) -> None:
        """Say that these first ones of `news` need not come again; what was said before counts for nothing."""

    def free(self, freed_bytes: int, parked_bytes: int) -> None:
        """Say how many bytes are not held any more, and how many are held for later."""

    def counts(self) -> FetchCounts:
        """Return how much it has done."""

    def close(self) -> None:
        """End it and close its connections."""

    def abandon(self) -> None:
        """Have it end without waiting for it."""


MakeFetcher = Callable[[KafkaSettings, int, Callable[[], None]], Fetcher]


def make_fetcher(settings: KafkaSettings, max_buffered_bytes: int, on_news: Callable[[], None]) -> Fetcher:
    """Return a real fetcher, which connects when something is wanted."""
    return Tailer(settings, columns=COLUMNS, max_buffered_bytes=max_buffered_bytes, on_news=on_news)


class Lookup:
    """Blocking questions to Kafka, from one thread at a time; each raises in its time."""

    def __init__(self, settings: Callable[[], KafkaSettings]) -> None:
        self._settings = settings
        self._lookup: KafkaLookup | None = None
        self._is_left = False

    def partitions_of(self, topic: str, timeout_s: float) -> set[int] | None:
        """Return the numbers of a topic's partitions, None for a topic that Kafka does not know."""
        try:
            with self._asking() as lookup:
                return set(lookup.topics([topic], timeout_s=timeout_s)[topic].partitions)
        except TopicUnknownError:
            return None

    def topics_of(self, topics: Collection[str], timeout_s: float) -> dict[Key, str | None]:
        """Return all partitions of topics with the topics' ids; raises TopicUnknownError."""
        with self._asking() as lookup:
            found = lookup.topics(topics, timeout_s=timeout_s)
        return _with_ids(found)

    def existing(self, topics: Collection[str], timeout_s: float) -> dict[Key, str | None]:
        """Return all partitions of those topics that there are, with the topics' ids."""
        names = set(topics)
        with self._asking() as lookup:
            while names:
                try:
                    return _with_ids(lookup.topics(sorted(names), timeout_s=timeout_s))
                except UnknownTopicError as error:
                    names.difference_update(error.topics)
        return {}

    def names(self, timeout_s: float) -> set[str]:
        """Return the names of all topics but the internal ones."""
        with self._asking() as lookup:
            return set(lookup.topic_names(timeout_s=timeout_s))

    def beginnings(self, partitions: Collection[Key], timeout_s: float) -> dict[Key, int]:
        """Return the first offsets of partitions."""
        with self._asking() as lookup:
            return _all(partitions, lookup.earliest_offsets(partitions, timeout_s=timeout_s))

    def ends(self, partitions: Collection[Key], timeout_s: float) -> dict[Key, int]:
        """Return the offsets after the last readable records."""
        with self._asking() as lookup:
            return _all(partitions, lookup.end_offsets(partitions, timeout_s=timeout_s))

    def at_times(self, times_ms: Mapping[Key, int], timeout_s: float) -> dict[Key, tuple[int, int, int] | None]:
        """Return offset, timestamp and leader epoch of the first record at or after each time, None without one."""
        with self._asking() as lookup:
            return _all(times_ms, lookup.records_at(times_ms, timeout_s=timeout_s))

    def close(self) -> None:
        """Close the connections."""
        lookup, self._lookup = self._lookup, None
        if lookup is not None:
            lookup.close()

    def leave(self) -> None:
        """Have the connections closed by the question that is under way: nobody else will ask."""
        self._is_left = True

    @contextmanager
    def _asking(self) -> Iterator[KafkaLookup]:
        if self._lookup is None:
            self._lookup = KafkaLookup(self._settings(), spare_s=_SPARE_S)
        try:
            yield self._lookup
        except ConsumerError:
            raise
        except UnknownTopicError as error:
            raise TopicUnknownError(_in_own_words(str(error))) from error
        except KcoordError as error:
            raise own_error(type(error)(_in_own_words(str(error)))) from error
        except BaseException:
            self.close()
            raise
        finally:
            if self._is_left:
                self.close()


def _with_ids(topics: Mapping[str, TopicPartitions]) -> dict[Key, str | None]:
    return {(name, number): topic.topic_id for name, topic in topics.items() for number in topic.partitions}


def _all(asked: Collection[Key], found: Mapping[Key, Any]) -> dict[Key, Any]:
    missing = sorted(set(asked) - found.keys())
    if missing:
        shown = ", ".join(f"{topic}-{number}" for topic, number in missing)
        raise TopicUnknownError(f"Kafka has no partition {shown}.", missing)
    return {key: found[key] for key in asked}


def _in_own_words(message: str) -> str:
    return (
        message.replace("option 'kafka.bootstrap.servers'", "setting 'bootstrap_servers'")
        .replace(" (option 'subscribe')", "")
        .replace("; a stream can wait with 'kcoord.wait.for.topics'", "")
    )
