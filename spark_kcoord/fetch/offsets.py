"""A Spark driver's look-ups in Kafka: which partitions a topic has and where their logs begin and end.

Many partitions cost one request a broker. Leaders that moved are looked up again; every call ends by its
time-out with an error that names the address and the option. "Unknown" is an error or None, never offset 0.
Under ``read_committed`` the end is the last stable offset, so that a range never ends inside an open
transaction.
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, TypeVar

import kafka.errors as kafka_errors
from kafka.protocol.consumer import ListOffsetsRequest

from spark_kcoord.errors import KafkaAwayError, UnknownTopicError
from spark_kcoord.fetch.absences import Absences
from spark_kcoord.fetch.connection import Backoff, KafkaClient, TopicMetadata, unreachable
from spark_kcoord.fetch.sizes import sample_sizes
from spark_kcoord.fetch.topic_range import TopicPartition
from spark_kcoord.options.kafka_settings import KafkaSettings
from spark_kcoord.options.offset_specs import EARLIEST_LOCAL_POSITION, EARLIEST_POSITION, LATEST_POSITION

__all__ = ["TRY_TIMEOUT_S", "KafkaLookup", "TopicPartitions", "ask_offsets", "list_offsets", "local_log_starts"]

"""A topic's name and a partition of it."""

T = TypeVar("T")

_log = logging.getLogger(__name__)

TRY_TIMEOUT_S: Final = 5.0
"""The time that one try of a question may take, where nobody says another."""
# Version 2 is the first that knows isolation levels (Kafka 0.11).
_LIST_OFFSETS_MIN_VERSION: Final = 2
# Version 8 is the first that knows the local part of a log (Kafka 3.5).
_LOCAL_STARTS_MIN_VERSION: Final = 8
_NO_OFFSET: Final = -1
_ABSENCES_PROVE: Final = 2
"""A partition that fresh metadata leaves out so often is not there; one broker may not know it yet."""
_UNKNOWN_TOPIC: Final = (kafka_errors.UnknownTopicOrPartitionError, kafka_errors.InvalidTopicError)


@dataclass(frozen=True, slots=True)
class TopicPartitions:
    """A topic's id (UUID text, None before Kafka 2.8) and its partitions, in order."""

    topic_id: str | None
    partitions: tuple[int, ...]


class KafkaLookup:
    """One warm connection for a driver that asks often; used by one thread.

    Every method raises KcoordError when Kafka cannot be reached, refuses, or gives no answer in ``timeout_s``: short
    by default, so that a wrong address is told soon; a query that already runs can give a restarting broker longer.
    A question that got no answer is asked ``retries`` times more, ``retry_interval_s`` apart. One that hangs in the
    library is given up ``spare_s`` after its time. A topic is unknown when fresh metadata leaves it out twice, and for
    ``absence_s``: nothing where a name may be wrong, which is told soon, and more where it was read before.
    """

    def __init__(
        self,
        settings: KafkaSettings,
        *,
        timeout_s: float = TRY_TIMEOUT_S,
        retries: int = 0,
        retry_interval_s: float = 0.0,
        spare_s: float = 1.0,
        absence_s: float = 0.0,
    ) -> None:
        self._client = KafkaClient(settings)
        self._spare_s = spare_s
        self._timeout_s = timeout_s
        self._retries = retries
        self._retry_interval_s = retry_interval_s
        self._absences = Absences(absence_s)

    @property
    def is_read_committed(self) -> bool:
        """True if ends are last stable offsets."""
        return self._client.settings.is_read_committed

    @property
    def cluster_id(self) -> str | None:
        """The id of the Kafka cluster that has answered, None before the first answer."""
        return self._client.cluster_id

    def topics(self, names: Collection[str], *, timeout_s: float | None = None) -> dict[str, TopicPartitions]:
        """Return the partitions of topics, always asking Kafka; raises UnknownTopicError naming the missing ones."""

        async def ask(deadline: float) -> dict[str, TopicPartitions]:
            metadata = await _topics(self._client, names, deadline, self._absences)
            return {
                name: TopicPartitions(found.topic_id, tuple(sorted(found.leaders))) for name, found in metadata.items()
            }

        return self._run(ask, timeout_s)

    def topic_names(self, *, timeout_s: float | None = None) -> list[str]:
        """Return the names of all topics but Kafka's internal ones, sorted."""

        async def ask(deadline: float) -> list[str]:
            backoff = Backoff(self._client.settings.retry_backoff_ms / 1000, deadline)
            while True:
                try:
                    return await self._client.topic_names()
                except kafka_errors.KafkaError as error:
                    if not error.retriable or backoff.is_over():
                        raise
                await self._client.sleep(backoff.next_wait())

        return self._run(ask, timeout_s)

    def end_offsets(
        self, partitions: Collection[TopicPartition], *, timeout_s: float | None = None
    ) -> dict[TopicPartition, int]:
        """Return the offset after the last readable record of each partition that Kafka has, leaving out the others."""
        return self._known(dict.fromkeys(partitions, LATEST_POSITION), timeout_s)

    def high_watermarks(
        self, partitions: Collection[TopicPartition], *, timeout_s: float | None = None
    ) -> dict[TopicPartition, int]:
        """Return where the log of each partition ends, whatever the isolation level, leaving out unknown ones."""
        positions = dict.fromkeys(partitions, LATEST_POSITION)
        if not positions:
            return {}
        found = self._run(
            lambda deadline: list_offsets(
                self._client, positions, deadline, is_read_committed=False, absences=self._absences
            ),
            timeout_s,
        )
        return {partition: offset for partition, offset in found.items() if offset is not None}

    def earliest_offsets(
        self, partitions: Collection[TopicPartition], *, timeout_s: float | None = None
    ) -> dict[TopicPartition, int]:
        """Return the first offset still there of each partition that Kafka has, leaving out the others."""
        return self._known(dict.fromkeys(partitions, EARLIEST_POSITION), timeout_s)

    def offsets_at(
        self, timestamps_ms: Mapping[TopicPartition, int], *, timeout_s: float | None = None
    ) -> dict[TopicPartition, int | None]:
        """Return the first offset at or after a time (ms since 1970) of each partition; None when there is none."""
        return self._list(timestamps_ms, timeout_s)

    def records_at(
        self, timestamps_ms: Mapping[TopicPartition, int], *, timeout_s: float | None = None
    ) -> dict[TopicPartition, tuple[int, int, int] | None]:
        """Return offset, timestamp and leader epoch of the first record at or after a time; None where there is none.

        A leader epoch that the broker does not say is -1.
        """
        if not timestamps_ms:
            return {}
        found = self._run(
            lambda deadline: _list(self._client, timestamps_ms, deadline, None, self._absences), timeout_s
        )
        return {
            partition: None if one.offset == _NO_OFFSET else (one.offset, one.timestamp, one.leader_epoch)
            for partition, one in found.items()
        }

    def bytes_per_offset(
        self, positions: Mapping[TopicPartition, int], *, timeout_s: float | None = None
    ) -> dict[TopicPartition, float]:
        """Return how many bytes an offset takes at each position, as Kafka stores them; what is not known is absent."""
        if not positions:
            return {}
        return self._run(lambda _: sample_sizes(self._client, positions), timeout_s)

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def _known(self, positions: Mapping[TopicPartition, int], timeout_s: float | None) -> dict[TopicPartition, int]:
        found = self._list(positions, timeout_s)
        return {partition: offset for partition, offset in found.items() if offset is not None}

    def _list(
        self, positions: Mapping[TopicPartition, int], timeout_s: float | None
    ) -> dict[TopicPartition, int | None]:
        if not positions:
            return {}
        return self._run(
            lambda deadline: list_offsets(self._client, positions, deadline, absences=self._absences), timeout_s
        )

    def _run(self, work: Callable[[float], Awaitable[T]], timeout_s: float | None) -> T:
        limit_s = self._timeout_s if timeout_s is None else timeout_s
        for _ in range(self._retries):
            try:
                return self._try(work, limit_s)
            except KafkaAwayError as error:
                _log.warning("%s Asking again in %g s.", error, self._retry_interval_s)
            time.sleep(self._retry_interval_s)
        return self._try(work, limit_s)

    def _try(self, work: Callable[[float], Awaitable[T]], limit_s: float) -> T:
        deadline = time.monotonic() + limit_s
        try:
            return self._client.run(partial(work, deadline), limit_s + self._spare_s)
        except kafka_errors.KafkaError as error:
            # The message has the reason; the library's own traceback would bury it where Spark shows both.
            raise unreachable(self._client.settings, limit_s, error) from None


async def list_offsets(
    client: KafkaClient,
    positions: Mapping[TopicPartition, int],
    deadline: float,
    *,
    is_read_committed: bool | None = None,
    absences: Absences | None = None,
) -> dict[TopicPartition, int | None]:
    """Ask the leaders for offsets: -2 earliest, -1 latest, or from a time in ms; retries until ``deadline``.

    The latest is the last stable offset if asked for by one who ``is_read_committed`` (None: as the client's settings
    say), else the high watermark. A partition that the topic no longer has, because it was made again with fewer, is
    left out.

    Raises UnknownTopicError, or kafka-python's last error when the time is over.
    """
    found = await _list(client, positions, deadline, is_read_committed, absences)
    return {partition: None if one.offset == _NO_OFFSET else one.offset for partition, one in found.items()}


async def ask_offsets(
    client: KafkaClient, positions: Mapping[TopicPartition, int]
) -> tuple[dict[TopicPartition, int], kafka_errors.KafkaError | None]:
    """Ask the leaders once, as they are known: -2 earliest, -1 latest as `list_offsets` has it.

    Returns the offsets that were said, and the last failure, by which others are missing.
    """
    answers: dict[TopicPartition, Any] = {}
    failure = await _ask_leaders(client, positions, answers, is_read_committed=client.settings.is_read_committed)
    return {partition: one.offset for partition, one in answers.items() if one.offset != _NO_OFFSET}, failure


async def _list(
    client: KafkaClient,
    positions: Mapping[TopicPartition, int],
    deadline: float,
    is_read_committed: bool | None,  # noqa: FBT001 - three values, and for this room alone
    topics_absent: Absences | None = None,
) -> dict[TopicPartition, Any]:
    """Return the leaders' answers for each partition; raises as `list_offsets`."""
    answers: dict[TopicPartition, Any] = {}
    if is_read_committed is None:
        is_read_committed = client.settings.is_read_committed
    backoff = Backoff(client.settings.retry_backoff_ms / 1000, deadline)
    known = {name: client.topic(name) for name, _ in positions}
    stale = {name for name, found in known.items() if found is None or found.error is not None}
    absences: Counter[TopicPartition] = Counter()
    while True:
        waiting = {
            key: position
            for key, position in positions.items()
            if key not in answers and absences[key] < _ABSENCES_PROVE
        }
        try:
            if stale:
                found = await _topics(client, stale, deadline, topics_absent)
                absences.update(key for key in waiting if key[0] in found and key[1] not in found[key[0]].leaders)
            failure = await _ask_leaders(client, waiting, answers, is_read_committed=is_read_committed)
        except kafka_errors.KafkaError as error:
            failure = error
        if failure is None or all(key in answers or absences[key] >= _ABSENCES_PROVE for key in positions):
            return answers
        if not failure.retriable or backoff.is_over():
            raise failure
        stale = {name for name, _ in positions}
        await client.sleep(backoff.next_wait())


async def local_log_starts(
    client: KafkaClient, leader: int, epochs: Mapping[TopicPartition, int]
) -> dict[TopicPartition, int] | None:
    """Ask a broker once where the logs on its own disk begin, of partitions that it leads under these leader epochs.

    Partitions that it does not lead so are left out. None when it cannot be asked that; raises kafka-python's errors.
    """
    topics: dict[str, list[Any]] = {}
    for (name, partition), epoch in epochs.items():
        asked = ListOffsetsRequest.ListOffsetsTopic.ListOffsetsPartition(
            partition_index=partition, current_leader_epoch=epoch, timestamp=EARLIEST_LOCAL_POSITION
        )
        topics.setdefault(name, []).append(asked)
    try:
        response = await _ask(client, leader, topics, min_version=_LOCAL_STARTS_MIN_VERSION)
    except kafka_errors.IncompatibleBrokerVersion:
        return None
    return {
        (topic.name, found.partition_index): found.offset
        for topic in response.topics
        for found in topic.partitions
        if not found.error_code and found.offset != _NO_OFFSET
    }


async def _topics(
    client: KafkaClient, names: Collection[str], deadline: float, absences: Absences | None = None
) -> dict[str, TopicMetadata]:
    """Return metadata of topics that exist; waits for a leader of each partition until ``deadline``."""
    backoff = Backoff(client.settings.retry_backoff_ms / 1000, deadline)
    absences = Absences() if absences is None else absences
    while True:
        failure: kafka_errors.KafkaError | None = None
        try:
            found = await client.refresh(names)
            there = {name for name, topic in found.items() if topic.error not in _UNKNOWN_TOPIC}
            refused = {name for name, topic in found.items() if topic.error is kafka_errors.InvalidTopicError}
            now = time.monotonic()
            absences.note(names, there, now)
            missing = sorted(absences.proven(names, now, is_last=backoff.is_over()) | refused)
            if missing:
                raise UnknownTopicError(
                    f"Kafka at {', '.join(client.settings.servers)} has no topic {', '.join(missing)} "
                    "(option 'subscribe'). Create it, or correct the name; a stream can wait with "
                    "'kcoord.wait.for.topics'.",
                    missing,
                )
            failure = next((topic.error(name) for name, topic in found.items() if topic.error is not None), None)
            if failure is None and len(found) == len(set(names)):
                return found
            failure = failure or kafka_errors.UnknownTopicOrPartitionError("a broker does not know all topics yet")
        except kafka_errors.KafkaError as error:
            failure = error
        if not failure.retriable or backoff.is_over():
            raise failure
        await client.sleep(backoff.next_wait())


async def _ask_leaders(
    client: KafkaClient,
    waiting: Mapping[TopicPartition, int],
    answers: dict[TopicPartition, Any],
    *,
    is_read_committed: bool,
) -> kafka_errors.KafkaError | None:
    """Send one request a leader for ``waiting``, put answers in ``answers``; returns the last failure."""
    failure: kafka_errors.KafkaError | None = None
    by_leader: dict[int, dict[str, list[Any]]] = {}
    for (name, partition), position in waiting.items():
        topic = client.topic(name)
        leader, epoch = topic.leaders.get(partition, (None, -1)) if topic else (None, -1)
        if leader is None:
            failure = kafka_errors.UnknownTopicOrPartitionError(f"{name}-{partition}")
        elif leader < 0:
            failure = kafka_errors.LeaderNotAvailableError(f"{name}-{partition}")
        else:
            asked = ListOffsetsRequest.ListOffsetsTopic.ListOffsetsPartition(
                partition_index=partition, current_leader_epoch=epoch, timestamp=position
            )
            by_leader.setdefault(leader, {}).setdefault(name, []).append(asked)
    pending = [
        client.start_soon(partial(_ask, client, leader, topics, is_read_committed=is_read_committed))
        for leader, topics in by_leader.items()
    ]
    for answer in pending:
        try:
            response = await answer
        except kafka_errors.KafkaError as error:
            failure = error
            continue
        for topic_answer in response.topics:
            for found in topic_answer.partitions:
                error_type = kafka_errors.for_code(found.error_code)
                where = f"{topic_answer.name}-{found.partition_index}"
                if error_type is kafka_errors.NoError:
                    answers[topic_answer.name, found.partition_index] = found
                else:
                    failure = error_type(where)
    if failure is None and not waiting.keys() <= answers.keys():
        failure = kafka_errors.UnknownTopicOrPartitionError("a broker left out what it was asked for")
    return failure


async def _ask(
    client: KafkaClient,
    leader: int,
    topics: Mapping[str, list[Any]],
    *,
    is_read_committed: bool = False,
    min_version: int = _LIST_OFFSETS_MIN_VERSION,
) -> Any:
    request = ListOffsetsRequest(
        isolation_level=int(is_read_committed),
        topics=[
            ListOffsetsRequest.ListOffsetsTopic(name=name, partitions=partitions) for name, partitions in topics.items()
        ],
        timeout_ms=client.settings.request_timeout_ms,
        min_version=min_version,
    )
    return await client.send(leader, request)
