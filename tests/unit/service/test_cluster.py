"""What a node of a cluster makes of its settings and its directory."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import msgspec.structs
import pytest

from coordinator.config import Settings, load_settings
from coordinator.core.cluster.identity import ZkSeen
from coordinator.core.cluster.znodes import Cluster, LogEnd
from coordinator.core.log.meta import ClusterMemory, DirectoryMeta, Membership
from coordinator.core.log.storage import OpenedLog
from coordinator.runtime.peers.limits import PeerLimits
from coordinator.service.cluster import identity_of, limits_of, why_other_than_set
from coordinator.service.lifecycle import StartError, bind
from tests.helpers.event_loops import run

FLAGS: dict[str, object] = {"node.mode": "cluster", "node.id": 3, "node.rack": "r", "cluster.shards": 100}


def directory(cluster_id: str = "c1") -> Any:
    return SimpleNamespace(
        meta=DirectoryMeta(100, "d3", Membership(3, cluster_id, 4)),
        memory=ClusterMemory(6, 3, {0: 2}, frozenset({1}), 4),
        damaged=frozenset({9}),
    )


def test_a_node_is_who_its_directory_and_its_settings_say() -> None:
    opened = {0: OpenedLog(2, 7, ((1, 0), (3, 5)), 0), 1: OpenedLog(0, 0, (), 0)}
    settings = load_settings(None, FLAGS)
    identity = identity_of(settings, directory(), opened, ("h", 1), ("h", 2), new_cluster_id="new")
    assert (identity.node_id, identity.directory_id, identity.starts, identity.rack) == (3, "d3", 4, "r")
    assert (identity.cluster_id, identity.controller_epoch, identity.damaged) == ("c1", 6, {9})
    assert identity.seen == ZkSeen(3, {0: 2})
    assert (identity.lacks, identity.intended_epoch, identity.has_memory) == ({1}, 4, True)
    assert identity.shards == 100
    assert identity.addresses == {"members": "h:1", "peers": "h:2"}
    assert identity.log_ends == {0: LogEnd(leader_epoch=3, end=7), 1: LogEnd(leader_epoch=0, end=0)}
    assert identity.forms == Cluster(
        cluster_id="new", shards=100, buckets=64, replication_factor=3, min_insync_replicas=2
    )


def test_a_node_without_a_rack_is_on_that_of_its_host() -> None:
    settings = load_settings(None, FLAGS | {"node.rack": ""})
    assert identity_of(settings, directory(), {}, ("h", 1), ("h", 2), new_cluster_id="n").rack


def test_settings_that_a_cluster_was_not_made_with_are_named_with_what_counts() -> None:
    settings = load_settings(None, FLAGS)
    made = Cluster(cluster_id="c1", shards=100, buckets=64, replication_factor=3, min_insync_replicas=2)
    assert why_other_than_set(settings, made) == ()
    other = replace_fields(made, shards=8, min_insync_replicas=1)
    assert why_other_than_set(settings, other) == (
        "cluster.shards is set to 100, but cluster c1 was made with 8, and that counts",
        "cluster.min_insync_replicas is set to 2, but cluster c1 was made with 1, and that counts",
    )


def replace_fields(cluster: Cluster, **fields: int) -> Cluster:
    return msgspec.structs.replace(cluster, **fields)


def test_the_limits_of_connections_between_nodes_are_those_of_the_port_unless_set() -> None:
    assert limits_of(Settings().peers) == PeerLimits()
    flags: dict[str, object] = {"peers.ping_ms": 100, "peers.strangers_max": 5}
    assert limits_of(load_settings(None, flags).peers) == replace(PeerLimits(), ping_ms=100, strangers=5)


def test_an_address_that_nobody_can_be_told_is_refused_with_the_setting_that_is_missing() -> None:
    async def take(host: str, port: int) -> tuple[str, int]:
        raise AssertionError("it is not to be taken")

    with pytest.raises(StartError, match=r"^peers\.listen is 0\.0\.0\.0:9, .* set peers\.advertised .* other nodes"):
        run(bind("peers", "0.0.0.0:9", "", "other nodes", take))


@pytest.mark.parametrize(
    ("listen", "advertised", "why"),
    [
        ("0:5", "", "peers.listen is 0:5, which is every address"),
        ("0.0:5", "", "peers.listen is 0.0:5, which is every address"),
        ("[::]:5", "", "peers.listen is [::]:5, which is every address"),
        ("127.0.0.1:5", "0.0.0.0:6", "peers.advertised is 0.0.0.0:6, which is every address"),
        ("0.0.0.0:5", "[::]:6", "peers.advertised is [::]:6, which is every address"),
        ("everywhere:5", "", "peers.listen is everywhere:5, which is every address"),
    ],
)
def test_an_address_that_is_every_one_is_told_to_nobody(listen: str, advertised: str, why: str) -> None:
    async def take(host: str, port: int) -> tuple[str, int]:
        assert host == "everywhere", "it is not to be taken"
        return "0.0.0.0", port

    with pytest.raises(StartError) as refused:
        run(bind("peers", listen, advertised, "other nodes", take))
    assert str(refused.value).startswith(f"{why} of this machine: set peers.advertised to the one that other nodes")


def test_what_others_are_told_is_what_is_advertised_with_the_port_that_was_free() -> None:
    async def take(host: str, port: int) -> tuple[str, int]:
        return host, port or 1234

    async def told(listen: str, advertised: str) -> tuple[str, int]:
        return await bind("node", listen, advertised, "members", take)

    assert run(told("127.0.0.1:0", "")) == ("127.0.0.1", 1234)
    assert run(told("0.0.0.0:0", "outside:0")) == ("outside", 1234)
    assert run(told("0.0.0.0:5", "outside:6")) == ("outside", 6)
