"""The streaming reader: Spark's calls on one side, a member of a consumer group on the other.

Which process runs what: `initialOffset`, `latestOffset`, `partitions`, `commit`, `stop` and the other calls about
offsets run in one long-lived process beside the Spark driver, where the member's session lives; `read` runs in the
executors' workers on a copy made from a pickle that holds the options alone. So nothing is opened in `__init__`, and
the session is made by the first call that needs it, which shows the identity the checkpoint carries.
"""

from __future__ import annotations

import logging
import os
import socket
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from spark_kcoord.batch_reader import read_input_partition
from spark_kcoord.errors import KcoordError
from spark_kcoord.options import SourceOptions, host_ports
from spark_kcoord.partition import KcoordInputPartition, TopicRange

if TYPE_CHECKING:
    import pyarrow as pa

    from coordinator.protocol.parts import ResetPolicy, StartHint
    from spark_kcoord.driver_session import DriverSession
    from spark_kcoord.fetch.offsets import KafkaLookup, TopicPartitions
    from spark_kcoord.member.client import MemberClient
    from spark_kcoord.offsets import StreamOffset

__all__ = ["KcoordStreamReader"]

_log = logging.getLogger(__name__)

NO_LIMIT: Final = 2**63 - 1
"""The default read limit where no option limits: Spark's ReadAllAvailable then stands for Trigger.Once alone."""

_ENDS_AGE_S: Final = (0.025, 0.5)
"""Spark asks an idle query about every 11 ms; the brokers are asked at most this often, and less often the longer the
answer takes, so that asking takes about a tenth of the time."""
_ENDS_AGE_PER_ANSWER: Final = 10

_JOIN_TIMEOUT_MS: Final = 5_000
"""How long the first join may take; with Spark's own start a wrong address is told within 10 s."""


class KcoordStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):  # type: ignore[misc]  # untyped
    """One streaming query as one member of a group.

    Errors are KcoordError: they end the query and name the option, the partition or both offsets.
    """

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._session: DriverSession | None = None
        self._client: MemberClient | None = None
        self._servers: tuple[str, ...] = ()
        self._frozen: Mapping[tuple[str, int], int] | None = None
        self._frozen_cluster: str | None = None
        self._is_stopped = False
        self._read_last: tuple[dict[str, Any], StreamOffset] | None = None

    def __getstate__(self) -> dict[str, Any]:
        """Give executors the options and nothing that is open."""
        return {"_options": self._options}

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        """Make a reader again from its options."""
        self.__init__(state["_options"])  # type: ignore[misc]

    # ---- beside the Spark driver ------------------------------------------------------------------------------------

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 (Spark's name)
        """Return an offset without an identity, and open nothing.

        Spark calls this for a new checkpoint, but also before it replays the first micro-batch of an old one, whose
        identity only the next call shows.
        """
        from spark_kcoord.offsets import StreamOffset

        return StreamOffset(cluster="", group=self._options.group, member="").to_json()

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """Return the limit of option maxOffsetsPerTrigger, or one that never limits."""
        return ReadMaxRows(self._options.max_offsets_per_trigger or NO_LIMIT)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Freeze the ends of every partition; which of them are ours the first micro-batch tells."""
        with closing(self._lookup()) as lookup:
            self._frozen = lookup.end_offsets(_partitions(self._topics_at(lookup, self._options.subscription.topics)))
            self._frozen_cluster = lookup.cluster_id

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        """Commit everything up to `start`, claim the next ranges and return them, or `start` when nothing is new."""
        from spark_kcoord.offsets import StreamOffset

        if self._read_last is None or self._read_last[0] != start:
            self._read_last = (start, StreamOffset.from_json(start))
        offset = self._read_last[1]
        session = self._joined(offset, is_finished=True)
        most = limit.max_rows if isinstance(limit, ReadMaxRows) else None
        is_single_run = self._frozen is not None or isinstance(limit, ReadAllAvailable)
        latest = session.next_offset(offset, None if most == NO_LIMIT else most, is_single_run=is_single_run)
        return start if latest == offset else latest.to_json()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Return a task for each claim of `end` that is still open; `start` tells nothing that `end` does not."""
        from spark_kcoord.offsets import StreamOffset

        if start == end:
            return []
        offset = StreamOffset.from_json(end)
        session = self._joined(offset, is_finished=False)
        return [
            KcoordInputPartition(
                ranges=(
                    TopicRange(
                        topic=claim.topic,
                        topic_id=claim.topic_id or None,
                        partition=claim.partition,
                        start=claim.from_offset,
                        end=claim.until_offset,
                    ),
                ),
                servers=self._servers,
            )
            for claim in session.readable(offset)
        ]

    def commit(self, end: dict[str, Any]) -> None:
        """Do nothing: Spark says this late and never for the last micro-batch, latestOffset says it in time."""

    def stop(self) -> None:
        """Close the connections: no leave and no commit, since Spark calls this in the middle of a batch too."""
        self._is_stopped = True
        session, self._session = self._session, None
        if session is not None:
            session.close()
        elif self._client is not None:
            self._client.close()

    # ---- in the executors -------------------------------------------------------------------------------------------

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the records of a task's ranges as Arrow record batches."""
        return read_input_partition(self._options, partition)

    # ---- joining ----------------------------------------------------------------------------------------------------

    def _joined(self, first: StreamOffset, *, is_finished: bool) -> DriverSession:
        if self._session is None:
            if self._is_stopped:
                raise KcoordError("The query has been stopped.")
            self._session = self._join(first, is_finished=is_finished)
        return self._session

    def _join(self, first: StreamOffset, *, is_finished: bool) -> DriverSession:
        from spark_kcoord.driver_session import DriverSession
        from spark_kcoord.fetch.offsets import KafkaLookup
        from spark_kcoord.member.client import MemberClient, MemberSettings
        from spark_kcoord.resolve import must_be_same_cluster

        options = self._options
        first.must_belong_to(cluster=None, group=options.group)
        settings = MemberSettings(
            coordinators=host_ports(options.coordinators),
            group_id=options.group,
            topics=options.subscription.topics,
            client_id=dict(options.kafka.client).get("client_id", f"kcoord-spark-{socket.gethostname()}"),
            instance_id=options.instance_id,
            streams=options.streams,
            assignors=options.assignors,
            session_timeout_ms=options.session_timeout_ms,
            rebalance_timeout_ms=options.rebalance_timeout_ms,
            reset_policy=_reset_policy(options),
            hints=self._hints(is_new=not first.member),
            wait_for_topics=options.wait_for_topics,
            coordinator_timeout_ms=options.coordinator_timeout_ms,
            handover=options.handover,
            claim_timeout_ms=options.claim_timeout_ms,
            join_timeout_ms=_JOIN_TIMEOUT_MS,
        )
        client = MemberClient(
            settings,
            member_id=first.member,
            claims=first.claims,
            checkpoint_hints=first.hints(is_finished=is_finished),
        )
        self._client = client
        client.start()
        joined = client.join()
        first.must_belong_to(cluster=joined.kafka_cluster_id, group=options.group)
        self._servers = options.kafka.servers or tuple(joined.kafka_bootstrap)
        must_be_same_cluster(joined.kafka_cluster_id, self._frozen_cluster, self._servers)
        session = DriverSession(
            client,
            _RecentEnds(KafkaLookup(options.kafka_at(self._servers)), joined.kafka_cluster_id, self._servers),
            joined,
            group_id=options.group,
            fail_on_data_loss=options.fail_on_data_loss,
            rebalance_timeout_s=options.rebalance_timeout_ms / 1000,
            kafka_timeout_s=options.fetch_timeout_ms / 1000,
        )
        if self._frozen is not None:
            session.freeze_ends(self._frozen)
        _log.info("joined group %s as member %s (process %d)", options.group, joined.member_id, os.getpid())
        return session

    def _hints(self, *, is_new: bool) -> tuple[StartHint, ...]:
        from coordinator.protocol.parts import StartHint
        from spark_kcoord.resolve import start_positions

        starting = self._options.starting
        named = self._options.subscription.topics if is_new else tuple(name for name, _ in starting.topics)
        if starting.word is not None or not named:
            topics: Mapping[str, TopicPartitions] = {}
        else:
            with closing(self._lookup()) as lookup:
                topics = self._topics_at(lookup, named)
        return tuple(
            StartHint(topic=topic, topic_id="", partition=partition, offset=position, from_checkpoint=False)
            for (topic, partition), position in sorted(
                start_positions(starting, topics, must_name_all=is_new).items(),
            )
        )

    def _topics_at(self, lookup: KafkaLookup, names: Sequence[str]) -> Mapping[str, TopicPartitions]:
        from spark_kcoord.resolve import topics_of

        return topics_of(lookup, names, may_be_absent=self._options.wait_for_topics)

    def _lookup(self) -> KafkaLookup:
        from spark_kcoord.fetch.offsets import KafkaLookup
        from spark_kcoord.resolve import resolve_kafka

        return KafkaLookup(resolve_kafka(self._options))


class _RecentEnds:
    """End offsets that are at most a little old, of the Kafka cluster that the coordinator works for."""

    def __init__(self, lookup: KafkaLookup, cluster_id: str | None, servers: Sequence[str]) -> None:
        self._lookup = lookup
        self._cluster_id = cluster_id
        self._servers = servers
        self._asked_at = float("-inf")
        self._max_age_s = 0.0
        self._ends: dict[tuple[str, int], int] = {}

    def end_offsets(
        self, partitions: Sequence[tuple[str, int]], *, timeout_s: float | None = None
    ) -> Mapping[tuple[str, int], int]:
        """Return the ends, asking the brokers when the last answer is too old or of other partitions."""
        now = time.monotonic()
        if now - self._asked_at >= self._max_age_s or any(key not in self._ends for key in partitions):
            from spark_kcoord.resolve import must_be_same_cluster

            self._ends = self._lookup.end_offsets(partitions, timeout_s=timeout_s)
            must_be_same_cluster(self._cluster_id, self._lookup.cluster_id, self._servers)
            self._asked_at = time.monotonic()
            shortest_s, longest_s = _ENDS_AGE_S
            self._max_age_s = min(longest_s, max(shortest_s, (self._asked_at - now) * _ENDS_AGE_PER_ANSWER))
        if len(partitions) == len(self._ends):
            return self._ends
        return {key: self._ends[key] for key in partitions if key in self._ends}

    def close(self) -> None:
        """Close the connections to Kafka."""
        self._lookup.close()


def _partitions(topics: Mapping[str, TopicPartitions]) -> list[tuple[str, int]]:
    return [(name, number) for name, topic in topics.items() for number in topic.partitions]


def _reset_policy(options: SourceOptions) -> ResetPolicy | None:
    from coordinator.protocol.parts import ResetPolicy

    word = options.starting.word
    return ResetPolicy(word) if options.is_starting_given and word is not None else None
