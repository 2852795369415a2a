"""The calls of a consumer with their arguments checked: flows where something has to be waited for, plain values else.

A blocking and an asyncio consumer have these in common; a shell adds how it waits, and nothing else.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from coordinator.protocol.parts import CommittedOffset
from spark_kcoord.consumer.conduct.committing import as_told
from spark_kcoord.consumer.conduct.flows import LEAVE_MS, Flows
from spark_kcoord.consumer.conduct.wishes import Flow
from spark_kcoord.consumer.core.machine import Owed, Told
from spark_kcoord.consumer.errors import OffsetUnknownError
from spark_kcoord.consumer.settings import Settings
from spark_kcoord.consumer.subscription import by_hand, must_be_offset, must_be_partitions, must_be_time, of_group
from spark_kcoord.consumer.values import ConsumerRebalanceListener, OffsetAndTimestamp, TopicPartition

__all__ = ["Calls", "check_timeout"]

Key = tuple[str, int]

LONGEST_S: Final = 1e9
"""The longest time-out, some thirty years: more is not taken by what waits."""


def check_timeout(timeout_ms: Any, default_ms: float) -> float:
    """Return a time-out in seconds, for an infinite one the longest there is; raises ValueError for what is none."""
    value = default_ms if timeout_ms is None else timeout_ms
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"a time-out is a number of milliseconds, not {timeout_ms!r}")
    if not value >= 0:
        raise ValueError(f"a time-out must not be negative: {timeout_ms!r}")
    return min(value / 1000, LONGEST_S)


class Calls:
    """The calls of one consumer."""

    def __init__(self, settings: Settings, flows: Flows) -> None:
        self._settings = settings
        self._flows = flows

    def timeout_s(self, timeout_ms: Any) -> float:
        """Return a time-out in seconds, `request_timeout_ms` without one."""
        return check_timeout(timeout_ms, self._settings["request_timeout_ms"])

    # ---- subscribing ------------------------------------------------------------------------------------------------

    def subscribe(self, topics: Any, pattern: Any, listener: Any, exclude: Any, partitions: Any, *, add: bool) -> None:
        """Subscribe to something, or to that as well."""
        flows = self._flows
        flows.must_be_open()
        wanted = of_group(flows.subscription, topics, pattern, exclude, partitions, add=add)
        flows.subscribe(wanted, check_listener(listener) or (flows.listener if add else None))

    def assign(self, partitions: Any, *, add: bool) -> Flow[None]:
        """Read partitions by hand."""
        self._flows.must_be_open()
        wanted = by_hand(self._flows.subscription, partitions, add=add)
        yield from self._flows.assign(wanted, self.timeout_s(None))

    # ---- where it stands --------------------------------------------------------------------------------------------

    def assignment(self) -> set[TopicPartition]:
        """Return what is read now."""
        return {TopicPartition(*key) for key in self._flows.machine.keys}

    def subscription(self) -> set[str] | None:
        """Return the topics that are subscribed to, None without a subscription; of a pattern those that came."""
        subscription = self._flows.subscription
        if subscription.is_empty or subscription.by_hand:
            return None
        if subscription.pattern is not None:
            return {topic for topic, _ in self._flows.machine.keys}
        return subscription.names()

    def paused(self) -> set[TopicPartition]:
        """Return what is paused."""
        return {TopicPartition(*held.key) for held in self._flows.machine if held.is_paused}

    def pause(self, partitions: Iterable[TopicPartition]) -> None:
        """Return nothing of partitions until they are resumed."""
        self._flows.machine.pause(self._held(partitions))
        self._flows.fetch()

    def resume(self, partitions: Iterable[TopicPartition]) -> None:
        """Return records of partitions again."""
        self._flows.machine.resume(self._held(partitions))
        self._flows.fetch()

    def seek(self, partition: TopicPartition, offset: Any) -> None:
        """Go on at an offset."""
        (key,) = self._held((partition,))
        self._flows.machine.seek(key, must_be_offset(offset))
        self._flows.fetch()

    def seek_all(self, partitions: Iterable[TopicPartition], position: int) -> None:
        """Go on at the beginning or the end of partitions, of all without any."""
        named = must_be_partitions(partitions)
        keys = self._held(named) if named else list(self._flows.machine.keys)
        if not keys:
            raise ValueError("No partitions are currently assigned")
        for key in keys:
            self._flows.machine.seek(key, position)
        self._flows.fetch()

    def seek_to_committed(self, partitions: Sequence[TopicPartition], timeout_ms: Any) -> Flow[dict[Any, int]]:
        """Go on where the group is; raises OffsetUnknownError where it is nowhere, and then nothing is sought."""
        keys = self._held(partitions) or list(self._flows.machine.keys)
        committed = yield from self._flows.committer.committed(keys, self.timeout_s(timeout_ms))
        unknown = [key for key in keys if key not in committed or self._is_of_old_topic(committed[key])]
        if unknown:
            shown = ", ".join(f"{topic}-{number}" for topic, number in unknown)
            raise OffsetUnknownError(f"Group '{self._settings.group_id}' has no committed offset of {shown}.", unknown)
        for key in keys:
            if self._flows.machine.held(key) is not None:
                self._flows.machine.seek(key, committed[key].offset, committed[key].topic_id or None)
        self._flows.fetch()
        return {TopicPartition(*key): committed[key].offset for key in keys}

    def _is_of_old_topic(self, committed: CommittedOffset) -> bool:
        """Say whether the member has the partition of another topic than that of which the group has an offset."""
        held = self._flows.machine.held((committed.topic, committed.partition))
        granted = held.grant.topic_id if held is not None else None
        return bool(granted and committed.topic_id) and granted != committed.topic_id

    def position(self, partition: TopicPartition, timeout_ms: Any) -> Flow[int | None]:
        """Return the offset of the next record."""
        (named,) = must_be_partitions((partition,))
        position = yield from self._flows.position(tuple(named), self.timeout_s(timeout_ms))
        return position

    def highwater(self, partition: TopicPartition) -> int | None:
        """Return the offset after the last record of a log, None before the first fetch."""
        (key,) = self._held((partition,))
        self._flows.fetch()
        return self._flows.held(key).high_watermark

    def lag(self, partition: TopicPartition) -> int | None:
        """Return how many offsets are to be returned yet, None before the first fetch."""
        (key,) = self._held((partition,))
        self._flows.fetch()
        held = self._flows.held(key)
        return None if held.end is None or held.position is None else max(0, held.end - held.position)

    def owner_epoch(self, partition: TopicPartition) -> int | None:
        """Return the fencing token of a partition, None for one that was assigned by hand."""
        (key,) = self._held((partition,))
        return self._flows.held(key).grant.owner_epoch

    def stream_of(self, partition: TopicPartition) -> int | None:
        """Return the stream that reads a partition, None where the group does not spread them."""
        (key,) = self._held((partition,))
        return self._flows.held(key).grant.stream

    def _held(self, partitions: Iterable[TopicPartition]) -> list[Key]:
        keys = [(one.topic, one.partition) for one in must_be_partitions(partitions)]
        for key in keys:
            self._flows.held(key)
        return keys

    # ---- Kafka ------------------------------------------------------------------------------------------------------

    def beginnings(self, partitions: Iterable[TopicPartition], timeout_ms: Any) -> Flow[dict[TopicPartition, int]]:
        """Return the first offsets of partitions."""
        named, timeout_s = must_be_partitions(partitions), self.timeout_s(timeout_ms)
        found: dict[TopicPartition, int] = yield from self._flows.ask_kafka(
            lambda lookup, left_s: lookup.beginnings(named, left_s), timeout_s
        )
        return found

    def ends(self, partitions: Iterable[TopicPartition], timeout_ms: Any) -> Flow[dict[TopicPartition, int]]:
        """Return the offsets after the last readable records."""
        named, timeout_s = must_be_partitions(partitions), self.timeout_s(timeout_ms)
        found: dict[TopicPartition, int] = yield from self._flows.ask_kafka(
            lambda lookup, left_s: lookup.ends(named, left_s), timeout_s
        )
        return found

    def at_times(
        self, timestamps: Mapping[TopicPartition, int], timeout_ms: Any
    ) -> Flow[dict[TopicPartition, OffsetAndTimestamp | None]]:
        """Return the first record at or after a time of each partition."""
        must_be_partitions(timestamps)
        times = {partition: must_be_time(partition, time_ms) for partition, time_ms in timestamps.items()}
        timeout_s = self.timeout_s(timeout_ms)
        found = yield from self._flows.ask_kafka(lambda lookup, left_s: lookup.at_times(times, left_s), timeout_s)
        return {key: None if one is None else OffsetAndTimestamp(*one) for key, one in found.items()}

    def topics(self, timeout_ms: Any) -> Flow[set[str]]:
        """Return the names of all topics but Kafka's internal ones."""
        timeout_s = self.timeout_s(timeout_ms)
        found: set[str] = yield from self._flows.ask_kafka(lambda lookup, left_s: lookup.names(left_s), timeout_s)
        return found

    def partitions_of(self, topic: str, timeout_ms: Any) -> Flow[set[int]]:
        """Return the numbers of a topic's partitions, none for a topic that Kafka does not know."""
        if not isinstance(topic, str):
            raise TypeError(f"a topic is a text, not {topic!r}")
        timeout_s = self.timeout_s(timeout_ms)
        found = yield from self._flows.ask_kafka(lambda lookup, left_s: lookup.partitions_of(topic, left_s), timeout_s)
        return found or set()

    # ---- offsets ----------------------------------------------------------------------------------------------------

    def commit(self, offsets: Any, timeout_ms: Any) -> Flow[None]:
        """Commit offsets, or all that was returned, and wait."""
        self._flows.must_be_open()
        yield from self._commit(offsets, self.timeout_s(timeout_ms))
        yield from self._flows.committer.run_callbacks()

    def _commit(self, offsets: Any, timeout_s: float) -> Flow[None]:
        yield from self._flows.committer.commit(offsets, timeout_s)

    def commit_async(self, offsets: Any, callback: Any) -> None:
        """Commit offsets, or all that was returned, and do not wait."""
        self._flows.must_be_open()
        if callback is not None and not callable(callback):
            raise TypeError(f"a callback is called with the offsets and an error or None: {callback!r} cannot be")
        self._commit_async(offsets, callback)

    def _commit_async(self, offsets: Any, callback: Any) -> None:
        self._flows.committer.commit_async(offsets, callback)

    def committed(self, partition: TopicPartition, *, metadata: bool, timeout_ms: Any) -> Flow[Any]:
        """Return the group's offset of a partition, None where there is none."""
        named = must_be_partitions((partition,))
        found = yield from self._flows.committer.committed(named, self.timeout_s(timeout_ms))
        one = found.get(tuple(partition))
        if one is None:
            return None
        return as_told(one) if metadata else one.offset

    def committed_offsets(self, timeout_ms: Any) -> Flow[dict[TopicPartition, Any]]:
        """Return the group's offsets of all its partitions that have one."""
        found = yield from self._flows.committer.committed(None, self.timeout_s(timeout_ms))
        return {TopicPartition(*key): as_told(one) for key, one in found.items()}

    # ---- the end ----------------------------------------------------------------------------------------------------

    def close(self, autocommit: Any, timeout_ms: Any, *, counts_last: bool) -> Flow[None]:
        """Give everything back and leave; with `counts_last` what was returned last is done, unless it is said."""
        timeout_s = check_timeout(timeout_ms, LEAVE_MS)
        if counts_last and autocommit is None and not self._flows.is_closed:
            self._flows.note_done()
        yield from self._flows.close(autocommit, timeout_s)

    # ---- listeners --------------------------------------------------------------------------------------------------

    def tell(self, owed: Owed) -> Any:
        """Tell the listener; what its method returns comes back, which may be a coroutine."""
        listener = self._flows.listener
        assert listener is not None
        partitions = {TopicPartition(*key) for key in owed.partitions}
        if owed.news is Told.REVOKED:
            return listener.on_partitions_revoked(partitions)
        if owed.news is Told.ASSIGNED:
            return listener.on_partitions_assigned(partitions)
        # A listener of kafka-python's knows two kinds of news.
        lost = getattr(listener, "on_partitions_lost", listener.on_partitions_revoked)
        return lost(partitions)


def check_listener(listener: Any) -> ConsumerRebalanceListener | None:
    """Return a listener; raises TypeError for what is none."""
    if listener is None:
        return None
    for name in ("on_partitions_revoked", "on_partitions_assigned"):
        if not callable(getattr(listener, name, None)):
            raise TypeError(f"a listener has a method {name}; {type(listener).__name__} has none")
    found: ConsumerRebalanceListener = listener
    return found
