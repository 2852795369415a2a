"""The shards as a controller looks them up: by who leads them, being moved, away from their preferred replica.

Everything is derived from one bucket at a time, and kept for as long as the image has that very bucket. So an index is
always what a look at every shard would find, and reading a change costs no more than the buckets that have changed. It
says nothing of the nodes: whether a leader lives is asked of it by the life of its node.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from coordinator.core.cluster.image import Image
from coordinator.core.cluster.znodes import MOST_LEADER_EPOCH, Bucket, Cluster, ShardEntry, Versioned, bucket_of

Leader = tuple[int | None, int | None]
"""Node and node epoch of a leader; None and None where there is none."""


@dataclass(frozen=True, slots=True)
class BucketIndex:
    """One bucket as it was read, and where in it is what; each tuple has its shards in their order there."""

    bucket: Versioned[Bucket]
    entries: Mapping[int, ShardEntry]
    """The shards that the cluster has and whose place this bucket is."""
    led_by: Mapping[Leader, tuple[int, ...]]
    moving: tuple[int, ...]
    """Under reassignment."""
    astray: tuple[int, ...]
    """Not led by the preferred replica, though it is in sync."""
    at_the_end: tuple[int, ...]
    """In the last leader epoch there is: nobody could read an entry with the next one."""


@dataclass(frozen=True, slots=True)
class ShardIndex:
    """All shards of an image that can be read, by bucket."""

    image: Image = field(default_factory=Image)
    buckets: Mapping[int, BucketIndex] = field(default_factory=dict)

    def entry(self, shard: int) -> ShardEntry | None:
        """Return a shard's entry; None if there is none, or none that can be read."""
        if self.image.cluster is None:
            return None
        bucket = self.buckets.get(bucket_of(shard, self.image.cluster.value.buckets))
        return None if bucket is None else bucket.entries.get(shard)

    def entries(self) -> Iterator[tuple[int, ShardEntry]]:
        """Return every shard, by bucket."""
        for bucket in self.buckets.values():
            yield from bucket.entries.items()

    @property
    def is_any_moving(self) -> bool:
        """Return whether a shard is under reassignment."""
        return any(bucket.moving for bucket in self.buckets.values())

    def changed_since(self, before: "ShardIndex") -> Iterator[BucketIndex]:
        """Return the buckets that another index does not have as they are here."""
        return (bucket for number, bucket in self.buckets.items() if before.buckets.get(number) is not bucket)


def index_of(image: Image, before: ShardIndex | None = None) -> ShardIndex:
    """Return the index of an image; what has not changed since the one before is taken over from it."""
    if before is not None and before.image is image:
        return before
    if image.cluster is None:
        return ShardIndex(image)
    cluster = image.cluster.value
    is_same = before is not None and before.image.cluster is not None and before.image.cluster.value == cluster
    former = before.buckets if before is not None and is_same else {}
    buckets: dict[int, BucketIndex] = {}
    for number, bucket in sorted(image.buckets.items()):
        kept = former.get(number)
        buckets[number] = kept if kept is not None and kept.bucket is bucket else _indexed(number, bucket, cluster)
    return ShardIndex(image, buckets)


def _indexed(number: int, bucket: Versioned[Bucket], cluster: Cluster) -> BucketIndex:
    entries = {
        shard: entry
        for shard, entry in bucket.value.shards.items()
        if shard < cluster.shards and bucket_of(shard, cluster.buckets) == number
    }
    led_by: dict[Leader, list[int]] = {}
    for shard, entry in entries.items():
        led_by.setdefault((entry.leader, entry.leader_node_epoch), []).append(shard)
    return BucketIndex(
        bucket,
        entries,
        {leader: tuple(shards) for leader, shards in led_by.items()},
        moving=tuple(shard for shard, entry in entries.items() if entry.adding or entry.removing),
        astray=tuple(
            shard
            for shard, entry in entries.items()
            if entry.leader != entry.replicas[0] and entry.replicas[0] in entry.isr
        ),
        at_the_end=tuple(shard for shard, entry in entries.items() if entry.leader_epoch >= MOST_LEADER_EPOCH),
    )
