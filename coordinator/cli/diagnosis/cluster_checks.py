"""The checks of `kcoord cluster doctor`: what nodes tell, judged, each with what to do. Nothing is asked here.

What is wrong with nodes and shards is said in the sentences of `kcoord cluster status`; beside them stand the checks
that need more than a description: releases, clocks, certificates, Kafka as each node sees it.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from coordinator.cli.diagnosis.doctor_check import Check
from coordinator.cli.diagnosis.node_facts import NodeFacts
from coordinator.client.cluster_view import ClusterView, shards_have
from coordinator.protocol.text.counts import counted
from coordinator.protocol.vocabulary import NodeStatus

FAR_MS: Final = 1_000
"""A clock that is further off is wrong; timelines of two nodes do not fit each other."""
TOO_FAR_MS: Final = 60_000
"""A clock that is further off makes tokens and certificates count as over, or as not valid yet."""
SOON_DAYS: Final = 30
_DAY_S: Final = 86_400
_EXPIRED: Final = "certificate has expired"
"""OpenSSL's words for the certificate of the other end; that of this one is spoken of otherwise."""
_ALONE: Final = "the coordinator is alone: it has no ZooKeeper and no other nodes"


def cluster_checks(
    cluster: ClusterView, facts: Mapping[int, NodeFacts], silent: Mapping[int, str], now_s: float
) -> Iterator[Check]:
    """Yield the checks of a cluster; `silent` has why a node that had answered did not tell its facts."""
    yield nodes_check(cluster, silent)
    yield cluster_id_check(cluster)
    yield releases_check(cluster)
    yield versions_check(facts)
    yield clocks_check(facts)
    yield certificates_check(cluster, facts, now_s)
    yield leaders_check(cluster)
    yield replicas_check(cluster)
    yield first_replicas_check(cluster)
    yield racks_check(cluster)
    yield moves_check(cluster)
    yield zookeeper_check(cluster)
    yield kafka_check(facts)


def nodes_check(cluster: ClusterView, silent: Mapping[int, str]) -> Check:
    """Check that every node answers, has its session, hears the others and is not being drained."""
    troubles = [*cluster.troubles_of_nodes(), *(f"node {number} {why}" for number, why in sorted(silent.items()))]
    answered = sum(not node.why_not_asked for node in cluster.nodes)
    value = f"{answered} of {len(cluster.nodes)} answer"
    if not troubles:
        return Check("nodes", "ok", value)
    drained = sum(
        node.described.status == NodeStatus.DRAINING and not node.why_not_asked and not node.unreached
        for node in cluster.nodes
    )
    if len(troubles) == drained:
        return _told("nodes", "warn", value, troubles, "`kcoord node undrain NODE` takes it back")
    advice = "start what is not running, and look at its log and at what is between it and this machine"
    return _told("nodes", "fail", value, troubles, advice)


def cluster_id_check(cluster: ClusterView) -> Check:
    """Check that there is one cluster; that of several is refused before this."""
    if cluster.cluster_id is None:
        return Check("cluster-id", "skip", "none", _ALONE)
    return Check("cluster-id", "ok", cluster.cluster_id, "every node that answered is of this cluster")


def releases_check(cluster: ClusterView) -> Check:
    """Check that the nodes are of one release."""
    releases = {node.described.node_id: node.described.release for node in cluster.nodes if node.described.release}
    if not releases:
        return Check("releases", "skip", "not told", "a coordinator that is alone does not tell it: `kcoord version`")
    return _same("releases", releases, "end the upgrade: start the nodes of the older release anew, one by one")


def versions_check(facts: Mapping[int, NodeFacts]) -> Check:
    """Check that the nodes speak the same versions of the protocol."""
    spoken = {number: str(each.versions) for number, each in facts.items()}
    if not spoken:
        return Check("wire-versions", "skip", "not told", "no node has told its facts; see `nodes`")
    return _same("wire-versions", spoken, "end the upgrade: members keep to what all nodes speak until then")


def clocks_check(facts: Mapping[int, NodeFacts]) -> Check:
    """Check the clock of each node against that of this machine and against the others'."""
    told = {number: (each.ahead_ms, each.within_ms) for number, each in sorted(facts.items())}
    known = {number: (ms, within) for number, (ms, within) in told.items() if ms is not None}
    if not known:
        return Check("clocks", "skip", "not told", "no node tells its time; nodes of this release do")
    value = ", ".join(f"node {number} {ms:+d} ms" for number, (ms, _) in known.items())
    within_ms = max(within for _, within in known.values())
    away = {number: max(0, abs(ms) - within) for number, (ms, within) in known.items()}
    offsets = [ms for ms, _ in known.values()]
    apart_ms = max(0, max(offsets) - min(offsets) - 2 * within_ms)
    worst_ms = max(*away.values(), apart_ms)
    why = f"against this machine, give or take {within_ms} ms"
    if worst_ms <= FAR_MS:
        return Check("clocks", "ok", value, why)
    if apart_ms <= FAR_MS:
        whose = "that of this machine, or of all nodes: they agree with each other"
    else:
        whose = "that of node " + ", ".join(str(number) for number, ms in away.items() if ms > FAR_MS)
    advice = (
        f"{why}; set {whose} by NTP (chronyc tracking): commits and timelines are stamped with it, and tokens and "
        "certificates count by it"
    )
    return Check("clocks", "fail" if worst_ms > TOO_FAR_MS else "warn", value, advice)


def certificates_check(cluster: ClusterView, facts: Mapping[int, NodeFacts], now_s: float) -> Check:
    """Check for how long the certificates hold that nodes show to members."""
    expired = [node.described.node_id for node in cluster.nodes if _EXPIRED in node.why_not_asked]
    renew = "put a new one in the place of tls.certificate and `systemctl reload kcoord` (SIGHUP), which ends nothing"
    if expired:
        nodes = ", ".join(map(str, expired))
        return Check("certificates", "fail", "over", f"that of node {nodes} has expired; {renew}")
    days = {
        number: int((each.certificate_end_s - now_s) // _DAY_S)
        for number, each in sorted(facts.items())
        if each.certificate_end_s is not None
    }
    if not days:
        return Check("certificates", "skip", "no TLS", "connections of members are plain; docs/SECURITY.md has TLS")
    value = ", ".join(f"node {number} {counted(left, 'day')}" for number, left in days.items())
    least = min(days.values())
    if least >= SOON_DAYS:
        return Check("certificates", "ok", value)
    return Check("certificates", "fail" if least < 0 else "warn", value, renew)


def leaders_check(cluster: ClusterView) -> Check:
    """Check that every shard is served."""
    return _of_shards(
        "leaders",
        "fail",
        list(cluster.troubles_of_leaders()),
        sum(shard.leader is not None for shard in cluster.shards),
        len(cluster.shards),
        "led",
        "have the nodes of its replicas run; docs/CLUSTER.md says what to do when they are lost",
    )


def replicas_check(cluster: ClusterView) -> Check:
    """Check that every replica is in sync, or that enough are."""
    too_few = any(len(shard.isr) < cluster.min_insync_replicas for shard in cluster.shards if shard.isr)
    return _of_shards(
        "in-sync",
        "fail" if too_few else "warn",
        list(cluster.troubles_of_replicas()),
        sum(len(shard.isr) >= len(shard.replicas) for shard in cluster.shards),
        len(cluster.shards),
        "whole",
        "start the node that is missing, or wait until it has caught up: `kcoord shard list --out-of-sync`",
    )


def first_replicas_check(cluster: ClusterView) -> Check:
    """Check that every shard is led by its first replica, so that the load is spread as it was placed."""
    away = [s.shard for s in cluster.shards if s.leader is not None and s.target and s.leader != s.target[0]]
    return _of_shards(
        "first-replicas",
        "warn",
        [f"{shards_have(away)} another leader than the first replica"] if away else [],
        len(cluster.shards) - len(away),
        len(cluster.shards),
        "led so",
        "once that is in sync it leads again by itself (cluster.balance_delay_ms), or now: `kcoord shard elect "
        "--execute`",
    )


def racks_check(cluster: ClusterView) -> Check:
    """Check that the replicas of every shard are on as many racks as they can be, where nodes are on several."""
    racks = {node.described.node_id: node.described.rack for node in cluster.nodes if node.described.rack}
    known = set(racks.values())
    if len(known) < 2:
        return Check("racks", "skip", counted(len(known), "rack"), "nodes name their rack by node.rack")
    crowded = [
        shard.shard
        for shard in cluster.shards
        if all(node in racks for node in shard.target)
        and len({racks[node] for node in shard.target}) < min(len(shard.target), len(known))
    ]
    return _of_shards(
        "racks",
        "warn",
        [f"{shards_have(crowded)} replicas on fewer racks than they could be on"] if crowded else [],
        len(cluster.shards) - len(crowded),
        len(cluster.shards),
        "spread so",
        "`kcoord shard reassign --nodes NODE,...` with the ids of all nodes shows how they would be spread",
    )


def moves_check(cluster: ClusterView) -> Check:
    """Check that no reassignment waits."""
    troubles = list(cluster.troubles_of_moves())
    if not troubles:
        return Check("moves", "ok", "none waits")
    return _told("moves", "warn", str(len(troubles)), troubles, "`kcoord shard describe SHARD` shows how far it is")


def zookeeper_check(cluster: ClusterView) -> Check:
    """Check that the nodes hear ZooKeeper, and that a person has nothing to put right there."""
    if cluster.cluster_id is None:
        return Check("zookeeper", "skip", "none", _ALONE)
    troubles = list(cluster.troubles_of_zookeeper())
    answered = sum(not node.why_not_asked for node in cluster.nodes)
    value = f"{answered - len(cluster.unheard_zookeeper)} of {answered} hear it"
    if not troubles:
        return Check("zookeeper", "ok", value)
    advice = "look at ZooKeeper's servers and at zookeeper.hosts; what is led goes on, and no leader is elected"
    return _told("zookeeper", "fail", value, troubles, advice)


def kafka_check(facts: Mapping[int, NodeFacts]) -> Check:
    """Check that every node is answered by Kafka, and by the same cluster."""
    if not facts:
        return Check("kafka", "skip", "not told", "no node has told its facts; see `nodes`")
    failures = {number: each.kafka_failure for number, each in sorted(facts.items()) if each.kafka_failure}
    value = f"{len(facts) - len(failures)} of {counted(len(facts), 'node')}"
    if failures:
        advice = "look at kafka.bootstrap_servers of that node, and from its machine `kcoord doctor --kafka HOST:PORT`"
        return _told("kafka", "fail", value, (f"node {number}: {why}" for number, why in failures.items()), advice)
    ids = {number: each.kafka_cluster_id for number, each in sorted(facts.items()) if each.kafka_cluster_id}
    if len(set(ids.values())) > 1:
        told = (f"node {number} reads {one}" for number, one in ids.items())
        return _told("kafka", "fail", "several", told, "have kafka.bootstrap_servers name one Kafka cluster everywhere")
    if len(ids) < len(facts):
        unknown = ", ".join(str(number) for number in sorted(facts) if number not in ids)
        return Check("kafka", "warn", value, f"node {unknown} has not told of it yet; ask again in some seconds")
    return Check("kafka", "ok", next(iter(ids.values())), f"the Kafka cluster that {value} read")


def _of_shards(name: str, status: str, troubles: list[str], good: int, all_: int, what: str, advice: str) -> Check:
    value = f"{good} of {counted(all_, 'shard')} {what}"
    return _told(name, status, value, troubles, advice) if troubles else Check(name, "ok", value)


def _told(name: str, status: str, value: str, troubles: Iterable[str], advice: str) -> Check:
    return Check(name, status, value, f"{'; '.join(troubles)}; {advice}")


def _same(name: str, by_node: Mapping[int, str], advice: str) -> Check:
    """Check that what nodes tell is one thing."""
    values: dict[str, list[int]] = {}
    for number, value in sorted(by_node.items()):
        values.setdefault(value, []).append(number)
    if len(values) == 1:
        return Check(name, "ok", next(iter(values)))
    said = (f"{value} on node {', '.join(map(str, nodes))}" for value, nodes in values.items())
    return _told(name, "warn", ", ".join(values), said, advice)
