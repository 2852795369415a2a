"""Finds what of ZooKeeper's data a person has to put right: garbage that keeps a node waiting, and parts that are gone.

Each is one sentence that names the node in ZooKeeper, says what it costs and what to do. Nothing is mended here:
garbage may be somebody's, and what is gone may be put back from a copy.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from coordinator.core.cluster.image import Image
from coordinator.core.cluster.znodes import (
    CLUSTER,
    CONTROLLER_ACTIVE,
    CONTROLLER_EPOCH,
    MOST_LEADER_EPOCH,
    NODES_LIVE,
    SHARDS,
    Cluster,
    LiveNode,
    ShardEntry,
    Versioned,
    bucket_of,
    bucket_path,
    known_path,
    live_path,
)

MOST_TROUBLES: Final = 20
"""Troubles that are said one by one."""


def part_removed(path: str) -> str:
    """Say that a node is missing which is there from the making of a cluster on."""
    return f"ZooKeeper has a cluster and no {path}: a part of its data was removed; put it back"


def part_left(path: str) -> str:
    """Say that a cluster cannot be made since something is there that comes with one, or is another program's."""
    return (
        f"ZooKeeper has no {CLUSTER}, and has {path}: a part of a cluster's data was removed, or another program's is "
        "there; put it back, or have zookeeper.path name a place where nothing is"
    )


def of_candidates(image: Image) -> tuple[str, ...]:
    """Return what keeps everybody from becoming controller."""
    for path in (CLUSTER, CONTROLLER_EPOCH, CONTROLLER_ACTIVE):
        if path in image.unreadable:
            way_out = "remove it" if path == CONTROLLER_ACTIVE else "put its value right"
            return (f"{path} cannot be read, so nobody can become controller: {image.unreadable[path]}; {way_out}",)
    if image.cluster is None:
        return (f"ZooKeeper has no {CLUSTER} any more, so nobody can become controller: put its data back",)
    if image.epoch is None:
        return (part_removed(CONTROLLER_EPOCH),)
    if image.active is not None and not image.active.owner:
        return (
            f"{CONTROLLER_ACTIVE} is of no session and never ends by itself, so nobody can become controller: "
            "remove it",
        )
    return ()


def of_a_controller(image: Image, told: Mapping[int, ShardEntry]) -> tuple[str, ...]:
    """Return what keeps a controller from parts of its work; `told` are the shards that it has found before."""
    troubles = [_of_a_live_node(number, live, image) for number, live in sorted(image.live.items())]
    troubles += [
        f"{path} cannot be read and counts as not there: {why}; remove it, unless a node of a newer release has made it"
        for path, why in sorted(image.unreadable.items())
        if path.startswith(f"{NODES_LIVE}/")
    ]
    troubles += [
        f"{path} cannot be read, so its shards stay as they are, led on and not moved: {why}; put its value right"
        for path, why in sorted(image.unreadable.items())
        if path.startswith(f"{SHARDS}/")
    ]
    troubles += [
        f"shard {shard} in {bucket_path(number)} cannot be used, so it stays as it is: {why}; put its entry right"
        for number, bucket in sorted(image.buckets.items())
        for shard, why in sorted(bucket.value.why_unread.items())
    ]
    troubles += [
        f"shard {shard} in {bucket_path(number)} is in leader epoch {MOST_LEADER_EPOCH}, the last there is, so nobody "
        "can be elected for it any more: what is in ZooKeeper is wrong, or was put there by hand; put it back"
        for number, bucket in sorted(image.buckets.items())
        for shard in sorted(
            shard for shard, entry in bucket.value.shards.items() if entry.leader_epoch >= MOST_LEADER_EPOCH
        )
    ]
    if image.cluster is not None:
        troubles += [
            f"ZooKeeper has no {bucket_path(bucket)}, and {trace}: a part of its data was removed, and leader epochs "
            "would be given again; put it back"
            for bucket, trace in sorted(removed_buckets(image, image.cluster.value, told).items())
        ]
    return _few(trouble for trouble in troubles if trouble)


def is_counted(image: Image, node: int) -> bool:
    """Say whether a node's lives are counted, without which it can be taken into no in-sync set."""
    return node in image.known or known_path(node) in image.unreadable


def removed_buckets(image: Image, cluster: Cluster, told: Mapping[int, ShardEntry]) -> dict[int, str]:
    """Return the buckets that are not there and have been, each with how that is seen.

    A new cluster has none of these traces: no controller has found its shards, no node has a log of one, and this node
    has seen none of them. Nodes say which logs they have when they register, which in a cluster that is as it was made
    was before there were any: so what this node has seen counts as well, also before it was controller.
    """
    missing = {bucket for bucket in range(cluster.buckets) if _is_missing(image, bucket)}
    if not missing:
        return {}
    traces = {
        bucket_of(shard, cluster.buckets): f"node {node} has a log of shard {shard}"
        for node, live in sorted(image.live.items())
        for shard, log in sorted(live.value.log_ends.items())
        if log.end or log.leader_epoch
    }
    traces |= {
        bucket: f"shard {shard} was seen in it, in leader epoch {leader_epoch}"
        for bucket, leader_epochs in image.leader_epochs.items()
        for shard, leader_epoch in sorted(leader_epochs.items(), reverse=True)
    }
    traces |= {
        bucket_of(shard, cluster.buckets): f"shard {shard} was found in it, in leader epoch {entry.leader_epoch}"
        for shard, entry in sorted(told.items(), reverse=True)
    }
    return {bucket: trace for bucket, trace in traces.items() if bucket in missing}


def why_out_of_place(image: Image, *, is_new: bool) -> str:
    """Say which shard's entry is not where it is by the numbers in `/cluster`, so one of them is wrong; empty if none.

    An entry that is also where it should be is no sign of that, and neither is garbage. A node that `is_new` knows the
    cluster by nothing else: it believes no number by which a bucket has an entry too many or lacks one.
    """
    if image.cluster is None:
        return ""
    cluster = image.cluster.value
    said = f"{CLUSTER} in ZooKeeper says {cluster.shards} shards in {cluster.buckets} buckets"
    for number, bucket in sorted(image.buckets.items()):
        for shard in bucket.value.shards:
            place = bucket_of(shard, cluster.buckets)
            is_stray = shard >= cluster.shards or not _lacks_entry(image, place, shard)
            if (is_new and shard >= cluster.shards) or (place != number and not is_stray):
                return f"{said}, and shard {shard} is in {bucket_path(number)}: put right which of them is wrong"
    for shard in range(cluster.shards) if is_new else ():
        place = bucket_of(shard, cluster.buckets)
        if place in image.buckets and _lacks_entry(image, place, shard):
            return f"{said}, and shard {shard} is not in {bucket_path(place)}: put right which of them is wrong"
    return ""


def _lacks_entry(image: Image, bucket: int, shard: int) -> bool:
    """Say whether a shard has surely no entry in a bucket, not even one that cannot be read."""
    there = image.buckets.get(bucket)
    if there is None:
        return bucket_path(bucket) not in image.unreadable
    return shard not in there.value.shards and str(shard) not in there.value.unread


def too_few_nodes(image: Image, cluster: Cluster) -> str:
    """Say that a cluster whose shards are not made yet has too few nodes for that; empty if it has enough."""
    live = sum(bool(live.owner) for live in image.live.values())
    if live >= cluster.replication_factor:
        return ""
    return (
        f"the cluster has no shards yet: they are made when {cluster.replication_factor} nodes are there, which is its "
        f"replication_factor, and there are {live}; start the others"
    )


def _is_missing(image: Image, bucket: int) -> bool:
    return bucket not in image.buckets and bucket_path(bucket) not in image.unreadable


def _of_a_live_node(number: int, live: Versioned[LiveNode], image: Image) -> str:
    path = live_path(number)
    if not live.owner:
        return f"{path} is of no session and never ends by itself, so it counts as not there: remove it"
    if not is_counted(image, number):
        return (
            f"{path} has node epoch {live.value.node_epoch}, and there is no {known_path(number)}: it can be taken "
            "into no in-sync set and is given nothing to lead; put ZooKeeper's data back, or stop that node"
        )
    return ""


def _few(troubles: Iterable[str]) -> tuple[str, ...]:
    every = tuple(troubles)
    more = len(every) - MOST_TROUBLES
    return every if more <= 0 else (*every[:MOST_TROUBLES], f"and {more} more of the kind")
