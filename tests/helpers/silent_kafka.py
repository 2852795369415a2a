"""A Kafka that a driver asks and that says nothing, for tests in which it has no part."""

from collections.abc import Sequence

from coordinator.core.effects import OffsetToResolve


class SilentKafka:
    """A `KafkaReader` whose answers never come."""

    def watch_topics(self, topics: frozenset[str], *, lists_all: bool) -> None:
        """Do nothing."""

    def resolve_offsets(self, lookup_id: int, offsets: Sequence[OffsetToResolve], *, asks_topics: bool) -> None:
        """Do nothing."""
