"""Connections to Kafka: kafka-python's own, driven by the calling thread, with every wait bounded.

DNS, TCP, TLS, SASL and the choice of API versions are the library's. This room adds what a reader needs on
top: which broker leads a partition (asked for by name, never creating a topic), a way to send one request to
it, and blocking calls with a deadline. It decides nothing about offsets or records. One client is used by one
thread.
"""

from __future__ import annotations

import random
import time
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass, field, replace
from typing import Any, Final, TypeVar
from uuid import UUID

import kafka.errors as kafka_errors
from kafka.net.manager import KafkaConnectionManager
from kafka.net.selector import NetworkSelector
from kafka.protocol.metadata import MetadataRequest

from spark_kcoord.errors import KafkaAwayError, KcoordError, OptionError
from spark_kcoord.fetch.library_log import quieten
from spark_kcoord.fetch.receiving.receive_path import path_wished, read_in_place, take_path
from spark_kcoord.fetch.tls_files import TlsFiles, tls_files_of
from spark_kcoord.options.kafka_settings import KafkaSettings

__all__ = ["Backoff", "KafkaClient", "TopicMetadata", "describe_failure", "unreachable"]

T = TypeVar("T")

# A broker returns a batch larger than the fetch limits whole, so the frame limit leaves room for one.
_FRAME_LIMIT_BYTES: Final = 1 << 30
_NO_TOPIC_ID: Final = UUID(int=0)
# Version 4 is the first that can be told not to create the topic (Kafka 0.11).
_METADATA_MIN_VERSION: Final = 4
_BACKOFF_LIMIT_S: Final = 1.0
_FLUSH_TURNS: Final = 4


@dataclass(frozen=True, slots=True)
class TopicMetadata:
    """Kafka's answer about one topic: its id (None when it has none), its leaders, or why it said nothing.

    ``leaders`` maps partition to (broker id, leader epoch); a partition without a leader has broker id -1.
    """

    topic_id: str | None
    leaders: dict[int, tuple[int, int]]
    error: type[kafka_errors.KafkaError] | None
    learned_at: float


@dataclass(slots=True)
class Backoff:
    """Waits that double, up to a second, with jitter; ends at a deadline of the monotonic clock.

    ``uniform`` draws a number between two.
    """

    wait_s: float
    deadline: float
    uniform: Callable[[float, float], float] = random.uniform

    def next_wait(self) -> float:
        """Return how long to wait now, never past the deadline."""
        wait = min(self.wait_s * self.uniform(0.8, 1.2), max(0.0, self.deadline - time.monotonic()))
        self.wait_s = min(self.wait_s * 2, _BACKOFF_LIMIT_S)
        return wait

    def is_over(self) -> bool:
        """Return whether the deadline has passed."""
        return time.monotonic() >= self.deadline


@dataclass(slots=True)
class _Known:
    """Things that clients beside each other share: their TLS, topics, the last metadata, and who connects by it."""

    tls: TlsFiles | None
    topics: dict[str, TopicMetadata] = field(default_factory=dict)
    metadata: Any = None
    managers: list[KafkaConnectionManager] = field(default_factory=list)


class KafkaClient:
    """Warm connections to the brokers of one Kafka cluster. Opens nothing until the first call.

    One `beside` another has connections of its own; the other's turns drive it, and it is closed first.
    """

    def __init__(self, settings: KafkaSettings, *, beside: KafkaClient | None = None) -> None:
        self.settings = settings
        quieten()
        config = dict(settings.client)
        self._is_alone = beside is None
        # The loop runs only inside our calls, so a slow step of it blocks nobody else: threshold 0 is off.
        self._net: NetworkSelector
        self._known: _Known
        if beside is None:
            self._net = NetworkSelector(client_id=config["client_id"], slow_task_threshold_secs=0)
            self._known = _Known(tls_files_of(settings))
        else:
            self._net, self._known = beside._net, beside._known
        if self._known.tls is not None:
            config["ssl_context"] = self._known.tls
        self._manager = KafkaConnectionManager(
            self._net,
            bootstrap_servers=list(settings.servers),
            receive_message_max_bytes=_FRAME_LIMIT_BYTES,
            **config,
        )
        self._known.managers.append(self._manager)
        if self._known.metadata is not None:
            self._manager.cluster.update_metadata(self._known.metadata)
        self._receive_path = path_wished()
        self._last_failure: kafka_errors.KafkaError | None = None
        self.requests = 0
        """The requests that were sent, but for those by which the library connects."""

    def beside(self) -> KafkaClient:
        """Return a client of the same cluster and the same thread with connections of its own."""
        return KafkaClient(self.settings, beside=self)

    @property
    def cluster_id(self) -> str | None:
        """The id of the cluster that answered `refresh` last, None before that or when it has none."""
        cluster_id: str | None = self._manager.cluster.cluster_id
        return cluster_id

    def run(self, work: Callable[[], Awaitable[T]], timeout_s: float) -> T:
        """Run ``work`` to its end on the calling thread; raises KafkaTimeoutError when it takes longer.

        Raises OptionError where a file of TLS cannot be used.
        """

        async def bounded() -> T:
            pending = self._net.call_soon_with_future(work)
            result: T = await self._manager.wait_for(pending, timeout_s * 1000)
            return result

        try:
            result: T = self._net.run(bounded)
        except OptionError as error:
            # The message has the reason; the library's own traceback would bury it.
            raise OptionError(str(error)) from None
        return result

    def start(self, work: Callable[[], Awaitable[T]]) -> Any:
        """Start ``work`` and push its first request out, so that the broker works meanwhile.

        Returns an awaitable to await inside later work.
        """
        pending = self.start_soon(work)
        for _ in range(_FLUSH_TURNS):
            self._net.poll(timeout_ms=0)
        return pending

    def start_soon(self, work: Callable[[], Awaitable[T]]) -> Any:
        """Start ``work`` beside the work that calls this; returns an awaitable."""
        return self._net.call_soon_with_future(work)

    def turn(self, timeout_s: float) -> None:
        """Do what is due; where nothing is, wait for bytes, a time or `wake`, for so long at most."""
        self._net.poll(timeout_ms=timeout_s * 1000)

    def wake(self) -> None:
        """End the wait of `turn`; safe from every thread."""
        self._net.wakeup()

    def catch_up(self) -> None:
        """Do what fell due while nobody used the client: see connections that have ended, begin log-ins again."""
        for _ in range(_FLUSH_TURNS):
            self._net.poll(timeout_ms=0)

    async def sleep(self, seconds: float) -> None:
        """Wait inside ``work``."""
        await self._net.sleep(seconds)

    async def send(self, node_id: int, request: Any) -> Any:
        """Send one request to a broker and return its response, connecting first when needed.

        The records of a fetch may be a view of the memory that they were received into.

        Raises kafka-python's errors; a connection that failed is not used again before its backoff is over.
        """
        connection = await self._connect(node_id)
        self.requests += 1
        response = connection.send_request(request, request_timeout_ms=self.settings.request_timeout_ms)
        read_in_place(connection, request)
        return await response

    def topic(self, name: str) -> TopicMetadata | None:
        """Return what is known about a topic, or None when nothing is or it is older than the age limit."""
        known = self._known.topics.get(name)
        if known is None or time.monotonic() - known.learned_at > self.settings.metadata_max_age_ms / 1000:
            return None
        return known

    async def refresh(self, topics: Collection[str]) -> dict[str, TopicMetadata]:
        """Ask any broker about ``topics`` and remember the answer; raises kafka-python's errors."""
        await self._ask_metadata(sorted(topics))
        return {name: self._known.topics[name] for name in topics if name in self._known.topics}

    async def topic_names(self) -> list[str]:
        """Ask any broker which topics there are, remember the answer, and return their names without internal ones."""
        response = await self._ask_metadata(None)
        return sorted(topic.name for topic in response.topics if not topic.is_internal)

    async def _ask_metadata(self, names: list[str] | None) -> Any:
        connection = await self._any_connection()
        request = MetadataRequest(
            topics=None if names is None else [MetadataRequest.MetadataRequestTopic(name=name) for name in names],
            allow_auto_topic_creation=False,
            include_cluster_authorized_operations=False,
            include_topic_authorized_operations=False,
            min_version=_METADATA_MIN_VERSION,
        )
        self.requests += 1
        response = await connection.send_request(request, request_timeout_ms=self.settings.request_timeout_ms)
        self._known.metadata = response
        for manager in self._known.managers:
            manager.cluster.update_metadata(response)
        now = time.monotonic()
        for topic in response.topics:
            error = kafka_errors.for_code(topic.error_code)
            found = TopicMetadata(
                topic_id=None if topic.topic_id in (None, _NO_TOPIC_ID) else str(topic.topic_id),
                leaders={p.partition_index: (p.leader_id, p.leader_epoch) for p in topic.partitions},
                error=None if error is kafka_errors.NoError else error,
                learned_at=now,
            )
            self._known.topics[topic.name] = _without_older_leaders(found, self._known.topics.get(topic.name))
        return response

    async def _any_connection(self) -> Any:
        """Return a live connection, to a known broker or to one of the addresses given by the user."""
        for connection in self._manager.least_used_connections():
            if not connection.paused:
                return connection
        brokers = [broker.node_id for broker in self._manager.cluster.brokers()]
        random.shuffle(brokers)
        for node_id in (*brokers, *(broker.node_id for broker in self._manager.cluster.bootstrap_brokers())):
            if self._manager.connection_delay(node_id) > 0:
                continue
            try:
                return await self._connect(node_id)
            except kafka_errors.KafkaError as error:
                if not error.retriable:
                    raise
                self._last_failure = error
        raise self._last_failure or kafka_errors.NodeNotReadyError("every broker waits to be connected again")

    async def _connect(self, node_id: Any) -> Any:
        try:
            connection = self._manager.get_connection(node_id, refresh_metadata_on_err=False)
        except kafka_errors.UnknownBrokerIdError:
            # Brokers come and go between two answers: a leader may send readers to a replica that came since the last.
            raise kafka_errors.NodeNotReadyError(f"broker {node_id} was not there when last asked") from None
        take_path(connection, self._receive_path)
        return await connection

    def close(self) -> None:
        """Close every connection; the client cannot be used again."""
        self._manager.close()
        # One that was being made sees that it is not wanted, and closes its socket.
        self.catch_up()
        self._known.managers.remove(self._manager)
        if self._is_alone:
            self._net.close()


def _without_older_leaders(found: TopicMetadata, known: TopicMetadata | None) -> TopicMetadata:
    """Return ``found`` with the leaders of ``known`` that are newer: a broker may lag behind the last one asked."""
    if known is None or found.topic_id is None or found.topic_id != known.topic_id:
        return found
    leaders = {
        partition: max(leader, known.leaders.get(partition, leader), key=lambda one: one[1])
        for partition, leader in found.leaders.items()
    }
    return replace(found, leaders=leaders)


def describe_failure(error: kafka_errors.KafkaError) -> str:
    """Return a Kafka failure as a few words: its name and what the library or the broker says."""
    description = getattr(error, "description", "")
    said = ": ".join(str(argument) for argument in error.args) or description
    return f"{type(error).__name__}: {said.rstrip('.')}" if said else type(error).__name__


def unreachable(settings: KafkaSettings, timeout_s: float, error: kafka_errors.KafkaError) -> KcoordError:
    """Return the error for a Kafka that could not be asked: where, how long, why, and what to check."""
    servers = ", ".join(settings.servers)
    if not error.retriable:
        return KcoordError(f"Kafka at {servers} (option 'kafka.bootstrap.servers') refused: {describe_failure(error)}.")
    return KafkaAwayError(
        f"Kafka at {servers} gave no answer in {timeout_s:g} s ({describe_failure(error)}). Check the option "
        "'kafka.bootstrap.servers' (or the coordinator's own Kafka address), the network, and that the "
        "broker runs."
    )
