"""The invariants of a replicated shard, held after every step of a node, against one history of what was committed.

A record is committed for ever once a leader's high watermark has passed it. What is committed is on the disks of enough
nodes, every later leader has it, whatever is said was decided upon it, and nobody reads what is older than what was
said before.
"""

from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING

from coordinator.core import effects as e
from coordinator.core.cluster.image import Image, read_node
from coordinator.core.cluster.znodes import CLUSTER, Cluster, NodeState, ShardEntry
from coordinator.core.cluster_node.events import Event
from coordinator.core.groups.soft.timeline import EventKind
from coordinator.core.peers.events import PeerSaid
from coordinator.core.replica import effects as r
from coordinator.core.replica.replica import Absent, Doubting, Leader, Opening, Replica
from coordinator.protocol.messages.message import WireMessage
from coordinator.protocol.peer_messages import TellNode
from tests.sim.cluster.disk import Log, Record
from tests.sim.cluster.standbys import StandbyCheck
from tests.sim.log.state import ViolationError
from tests.sim.schedule import Schedule
from tests.sim.zookeeper_servers import Change

if TYPE_CHECKING:
    from tests.sim.cluster.process import ClusterProcess

__all__ = ["ClusterChecker", "ViolationError"]

SESSION_MS = 20_000
"""The session time-out of scripted members: so long is each one heard of, by whoever serves its shard."""


class ClusterChecker:
    """What has been committed, said and written so far."""

    def __init__(self, cluster: Cluster, schedule: Schedule) -> None:
        self._cluster = cluster
        self._schedule = schedule
        self.coverage: Counter[str] = Counter()
        self.session_ms = SESSION_MS
        self.leaderless: list[ShardEntry] = []
        """The entries that named no leader, each time that one was written."""
        self.is_command_void = False
        """A node is hearing a command that is not for it, or of a controller that was replaced."""
        self.processes: list[ClusterProcess] = []
        self.shard_of: Callable[[str], int] = lambda _: 0
        self.committed: list[list[Record]] = [[] for _ in range(cluster.shards)]
        self.image = Image()
        self._leaders: dict[tuple[int, int], tuple[int, int]] = {}
        """By shard and leader epoch: the node and the life that leads in it."""
        self._known: dict[tuple[int, int, int], int] = {}
        """By node, life and shard: the high watermark it had last."""
        self._looked_at: dict[tuple[int, int, int], Replica] = {}
        """By node, life and shard: the value that was looked at last."""
        self._epochs: dict[tuple[int, int, int], int] = {}
        self._published: dict[tuple[int, int], set[int | None]] = {}
        """By shard and leader epoch: the leader that ZooKeeper has named, and nobody once that one has left."""
        self._served_since_ms: dict[tuple[int, int, int], int] = {}
        """By node, life and shard that is served."""
        self._before_old_command: list[Replica] | None = None
        """The replicas of a node before it has heard a command that is void."""
        self._standbys = StandbyCheck(self)
        self._decided: dict[tuple[int, int], tuple[int, int]] = {}
        """By connection and request: the shard, and the end of its log when it was decided."""

    # ---- ZooKeeper --------------------------------------------------------------------------------------------------

    def written(self, change: Change) -> None:
        """Hold a change of ZooKeeper's data to what has to be true of it."""
        before, lived = dict(self.image.shards()), self.image.live
        for path, node in change.items():
            if path != CLUSTER or self.image.cluster is None or node is None:  # it is what it was made as
                self.image = read_node(self.image, path, node)
        for process in self.processes:
            live, former = self.image.live.get(process.number), lived.get(process.number)
            is_another = live is not None and (former is None or former.value.node_epoch != live.value.node_epoch)
            if process.is_up and is_another and not process.is_loss_unnoticed:
                process.lost = {}  # it has registered since, and is counted with what it has
        for number, live in self.image.live.items():
            known = self.image.known.get(number)
            is_counted = live == lived.get(number) or known is None or known.version == live.value.node_epoch
            self._require(is_counted, "LifeThatIsCounted", f"node {number} is {live}, and {known} counts its lives")
        self._forget_losses()
        for shard, entry in self.image.shards():
            was = before.get(shard)
            if was != entry:
                self._entry_changed(shard, was, entry)

    def _has_found(self, was: ShardEntry | None, entry: ShardEntry) -> bool:
        gone = set() if was is None else set(was.isr).difference(entry.isr)
        return bool(gone) and gone <= {process.number for process in self.processes if process.is_loss_unnoticed}

    def _forget_losses(self) -> None:
        """Count a node with what it has, after a loss that it does not know of: it has all again, or is not in sync."""
        for process in self.processes:
            if process.is_loss_unnoticed and process.is_up and process.lost:
                entries = {shard: self.image.shard(shard) for shard in process.lost}
                process.lost = {
                    shard: log
                    for shard, log in process.lost.items()
                    if (entry := entries[shard]) is not None and process.number in entry.isr
                    if not self._is_whole(process, shard)
                }

    def _is_whole(self, process: "ClusterProcess", shard: int) -> bool:
        log, end = process.disk.stable.get(shard), len(self.committed[shard])
        return log is not None and self._is_in(log, shard, end)

    def _entry_changed(self, shard: int, was: ShardEntry | None, entry: ShardEntry) -> None:
        self._schedule.tell("zookeeper", f"shard {shard}: {entry}")
        self._published.setdefault((shard, entry.leader_epoch), set()).add(entry.leader)
        self.leaderless += [entry] if entry.leader is None else []
        office = self.image.epoch.value.node_id if self.image.epoch is not None else None
        is_in_office = not entry.changed_by.startswith("controller") or entry.changed_by == f"controller {office}"
        self._require(is_in_office, "OneController", f"{office} is in office; shard {shard}: {entry}")
        is_unclean = was is not None and was.unclean_epoch != entry.unclean_epoch
        if is_unclean:
            self._lose_the_rest(shard, entry)
        # Whoever has lost its log, or is found to have, leaves whatever is left.
        has_lost = is_unclean or "lost its log" in entry.changed_by or self._has_found(was, entry)
        is_enough = has_lost or len(entry.isr) >= min(self._cluster.min_insync_replicas, len(was.isr) if was else 9)
        self._require(is_enough, "IsrNotBelowMin", f"{shard} {was} {entry}")
        self._require(entry.leader is None or entry.leader in entry.isr, "LeaderInIsr", f"{shard} {entry}")
        self._all_have(shard, entry.isr, len(self.committed[shard]))
        if was is None:
            return
        self._require(entry.leader_epoch >= was.leader_epoch, "MonotonicEpochs", f"{shard} {was} {entry}")
        is_same_epoch = entry.leader_epoch == was.leader_epoch
        is_one = not is_same_epoch or entry.leader == was.leader or (has_lost and entry.leader is None)
        self._require(is_one, "OneLeaderAnEpoch", f"{shard} {was} {entry}")
        self.coverage["leader_changes"] += entry.leader is not None and entry.leader != was.leader
        if entry.changed_by.startswith("leader"):
            for node in set(entry.isr).difference(was.isr):
                live = self.image.live.get(node)
                is_ready = live is not None and live.value.state is NodeState.READY
                self._require(is_ready, "JoinsWhenReady", f"{node} joins shard {shard}: {was} {entry}")
            self.coverage["shrinks"] += len(entry.isr) < len(was.isr)
            self.coverage["expands"] += len(entry.isr) > len(was.isr)

    def _lose_the_rest(self, shard: int, entry: ShardEntry) -> None:
        """Have what the replica lacks that a person has elected be committed no longer."""
        (leader,) = (process for process in self.processes if process.number == entry.leader)
        log, committed = leader.disk.log(shard), self.committed[shard]
        self._require(entry.isr == (entry.leader,), "LeaderInIsr", f"an unclean election of {entry}")
        self.coverage["unclean elections"] += 1
        self.coverage["records given up"] += max(0, len(committed) - log.end)
        del committed[log.end :]
        self._standbys.forget(shard)

    # ---- nodes ------------------------------------------------------------------------------------------------------

    def hears(self, process: "ClusterProcess", event: Event) -> None:
        """Take note of what a node is before it hears a command that is void; see `stepped`."""
        replication, self._before_old_command, self.is_command_void = process.node.replication, None, False
        if replication is None or not isinstance(event, PeerSaid) or not isinstance(event.message, TellNode):
            return
        told, replicas = event.message, replication.replicas
        self.is_command_void = (
            told.controller_epoch < replicas.controller_epoch or told.node_epoch != process.node.node_epoch
        )
        if self.is_command_void:
            self.coverage["void commands"] += 1
            self._before_old_command = [replicas[shard] for shard in replicas.shards]

    def told(self, process: "ClusterProcess", message: TellNode) -> None:
        """Hold what a controller tells to what ZooKeeper has said."""
        for state in message.states:
            # Also of a leader that has left its epoch since, with its disk: what it was told is void for its next life.
            named = self._published.get((state.shard, state.leader_epoch), set())
            self._require(state.leader in named, "PublishedBeforeTold", f"{process.name} tells {state}: {named}")

    def stepped(self, process: "ClusterProcess") -> None:
        """Hold a node to the invariants after a step, before its effects are performed."""
        self._standbys.stepped(process)
        replication = process.node.replication
        if replication is None:
            return
        before, self._before_old_command = self._before_old_command, None
        if before is not None:
            is_same = before == [replication.replicas[shard] for shard in replication.replicas.shards]
            self._require(is_same, "OldCommandObeyed", f"{process.name}, which was {before}")
        for shard in replication.replicas.shards:
            if shard not in process.disk.open:
                continue
            replica = replication.replicas[shard]
            key = process.number, process.life, shard
            if isinstance(replica.role, Leader) and replication.coordinator.is_loaded(shard):
                self._served_since_ms.setdefault(key, self._schedule.now_ms)
            else:
                self._served_since_ms.pop(key, None)
            if self._looked_at.get(key) is replica:
                continue
            self._looked_at[key] = replica
            self._require(replica.leader_epoch >= self._epochs.get(key, -1), "MonotonicEpochs", f"{key}")
            self._epochs[key] = replica.leader_epoch
            log = process.disk.log(shard)
            if isinstance(replica.role, Doubting) and process.is_loss_unnoticed:
                self.coverage["copy elected"] += 1
            if isinstance(replica.role, Leader):
                self._leads(process, shard, replica.leader_epoch)
            if isinstance(replica.role, Absent | Opening):  # it was stopped: another replica of the shard begins anew
                self._known.pop(key, None)
                continue
            if self._is_given_up(process, shard, replica):
                continue
            known, high_watermark = self._known.get(key, 0), replica.high_watermark
            if high_watermark == known:
                continue
            self._require(high_watermark > known, "MonotonicHighWatermark", f"{key}: {known} {high_watermark}")
            self._known[key] = high_watermark
            if isinstance(replica.role, Leader):
                self._committed_to(process, shard, high_watermark)
            is_valid = high_watermark <= len(self.committed[shard])
            self._require(is_valid, "ValidHighWatermark", f"{key}: {high_watermark}")
            self._same(process, shard, max(known, log.base), min(high_watermark, log.end))

    def _is_given_up(self, process: "ClusterProcess", shard: int, replica: Replica) -> bool:
        """Return whether a person has given up what a replica has; it was in sync when nobody was asked for it."""
        entry = self.image.shard(shard)
        is_out = entry is not None and process.number not in entry.isr
        return is_out and entry is not None and replica.log.last_epoch < entry.unclean_epoch

    def performed(self, process: "ClusterProcess") -> None:
        """Hold what the replicas of a node know of their logs to the logs."""
        self._standbys.performed(process)
        replication = process.node.replication
        for shard in replication.replicas.shards if replication is not None else ():
            if shard in process.disk.open and shard not in process.refused and replication is not None:
                replica, log = replication.replicas[shard], process.disk.log(shard)
                is_true = replica.is_replaced or log.end == replica.log.end or isinstance(replica.role, Opening)
                if not is_true:
                    raise ViolationError("TrueImage", f"{process.name}: {replica} of a log to {log.end}")

    def _leads(self, process: "ClusterProcess", shard: int, leader_epoch: int) -> None:
        leader = self._leaders.get((shard, leader_epoch))
        me = process.number, process.life
        if leader is None:
            named = self._published.get((shard, leader_epoch), set())
            is_named = process.number in named
            self._require(is_named, "PublishedBeforeTold", f"{process.name} leads {shard}@{leader_epoch}: {named}")
            self._leaders[shard, leader_epoch] = me
            entry = self.image.shard(shard)
            if entry is None or entry.leader_epoch != leader_epoch:
                return  # it hears late of a time that is over: nothing that it appends will be committed
            committed = len(self.committed[shard])
            log = process.disk.log(shard)
            self._require(
                log.end >= committed, "CommittedForEver", f"n{process.number} leads {shard}@{leader_epoch} to {log.end}"
            )
            self._same(process, shard, log.base, committed)
        else:
            self._require(leader == me, "OneLeaderAnEpoch", f"{shard}@{leader_epoch}: {leader} and {me}")

    def _committed_to(self, process: "ClusterProcess", shard: int, end: int) -> None:
        committed, log = self.committed[shard], process.disk.log(shard)
        if end <= len(committed):
            return
        self._require(log.base <= len(committed), "StrongIsr", f"{shard}: what is below {log.base} was not committed")
        committed += log.records[len(committed) - log.base : end - log.base]
        self._require(len(committed) == end, "ValidHighWatermark", f"{shard}: {end} of a log to {log.end}")
        holders = [each for each in self.processes if self._has(each, shard, end)]
        is_enough = len(holders) >= self._cluster.min_insync_replicas
        names = [each.name for each in holders]
        self._require(is_enough, "StrongIsr", f"{shard} is committed to {end}, which is on the disks of {names} only")
        entry = self.image.shard(shard)
        self._all_have(shard, () if entry is None else entry.isr, end)

    def _all_have(self, shard: int, isr: tuple[int, ...], end: int) -> None:
        """Hold everybody who may be elected to having everything that is committed."""
        for each in self.processes:
            if each.number in isr and end and not self._has(each, shard, end):
                raise ViolationError("StrongIsr", f"{shard} is committed to {end}, which {each.name} of {isr} lacks")

    def _has(self, process: "ClusterProcess", shard: int, end: int) -> bool:
        """Return whether a node's disk has what is committed to an end, or the one had that it has lost.

        A leader counts what that one has reported until it hears of the loss: it is one of the losses that are borne.
        """
        logs = process.disk.stable.get(shard), process.lost.get(shard)
        return any(log is not None and self._is_in(log, shard, end) for log in logs)

    def _is_in(self, log: Log, shard: int, end: int) -> bool:
        if log.end < end:
            return False
        return log.base >= end or log.at(end - 1) == self.committed[shard][end - 1]

    def _same(self, process: "ClusterProcess", shard: int, begin: int, end: int) -> None:
        """Hold a range of a node's log to what was committed."""
        log, committed = process.disk.log(shard), self.committed[shard]
        mine = log.records[begin - log.base : end - log.base]
        if list(mine) != committed[begin : begin + len(mine)]:
            at = next(at for at, (a, b) in enumerate(zip(mine, committed[begin:], strict=False), begin) if a != b)
            why = f"{process.name} has {mine[at - begin]} in shard {shard} at {at}, committed is {committed[at]}"
            raise ViolationError("CommittedForEver", why)

    def appends(self, process: "ClusterProcess", effect: e.Append) -> None:
        """Hold an append to the epoch that its node leads in."""
        replication = process.node.replication
        assert replication is not None
        epoch = replication.replicas[effect.shard].leader_epoch
        self._require(effect.leader_epoch == epoch, "OneLeaderAnEpoch", f"{process.name} in {epoch}: {effect}")

    def cuts(self, process: "ClusterProcess", effect: r.TruncateLog) -> None:
        """Hold a cut to what its node knows to be committed."""
        self.coverage["cuts"] += 1
        known = self._known.get((process.number, process.life, effect.shard), 0)
        self._require(effect.end >= known, "NoCutBelowHighWatermark", f"{process.name}: {effect} below {known}")

    def snapshots(self, process: "ClusterProcess", effect: e.WriteSnapshot) -> None:
        """Hold a snapshot to what is committed."""
        is_committed = effect.end_offset <= len(self.committed[effect.shard])
        self._require(is_committed, "SnapshotIsCommitted", f"{process.name}: {effect.shard} at {effect.end_offset}")
        self.coverage["snapshots"] += effect.is_last
        replication = process.node.replication
        if replication is not None and not isinstance(replication.replicas[effect.shard].role, Leader):
            self.coverage["standby snapshots"] += effect.is_last

    def process_ended(self, process: "ClusterProcess") -> None:
        """Forget what a life knew."""
        self._known = {key: value for key, value in self._known.items() if key[0] != process.number}

    def disk_changed(self, process: "ClusterProcess") -> None:
        """Hold what is on a node's disk to the logs of the others."""
        for shard, log in process.disk.stable.items():
            for other in self.processes:
                theirs = other.disk.stable.get(shard)
                if other is process or theirs is None:
                    continue
                begin, end = max(log.base, theirs.base), min(log.end, theirs.end)
                for at in range(end - 1, begin - 1, -1):
                    if log.records[at - log.base][0] == theirs.records[at - theirs.base][0]:
                        mine = log.records[begin - log.base : at + 1 - log.base]
                        is_same = mine == theirs.records[begin - theirs.base : at + 1 - theirs.base]
                        self._require(is_same, "LogMatching", f"{process.name} and {other.name}, shard {shard} at {at}")
                        break

    def noticed(self, process: "ClusterProcess", notice: e.Notice) -> None:
        """Count what is worth counting, and hold who is put out for silence to the time that it had."""
        self.coverage[f"notice {notice.kind}"] += 1
        if notice.kind == EventKind.MEMBER_EXPIRED and notice.why.startswith("no message"):
            shard = self.shard_of(notice.group_id)
            since_ms = self._served_since_ms.get((process.number, process.life, shard), self._schedule.now_ms)
            had_ms = self._schedule.now_ms - since_ms
            why = f"{process.name}, which has served {had_ms} ms: {notice}"
            self._require(had_ms >= self.session_ms, "NoEarlyExpiry", why)

    # ---- what is said -----------------------------------------------------------------------------------------------

    def decided(self, process: "ClusterProcess", key: tuple[int, int], shard: int) -> None:
        """Take note of what a request was decided upon."""
        self._decided[key] = shard, process.disk.log(shard).end

    def spoken(self, process: "ClusterProcess", key: tuple[int, int], shard: int, response: WireMessage) -> None:
        """Hold what is said to what was committed by then."""
        if shard not in process.disk.open:
            return
        _, end = self._decided.pop(key, (shard, process.disk.log(shard).end))
        is_committed = end <= len(self.committed[shard])
        self._require(
            is_committed, "SpokenIsCommitted", f"{process.name} says {response}, decided at {end} of shard {shard}"
        )

    def _require(self, holds: bool, invariant: str, what: str) -> None:
        if not holds:
            raise ViolationError(invariant, what)


def is_at_rest(image: Image, cluster: Cluster, processes: "list[ClusterProcess]") -> str:
    """Say what keeps a healed cluster from being whole; empty if nothing does."""
    entries = dict(image.shards())
    if len(entries) != cluster.shards:
        return f"there are {len(entries)} of {cluster.shards} shards"
    by_number = {process.number: process for process in processes}
    for shard, entry in sorted(entries.items()):
        if entry.leader is None or len(entry.isr) < len(entry.replicas) or entry.adding or entry.removing:
            return f"shard {shard} is {entry}"
        leader = by_number[entry.leader]
        replication = leader.node.replication if leader.is_up else None
        if replication is None or shard not in replication.led:
            return f"node {entry.leader} does not lead shard {shard}, {entry}"
        replica = replication.replicas[shard]
        if not replication.coordinator.is_loaded(shard) or replica.leader_epoch != entry.leader_epoch:
            return f"node {entry.leader} does not serve shard {shard}: {replica}"
        if replica.high_watermark != replica.log.end:
            return f"shard {shard} is committed to {replica.high_watermark} of {replica.log.end}: {replica}"
    offices = [process.name for process in processes if process.is_up and process.node.has_office]
    return "" if len(offices) == 1 else f"controllers are {offices}"
