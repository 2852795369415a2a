"""The calls of a consumer that wait for nothing, alike for a blocking and an asyncio one."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from spark_kcoord.consumer.calls import Calls
from spark_kcoord.consumer.conduct.flows import Flows
from spark_kcoord.consumer.metrics import metrics_of
from spark_kcoord.consumer.settings import Settings
from spark_kcoord.consumer.values import ConsumerRebalanceListener, OffsetAndMetadata, TopicPartition

__all__ = ["Looks", "together"]

T = TypeVar("T")


class Looks(ABC):
    """Calls that wait for nothing; each goes through `_look` or `_change`, which a consumer has."""

    _settings: Settings
    _flows: Flows
    _calls: Calls
    _is_made = False
    """True once its constructor has come to its end: it has nothing to leave before."""

    @abstractmethod
    def _look(self, work: Callable[[], T]) -> T:
        """Return what a call returns that hands nothing over; a listener may make it."""

    @abstractmethod
    def _change(self, work: Callable[[], None]) -> None:
        """Make a call after which partitions change hands; a listener may not make it."""

    def subscribe(
        self,
        topics: str | Iterable[str] = (),
        pattern: str | None = None,
        listener: ConsumerRebalanceListener | None = None,
        *,
        exclude: Iterable[str] = (),
        partitions: Iterable[TopicPartition] = (),
        add: bool = False,
    ) -> None:
        """Read topics, all that match a pattern (RE2), or partitions that are then this consumer's alone.

        It replaces what was subscribed to, or with `add` adds; partitions that stay go on. Raises
        SubscriptionNotValidError.
        """
        self._change(lambda: self._calls.subscribe(topics, pattern, listener, exclude, partitions, add=add))

    def subscription(self) -> set[str] | None:
        """Return the topics that are subscribed to, None without a subscription."""
        return self._look(self._calls.subscription)

    def assignment(self) -> set[TopicPartition]:
        """Return what the last poll knew as this consumer's."""
        return self._look(self._calls.assignment)

    def pause(self, *partitions: TopicPartition) -> None:
        """Return nothing of partitions until they are resumed; what was fetched of them is kept."""
        self._look(lambda: self._calls.pause(partitions))

    def resume(self, *partitions: TopicPartition) -> None:
        """Return records of paused partitions again."""
        self._look(lambda: self._calls.resume(partitions))

    def paused(self) -> set[TopicPartition]:
        """Return what is paused."""
        return self._look(self._calls.paused)

    def seek(self, partition: TopicPartition, offset: int) -> None:
        """Go on at an offset; all before it counts as done. Raises PartitionNotAssignedError, ValueError."""
        self._look(lambda: self._calls.seek(partition, offset))

    def highwater(self, partition: TopicPartition) -> int | None:
        """Return the offset after the last record of the log as it was fetched last, None before that."""
        return self._look(lambda: self._calls.highwater(partition))

    def lag(self, partition: TopicPartition) -> int | None:
        """Return how many offsets are to be returned yet, None before the first fetch."""
        return self._look(lambda: self._calls.lag(partition))

    def owner_epoch(self, partition: TopicPartition) -> int | None:
        """Return the fencing token of a partition: a sink that stores it can refuse who had it before."""
        return self._look(lambda: self._calls.owner_epoch(partition))

    def stream_of(self, partition: TopicPartition) -> int | None:
        """Return which of this consumer's `streams` reads a partition, None with one stream."""
        return self._look(lambda: self._calls.stream_of(partition))

    def metrics(self, raw: bool = False) -> dict[str, dict[str, float]]:  # noqa: FBT001 - kafka-python's
        """Return what this consumer has done so far, numbers by name by group; docs/CONSUMER.md says which.

        Raises ValueError for `raw`, by which kafka-python gives objects of its own.
        """
        if raw:
            raise ValueError("raw metrics are objects of kafka-python's; metrics() gives the numbers")
        return self._look(lambda: metrics_of(self._flows))

    def commit_async(
        self,
        offsets: Mapping[TopicPartition, int | OffsetAndMetadata] | None = None,
        callback: Callable[[Any, Exception | None], Any] | None = None,
    ) -> None:
        """Commit without waiting; a later call tells `callback` the offsets and None, or why they were refused."""
        self._look(lambda: self._calls.commit_async(offsets, callback))

    def __reduce__(self) -> str:
        """Refuse to be copied and pickled: there is one member, of one process, which its end leaves."""
        raise TypeError("a consumer belongs to the process that made it and cannot be copied or pickled")

    def __repr__(self) -> str:
        """Return its group and subscription."""
        names = ", ".join(sorted(self._flows.subscription.names())) or self._flows.subscription.pattern or "nothing"
        return f"<{type(self).__name__} group_id={self._settings.group_id!r} of {names}>"


def together(
    settings: Mapping[str, Any], coordinators: str | Sequence[str] | None, group_id: str | None
) -> dict[str, Any]:
    """Return all settings that were given, however they were."""
    named = {"coordinators": coordinators, "group_id": group_id}
    return dict(settings) | {name: value for name, value in named.items() if value is not None}
