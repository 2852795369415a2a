"""The in-sync sets that a node leaves, since its disk does not have what they count on.

It leaves them in the multi that registers it, as far as they can be read. The others it lacks: its registration says
so, that it may be elected for none of them, its directory remembers them, and it leaves each as soon as that can be
read.
"""

from collections.abc import Set

import msgspec.structs

from coordinator.core.cluster.identity import Identity
from coordinator.core.cluster.image import Image
from coordinator.core.cluster.transactions import BucketChange
from coordinator.core.cluster.znodes import SHARDS, LiveNode, ShardEntry


def shards_lost(image: Image, identity: Identity, *, is_all: bool) -> frozenset[int]:
    """Return the shards of which this directory may lack what its node has acknowledged."""
    if is_all and image.cluster is not None:
        return frozenset(range(image.cluster.value.shards))
    return identity.damaged | identity.lacks


def leaves_of(image: Image, node_id: int, lost: Set[int]) -> list[BucketChange]:
    """Return the buckets that can be read in which this node is in sync with what it does not have, without it."""
    changes = (_leave(image, number, node_id, lost) for number in image.buckets)
    return [change for change in changes if change is not None]


def lacked(image: Image, identity: Identity, lost: Set[int]) -> frozenset[int]:
    """Return the lost shards of which it cannot be read whether this node is in sync with them.

    A node that was never there is in no in-sync set, and no shard has one where none has been made.
    """
    unread = image.unreadable_shards() & lost
    are_made = bool(image.buckets) or any(path.startswith(f"{SHARDS}/") for path in image.unreadable)
    return unread if are_made and identity.node_id in image.known else unread & identity.lacks


def found_lacking(image: Image, node_id: int, live: LiveNode) -> tuple[BucketChange | None, frozenset[int]] | None:
    """Return a bucket of which something that this node lacks can be read by now: without it, and what it lacks yet.

    There is no change where it is in sync with none of that any more, and nothing at all where nothing can be read.
    """
    lacks = frozenset(live.lacks)
    for number, bucket in image.buckets.items() if lacks else ():
        if found := lacks & bucket.value.shards.keys():
            return _leave(image, number, node_id, found), lacks - found
    return None


def _leave(image: Image, number: int, node_id: int, lost: Set[int]) -> BucketChange | None:
    bucket = image.buckets[number]
    left = {
        shard: _without(entry, node_id)
        for shard, entry in bucket.value.shards.items()
        if node_id in entry.isr and shard in lost
    }
    if not left:
        return None
    return BucketChange(
        number, msgspec.structs.replace(bucket.value, shards={**bucket.value.shards, **left}), bucket.version
    )


def _without(entry: ShardEntry, node_id: int) -> ShardEntry:
    """Return the entry without a member, or a leader if that was it; to raise its epoch is the controller's."""
    is_leader = entry.leader == node_id
    return msgspec.structs.replace(
        entry,
        leader=None if is_leader else entry.leader,
        leader_node_epoch=None if is_leader else entry.leader_node_epoch,
        isr=tuple(node for node in entry.isr if node != node_id),
        changed_by=f"node {node_id}, which lost its log",
    )
