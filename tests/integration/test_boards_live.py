"""Every metric that a board or a rule asks for, on the page of a real node of a cluster that a member has used."""

import re
import secrets
from collections.abc import Callable
from http.client import HTTPConnection
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from coordinator.local.cluster import LocalCluster
from coordinator.local.kafka.broker import LocalKafka
from coordinator.local.zookeeper import LocalZooKeeper
from coordinator.protocol.messages import DescribeGroup
from kcoord import Consumer
from tests.helpers.asked_metrics import metrics_in, questions
from tests.helpers.kafka_topics import produce_numbers
from tests.helpers.polled import polled
from tests.helpers.raw_member import RawMember
from tests.helpers.waiting import wait_until

pytestmark = pytest.mark.kafka

OF_PROMETHEUS = {"up"}
"""Prometheus itself makes these."""


def page(address: str) -> dict[str, list[tuple[dict[str, str], float]]]:
    """Return the samples of a node's page by their names."""
    client = HTTPConnection(address, timeout=30)
    client.request("GET", "/metrics")
    text = client.getresponse().read().decode()
    client.close()
    found: dict[str, list[tuple[dict[str, str], float]]] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            found.setdefault(sample.name, []).append((sample.labels, sample.value))
    return found


def test_a_node_tells_what_boards_and_rules_ask_for(
    kafka: LocalKafka, zookeeper: LocalZooKeeper, topic: Callable[..., str], tmp_path: Path
) -> None:
    name, group = topic(2), f"g-{secrets.token_hex(4)}"
    settings = {
        "cluster.shards": 2,
        "cluster.replication_factor": 1,
        "cluster.min_insync_replicas": 1,
        "zookeeper.path": f"/kcoord-{secrets.token_hex(4)}",
        "admin.listen": "127.0.0.1:0",
        "admin.survey_ms": 200,
        "mirror.enabled": True,
    }
    with LocalCluster(kafka.bootstrap_servers, tmp_path, nodes=1, zookeeper=zookeeper, settings=settings) as cluster:
        (node,) = cluster.nodes
        listens = re.search(r'"admin-listening".*?"address":"([^"]+)"', node.log_tail(lines=1_000)) or re.search(
            r'"address":"([^"]+)".*?"admin-listening"', node.log_tail(lines=1_000)
        )
        assert listens is not None, node.log_tail()
        with RawMember(node.address, group) as tool:
            tool.ask(DescribeGroup("nobody"))  # is refused, and counted so
        wanted = set().union(*(metrics_in(question) for _, question in questions())) - OF_PROMETHEUS
        with Consumer(name, coordinators=node.address, group_id=group, auto_offset_reset="earliest") as consumer:

            def read_and_look() -> bool:
                """Read and commit a little more: lag in time and health need two of each."""
                produce_numbers(kafka.bootstrap_servers, name, 2, 0, 10)
                polled(consumer, 200)
                consumer.commit()
                return wanted <= page(listens[1]).keys()

            wait_until(read_and_look, timeout_s=60.0, what="every metric that is asked for")
        seen = page(listens[1])
    assert seen["kcoord_active_controller"] == [({}, 1)]
    assert seen["kcoord_offline_shards"] == seen["kcoord_under_min_isr_shards"] == [({}, 0)]
    assert [size for _, size in seen["kcoord_shard_isr_size"]] == [1, 1]
    assert seen["kcoord_zk_session_state"] == [({"state": "registered"}, 1)]
    assert sum(count for labels, count in seen["kcoord_elections_total"] if labels["kind"] == "elected") >= 2
    accepted = {labels["result"]: count for labels, count in seen["kcoord_commits_total"]}
    assert accepted["accepted"] > 0
    assert accepted["fenced"] == 0
    assert {labels["api"]: count for labels, count in seen["kcoord_requests_refused_total"]}["DescribeGroup"] >= 1
    assert max(count for labels, count in seen["kcoord_fsync_seconds_count"]) > 0
    kinds = {labels["kind"]: count for labels, count in seen["kcoord_group_events_total"]}
    assert (kinds["member-joined"], kinds["member-expired"]) == (1, 0)
