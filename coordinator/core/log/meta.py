"""The identity of a data directory, and what a node of a cluster may not forget besides its logs.

The identity was fixed when the directory was made and never changes in place, but for the cluster that a new directory
comes to belong to, and the count of its starts. Format 1 is a standalone node's, format 2 that of a node of a cluster.
Each is one line of JSON that a person can read, with a CRC-32C over the other fields. Knows nothing of files.
`ClusterDirectory` is the port to them.
"""

from collections.abc import Mapping, Set
from dataclasses import dataclass, field
from typing import Final, Protocol

import google_crc32c
import msgspec

from coordinator.core.log.entry import CorruptLogError, UnknownFormatError

STANDALONE_FORMAT: Final = 1
CLUSTER_FORMAT: Final = 2


@dataclass(frozen=True, slots=True)
class Membership:
    """The place of a directory in a cluster: whose it is, in which one (empty before it has joined), and its starts."""

    node_id: int
    cluster_id: str
    starts: int


@dataclass(frozen=True, slots=True)
class DirectoryMeta:
    """The shard count, which decides where each group lives, and the id given when the directory was made.

    A standalone node has no `membership`. The shard count of a node that has not joined a cluster yet is 0.
    """

    shards: int
    directory_id: str
    membership: Membership | None = None


@dataclass(frozen=True, slots=True)
class ClusterMemory:
    """The memory of a node of a cluster: the greatest controller epoch that it has ever obeyed, and what it has seen.

    `node_epoch` is the last under which it was registered, None if it never was. `buckets` are the versions of the
    buckets in ZooKeeper as it has seen them last. What is older than that is of an earlier time. `lacks` are shards
    whose in-sync sets may count on what this directory does not have. `intended_epoch` is the node epoch under which it
    was about to be registered last, whether that was done or not; None if a release has written this that keeps none.
    """

    controller_epoch: int = 0
    node_epoch: int | None = None
    buckets: Mapping[int, int] = field(default_factory=dict)
    lacks: frozenset[int] = frozenset()
    intended_epoch: int | None = None

    @property
    def is_blank(self) -> bool:
        """Return whether nothing is remembered: the directory was never about to be registered, or has lost that."""
        return self == ClusterMemory()


class ClusterDirectory(Protocol):
    """A data directory of a node of a cluster.

    What is written through it is durable on return, so that it can be said aloud afterwards. Everything raises
    StorageError when the disk refuses.
    """

    @property
    def meta(self) -> DirectoryMeta:
        """Return its identity, with its membership; this start is counted."""
        ...

    @property
    def memory(self) -> ClusterMemory:
        """Return what was remembered; in a new directory nothing."""
        ...

    @property
    def was_stopped_cleanly(self) -> bool:
        """True when the life before this one ended by `close`, and when there was none.

        It promises nothing about what was acknowledged, which is synced in any case.
        """
        ...

    @property
    def damaged(self) -> frozenset[int]:
        """Return the shards whose logs were moved aside as damaged, or are missing, and not told of yet.

        So they are whether they were found to be in this life or before.
        """
        ...

    @property
    def missing(self) -> frozenset[int]:
        """Return the shards whose logs are not where they were, though nobody has dropped them, and not told of yet."""
        ...

    def join_cluster(self, cluster_id: str, shards: int) -> None:
        """Belong to a cluster from now on. Blocks. ValueError when it belongs to another one."""
        ...

    def remember(self, controller_epoch: int) -> None:
        """Remember a greater controller epoch. Blocks for one small file. ValueError for a smaller one."""
        ...

    def remember_seen(
        self,
        node_epoch: int | None,
        buckets: Mapping[int, int],
        lacks: Set[int] = frozenset(),
        intended_epoch: int | None = None,
    ) -> None:
        """Remember how far ZooKeeper was when it was last seen, as in `ClusterMemory`. Blocks for one small file."""
        ...

    def move_damaged_aside(self, shard: int, aside_ms: int) -> None:
        """Move the log of a shard aside that must not be served, at a wall time. Blocks.

        The shard counts as damaged over restarts until `damage_was_told`, since its former log may be relied on.
        """
        ...

    def damage_was_told(self) -> None:
        """Take note that no in-sync set relies on what was damaged any more. Blocks."""
        ...


class _Standalone(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    format: int
    shards: int
    directory_id: str
    crc32c: str


class _OfCluster(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    format: int
    shards: int
    directory_id: str
    cluster_id: str
    node_id: int
    starts: int
    crc32c: str


class _Memory(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    controller_epoch: int
    crc32c: str
    node_epoch: int | None = None
    buckets: dict[int, int] = {}
    lacks: tuple[int, ...] = ()
    intended_epoch: int | None = None


class _StoredFormat(msgspec.Struct, frozen=True):
    format: int


def encode_meta(meta: DirectoryMeta) -> bytes:
    """Encode `meta` as one line of JSON, of format 2 if it is of a cluster."""
    place = meta.membership
    if place is None:
        fixed = (STANDALONE_FORMAT, meta.shards, meta.directory_id)
        return _line(_Standalone(*fixed, _checksum(fixed)))
    all_of_it = (CLUSTER_FORMAT, meta.shards, meta.directory_id, place.cluster_id, place.node_id, place.starts)
    return _line(_OfCluster(*all_of_it, _checksum(all_of_it)))


def decode_meta(data: bytes, *, path_hint: str) -> DirectoryMeta:
    """Decode what `encode_meta` wrote; raises CorruptLogError or UnknownFormatError."""
    try:
        found = msgspec.json.decode(data, type=_StoredFormat).format
        if found == STANDALONE_FORMAT:
            standalone = msgspec.json.decode(data, type=_Standalone)
            meta = DirectoryMeta(standalone.shards, standalone.directory_id)
        elif found == CLUSTER_FORMAT:
            stored = msgspec.json.decode(data, type=_OfCluster)
            place = Membership(stored.node_id, stored.cluster_id, stored.starts)
            meta = DirectoryMeta(stored.shards, stored.directory_id, place)
        else:
            raise UnknownFormatError(path_hint, 0, found, CLUSTER_FORMAT)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise _unreadable(path_hint, error) from error
    if data != encode_meta(meta):
        raise _changed(path_hint)
    return meta


def encode_memory(memory: ClusterMemory) -> bytes:
    """Encode what is remembered as one line of JSON."""
    content: tuple[int | str, ...] = (memory.controller_epoch,)
    buckets, lacks = dict(sorted(memory.buckets.items())), tuple(sorted(memory.lacks))
    if memory.node_epoch is not None:
        content += (memory.node_epoch, *(number for bucket in buckets.items() for number in bucket))
    if lacks:
        content += ("lacks", *lacks)
    if memory.intended_epoch is not None:
        content += ("intended_epoch", memory.intended_epoch)
    stored = _Memory(
        memory.controller_epoch, _checksum(content), memory.node_epoch, buckets, lacks, memory.intended_epoch
    )
    return _line(stored)


def decode_memory(data: bytes, *, path_hint: str) -> ClusterMemory:
    """Decode what `encode_memory` wrote; raises CorruptLogError."""
    try:
        stored = msgspec.json.decode(data, type=_Memory)
        memory = ClusterMemory(
            stored.controller_epoch, stored.node_epoch, stored.buckets, frozenset(stored.lacks), stored.intended_epoch
        )
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise _unreadable(path_hint, error) from error
    if data != encode_memory(memory):
        raise _changed(path_hint)
    return memory


def _line(stored: msgspec.Struct) -> bytes:
    return msgspec.json.encode(stored) + b"\n"


def _checksum(content: tuple[int | str, ...]) -> str:
    return f"{google_crc32c.value(msgspec.json.encode(content)):08x}"


def _unreadable(path_hint: str, error: Exception) -> CorruptLogError:
    return CorruptLogError(path_hint, 0, None, f"it cannot be read: {error}")


def _changed(path_hint: str) -> CorruptLogError:
    return CorruptLogError(path_hint, 0, None, "its CRC-32C does not match")
