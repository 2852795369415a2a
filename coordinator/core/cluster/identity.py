"""A node's directory beside ZooKeeper: what each says of the node, and why the two may not fit.

Where the two are not of one cluster or not of one time, where a part of ZooKeeper's data is gone, or garbage stands in
the node's way, the node must not register; each reason names both sides. Node epochs are counted in `/nodes/known/N`,
which is never deleted: where it is missing and there are traces of the node, it was removed.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from coordinator.core.cluster.image import Image
from coordinator.core.cluster.troubles import part_removed, why_out_of_place
from coordinator.core.cluster.znodes import (
    CLUSTER,
    CONTROLLER_EPOCH,
    Cluster,
    LogEnd,
    bucket_path,
    known_path,
    live_path,
)


@dataclass(frozen=True, slots=True)
class ZkSeen:
    """The versions in ZooKeeper as this directory saw them last: they only grow, so smaller ones are of before.

    `node_epoch` is the last under which its node was registered, None if it never was; `buckets` are versions by
    number. A bucket whose removal was seen is not among them, since a person puts it back as a new one.
    """

    node_epoch: int | None = None
    buckets: Mapping[int, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Identity:
    """The identity of this node by its data directory and its settings.

    `place` is what no copy of the directory shares with it: this process is the only one there. Empty if not known.
    `cluster_id` is empty in a directory that belongs to no cluster yet. `starts` counts this start already.
    `controller_epoch` is the greatest that this directory has ever obeyed. `damaged` are shards whose logs were moved
    aside. `lacks` are shards that it does not have and has not left yet. `forms` is the cluster that this node makes
    where there is none. `intended_epoch` is the node epoch that this directory was about to take last, None if it does
    not know. A directory that remembers nothing at all, as `has_memory` says, was never about to be registered, or
    has lost that. `shards` is how many the cluster of the directory was made with, 0 if not known.
    """

    node_id: int
    directory_id: str
    starts: int
    forms: Cluster
    addresses: Mapping[str, str]
    rack: str
    release: str
    cluster_id: str = ""
    controller_epoch: int = 0
    seen: ZkSeen = field(default_factory=ZkSeen)
    log_ends: Mapping[int, LogEnd] = field(default_factory=dict)
    damaged: frozenset[int] = frozenset()
    lacks: frozenset[int] = frozenset()
    place: str = ""
    intended_epoch: int | None = None
    has_memory: bool = True
    shards: int = 0


def contradiction(image: Image, identity: Identity, lived: int | None = None) -> str:
    """Say why this directory and this ZooKeeper do not belong together; empty if they may.

    `lived` is the node epoch under which this process has lived before, None if it has not.
    """
    ours = (CLUSTER, CONTROLLER_EPOCH, known_path(identity.node_id), live_path(identity.node_id))
    for path in ours:
        if path in image.unreadable:
            return f"{path} in ZooKeeper cannot be read: {image.unreadable[path]}; {_way_out(path, identity)}"
    if image.cluster is None:
        if not identity.cluster_id:
            return ""
        return (
            f"the data directory belongs to cluster {identity.cluster_id}, and ZooKeeper has no cluster: look whether "
            "zookeeper.hosts and zookeeper.path are right, or whether ZooKeeper has lost its data"
        )
    cluster_id, shards = image.cluster.value.cluster_id, image.cluster.value.shards
    if identity.cluster_id and identity.cluster_id != cluster_id:
        return (
            f"the data directory belongs to cluster {identity.cluster_id}, and ZooKeeper has cluster {cluster_id}: "
            "start this node with its own directory and its own ZooKeeper"
        )
    if identity.shards not in (0, shards):
        return (
            f"{CLUSTER} in ZooKeeper says {shards} shards, and the data directory is of a cluster that was made with "
            f"{identity.shards}, which decides where each group is kept and never changes: put its value right"
        )
    if misplaced := why_out_of_place(image, is_new=not identity.cluster_id):
        return misplaced
    if image.epoch is None:
        return part_removed(CONTROLLER_EPOCH)
    epoch = image.epoch.value.epoch
    if epoch < identity.controller_epoch:
        return (
            f"ZooKeeper has controller epoch {epoch}, and this node has obeyed {identity.controller_epoch}: "
            "its data is from an earlier time, and it would give the same epochs again; put its newest data back"
        )
    if older := gone_back(image, identity):
        return older
    lived = identity.seen.node_epoch if lived is None else lived
    live = image.live.get(identity.node_id)
    if live is not None and not live.owner:
        return f"{live_path(identity.node_id)} in ZooKeeper is of no session and never ends by itself: remove it"
    trace = "" if identity.node_id in image.known else _trace(image, identity.node_id, lived)
    if trace:
        return (
            f"ZooKeeper has no {known_path(identity.node_id)}, and {trace}: a part of its data was removed, and node "
            "epochs would be given again; put the data back, or give this node another id and an empty directory"
        )
    return ""


def _way_out(path: str, identity: Identity) -> str:
    """Say what to do about garbage at a path: it can be removed only where nothing is counted or named by it."""
    if path == live_path(identity.node_id):
        return "remove it"
    right = "put its value right"
    if path == CONTROLLER_EPOCH and identity.cluster_id:
        return f"{right}, with an epoch that there has not been: {identity.controller_epoch} has been obeyed here"
    if path == CLUSTER and not identity.cluster_id:
        return f"{right}, or remove it if there has never been a cluster"
    return right


def gone_back(image: Image, identity: Identity, *, is_first_look: bool = True) -> str:
    """Say what ZooKeeper has of an earlier time than this directory has seen; empty if nothing is.

    A bucket that is missing is that on the first look after a connection began: in one that lasts somebody removed it.
    """
    node_id, seen = identity.node_id, identity.seen
    known = image.known.get(node_id)
    if known is not None and seen.node_epoch is not None and known.version < seen.node_epoch:
        return (
            f"ZooKeeper has node epoch {known.version} of this node, which has been registered under "
            f"{seen.node_epoch}: its data is from an earlier time, and it would give the same epochs again; put its "
            "newest data back"
        )
    for number, version in sorted(seen.buckets.items()):
        bucket, path = image.buckets.get(number), bucket_path(number)
        if bucket is not None and bucket.version < version:
            return (
                f"ZooKeeper has version {bucket.version} of {path}, and this node has seen {version}: its data is from "
                "an earlier time, in which others led and were in sync; put its newest data back"
            )
        if bucket is None and is_first_look and path not in image.unreadable:
            return (
                f"ZooKeeper has no {path}, and this node has seen version {version} of it: its data is from an earlier "
                "time, or a part of it was removed, and leader epochs would be given again; put its newest data back"
            )
    return ""


def seen_in(image: Image, node_epoch: int, former: ZkSeen) -> ZkSeen:
    """Return how far ZooKeeper is; of a bucket that cannot be read it is known from before."""
    buckets = {number: bucket.version for number, bucket in image.buckets.items()}
    unread = {number: version for number, version in former.buckets.items() if bucket_path(number) in image.unreadable}
    return ZkSeen(node_epoch, {**unread, **buckets})


def _trace(image: Image, node_id: int, lived: int | None) -> str:
    """Say how it is seen that this node has been registered before; empty if it is not."""
    if lived is not None:
        return f"this node has registered under node epoch {lived}"
    live = image.live.get(node_id)
    if live is not None:
        return f"{live_path(node_id)} has node epoch {live.value.node_epoch}"
    for shard, entry in image.shards():
        if node_id in entry.replicas:
            return f"shard {shard} has this node as a replica"
    return ""


def has_lost_all(image: Image, identity: Identity) -> bool:
    """Say whether this directory lacks what a former one of this node has acknowledged: it is new, or an older copy.

    Starts that came to no registration count in `starts`, so that more of them than ZooKeeper knows prove nothing; a
    node epoch is remembered before it is taken.
    """
    known = image.known.get(identity.node_id)
    if known is None or known.value.directory_id != identity.directory_id:
        return True
    if not identity.has_memory:
        return True
    if identity.intended_epoch is not None and known.version > identity.intended_epoch:
        return True  # another copy of it has been registered since
    return known.value.starts >= identity.starts  # another copy of it has been started as often


def why_behind(identity: Identity) -> str:
    """Say what a node that has lost all, and has logs, is to tell a person: it goes on as if its disk were new."""
    return (
        f"another data directory has been registered as node {identity.node_id} since this one was (it was started "
        f"{identity.starts} times): it is an older copy. The node is in sync with nothing until it has from others "
        "what came since; if it had a newer directory, stop it and start it with that (node.data_dir)"
    )
