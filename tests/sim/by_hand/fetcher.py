"""The fetcher of a consumer by hand, in a Kafka that is simulated: partitions by the names of their topics.

It works when news are asked for, by what was wanted before that call: what is wanted now comes later, as it does from a
thread of its own. Where each partition stands, and of which topic, is kept by the product's own `Parts`.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence

from spark_kcoord.consumer.conduct.kafka import Fetcher
from spark_kcoord.fetch.tailing.counts import FetchCounts
from spark_kcoord.fetch.tailing.fetched import AT_BEGINNING, Chunk, Fetched, OutOfRange, Resolved, Wanted
from spark_kcoord.fetch.tailing.parts import Part, Parts
from tests.sim.fetcher import rows_of
from tests.sim.kafka import Kafka, Topic
from tests.sim.process import TopicPartition

MOST_RECORDS = 20
"""Records of one partition that come at once."""
MOST_HELD = 400
"""Records that are held of all; a record takes one byte."""

OnNews = Callable[[Fetched, Topic], object]


class HandFetcher(Fetcher):
    """What comes between two calls. `on_news` hears each with the topic of which it is, when it is handed over."""

    def __init__(self, kafka: Kafka, on_news: OnNews) -> None:
        self._kafka = kafka
        self._on_news = on_news
        self._parts = Parts()
        self._wanted: Mapping[TopicPartition, Wanted] = {}
        self._untaken: list[Fetched] = []
        self._held = 0

    def want(self, wanted: Mapping[TopicPartition, Wanted]) -> None:
        """Fetch these from the next news on."""
        self._wanted = dict(wanted)

    def news(self) -> list[Fetched]:
        """Return what came of what was wanted before."""
        if not self._kafka.is_away:
            for part in [part for part in self._parts if not part.is_stopped]:
                topic = self._kafka.topics.get(part.key[0])
                if topic is not None and part.key[1] < len(topic.ends):
                    self._take(part, topic)
        self._parts.adopt(self._wanted)
        return list(self._untaken)

    def taken(self, news: Sequence[Fetched]) -> None:
        """Forget what was taken."""
        self._untaken = self._untaken[len(news) :]

    def free(self, freed_bytes: int, parked_bytes: int) -> None:
        """Take that less is held."""
        del parked_bytes
        self._held -= freed_bytes

    def counts(self) -> FetchCounts:
        """Return nothing: nobody asks."""
        return FetchCounts()

    def close(self) -> None:
        """End it."""

    def abandon(self) -> None:
        """End it."""

    def _take(self, part: Part, topic: Topic) -> None:
        for one in self._of(part, topic):
            self._held += one.size if isinstance(one, Chunk) else 0
            self._untaken.append(one)
            self._on_news(one, topic)

    def _of(self, part: Part, topic: Topic) -> Iterator[Fetched]:
        """Yield what comes of a partition at once, and have it stand behind that."""
        begin, end = topic.begins[part.key[1]], topic.ends[part.key[1]]
        part.topic_id = part.topic_id or topic.topic_id
        if part.position < 0:
            part.position = begin if part.position == AT_BEGINNING else end
            yield Resolved(part.key, part.token, part.position, part.topic_id)
            return
        is_new = part.topic_id != topic.topic_id
        if is_new or not begin <= part.position <= end:
            part.is_stopped = True
            yield OutOfRange(part.key, part.token, part.position, is_new_topic=is_new)
            return
        start, after = part.position, min(end, part.position + min(MOST_RECORDS, max(0, MOST_HELD - self._held)))
        if after > start or end != part.end:
            part.position, part.end = after, end
            rows = rows_of(part.key, start, after) if after > start else None
            yield Chunk(part.key, part.token, start, after, rows, after - start, (), end, end, topic.topic_id)
