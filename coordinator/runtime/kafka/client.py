"""The coordinator's requests to a Kafka cluster, as blocking calls with time-outs, over kafka-python's connections.

Three questions: what topics look like (with their ids and leaders), and where partitions begin, end or were at a
time. The protocol's own requests are used and not the library's admin client, which shows no brokers beside its
topics, asks for metadata anew with every list of offsets and lets one failed partition fail the whole list.
One failed call leaves the client unusable: close it and make another.
"""

import contextlib
import socket
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from kafka.errors import KafkaError, KafkaTimeoutError, RequestTimedOutError, TopicAuthorizationFailedError, for_code
from kafka.net.manager import KafkaConnectionManager
from kafka.net.selector import NetworkSelector
from kafka.protocol.consumer import ListOffsetsRequest
from kafka.protocol.metadata import MetadataRequest

from coordinator.core.effects import OffsetToResolve
from coordinator.core.events import ResolvedOffset, TopicMetadata
from coordinator.protocol.ids import TopicPartition
from coordinator.protocol.text.addresses import Address, parse_address
from coordinator.runtime.kafka.access import PLAIN_ACCESS, KafkaAccess
from coordinator.runtime.kafka.failures import (
    say_failure,
    say_not_entered,
    say_system_error,
    say_topic_refused,
    why_no_descriptor,
)
from coordinator.runtime.kafka.late_leaders import LateLeaders, LeaderKey

_NO_ERROR: Final = 0
_UNKNOWN_TOPIC_OR_PARTITION: Final = 3
_LEADER_NOT_AVAILABLE: Final = 5
_LIST_LATEST: Final = -1
_REPLICA_ID_OF_CLIENTS: Final = -1
_RESPONSE_BYTES: Final = 100 * 1024 * 1024
_STOP_TIMEOUT_MS: Final = 2000
_FAULTS: Final = (KafkaError, OSError, RuntimeError)


class KafkaAwayError(Exception):
    """Kafka does not answer; the text says who, why, and is fit for a member's eyes."""


@dataclass(frozen=True, slots=True)
class ClusterView:
    """One answer about topics; a name in none of the three was not answered for now."""

    topics: Mapping[str, TopicMetadata]
    absent: frozenset[str]
    refused: Mapping[str, str]
    brokers: Mapping[int, Address]
    cluster_id: str | None


@dataclass(frozen=True, slots=True)
class EndsAnswer:
    """Answers about the ends of partitions, in the order asked, and the time waited for leaders that gave none."""

    ends: list[ResolvedOffset]
    waited_s: float


class KafkaClient:
    """A connected client; raises KafkaAwayError when no bootstrap server can be talked to."""

    def __init__(
        self,
        bootstrap: Sequence[str],
        request_timeout_ms: int,
        connect_timeout_ms: int,
        access: KafkaAccess = PLAIN_ACCESS,
    ) -> None:
        self._bootstrap = tuple(bootstrap)
        self._request_timeout_ms = request_timeout_ms
        self._connect_timeout_ms = connect_timeout_ms
        self._access = access
        self._stopping = threading.Lock()
        self._net: NetworkSelector | None = None
        self._manager: KafkaConnectionManager | None = None
        self._late = LateLeaders(self._send_list, self._call_at, _answers_of, 2 * request_timeout_ms / 1000)
        reasons = []
        for address in self._bootstrap:
            try:
                why = self._why_no_connection(address) or self._why_not_entered(address)
            except BaseException:
                self.close()  # nobody else could: it holds a thread and files
                raise
            if not why:
                return
            self.close()
            reasons.append(why)
        raise KafkaAwayError(f"Kafka at {self._names} cannot be reached: {'; '.join(dict.fromkeys(reasons))}")

    @property
    def _names(self) -> str:
        return ", ".join(self._bootstrap)

    def read_topics(self, names: Iterable[str]) -> ClusterView:
        """Ask about some topics, which creates none; raises KafkaAwayError."""
        return _view_of(self._ask_metadata([MetadataRequest.MetadataRequestTopic(name=name) for name in sorted(names)]))

    def read_all_topics(self, names: Iterable[str]) -> ClusterView:
        """Ask about all topics, Kafka's internal ones too; names that it does not list are absent.

        Raises KafkaAwayError.
        """
        response = self._ask_metadata(None)
        view = _view_of(response)
        not_listed = frozenset(names).difference(topic.name for topic in response.topics)
        return replace(view, absent=view.absent | not_listed)

    def _ask_metadata(self, topics: list[MetadataRequest.MetadataRequestTopic] | None) -> Any:
        request = MetadataRequest(
            topics=topics,
            allow_auto_topic_creation=False,
            include_cluster_authorized_operations=False,
            include_topic_authorized_operations=False,
        )
        try:
            response = self._open_manager.run(self._ask_any, request)
        except _FAULTS as error:
            raise self._away(error) from error
        self._open_manager.cluster.update_metadata(response)
        return response

    def list_offsets(
        self, offsets: Sequence[OffsetToResolve], leaders: Mapping[TopicPartition, int]
    ) -> list[ResolvedOffset]:
        """Ask the leaders where partitions begin, end or were; an answer for each, in the order asked.

        A time after the last record gives the end of the partition. What cannot be told has a None offset and a why.
        """
        found = self._list_once(offsets, leaders)
        after_the_end = [
            asked
            for asked, answer in zip(offsets, found, strict=True)
            if asked.timestamp_ms >= 0 and answer.offset == _LIST_LATEST
        ]
        if not after_the_end:
            return found
        ends = {
            (answer.topic, answer.partition): answer
            for answer in self._list_once(
                [
                    OffsetToResolve(asked.topic, asked.partition, _LIST_LATEST, asked.is_read_committed)
                    for asked in after_the_end
                ],
                leaders,
            )
        }
        return [ends[answer.topic, answer.partition] if answer.offset == _LIST_LATEST else answer for answer in found]

    def list_ends(self, offsets: Sequence[OffsetToResolve], leaders: Mapping[TopicPartition, int]) -> EndsAnswer:
        """Ask where partitions end, again and again: leaders that are late are not waited for.

        Their answers are told by a later call. What cannot be told now has a None offset and a why.
        """
        by_leader, answers = _by_leader(offsets, leaders)
        try:
            told = self._open_manager.run(self._late.ask, by_leader)
        except _FAULTS as error:
            raise self._away(error) from error
        self._take_in(told.results, by_leader, answers)
        answers.update(told.answers)
        late = "the leader has not answered yet"
        ends = [answers.get((asked.topic, asked.partition)) or _unknown(asked, late) for asked in offsets]
        return EndsAnswer(ends, told.waited_s)

    def interrupt(self) -> None:
        """Stop the library's thread, which fails the call in progress; the only method for another thread."""
        with self._stopping:
            if self._net is not None:
                self._net.stop(_STOP_TIMEOUT_MS)

    def close(self) -> None:
        """Close the connections; not while a call is in progress."""
        self.interrupt()
        if self._manager is not None:
            with contextlib.suppress(*_FAULTS):
                self._manager.close()
        if self._net is not None:
            with contextlib.suppress(*_FAULTS):
                self._net.close()

    def _list_once(
        self, offsets: Sequence[OffsetToResolve], leaders: Mapping[TopicPartition, int]
    ) -> list[ResolvedOffset]:
        by_leader, answers = _by_leader(offsets, leaders)
        try:
            results = self._open_manager.run(self._ask_leaders, by_leader)
        except _FAULTS as error:
            raise self._away(error) from error
        self._take_in(results, by_leader, answers)
        return [
            answers.get((asked.topic, asked.partition)) or _unknown(asked, "the leader left it out of its answer")
            for asked in offsets
        ]

    def _take_in(
        self,
        results: Iterable[tuple[LeaderKey, Any]],
        by_leader: Mapping[LeaderKey, Sequence[OffsetToResolve]],
        answers: dict[TopicPartition, ResolvedOffset],
    ) -> None:
        for key, result in results:
            if isinstance(result, KafkaError):
                for asked in by_leader[key]:
                    why = f"broker {key[0]} did not answer: {say_failure(result, self._request_timeout_ms)}"
                    answers[asked.topic, asked.partition] = _unknown(asked, why)
            else:
                answers.update(_answers_of(result))

    async def _ask_any(self, request: Any) -> Any:
        """Ask the broker that has the least to do; runs in the library's loop."""
        return await self._connection(self._open_manager.least_loaded_node()).send_request(request)

    async def _ask_leaders(
        self, by_leader: Mapping[LeaderKey, Sequence[OffsetToResolve]]
    ) -> list[tuple[LeaderKey, Any]]:
        """Ask all leaders at once, in a request for each isolation level; runs in the library's loop."""
        asked = []
        results: list[tuple[LeaderKey, Any]] = []
        for key, offsets in by_leader.items():
            try:
                asked.append((key, self._send_list(key, offsets)))
            except KafkaError as error:
                results.append((key, error))
        for key, answer in asked:
            try:
                results.append((key, await answer))
            except KafkaError as error:
                results.append((key, error))
        return results

    def _send_list(self, key: LeaderKey, offsets: Sequence[OffsetToResolve]) -> Any:
        """Ask a leader where partitions begin, end or were; in the library's loop. Raises KafkaError."""
        leader, is_read_committed = key
        return self._connection(leader).send_request(_list_request(offsets, is_read_committed=is_read_committed))

    def _call_at(self, when_s: float, act: Callable[[], object]) -> object:
        assert self._net is not None, "it was made"
        return self._net.call_at(when_s, act)

    # ---- the beginning ----------------------------------------------------------------------------------------------

    def _why_no_connection(self, address: str) -> str:
        """Find out in the operating system's words why a bootstrap server cannot be connected to."""
        timeout_s = self._connect_timeout_ms / 1000
        try:
            socket.create_connection(parse_address(address), timeout_s).close()
        except TimeoutError:
            return f"no answer from {address} in {timeout_s:g} s"
        except OSError as error:
            return say_system_error(error)
        except UnicodeError as error:
            return f"{address} names no host that a name server could be asked for ({error})"
        return ""

    def _why_not_entered(self, address: str) -> str:
        """Log in at a bootstrap server and ask it for the others; say why that fails, empty if it does not."""
        timeout_ms = self._connect_timeout_ms
        try:
            self._net = NetworkSelector(client_id="kcoord")
        except OSError as error:
            return say_failure(error, self._request_timeout_ms)
        self._net.start()
        self._manager = KafkaConnectionManager(
            self._net,
            bootstrap_servers=[address],
            client_id="kcoord",
            request_timeout_ms=self._request_timeout_ms,
            socket_connection_setup_timeout_ms=timeout_ms,
            reconnect_backoff_max_ms=1000,
            receive_message_max_bytes=_RESPONSE_BYTES,
            **self._access.for_library(),
        )
        try:
            # The library's own start tries again and again, and keeps to itself why it does not succeed.
            self._manager.run(self._greet)
            self._manager.bootstrap(timeout_ms)
        except (KafkaTimeoutError, RequestTimedOutError):
            return why_no_descriptor() or (
                f"something accepts connections there but does not answer as a Kafka broker in {timeout_ms} ms; it is "
                "none, or it is stopped or overloaded"
            )
        except _FAULTS as error:
            return why_no_descriptor() or say_not_entered(error, self._access.who, self._request_timeout_ms)
        except Exception as error:  # noqa: BLE001 - the library stumbles over what no broker says; others may be asked
            return f"what listens there does not answer as a Kafka broker ({type(error).__name__}: {error})"
        return ""

    async def _greet(self) -> None:
        """Connect to the bootstrap server as whoever this node is, and ask it something; runs in the library's loop."""
        assert self._manager is not None, "it was made"
        errors = []
        for broker in self._manager.cluster.bootstrap_brokers():  # one, or one for each address of its name
            try:
                connection = await self._connection(broker.node_id)
                await connection.send_request(MetadataRequest(topics=[], allow_auto_topic_creation=False))
            except _FAULTS as error:
                errors.append(error)
            else:
                return
        raise errors[0]

    def _connection(self, node_id: Any) -> Any:
        """Return the connection to a broker, which is there or fails within the time-out; in the library's loop.

        The library itself waits for ever for one that accepts a connection and then says nothing of TLS.
        """
        assert self._net is not None, "it was made"
        connection = self._open_manager.get_connection(node_id)
        if not connection.connected:
            timeout_s = self._connect_timeout_ms / 1000
            late = KafkaTimeoutError(f"the connection was not made in {self._connect_timeout_ms} ms")
            self._net.call_at(
                time.monotonic() + timeout_s, lambda: None if connection.connected else connection.close(late)
            )
        return connection

    @property
    def _open_manager(self) -> Any:
        assert self._manager is not None, "the client is not closed"
        return self._manager

    def _away(self, error: Exception) -> KafkaAwayError:
        why = say_failure(error, self._request_timeout_ms)
        return KafkaAwayError(f"Kafka at {self._names} cannot be reached: {why}")


def _by_leader(
    offsets: Sequence[OffsetToResolve], leaders: Mapping[TopicPartition, int]
) -> tuple[dict[LeaderKey, list[OffsetToResolve]], dict[TopicPartition, ResolvedOffset]]:
    """Return what each leader is to be asked, and an answer for what has none."""
    by_leader: dict[LeaderKey, list[OffsetToResolve]] = {}
    answers: dict[TopicPartition, ResolvedOffset] = {}
    for asked in offsets:
        leader = leaders.get((asked.topic, asked.partition))
        if leader is None:
            answers[asked.topic, asked.partition] = _unknown(asked, "the partition has no leader now")
        else:
            by_leader.setdefault((leader, asked.is_read_committed), []).append(asked)
    return by_leader, answers


def _list_request(offsets: Sequence[OffsetToResolve], *, is_read_committed: bool) -> ListOffsetsRequest:
    by_topic: dict[str, list[OffsetToResolve]] = {}
    for asked in offsets:
        by_topic.setdefault(asked.topic, []).append(asked)
    topic_class = ListOffsetsRequest.ListOffsetsTopic
    return ListOffsetsRequest(
        replica_id=_REPLICA_ID_OF_CLIENTS,
        isolation_level=int(is_read_committed),
        topics=[
            topic_class(
                name=topic,
                partitions=[
                    topic_class.ListOffsetsPartition(partition_index=asked.partition, timestamp=asked.timestamp_ms)
                    for asked in partitions
                ],
            )
            for topic, partitions in by_topic.items()
        ],
    )


def _answers_of(response: Any) -> dict[TopicPartition, ResolvedOffset]:
    answers = {}
    for topic in response.topics:
        for partition in topic.partitions:
            key = (topic.name, partition.partition_index)
            if partition.error_code == _NO_ERROR:
                epoch = partition.leader_epoch
                answers[key] = ResolvedOffset(
                    *key, partition.offset, epoch if epoch is not None and epoch >= 0 else None
                )
            else:
                answers[key] = ResolvedOffset(*key, None, why=_why_no_offset(for_code(partition.error_code)))
    return answers


def _why_no_offset(code: type[KafkaError]) -> str:
    return say_topic_refused(code) if code is TopicAuthorizationFailedError else code.__name__


def _unknown(asked: OffsetToResolve, why: str) -> ResolvedOffset:
    return ResolvedOffset(asked.topic, asked.partition, None, why=why)


def _view_of(response: Any) -> ClusterView:
    topics = {}
    absent = set()
    refused = {}
    for topic in response.topics:
        if topic.error_code == _NO_ERROR:
            topics[topic.name] = _topic_of(topic)
        elif topic.error_code == _UNKNOWN_TOPIC_OR_PARTITION:
            absent.add(topic.name)
        elif topic.error_code != _LEADER_NOT_AVAILABLE:
            refused[topic.name] = say_topic_refused(for_code(topic.error_code))
    brokers = {broker.node_id: (broker.host, broker.port) for broker in response.brokers}
    return ClusterView(topics, frozenset(absent), refused, brokers, response.cluster_id)


def _topic_of(topic: Any) -> TopicMetadata:
    leaders: list[int | None] = [None] * (1 + max((p.partition_index for p in topic.partitions), default=-1))
    for partition in topic.partitions:
        leaders[partition.partition_index] = partition.leader_id if partition.leader_id >= 0 else None
    topic_id = str(topic.topic_id) if topic.topic_id is not None and topic.topic_id.int else ""
    return TopicMetadata(topic.name, topic_id, tuple(leaders), bool(topic.is_internal))
