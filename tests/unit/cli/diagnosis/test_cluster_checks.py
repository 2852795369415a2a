"""The checks of a cluster: each is ok where nothing is wrong, and else says what is and what to do."""

from collections.abc import Mapping
from dataclasses import replace

import pytest

from coordinator.cli.diagnosis.cluster_checks import (
    FAR_MS,
    SOON_DAYS,
    TOO_FAR_MS,
    certificates_check,
    clocks_check,
    cluster_checks,
    kafka_check,
    versions_check,
)
from coordinator.cli.diagnosis.doctor_check import Check
from coordinator.cli.diagnosis.node_facts import NodeFacts, ahead
from coordinator.client.cluster_view import ClusterView, NodeView, ShardView
from coordinator.protocol.framing import VersionRange
from coordinator.protocol.parts import NodeDescription

NOW_S = 1_800_000_000.0
DAY_S = 86_400
FACTS = NodeFacts(VersionRange(1, 1), 3, 2, NOW_S + 100 * DAY_S, "k1")


def node(number: int, **changes: object) -> NodeView:
    described = NodeDescription(number, "ready", "h", number, 1, "r", "0.1.0", is_heard=True)
    return replace(NodeView(described, ("h", number), "", number == 1, 1, 2, 2), **changes)  # type: ignore[arg-type]


def shard(number: int, leader: int | None = 1, isr: tuple[int, ...] = (1, 2, 3), **changes: object) -> ShardView:
    status = None if leader is None else "serving"
    known = ShardView(number, leader, 4, status, (1, 2, 3), isr, 9, 9, {})
    return replace(known, **changes)  # type: ignore[arg-type]


def cluster(*shards: ShardView, nodes: tuple[NodeView, ...] = (), **changes: object) -> ClusterView:
    all_nodes = nodes or (node(1), node(2), node(3))
    known = ClusterView("c1", 1, 5, 3, 2, all_nodes, shards or (shard(0), shard(1)), ())
    return replace(known, **changes)  # type: ignore[arg-type]


def checks(
    seen: ClusterView,
    facts: Mapping[int, NodeFacts] | None = None,
    silent: Mapping[int, str] | None = None,
) -> dict[str, Check]:
    told = dict.fromkeys((1, 2, 3), FACTS) if facts is None else facts
    return {check.name: check for check in cluster_checks(seen, told, silent or {}, NOW_S)}


def test_a_cluster_that_is_well_has_every_check_ok_and_says_what_was_found() -> None:
    found = checks(cluster())
    assert {name: (check.status, check.value) for name, check in found.items()} == {
        "nodes": ("ok", "3 of 3 answer"),
        "cluster-id": ("ok", "c1"),
        "releases": ("ok", "0.1.0"),
        "wire-versions": ("ok", "1"),
        "clocks": ("ok", "node 1 +3 ms, node 2 +3 ms, node 3 +3 ms"),
        "certificates": ("ok", "node 1 100 days, node 2 100 days, node 3 100 days"),
        "leaders": ("ok", "2 of 2 shards led"),
        "in-sync": ("ok", "2 of 2 shards whole"),
        "first-replicas": ("ok", "2 of 2 shards led so"),
        "racks": ("skip", "1 rack"),
        "moves": ("ok", "none waits"),
        "zookeeper": ("ok", "3 of 3 hear it"),
        "kafka": ("ok", "k1"),
    }


def test_a_coordinator_that_is_alone_is_not_asked_for_what_a_cluster_has() -> None:
    alone = node(1, described=NodeDescription(1, "ready", "h", 1, is_heard=True))
    single = replace(shard(0, isr=(1,)), replicas=(1,))
    found = checks(cluster(single, nodes=(alone,), cluster_id=None, controller=None, min_insync_replicas=1), {1: FACTS})
    assert {name for name, check in found.items() if check.status == "skip"} == {
        "cluster-id",
        "releases",
        "racks",
        "zookeeper",
    }
    assert {check.status for check in found.values()} == {"skip", "ok"}


@pytest.mark.parametrize(
    ("seen", "name", "status", "words"),
    [
        (cluster(nodes=(node(1), node(2, why_not_asked="cannot be reached"))), "nodes", "fail", "it cannot be reached"),
        (cluster(controller=None), "nodes", "fail", "no node knows a controller"),
        (
            cluster(nodes=(node(1, described=NodeDescription(1, "draining", "h", 1)), node(2))),
            "nodes",
            "warn",
            "node 1 at h:1 is being drained; `kcoord node undrain NODE`",
        ),
        (
            cluster(nodes=(node(1), node(2, described=NodeDescription(2, "ready", "h", 2, 1, "r", "0.2.0")))),
            "releases",
            "warn",
            "0.1.0 on node 1; 0.2.0 on node 2; end the upgrade",
        ),
        (cluster(shard(0), shard(7, leader=None)), "leaders", "fail", "shard 7 has no leader"),
        (cluster(shard(0), shard(7, isr=(1, 2))), "in-sync", "warn", "shard 7 has fewer replicas in sync"),
        (cluster(shard(0), shard(7, isr=(1,))), "in-sync", "fail", "fewer replicas in sync than min_insync_replicas"),
        (cluster(shard(0), shard(7, leader=2)), "first-replicas", "warn", "shard 7 has another leader than the first"),
        (cluster(shard(0, isr=(1, 2), adding=(3,))), "moves", "warn", "waits until node 3 is in sync"),
        (cluster(unheard_zookeeper=(2,)), "zookeeper", "fail", "node 2 does not hear ZooKeeper; look at"),
        (cluster(stuck=("remove /kcoord/x",)), "zookeeper", "fail", "remove /kcoord/x; look at"),
    ],
)
def test_what_is_not_as_it_should_be_is_said_with_what_to_do(
    seen: ClusterView, name: str, status: str, words: str
) -> None:
    check = checks(seen)[name]
    assert check.status == status
    assert words in check.why
    assert ";" in check.why, "what to do follows what is wrong"


@pytest.mark.parametrize(
    ("racks", "replicas", "status"),
    [
        (("a", "b", "c"), (1, 2, 3), "ok"),
        (("a", "a", "b"), (1, 2, 3), "ok"),
        (("a", "a", "b"), (1, 2), "warn"),
        (("a", "a", "b"), (1, 3), "ok"),
        (("a", "", "b"), (1, 2), "ok"),
        (("a", "a", "a"), (1, 2, 3), "skip"),
        (("", "", ""), (1, 2, 3), "skip"),
    ],
)
def test_replicas_are_on_as_many_racks_as_there_are(
    racks: tuple[str, ...], replicas: tuple[int, ...], status: str
) -> None:
    nodes = tuple(
        node(number, described=NodeDescription(number, "ready", "h", number, 1, rack))
        for number, rack in enumerate(racks, 1)
    )
    check = checks(cluster(shard(0, replicas=replicas, isr=replicas), nodes=nodes))["racks"]
    assert check.status == status
    if status == "warn":
        assert check.why.startswith("shard 0 has replicas on fewer racks than they could be on; `kcoord shard reassign")


def test_a_node_that_answers_once_and_not_again_fails() -> None:
    check = checks(cluster(), {1: FACTS, 3: FACTS}, {2: "did not answer within 10 s"})["nodes"]
    assert (check.status, check.why.split(";")[0]) == ("fail", "node 2 did not answer within 10 s")


def test_a_new_replica_is_not_the_first_one_before_it_is_in_the_place_of_another() -> None:
    moving = shard(0, leader=2, removing=(1,))
    assert checks(cluster(moving))["first-replicas"].status == "ok"


# ---- clocks ---------------------------------------------------------------------------------------------------------


def clocks(*ahead_ms: int | None, within_ms: int = 5) -> Check:
    return clocks_check(
        {number: replace(FACTS, ahead_ms=ms, within_ms=within_ms) for number, ms in enumerate(ahead_ms, 1)}
    )


@pytest.mark.parametrize(
    ("ahead_ms", "status"),
    [
        ((0, -4, 9), "ok"),
        ((0, FAR_MS + 5, 9), "ok"),
        ((0, FAR_MS + 11, 9), "warn"),
        ((0, -TOO_FAR_MS - 6, 9), "fail"),
        ((-800, 800), "ok"),
        ((-600, 600), "warn"),
    ],
)
def test_a_clock_is_judged_by_how_far_it_is_for_sure(ahead_ms: tuple[int, ...], status: str) -> None:
    within_ms = 400 if ahead_ms == (-800, 800) else 5
    assert clocks(*ahead_ms, within_ms=within_ms).status == status


def test_the_clock_that_is_off_is_named() -> None:
    assert "set that of node 2 by NTP" in clocks(0, 5_000, 9).why
    assert "set that of this machine, or of all nodes" in clocks(5_000, 5_010, 5_020).why


def test_a_node_that_does_not_tell_its_time_is_passed_over() -> None:
    assert clocks(None, None).status == "skip"
    assert clocks(None, 4).value == "node 2 +4 ms"


def test_a_clock_is_compared_in_the_middle_between_question_and_answer() -> None:
    assert ahead(1_000.0, 1_010.0, 1_005) == (0, 6)
    assert ahead(1_000.0, 1_000.0, 4_000) == (3_000, 0)


# ---- certificates, versions, Kafka ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("days", "status"), [(SOON_DAYS, "ok"), (SOON_DAYS - 0.5, "warn"), (0.5, "warn"), (-0.5, "fail")]
)
def test_a_certificate_is_to_be_renewed_in_time(days: float, status: str) -> None:
    facts = {1: FACTS, 2: replace(FACTS, certificate_end_s=NOW_S + days * DAY_S)}
    check = certificates_check(cluster(), facts, NOW_S)
    assert (check.status, "tls.certificate" in check.why) == (status, status != "ok")


def test_without_tls_no_certificate_is_missed_and_one_that_is_over_is_named_by_its_node() -> None:
    plain = {1: replace(FACTS, certificate_end_s=None)}
    assert certificates_check(cluster(), plain, NOW_S).status == "skip"
    over = node(
        2, why_not_asked="cannot be reached: the certificate of the other end is refused: certificate has expired"
    )
    check = certificates_check(cluster(nodes=(node(1), over)), {1: FACTS}, NOW_S)
    assert (check.status, "that of node 2 has expired" in check.why) == ("fail", True)


def test_nodes_of_different_versions_of_the_protocol_are_a_warning() -> None:
    check = versions_check({1: FACTS, 2: replace(FACTS, versions=VersionRange(1, 2))})
    assert (check.status, check.value) == ("warn", "1, 1 to 2")


@pytest.mark.parametrize(
    ("other", "status", "words"),
    [
        (replace(FACTS, kafka_failure="Kafka at k:9092 cannot be reached"), "fail", "node 2: Kafka at k:9092"),
        (replace(FACTS, kafka_cluster_id="k2"), "fail", "node 1 reads k1; node 2 reads k2; have"),
        (replace(FACTS, kafka_cluster_id=None), "warn", "node 2 has not told of it yet"),
    ],
)
def test_every_node_has_to_read_the_same_kafka(other: NodeFacts, status: str, words: str) -> None:
    check = kafka_check({1: FACTS, 2: other})
    assert (check.status, words in check.why) == (status, True)
