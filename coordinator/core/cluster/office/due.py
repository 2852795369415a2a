"""The changes that a controller has to make now, found from what is in ZooKeeper and from what it was told.

It is found anew each time, so a change that was refused, or had no room, is due again. Looked at are only the shards
that the index, or what the controller was told, says something of; any other is led as it should be. Who is chosen is
decided in `election` and `placement`; when it is due and how much of it at once is decided here.
"""

from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass, field, replace
from typing import Final

import msgspec.structs

from coordinator.core.cluster.events import ElectUnclean, ReassignShard, ShardWish, StepDown, StepDownReason
from coordinator.core.cluster.image import Image
from coordinator.core.cluster.office.election import (
    Candidates,
    elect,
    elect_longest,
    elect_unclean,
    give_back,
    hand_over,
    is_led,
    is_waited_for,
    may_lead,
    move_away,
    why_not_unclean,
)
from coordinator.core.cluster.office.index import BucketIndex, ShardIndex
from coordinator.core.cluster.office.placement import place
from coordinator.core.cluster.office.reassignment import (
    NO_SUCH_SHARD,
    begin,
    finish,
    target_of,
    waits_for_word,
    why_not,
)
from coordinator.core.cluster.office.settings import ControllerSettings
from coordinator.core.cluster.office.telling import Outbox, knows_that_it_leads
from coordinator.core.cluster.transactions import BucketChange
from coordinator.core.cluster.troubles import is_counted, removed_buckets
from coordinator.core.cluster.znodes import (
    Bucket,
    Cluster,
    NodeState,
    ShardEntry,
    bucket_of,
    bucket_path,
)

FIRST_LEADER_EPOCH: Final = 1


@dataclass(frozen=True, slots=True)
class Office:
    """The office of a controller: its epoch, and the version of the epoch's node, which each of its writes checks.

    `told` are the entries as they were published last, also of what cannot be read any more, None until everything was
    read for the first time.
    """

    controller_epoch: int
    epoch_version: int
    since_ms: int
    balance_due_ms: int
    told: Mapping[int, ShardEntry] | None = None
    index: ShardIndex = field(default_factory=ShardIndex)
    """Of which `told` has everything."""
    in_sync_since_ms: Mapping[int, int] = field(default_factory=dict)
    """Since when a shard's preferred replica has been in its in-sync set without leading it."""
    stepped_down: Mapping[int, StepDown] = field(default_factory=dict)
    """By shard: what its leader has said when it asked to be relieved last."""
    unfit: frozenset[tuple[int, int, int]] = frozenset()
    """Shard, node and node epoch: who cannot load what."""
    wanted: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    """By shard: the replicas that a person wants, until they are in ZooKeeper."""
    given_back: frozenset[int] = frozenset()
    """The shards that a person wants to be led by their preferred replicas, until they are or cannot be."""
    unclean: Mapping[int, ElectUnclean] = field(default_factory=dict)
    """By shard: the replica out of sync that a person wants to lead, until it does or the shard is not as it was."""
    few_since_ms: int | None = None
    """Since when fewer than half of the nodes have been reached."""
    outbox: Outbox | None = None
    """The messages for the nodes, None until everything was read for the first time."""
    late: frozenset[tuple[int, int]] = frozenset()
    """Node and node epoch: who does not acknowledge what it is told."""


def lives_in(image: Image, refused: Set[tuple[int, int]]) -> dict[int, int]:
    """Return the nodes that live, with their node epochs: those that have a session and refuse no connection."""
    return {
        node: live.value.node_epoch
        for node, live in image.live.items()
        if live.owner and (node, live.value.node_epoch) not in refused
    }


class Due:
    """All that is to be changed now, as one set of buckets."""

    def __init__(
        self,
        index: ShardIndex,
        office: Office,
        settings: ControllerSettings,
        refused: Set[tuple[int, int]],
        changed_by: str,
        now_ms: int,
    ) -> None:
        image = index.image
        self._index = index
        self._image = image
        self._office = office
        self._settings = settings
        self._changed_by = changed_by
        self._now_ms = now_ms
        nodes = {node: known.value for node, known in image.live.items()}
        self._live = lives_in(image, refused)
        # One that is not counted goes on with what it leads, for else all would stop when the counts are lost.
        self._ready = frozenset(
            node for node in self._live if nodes[node].state is NodeState.READY and is_counted(image, node)
        )
        self._draining = frozenset(
            node for node in self._live if nodes[node].state is NodeState.DRAINING and is_counted(image, node)
        )
        self._racks = {node: nodes[node].rack for node in self._ready}
        self._late = frozenset(node for node, life in self._live.items() if (node, life) in office.late)
        self._moves = settings.moves_at_once
        self._usual = Candidates(self._live, self._ready)
        self._usual_answering = Candidates(self._live, self._ready - self._late)
        self._usual_able = self._in_order(self._usual, self._draining)
        self._lacking: dict[int, set[int]] = {}
        for node in self._live:
            for shard in nodes[node].lacks:
                self._lacking.setdefault(shard, set()).add(node)
        self._special = office.stepped_down.keys() | {shard for shard, _, _ in office.unfit} | self._lacking.keys()
        self._asked_for = self._special | office.wanted.keys() | office.given_back

    @property
    def ready(self) -> frozenset[int]:
        """Return the nodes that may be given something to lead or to follow."""
        return self._ready

    def goes_back(self, shard: int) -> bool:
        """Return whether a shard can be given to its preferred replica, and is not led by that."""
        entry = self._index.entry(shard)
        return entry is not None and self._given_back(shard, entry) is not None

    def why_not(self, wish: ShardWish, cluster: Cluster) -> str:
        """Say why a shard is not changed as a person wants; empty if it is."""
        entry = self._index.entry(wish.shard)
        if isinstance(wish, ReassignShard):
            return why_not(entry, wish.replicas, cluster.min_insync_replicas, self._ready)
        if entry is None:
            return NO_SUCH_SHARD
        if isinstance(wish, ElectUnclean):
            answering, able = self._answering(wish.shard, entry), self._able(wish.shard, entry)
            return why_not_unclean(entry, wish.node_id, wish.leader_epoch, answering, able)
        if self.goes_back(wish.shard):
            return ""
        preferred = entry.replicas[0]
        if entry.leader == preferred:
            return f"node {preferred} leads it already, which is the first of its replicas"
        return (
            f"node {preferred}, the first of its replicas, is not there, not in sync, being drained or not answering: "
            "wait until it is in sync, or put another one first"
        )

    def changes(self, cluster: Cluster) -> Iterator[BucketChange]:
        """Return the buckets to write, each when it is asked for; one that cannot be read is not among them."""
        is_starting = not self._is_any_led()
        new = self._new_shards(cluster)
        for number, bucket in self._index.buckets.items():
            changed = dict(self._changes_in(bucket, cluster, is_starting=is_starting))
            if changed:
                value = msgspec.structs.replace(bucket.bucket.value, shards={**bucket.bucket.value.shards, **changed})
                yield BucketChange(number, value, bucket.bucket.version)
        for number, shards in new.items():
            yield BucketChange(number, Bucket(shards=shards), None)

    def _changes_in(
        self, bucket: BucketIndex, cluster: Cluster, *, is_starting: bool
    ) -> Iterator[tuple[int, ShardEntry]]:
        for shard in self.looked_at(bucket):
            entry = bucket.entries[shard]
            if shard in bucket.at_the_end:
                continue  # every change raises it, and nobody could read the next one
            after = self._next(shard, entry, cluster.min_insync_replicas, is_starting=is_starting)
            if after is not None:
                yield shard, after

    def looked_at(self, bucket: BucketIndex) -> list[int]:
        """Return the shards of a bucket of which something may be due, in their order there."""
        found: set[int] = set(bucket.moving)
        found |= self._asked_for & bucket.entries.keys()
        for (node, life), shards in bucket.led_by.items():
            is_well = node is not None and self._live.get(node) == life and node not in self._late
            if not is_well or (node not in self._ready and self._moves > 0):
                found.update(shards)
        if self._now_ms >= self._office.balance_due_ms and self._moves > 0:
            found.update(bucket.astray)
        return sorted(found)

    def _is_any_led(self) -> bool:
        """Say whether a leader lives who has not said that it cannot lead."""
        return any(
            is_led(entry := bucket.entries[shard], self._candidates(shard, entry))
            for bucket in self._index.buckets.values()
            for life in self._live.items()
            for shard in bucket.led_by.get(life, ())
        )

    def _new_shards(self, cluster: Cluster) -> dict[int, dict[int, ShardEntry]]:
        """Return the shards of buckets that are not there, which a new cluster gets once it has nodes enough."""
        removed = removed_buckets(self._image, cluster, self._office.told or {})
        missing = {
            bucket
            for bucket in range(cluster.buckets)
            if bucket not in self._image.buckets
            and bucket_path(bucket) not in self._image.unreadable
            and bucket not in removed
        }
        if not missing or len(self._racks) < cluster.replication_factor:
            return {}
        placed = place(cluster.shards, cluster.replication_factor, self._racks)
        new: dict[int, dict[int, ShardEntry]] = {}
        for shard, replicas in enumerate(placed):
            if (bucket := bucket_of(shard, cluster.buckets)) in missing:
                new.setdefault(bucket, {})[shard] = ShardEntry(
                    leader=replicas[0],
                    leader_node_epoch=self._live[replicas[0]],
                    leader_epoch=FIRST_LEADER_EPOCH,
                    isr=replicas,
                    replicas=replicas,
                    changed_by=self._changed_by,
                )
        return new

    def _candidates(self, shard: int, entry: ShardEntry) -> Candidates:
        if shard not in self._special:
            return self._usual
        asked = self._stepped_down(shard, entry)
        lacking = frozenset(self._lacking.get(shard, ()))
        if asked is not None and asked.reason is StepDownReason.LACKS_RECORDS and entry.leader is not None:
            lacking |= {entry.leader}
        return Candidates(self._live, self._ready - self._unfit(shard), lacking)

    def _unfit(self, shard: int) -> set[int]:
        return {node for node, life in self._live.items() if (shard, node, life) in self._office.unfit}

    def _able(self, shard: int, entry: ShardEntry, besides: int | None = None) -> Candidates:
        """Return who may be elected, `besides` one node: the first of those who are better than the others.

        A node that does not answer leads nobody, so one that is being drained and answers comes before it.
        """
        in_order = self._usual_able
        if shard in self._special:
            in_order = self._in_order(self._candidates(shard, entry), self._draining - self._unfit(shard))
        for candidates in in_order:
            if any(may_lead(entry, candidates, node) for node in entry.replicas if node != besides):
                return candidates
        return in_order[-1]

    def _in_order(self, ready: Candidates, drained: Set[int]) -> tuple[Candidates, ...]:
        """Return who may be elected, those first to whom a shard goes before it goes to more."""
        everybody = ready.eligible | drained
        sets = (ready.eligible - self._late, everybody - self._late, ready.eligible, everybody)
        return tuple(replace(ready, eligible=eligible) for eligible in sets)

    def _given_back(self, shard: int, entry: ShardEntry) -> ShardEntry | None:
        return give_back(entry, self._answering(shard, entry), frozenset(entry.replicas[:1]), self._changed_by)

    def _answering(self, shard: int, entry: ShardEntry) -> Candidates:
        if shard not in self._special:
            return self._usual_answering
        candidates = self._candidates(shard, entry)
        return replace(candidates, eligible=candidates.eligible - self._late)

    def _stepped_down(self, shard: int, entry: ShardEntry) -> StepDown | None:
        """Return what the leader of this epoch has said when it asked to be relieved, if it has."""
        asked = self._office.stepped_down.get(shard)
        return None if asked is None or asked.leader_epoch != entry.leader_epoch else asked

    def _relieved(self, shard: int, entry: ShardEntry, asked: StepDown, min_insync: int) -> ShardEntry | None:
        """Return who leads in the place of one that does not want to; nobody else can where its epoch is all that ends.

        A successor that has more than the leader is the only one for whom it leaves, and another epoch begins where
        that one has gone: the leader hears the others anew.
        """
        candidates = self._able(shard, entry)
        if asked.successor is not None:
            named = hand_over(entry, asked.successor, candidates, self._changed_by)
            return named or elect(entry, candidates, min_insync, self._changed_by)
        moved = move_away(entry, self._able(shard, entry, besides=entry.leader), self._changed_by)
        is_spoilt = asked.reason is StepDownReason.SPOILT_EPOCH
        return elect(entry, candidates, min_insync, self._changed_by) if moved is None and is_spoilt else moved

    def _next(self, shard: int, entry: ShardEntry, min_insync: int, *, is_starting: bool) -> ShardEntry | None:
        candidates = self._candidates(shard, entry)
        wanted = self._office.wanted.get(shard)
        if wanted is not None and wanted != target_of(entry):
            return begin(entry, wanted, self._changed_by)
        unclean = self._office.unclean.get(shard)
        if unclean is not None:
            answering, able = self._answering(shard, entry), self._able(shard, entry)
            named = elect_unclean(entry, unclean.node_id, unclean.leader_epoch, answering, able, self._changed_by)
            if named is not None:
                return named
        if not is_led(entry, candidates):
            if not is_starting:
                return elect(entry, self._able(shard, entry), min_insync, self._changed_by)
            # The whole cluster has started: others may come that have more.
            if self._now_ms < self._office.since_ms + self._settings.elect_wait_ms and is_waited_for(entry, candidates):
                return None
            log_ends = {
                node: live.value.log_ends[shard]
                for node, live in self._image.live.items()
                if shard in live.value.log_ends
            }
            return elect_longest(entry, self._able(shard, entry), min_insync, log_ends, self._changed_by)
        if (shard, entry.leader, entry.leader_node_epoch) in self._office.unfit:
            # Where nobody else can lead it goes on trying: without a leader nobody would.
            return move_away(entry, self._able(shard, entry, besides=entry.leader), self._changed_by)
        asked = self._stepped_down(shard, entry)
        if asked is not None:
            return self._relieved(shard, entry, asked, min_insync)
        candidates = self._answering(shard, entry)
        outbox = self._office.outbox
        knows = outbox is not None and knows_that_it_leads(outbox, shard, entry)
        if entry.leader in self._late and outbox is not None and not knows:
            able = self._able(shard, entry, besides=entry.leader)
            answers = replace(able, eligible=able.eligible - self._late)
            return move_away(entry, answers, self._changed_by)
        finished = finish(entry, candidates, min_insync, knows=knows, changed_by=self._changed_by)
        if finished is not None:
            return finished
        if shard in self._office.given_back:
            return self._given_back(shard, entry)
        if self._moves <= 0:
            return None
        moved = None
        if entry.leader not in self._ready:
            if not waits_for_word(entry, min_insync):  # else it would go to one that is to leave, and wait for that
                moved = move_away(entry, candidates, self._changed_by)
        elif self._now_ms >= self._office.balance_due_ms:
            since_ms = self._office.in_sync_since_ms.get(shard, self._now_ms)
            is_long = self._now_ms - since_ms >= self._settings.balance_delay_ms
            moved = give_back(entry, candidates, frozenset(entry.replicas[:1] if is_long else ()), self._changed_by)
        self._moves -= moved is not None
        return moved
