"""The topics that a node has Kafka asked about: those of all shards that are in service.

Each step asks whether they are others than before, which costs a comparison of a mark for each shard that it touched.
"""

from coordinator.core.effects import WatchTopics
from coordinator.core.kafka_metadata import Catalog
from coordinator.core.shards.shard_rack import ShardRack


class Watching:
    """The topics that shards of a rack want to know of, and a catalog that keeps nothing of others."""

    def __init__(self, catalog: Catalog, rack: ShardRack) -> None:
        self._catalog = catalog
        self._rack = rack
        self._watched = WatchTopics(frozenset())
        self._marks = [(0, 0, 0)] * len(rack.shards)

    def look(self) -> tuple[WatchTopics, ...]:
        """Return what is to be watched from now on, if the shards that this step touched changed it."""
        rack = self._rack
        is_same = not rack.has_loaded
        rack.has_loaded = False
        for index in rack.touched:
            mark = rack.shards[index].watch_mark
            if mark != self._marks[index]:
                self._marks[index] = mark
                is_same = False
        if is_same:
            return ()
        # What a shard that is loaded watches is not known, and is not to be forgotten.
        kept = self._watched if rack.loads.is_loading else WatchTopics(frozenset())
        watched = WatchTopics(
            kept.topics.union(*(shard.watched_topics() for shard in rack.shards)),
            kept.lists_all or any(shard.watches_all_topics() for shard in rack.shards),
        )
        if watched == self._watched:
            return ()
        self._watched = watched
        self.forget_others()
        return (watched,)

    def forget_others(self) -> None:
        """Have the catalog keep nothing of topics that nobody watches."""
        self._catalog.keep_only(self._watched.topics, lists_all=self._watched.lists_all)
