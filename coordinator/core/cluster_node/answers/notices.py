"""The facts of a cluster's node that are said once, with fields by which they are counted."""

from collections.abc import Iterable, Mapping

from coordinator.core.cluster.znodes import ShardEntry
from coordinator.core.cluster_node.replication import Replication
from coordinator.core.effects import Notice
from coordinator.core.replica.effects import DropReplica
from coordinator.core.replica.events import IsrWritten
from coordinator.core.replica.replica import Leader, Replica


def published(shards: Mapping[int, ShardEntry]) -> list[Notice]:
    """Say how shards are led now, as this node has decided as the controller."""
    return [
        Notice(
            "shard-published",
            f"shard {shard} is led by {entry.leader} in epoch {entry.leader_epoch}, {entry.isr}",
            fields=(("shard", shard), ("election", _election(entry))),
        )
        for shard, entry in shards.items()
    ]


def isr_written(replication: Replication, ended: Iterable[IsrWritten]) -> list[Notice]:
    """Have replicas take in how the writes of their in-sync sets have ended, and say what that changed."""
    return [notice for written in ended if (notice := _isr_changed(replication, written)) is not None]


def set_aside(dropped: DropReplica) -> list[Notice]:
    """Say that the log of a shard is moved aside, if it is, and why; a warning where it has what others lack."""
    if not dropped.deletes:
        return []
    why = dropped.void or "this node is to have no replica of it"
    text = (
        f"the log of shard {dropped.shard} is set aside, as aside-{dropped.shard:05d}-… in the data directory, and "
        f"deleted after cluster.deleted_keep_ms: {why}"
    )
    return [Notice("log-set-aside", text, fields=(("shard", dropped.shard),), is_warning=bool(dropped.void))]


def _isr_changed(replication: Replication, written: IsrWritten) -> Notice | None:
    before = _isr(replication.replicas[written.shard])
    replication.step(written.shard, written)
    after = _isr(replication.replicas[written.shard])
    if before is None or after is None or before == after:
        return None
    change = "expand" if before < after else "shrink" if after < before else "exchange"
    why = f"shard {written.shard} has in sync {sorted(after)}, after {sorted(before)}"
    return Notice("isr-changed", why, fields=(("shard", written.shard), ("isr_change", change)))


def _election(entry: ShardEntry) -> str:
    if entry.leader is None:
        return "without-leader"
    return "unclean" if entry.unclean_epoch == entry.leader_epoch else "elected"


def _isr(replica: Replica) -> frozenset[int] | None:
    return frozenset(replica.role.isr.members) if isinstance(replica.role, Leader) else None
