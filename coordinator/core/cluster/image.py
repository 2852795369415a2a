"""An image of ZooKeeper, as one frozen value that is replaced with everything that is read.

What is read replaces what was known: answers of one session come in the order of what was asked. A value that is read
again as it was stays the very same object, and so does the image, so whoever looks for changes sees none. The image
says what is there, not what ought to be; whoever decides names the versions that are here.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, TypeVar

from coordinator.core.cluster.znodes import (
    CLUSTER,
    CONTROLLER_ACTIVE,
    CONTROLLER_EPOCH,
    NODES_KNOWN,
    NODES_LIVE,
    SHARDS,
    ActiveController,
    Bucket,
    Cluster,
    ControllerEpoch,
    KnownNode,
    LiveNode,
    ShardEntry,
    Unreadable,
    Versioned,
    bucket_of,
    decode,
    decode_bucket,
    number_in,
    without_older,
)
from coordinator.core.cluster.zookeeper import ZkNode, ZkRead, ZkValues

ValueT = TypeVar("ValueT")


@dataclass(frozen=True, slots=True)
class Image:
    """The layout as it was last seen; None and a missing number mean that there is no such node, as far as is known.

    `unreadable` are nodes whose value cannot be read, by path, with the reason: they are in no other field.
    """

    cluster: Versioned[Cluster] | None = None
    epoch: Versioned[ControllerEpoch] | None = None
    active: Versioned[ActiveController] | None = None
    known: Mapping[int, Versioned[KnownNode]] = field(default_factory=dict)
    live: Mapping[int, Versioned[LiveNode]] = field(default_factory=dict)
    buckets: Mapping[int, Versioned[Bucket]] = field(default_factory=dict)
    unreadable: Mapping[str, str] = field(default_factory=dict)
    leader_epochs: Mapping[int, Mapping[int, int]] = field(default_factory=dict, compare=False)
    """By bucket and shard: the greatest leader epoch that has been there, also of what is gone or cannot be read."""
    log_epochs: Mapping[int, int] = field(default_factory=dict, compare=False)
    """By shard: the leader epoch of the last record in this node's log, so that there has been that one."""
    made: Cluster | None = field(default=None, compare=False)
    """The cluster as this process has joined it, None before: other numbers of shards or buckets cannot be read."""

    def having_seen(self, other: "Image") -> "Image":
        """Return this image with what another one knows of before: which leader epochs and which cluster there were."""
        if self.leader_epochs is other.leader_epochs and self.made is other.made:
            return self
        return replace(self, leader_epochs=other.leader_epochs, made=other.made)

    @property
    def joined(self) -> Cluster | None:
        """Return the cluster by which buckets are found: as this process has joined it, before that as it is read."""
        return self.made or (None if self.cluster is None else self.cluster.value)

    def bucket(self, shard: int) -> Versioned[Bucket] | None:
        """Return the bucket that a shard's entry belongs in; None if there is none, or none that can be read."""
        return None if self.joined is None else self.buckets.get(bucket_of(shard, self.joined.buckets))

    def shard(self, shard: int) -> ShardEntry | None:
        """Return a shard's entry; None if there is none, or none that can be read."""
        bucket = self.bucket(shard)
        return None if bucket is None else bucket.value.shards.get(shard)

    def shards(self) -> Iterator[tuple[int, ShardEntry]]:
        """Return every shard of the cluster that can be read, by bucket; an entry in another's bucket is none."""
        if self.cluster is None:
            return
        cluster = self.cluster.value
        for number, bucket in sorted(self.buckets.items()):
            for shard, entry in bucket.value.shards.items():
                if shard < cluster.shards and bucket_of(shard, cluster.buckets) == number:
                    yield shard, entry

    def unreadable_shards(self) -> frozenset[int]:
        """Return the shards of which nothing may be concluded: their entry or bucket cannot be read or is missing.

        Whoever is told which shards there are must be told of these apart, or it would take them for deleted.
        """
        if self.cluster is None:
            return frozenset()
        every = range(self.cluster.value.shards)
        return frozenset(every) - frozenset(shard for shard, _ in self.shards())


def read_node(image: Image, path: str, found: ZkNode | None) -> Image:
    """Return the image after a node was read, which replaces what was known of it; other nodes than ours are let be."""
    folder, _, name = path.rpartition("/")
    number = number_in(name)
    former = _former(image, path, folder, number)
    if former is not None and found is not None and former.is_of(found):
        return image
    unreadable = {other: why for other, why in image.unreadable.items() if other != path}
    read: Versioned[Any] | None = None
    if found is not None:
        kind = _KIND_AT.get(path) or _KIND_IN.get(folder)
        if kind is None:
            return image
        value = decode_bucket(path, found.data) if kind is Bucket else decode(kind, path, found.data)
        if isinstance(value, Unreadable):
            unreadable[path] = value.why
        elif isinstance(value, Cluster) and image.made is not None and (why := value.why_not_as_made(image.made)):
            unreadable[path] = why
        else:
            read = Versioned(value, found.version, found.owner, found.data)
    image = replace(image, unreadable=unreadable)
    if folder == SHARDS and number is not None and read is not None:
        return _with_bucket(image, number, read)
    match path:
        case "/cluster":
            return replace(image, cluster=read)
        case "/controller/epoch":
            return replace(image, epoch=read)
        case "/controller/active":
            return replace(image, active=read)
    if number is None:
        return replace(image, unreadable={**unreadable, path: "its name is no number"}) if read is not None else image
    match folder:
        case "/nodes/known":
            return replace(image, known=_with(image.known, number, read))
        case "/nodes/live":
            return replace(image, live=_with(image.live, number, read))
        case "/shards":
            return replace(image, buckets=_with(image.buckets, number, read))
    return image


def read_children(image: Image, path: str, names: tuple[str, ...] | None) -> Image:
    """Return the image after the names of a folder's nodes were read: what is not among them is gone."""
    there = {number_in(name) for name in names or ()}
    unreadable = {
        other: why
        for other, why in image.unreadable.items()
        if other.rpartition("/")[0] != path or other.rpartition("/")[2] in (names or ())
    }
    if unreadable != image.unreadable:
        image = replace(image, unreadable=unreadable)
    match path:
        case "/nodes/known" if not image.known.keys() <= there:
            return replace(image, known={number: it for number, it in image.known.items() if number in there})
        case "/nodes/live" if not image.live.keys() <= there:
            return replace(image, live={number: it for number, it in image.live.items() if number in there})
        case "/shards" if not image.buckets.keys() <= there:
            return replace(image, buckets={number: it for number, it in image.buckets.items() if number in there})
    return image


def read_all(image: Image, read: ZkRead, values: ZkValues) -> Image:
    """Return the image after a whole read was answered."""
    for path, names in zip(read.children, values.children, strict=True):
        image = read_children(image, path, names)
    for path, found in zip(read.nodes, values.nodes, strict=True):
        image = read_node(image, path, found)
    return image


_KIND_AT: Final[Mapping[str, type[Any]]] = {
    CLUSTER: Cluster,
    CONTROLLER_EPOCH: ControllerEpoch,
    CONTROLLER_ACTIVE: ActiveController,
}
_KIND_IN: Final[Mapping[str, type[Any]]] = {NODES_KNOWN: KnownNode, NODES_LIVE: LiveNode, SHARDS: Bucket}


def _former(image: Image, path: str, folder: str, number: int | None) -> Versioned[Any] | None:
    """Return what was read at a path last; None if nothing was, or nothing that could be read."""
    match path:
        case "/cluster":
            return image.cluster
        case "/controller/epoch":
            return image.epoch
        case "/controller/active":
            return image.active
    of: Mapping[str, Mapping[int, Versioned[Any]]] = {
        NODES_KNOWN: image.known,
        NODES_LIVE: image.live,
        SHARDS: image.buckets,
    }
    return None if number is None else of.get(folder, {}).get(number)


def _with_bucket(image: Image, number: int, read: Versioned[Bucket]) -> Image:
    """Return the image with a bucket, of which an entry that somebody has put back from before is kept apart.

    Leader epochs only grow, so a later value with a smaller one is no work of ours. An earlier value is: it is that of
    a server which is behind.
    """
    former, been = image.buckets.get(number), image.leader_epochs.get(number)
    if been is None:
        been = {shard: image.log_epochs[shard] for shard in read.value.shards if shard in image.log_epochs}
    if former is None or read.version > former.version:
        read = replace(read, value=without_older(read.value, been))
    there = {shard: max(entry.leader_epoch, been.get(shard, 0)) for shard, entry in read.value.shards.items()}
    return replace(
        image,
        buckets={**image.buckets, number: read},
        leader_epochs={**image.leader_epochs, number: {**been, **there}},
    )


def _with(of: Mapping[int, ValueT], number: int, value: ValueT | None) -> Mapping[int, ValueT]:
    others = {other: it for other, it in of.items() if other != number}
    return others if value is None else {**others, number: value}
