"""A query on a cluster of three nodes: the node that coordinates its group is killed while a micro-batch runs."""

import secrets
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from coordinator.local.cluster import LocalCluster
from coordinator.local.kafka.broker import LocalKafka
from coordinator.local.zookeeper import LocalZooKeeper
from coordinator.protocol.text.addresses import parse_addresses
from spark_kcoord.errors import KcoordError
from spark_kcoord.member.one_shot import fetch_offsets, find_coordinator
from tests.helpers.kafka_topics import produce_numbers
from tests.helpers.spark_limits import start_query
from tests.helpers.stream_application import NumberedStream
from tests.helpers.waiting import wait_until

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming import StreamingQuery

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.timeout(900)]

PATIENCE_S = 240.0
"""The longest that any one thing may take: a machine may be slow, nothing may stand still."""
PARTITIONS = 2


class Reading:
    """A query that holds its claims, and the numbers that were produced for it."""

    def __init__(self, kafka: LocalKafka, addresses: str, name: str, folder: Path) -> None:
        self.addresses = parse_addresses(addresses)
        self.group = name
        self.stream = NumberedStream(
            folder, addresses, name, name, ("kcoord.handover=hold", "kcoord.instance.id=one", "kafka.client.id=one")
        )
        self.produced = 0
        self._kafka = kafka

    def produce(self, count: int) -> None:
        produce_numbers(self._kafka.bootstrap_servers, self.group, PARTITIONS, self.produced, count)
        self.produced += count

    def start(self, spark: "SparkSession", queries: list["StreamingQuery"]) -> "StreamingQuery":
        """Start the query, and return it when everything that was produced is committed."""

        def begin() -> "StreamingQuery":
            queries.append(self.stream.start(spark))
            return queries[-1]

        return start_query(begin, self.has_all, PATIENCE_S)

    def has_all(self) -> bool:
        """Say whether everything is written and committed."""
        try:
            found = fetch_offsets(self.addresses, self.group, timeout_s=PATIENCE_S)
        except KcoordError:  # the group is not there yet
            return False
        return sum(found.values()) == self.produced

    def hold(self) -> None:
        """Have the next micro-batch stop when it has read its rows, and wait for that."""
        (self.stream.folder / "hold").touch()
        before = set(self.stream.folder.glob("holding-*"))
        self.produce(20)
        wait_until(
            lambda: set(self.stream.folder.glob("holding-*")) > before, timeout_s=PATIENCE_S, what="a batch that holds"
        )

    def go_on(self) -> None:
        """Let it write what it has read."""
        (self.stream.folder / "hold").unlink()

    def node(self) -> int:
        """Return which node coordinates the group."""
        found = find_coordinator(self.addresses, self.group, timeout_s=PATIENCE_S).coordinator
        assert found is not None
        return found.node_id


def test_query_has_everything_once_when_the_node_of_its_group_is_killed_while_it_reads(
    spark: "SparkSession",
    queries: list["StreamingQuery"],
    kafka: LocalKafka,
    zookeeper: LocalZooKeeper,
    topic: Callable[..., str],
    tmp_path: Path,
) -> None:
    settings = {
        "cluster.shards": 2,
        "zookeeper.path": f"/kcoord-{secrets.token_hex(4)}",
        "zookeeper.session_timeout_ms": 4_000,
    }
    with LocalCluster(kafka.bootstrap_servers, tmp_path / "nodes", zookeeper=zookeeper, settings=settings) as cluster:
        reading = Reading(kafka, cluster.addresses, topic(PARTITIONS), tmp_path / "query")
        reading.produce(40)
        query = reading.start(spark, queries)

        reading.hold()
        killed = reading.node()
        next(node for node in cluster.nodes if node.number == killed).kill()
        reading.produce(20)
        wait_until(lambda: reading.node() != killed, timeout_s=PATIENCE_S, what="another node")
        reading.go_on()
        wait_until(
            lambda: reading.has_all() or not query.isActive,
            timeout_s=PATIENCE_S,
            what=f"{reading.produced} numbers committed",
        )

        assert query.isActive, query.exception()
        assert reading.stream.rows() == Counter(range(reading.produced)), "nothing is missing, and nothing came twice"
        query.stop()
