"""A node's data directory, besides its logs: whether it is one, whose it is, and what the node may not forget.

    meta.json       its identity; the last file when a directory is made
    making          there while a standalone node's directory is made
    cluster.json    the greatest controller epoch that a node of a cluster has obeyed
    stopped         there while no node runs, if the last one ended as it should

A wrong path would be a new cluster, in which no group is known, without a word. So a directory is looked at before
anything is written into it: it is one of ours, or nothing is in it.
"""

import re
from collections.abc import Mapping, Set
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from coordinator.core.log.meta import (
    ClusterMemory,
    DirectoryMeta,
    Membership,
    decode_memory,
    decode_meta,
    encode_memory,
    encode_meta,
)
from coordinator.runtime.disk.files import DiskError, Files, explained, write_atomically
from coordinator.runtime.disk.log_files import DAMAGED, LogFiles

META, MAKING = "meta.json", "making"
MEMORY, STOPPED = "cluster.json", "stopped"
_OURS = re.compile(
    r"(meta\.json|making|cluster\.json|stopped)(\.tmp)?|lock|(shard|making|kept)-\d{5}|(aside|damaged)-\d{5}-\d+"
)
"""The names of everything that a node puts into its directory."""
_OF_FILE_SYSTEMS = frozenset({"lost+found", "System Volume Information"})
"""The entries of a file system's root in which nothing is; other such names begin with a dot."""
_MOST_NAMED = 5
_MOST_LOOKED_INTO = 1_000
_META_LIMIT = 64 * 1024


def refuse_what_is_not_ours(files: Files, data_dir: Path) -> None:
    """Raise DiskError for a directory that holds something and was not made by a node."""
    with explained("read", data_dir):
        names = files.names(data_dir)
    if META in names:
        return
    foreign = [name for name in names if not _is_expected(name)]
    if not foreign:
        return
    shown = ", ".join(foreign[:_MOST_NAMED])
    more = f" and {len(foreign) - _MOST_NAMED} more" if len(foreign) > _MOST_NAMED else ""
    inner = [name for name in foreign[:_MOST_LOOKED_INTO] if _is_ours(files, data_dir / name)]
    meant = "".join(f"; {data_dir / name} does: is it the one that was meant?" for name in inner[:_MOST_NAMED])
    raise DiskError(
        f"it holds {shown}{more}, but no {META}, which every data directory has{meant or '.'} A node takes its own "
        "data directory, or an empty one for groups that begin anew: look at --data (node.data_dir). Nothing was "
        "changed"
    )


def _is_expected(name: str) -> bool:
    return name.startswith(".") or name in _OF_FILE_SYSTEMS or _OURS.fullmatch(name) is not None


def _is_ours(files: Files, directory: Path) -> bool:
    try:
        return META in files.names(directory)
    except OSError:
        return False


def open_standalone(
    files: Files, data_dir: Path, logs: LogFiles, shards: int, new_directory_id: str
) -> tuple[DirectoryMeta, bool]:
    """Read the meta file, or make the directory: marked while it is being made, the meta file last.

    Returns what the file says and whether the directory was made.
    """
    path, marker = data_dir / META, data_dir / MAKING
    names = _names(files, data_dir)
    is_new = path.name not in names
    if is_new:
        if marker.name not in names:
            _refuse_without_meta(data_dir, logs)
        write_atomically(files, marker, b"")
        for shard in range(shards):
            logs.make(shard)
        write_atomically(files, path, encode_meta(DirectoryMeta(shards, new_directory_id)))
        names = [marker.name]
    meta = _read_meta(files, path)
    if meta.membership is not None:
        raise DiskError(
            f"{data_dir} belongs to node {meta.membership.node_id} of a cluster, and this node is standalone: start it "
            "as that node, or give this one an empty data directory"
        )
    if meta.shards != shards:
        raise DiskError(
            f"{data_dir} was made for {meta.shards} shards and the node is set to {shards}. The number "
            f"decides where each group is kept: set shards to {meta.shards}, or give the node an empty data "
            "directory"
        )
    if marker.name in names:
        _delete(files, marker)
    return meta, is_new


class HoldsFile(Protocol):
    """Holds files of the directory against other processes, and so has to know when one is replaced."""

    def hold(self, path: Path) -> None:
        """Hold a file, or raise DiskError when another process does."""

    def replaced(self, path: Path) -> AbstractContextManager[None]:
        """Hold the file that the block puts in the place of one that is held."""


@dataclass(frozen=True, slots=True)
class Found:
    """A directory of a node of a cluster as it was found, with this start counted."""

    meta: DirectoryMeta
    membership: Membership
    memory: ClusterMemory
    was_stopped_cleanly: bool
    is_new: bool


def open_in_cluster(
    files: Files, data_dir: Path, logs: LogFiles, node_id: int, new_directory_id: str, holds: HoldsFile
) -> Found:
    """Read what a node of a cluster has kept, or make its directory, and count this start. Durable on return.

    The meta file is held from before it is written.
    """
    path = data_dir / META
    names = _names(files, data_dir)
    is_new = META not in names
    if is_new:
        _refuse_without_meta(data_dir, logs)
        meta = DirectoryMeta(0, new_directory_id, Membership(node_id, "", 0))
    else:
        holds.hold(path)
        meta = _read_meta(files, path)
    if meta.membership is None:
        raise DiskError(
            f"{data_dir} belongs to a standalone node, and this one is of a cluster: give it an empty data directory, "
            "or start it standalone"
        )
    if meta.membership.node_id != node_id:
        raise DiskError(
            f"{data_dir} belongs to node {meta.membership.node_id} and this is node {node_id}: look at node.id and at "
            "--data (node.data_dir); each node has a directory of its own"
        )
    memory = ClusterMemory()
    if MEMORY in names:
        with explained("read", data_dir / MEMORY):
            memory = decode_memory(files.read(data_dir / MEMORY, _META_LIMIT), path_hint=str(data_dir / MEMORY))
    elif meta.membership.cluster_id:
        _refuse_without_memory(data_dir, logs)
    membership = replace(meta.membership, starts=meta.membership.starts + 1)
    meta = replace(meta, membership=membership)
    if is_new:
        write_atomically(files, path, encode_meta(meta))
        holds.hold(path)
    else:
        with holds.replaced(path):
            write_atomically(files, path, encode_meta(meta))
    if STOPPED in names:
        _delete(files, data_dir / STOPPED)
    return Found(meta, membership, memory, is_new or STOPPED in names, is_new)


class NodeDirectory:
    """The real `ClusterDirectory`, but for its logs. Not thread-safe."""

    def __init__(self, files: Files, data_dir: Path, found: Found, holds: HoldsFile) -> None:
        self._files = files
        self._data_dir = data_dir
        self._membership = found.membership
        self._holds = holds
        self.meta = found.meta
        self.memory = found.memory
        self.was_stopped_cleanly = found.was_stopped_cleanly

    def join_cluster(self, cluster_id: str, shards: int) -> None:
        """Belong to a cluster from now on; see `ClusterDirectory.join_cluster`."""
        place = self._membership
        if place.cluster_id not in ("", cluster_id):
            raise ValueError(f"the data directory belongs to cluster {place.cluster_id}, not to {cluster_id}")
        membership = replace(place, cluster_id=cluster_id)
        meta = DirectoryMeta(shards, self.meta.directory_id, membership)
        path = self._data_dir / META
        with self._holds.replaced(path):
            write_atomically(self._files, path, encode_meta(meta))
        self._membership, self.meta = membership, meta

    def remember(self, controller_epoch: int) -> None:
        """Remember a controller epoch; see `ClusterDirectory.remember`."""
        obeyed = self.memory.controller_epoch
        if controller_epoch < obeyed:
            raise ValueError(f"controller epoch {controller_epoch}, but {obeyed} was obeyed")
        if controller_epoch > obeyed:
            self._keep(replace(self.memory, controller_epoch=controller_epoch))

    def remember_seen(
        self,
        node_epoch: int | None,
        buckets: Mapping[int, int],
        lacks: Set[int] = frozenset(),
        intended_epoch: int | None = None,
    ) -> None:
        """Remember how far ZooKeeper was; see `ClusterDirectory.remember_seen`."""
        self._keep(
            ClusterMemory(self.memory.controller_epoch, node_epoch, dict(buckets), frozenset(lacks), intended_epoch)
        )

    def _keep(self, memory: ClusterMemory) -> None:
        write_atomically(self._files, self._data_dir / MEMORY, encode_memory(memory))
        self.memory = memory

    def mark_stopped(self) -> None:
        """Have the next start know that this one ended as it should."""
        write_atomically(self._files, self._data_dir / STOPPED, b"")


class WithDirectory:
    """The part of a disk that answers as a `ClusterDirectory`, but for what waits for its writer."""

    _directory: NodeDirectory
    _logs: LogFiles

    @property
    def meta(self) -> DirectoryMeta:
        """Return its identity; see `ClusterDirectory.meta`."""
        return self._directory.meta

    @property
    def memory(self) -> ClusterMemory:
        """Return what was remembered; see `ClusterDirectory.memory`."""
        return self._directory.memory

    @property
    def was_stopped_cleanly(self) -> bool:
        """True when the life before this one ended by `close`, and when there was none."""
        return self._directory.was_stopped_cleanly

    @property
    def damaged(self) -> frozenset[int]:
        """Return the shards that were moved aside as damaged, or are missing, and not told of yet."""
        return frozenset(shard for _, shard, _ in self._logs.moved(DAMAGED)) | self.missing

    @property
    def missing(self) -> frozenset[int]:
        """Return the shards that have lost their logs; see `ClusterDirectory.missing`."""
        return self._logs.missing()

    def join_cluster(self, cluster_id: str, shards: int) -> None:
        """Belong to a cluster from now on; see `ClusterDirectory.join_cluster`."""
        self._directory.join_cluster(cluster_id, shards)

    def remember(self, controller_epoch: int) -> None:
        """Remember a controller epoch; see `ClusterDirectory.remember`."""
        self._directory.remember(controller_epoch)

    def remember_seen(
        self,
        node_epoch: int | None,
        buckets: Mapping[int, int],
        lacks: Set[int] = frozenset(),
        intended_epoch: int | None = None,
    ) -> None:
        """Remember how far ZooKeeper was; see `ClusterDirectory.remember_seen`."""
        self._directory.remember_seen(node_epoch, buckets, lacks, intended_epoch)

    def damage_was_told(self) -> None:
        """Take note that nobody relies on what was damaged; see `ClusterDirectory.damage_was_told`."""
        self._logs.tell_damage()


def _refuse_without_meta(data_dir: Path, logs: LogFiles) -> None:
    made = logs.shards()
    if made:
        raise DiskError(
            f"{data_dir / META} is missing, but {data_dir / f'shard-{made[0]:05d}'} is there. Restore the file from a "
            "copy of this data directory, or give the node an empty directory"
        )


def _refuse_without_memory(data_dir: Path, logs: LogFiles) -> None:
    """Refuse logs of a cluster beside which nothing is remembered: that is written before the first of them is made."""
    made = logs.shards() or sorted(logs.missing())
    if made:
        raise DiskError(
            f"{data_dir / MEMORY} is missing, and {data_dir} has had the log of shard {made[0]}: without that file a "
            "node does not know what it lacks, and would go on with a ZooKeeper from before. Restore the file from a "
            "copy of this data directory, or give the node an empty directory, while the others are in sync"
        )


def _names(files: Files, data_dir: Path) -> list[str]:
    with explained("read", data_dir):
        return files.names(data_dir)


def _read_meta(files: Files, path: Path) -> DirectoryMeta:
    with explained("read", path):
        return decode_meta(files.read(path, _META_LIMIT), path_hint=str(path))


def _delete(files: Files, path: Path) -> None:
    with explained("delete", path):
        files.delete(path)
        files.sync_directory(path.parent)
