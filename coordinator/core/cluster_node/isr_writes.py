"""The writes of in-sync sets by the leaders of a node: from what a replica wants to a transaction, and back.

A write is made of the bucket as it was read under the version that the replica knows, for all of its shards are written
together. None is made while ZooKeeper does not answer or the node is not registered; an outcome that was lost is
reported when writing is possible again, for then its replica writes again. That write is made whatever was read of
whoever joins: its end alone tells what became of the one before. The end of a write that another one has followed, or
of an epoch that is over, is nobody's: replicas count their writes anew in each epoch. A bucket that does not come to be
known, since somebody has removed it or put garbage there, is read again once a while and not at once.
"""

from msgspec.structs import replace

from coordinator.core.cluster.image import Image
from coordinator.core.cluster.transactions import BucketChange, Joining, change_isr
from coordinator.core.cluster.znodes import NodeState, bucket_of
from coordinator.core.cluster.zookeeper import ZkApplied, ZkMulti, ZkMultiDone, ZkRefusal, ZkRefused
from coordinator.core.replica.effects import ChangeIsr
from coordinator.core.replica.events import IsrWritten, WriteOutcome

_OVERTAKEN = frozenset({ZkRefusal.BAD_VERSION, ZkRefusal.NO_NODE})
REFUSED_WAIT_MS = 1_000
"""The pause after a refusal that nobody's write explains, such as of an access list."""
UNKNOWN_WAIT_MS = 1_000
"""The least time between two reads for what is to be written into a bucket that is not known."""


class IsrWrites:
    """Writes to be made, and those that have no outcome yet; one a shard."""

    def __init__(self, node_id: int) -> None:
        self._by = f"leader {node_id}"
        self._wanted: dict[int, ChangeIsr] = {}
        self._asked: dict[int, tuple[ChangeIsr, ZkMulti, tuple[Joining, ...]]] = {}
        self._unknown: dict[int, ChangeIsr] = {}
        self._tried: dict[int, tuple[ChangeIsr, tuple[Joining, ...]]] = {}
        """By shard, the last write whose outcome was lost, and the registrations that it checks."""
        self._newest: dict[int, ChangeIsr] = {}
        """By shard, the change that was wanted last by the leader that there still is: only its end is told."""
        self._number = 0
        self._write_after_ms = 0
        self._read_after_ms = 0
        self.needs_read = False
        """A bucket is not known under the version that is to be written."""

    def want(self, change: ChangeIsr) -> None:
        """Have a change made; another one of the shard that has not been sent is void."""
        self._wanted[change.shard] = self._newest[change.shard] = change
        self._unknown.pop(change.shard, None)

    def forget(self, shard: int) -> None:
        """Make no change of a shard that is led here no longer."""
        for of_leader in (self._wanted, self._unknown, self._tried, self._newest):
            of_leader.pop(shard, None)

    @property
    def has_work(self) -> bool:
        """Return whether something is to be written, or to be reported."""
        return bool(self._wanted or self._unknown)

    def go_on(self, image: Image, session: int, now_ms: int) -> tuple[list[ZkMulti], list[IsrWritten]]:
        """Return what can be written now, and what is known to have ended; ZooKeeper answers this registered node."""
        ended = [_ended(change, WriteOutcome.UNKNOWN, now_ms) for change in self._unknown.values()]
        self._unknown.clear()
        multis: list[ZkMulti] = []
        for change in list(self._wanted.values()) if now_ms >= self._write_after_ms else ():
            made = self._made(change, image)
            if made is None:
                self.needs_read = self.needs_read or now_ms >= self._read_after_ms
                continue
            del self._wanted[change.shard]
            if isinstance(made, WriteOutcome):
                ended.append(_ended(change, made, now_ms))
                continue
            self._number += 1
            bucket, joining = made
            multi = ZkMulti(session, self._number, change_isr(bucket, joining))
            self._asked[self._number] = change, multi, tuple(joining)
            multis.append(multi)
        if self.needs_read:
            self._read_after_ms = now_ms + UNKNOWN_WAIT_MS
        return multis, ended

    def _made(self, change: ChangeIsr, image: Image) -> tuple[BucketChange, list[Joining]] | WriteOutcome | None:
        """Return the change of the bucket, or how it ends without being made; None until the bucket is read."""
        cluster = image.joined
        if cluster is None:
            return None
        number = bucket_of(change.shard, cluster.buckets)
        bucket = image.buckets.get(number)
        if bucket is None or bucket.version < change.expected_version:
            return None
        entry = bucket.value.shards.get(change.shard)
        if bucket.version > change.expected_version or entry is None or entry.leader_epoch != change.leader_epoch:
            return WriteOutcome.VERSION_MISMATCH
        joining: list[Joining] = []
        for node, node_epoch in change.joining:
            live = image.live.get(node)
            if live is not None and live.value.node_epoch == node_epoch and live.value.state is NodeState.READY:
                joining.append(Joining(node, node_epoch, live.version))
            elif (tried := self._tried_before(change, node)) is not None:
                joining.append(tried)  # if this is refused for it, so is the one before, whenever it arrives
            else:
                return WriteOutcome.NOT_REGISTERED
        changed = replace(entry, isr=change.isr, changed_by=self._by)
        value = replace(bucket.value, shards={**bucket.value.shards, change.shard: changed})
        return BucketChange(number, value, bucket.version), joining

    def _tried_before(self, change: ChangeIsr, node: int) -> Joining | None:
        """Return the registration of a node as the same write checked it whose outcome was lost."""
        before, joining = self._tried.get(change.shard, (None, ()))
        if before is None or replace(before, request=change.request) != change:
            return None
        return next((tried for tried in joining if tried.node_id == node), None)

    def done(self, done: ZkMultiDone, now_ms: int) -> tuple[IsrWritten | None, ZkMulti | None]:
        """Return the end of a write if it is known by now, and the multi if it was done."""
        found = self._asked.pop(done.request_id, None)
        if found is None:
            return None, None
        change, multi, joining = found
        is_awaited = self._newest.get(change.shard) == change
        match done.outcome:
            case ZkApplied():
                return (_ended(change, WriteOutcome.DONE, now_ms) if is_awaited else None), multi
            case ZkRefused(index, refusal) if refusal in _OVERTAKEN:
                outcome = WriteOutcome.NOT_REGISTERED if index else WriteOutcome.VERSION_MISMATCH
                return (_ended(change, outcome, now_ms) if is_awaited else None), None
            case ZkRefused():
                self._write_after_ms = now_ms + REFUSED_WAIT_MS
        if is_awaited:
            self._unknown[change.shard] = change
            self._tried[change.shard] = change, joining
        return None, None


def _ended(change: ChangeIsr, outcome: WriteOutcome, now_ms: int) -> IsrWritten:
    return IsrWritten(now_ms, change.shard, change.request, outcome)
