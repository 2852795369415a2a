"""Known mistakes in a cluster, planted one at a time, each of which the simulated cluster has to find by chance.

Those of the replica values are the small model's, planted here in whole nodes; the others are in the joining of these
values to the coordinator, to peers and to ZooKeeper. Mistakes that take an order which whole nodes hardly ever come to
are left to the small model, which goes through all orders. The product knows nothing of it.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any, Final
from unittest.mock import patch

from msgspec.structs import replace

from coordinator.core.cluster_node import isr_writes
from coordinator.core.cluster_node.replication import Replication
from coordinator.core.cluster_node.wakes import Wakes
from coordinator.core.effects import WakeAt
from coordinator.core.replica import doubt
from coordinator.core.shards.gates import Gates
from coordinator.core.shards.snapshots import Snapshots
from tests.model import mistakes
from tests.sim.cluster import mutants_disk as disk
from tests.sim.cluster import mutants_leading as leads
from tests.sim.cluster import mutants_members as members
from tests.sim.cluster import mutants_office as office
from tests.sim.cluster import mutants_standby as standby
from tests.sim.cluster import mutants_unclean as unclean
from tests.sim.cluster.directed import (
    CopiedNodeWorld,
    FailingDiskWorld,
    InSyncWorld,
    KilledWhileDrainedWorld,
    PutBackWorld,
    TwinWorld,
)
from tests.sim.cluster.lost import FailedStartsWorld, MissingLogWorld
from tests.sim.cluster.no_zookeeper import NoZooKeeperWorld
from tests.sim.cluster.put_back import (
    GarbledClusterWorld,
    GarbledWorld,
    OldCopyWorld,
    OldValueWorld,
    OtherNumbersWorld,
)
from tests.sim.cluster.run import ClusterOutcome, run_cluster_seed
from tests.sim.cluster.unclean import UncleanWorld
from tests.sim.cluster.world import ClusterWorld

Patches = list[tuple[Any, str, Any]]
MOST_SEEDS: Final = 1_000


@dataclass(frozen=True, slots=True)
class ClusterMutant:
    """One mistake, in words and as the functions that it replaces."""

    what: str
    plant: Callable[[], Patches]
    world: type[ClusterWorld] = ClusterWorld
    """Where it is hunted: random worlds, or one that is made for it."""


def _no_round() -> Patches:
    return [(Gates, "ask_others", lambda gates, shard, *, has_others: None)]


def _isr_over_any_version() -> Patches:
    """A leader writes its set over whatever the bucket has become."""
    rightly = isr_writes.IsrWrites._made

    def made(writes: isr_writes.IsrWrites, change: Any, image: Any) -> Any:
        cluster = image.cluster
        bucket = None if cluster is None else image.buckets.get(change.shard % cluster.value.buckets)
        if bucket is not None and change.shard in bucket.value.shards:
            entry = bucket.value.shards[change.shard]
            change = replace(change, expected_version=bucket.version, leader_epoch=entry.leader_epoch)
        return rightly(writes, change, image)

    return [(isr_writes.IsrWrites, "_made", made)]


def _snapshot_above_high_watermark() -> Patches:
    rightly = Snapshots.take_held
    return [(Snapshots, "take_held", lambda snapshots, _: rightly(snapshots, 2**60))]


def _appended_is_not_told() -> Patches:
    """What a turn has appended is told to the replica a turn later than what comes after it."""
    return [(Replication, "_tell_appended", lambda replication, shard: None)]


def _wish_to_wake_overwritten() -> Patches:
    """A wish whose time has come is forgotten before its tick, and a later one takes its timer."""

    def in_one(wakes: Wakes, effects: list[Any], now_ms: int, *, is_tick: bool) -> list[Any]:
        wishes = {effect.now_ms for effect in effects if isinstance(effect, WakeAt)}
        before = min(wakes._wanted, default=None)
        if not wishes and (before is None or before > now_ms):
            return effects
        wakes._wanted = wishes | {at_ms for at_ms in wakes._wanted if at_ms > now_ms}
        first = min(wakes._wanted, default=before)
        others = [effect for effect in effects if not isinstance(effect, WakeAt)]
        return others if first is None or first == before else [*others, WakeAt(first)]

    return [(Wakes, "in_one", in_one)]


def _anybody_is_heard() -> Patches:
    """The word of a replica counts that is not in sync."""

    def is_enough(replica: Any, command: Any, heard: Any) -> bool:
        return len({*heard, replica.node}) >= min(replica.settings.min_insync_replicas, len(command.isr))

    return [(doubt, "_is_enough", is_enough)]


def _of_the_model(name: str) -> Callable[[], Patches]:
    return lambda: mistakes.MISTAKES[name].plant()


OF_THE_MODEL: Final[Mapping[str, str]] = {
    "cut-to-high-watermark": "a follower begins by cutting to the high watermark that it knows",
    "fetch-without-epoch": "a leader looks at the end of a follower's log only",
    "last-epoch-alone": "only the epoch of the last record is compared",
    "own-disk-not-counted": "a leader takes what it has appended for durable at home",
    "min-isr-ignored": "an in-sync set shrinks to its leader",
    "reported-before-sync": "a follower reports what it has written, on disk or not",
    "asked-is-durable": "the end that a follower asks from is taken for durable there",
    "acknowledged-at-own-disk": "a leader takes for committed what is on its own disk",
    "cut-and-silent": "a follower that has cut its log does not ask again",
    "pending-isr-ignored": "a change of an in-sync set counts for nothing until it is known to be done",
    "unknown-outcome-read": "a write whose outcome is lost is settled by a read that does not show it",
    "expand-before-epoch": "a follower joins with what its leader knows to be committed",
    "copy-leads": "a node leads at once with the log that it was started with",
    "longer-log-ignored": "it is not looked at how far the logs of others reach",
    "joins-in-any-life": "who joins need not be registered as it was when it fetched",
}

HUNTED_IN: Final[Mapping[str, type[ClusterWorld]]] = {
    "unknown-outcome-read": InSyncWorld,
    "copy-leads": CopiedNodeWorld,
    "longer-log-ignored": CopiedNodeWorld,
}
"""The worlds of those that random ones hardly ever show."""

MUTANTS: Final[Mapping[str, ClusterMutant]] = {
    **{
        name: ClusterMutant(what, _of_the_model(name), HUNTED_IN.get(name, ClusterWorld))
        for name, what in OF_THE_MODEL.items()
    },
    "wish-to-wake-overwritten": ClusterMutant("a node forgets that it is to be woken", _wish_to_wake_overwritten),
    "no-round": ClusterMutant("what was decided leaves when it is committed", _no_round),
    "deposed-stays-open": ClusterMutant("a coordinator is not told that it leads no longer", leads.deposed_stays_open),
    "unload-wipes-newer": ClusterMutant("a shard is taken after it was given again", leads.unload_wipes_newer),
    "members-expire-at-failover": ClusterMutant("a new leader gives nobody time", leads.members_expire_at_failover),
    "told-before-published": ClusterMutant("nodes are told what is being written", office.told_before_published),
    "new-disk-in-isr": ClusterMutant("a node that lost its log stays in sync", office.new_disk_in_isr),
    "failed-starts-count": ClusterMutant(
        "starts that came to nothing make an older directory the newest", office.failed_starts_count, FailedStartsWorld
    ),
    "nothing-is-remembered": ClusterMutant(
        "a directory of which only the identity is left is whole", office.nothing_is_remembered, MissingLogWorld
    ),
    "epochs-reused": ClusterMutant("a ZooKeeper from before is gone on with", office.epochs_reused, PutBackWorld),
    "older-buckets": ClusterMutant("what is older than was seen is gone on with", office.older_buckets, OldCopyWorld),
    "forgets-what-it-has-seen": ClusterMutant(
        "a start knows nothing of what was seen", office.forgets_what_it_has_seen, OldCopyWorld
    ),
    "acts-before-it-has-looked": ClusterMutant(
        "a connection is enough to decide", office.acts_before_it_has_looked, OldCopyWorld
    ),
    "older-value-followed": ClusterMutant(
        "a new controller knows no leader epochs", office.knows_no_leader_epochs, OldValueWorld
    ),
    "breaks-with-zookeeper": ClusterMutant(
        "a connection that broke is taken for a session that is over", office.breaks_with_zookeeper, NoZooKeeperWorld
    ),
    "garbage-is-nothing": ClusterMutant(
        "shards that cannot be read are taken for deleted", office.garbage_is_nothing, GarbledWorld
    ),
    "tells-without-cluster": ClusterMutant(
        "nobody knows which shards there are, and nodes are told of none",
        office.tells_without_cluster,
        GarbledClusterWorld,
    ),
    "joins-by-any-number": ClusterMutant(
        "a start obeys whatever number of shards there is", office.joins_by_any_number, OtherNumbersWorld
    ),
    "believes-any-number": ClusterMutant(
        "a number of shards that was changed is obeyed", office.believes_any_number, OtherNumbersWorld
    ),
    "takes-office-by-any-number": ClusterMutant(
        "a controller obeys a number of shards that was changed", office.takes_office_by_any_number, OtherNumbersWorld
    ),
    "copy-takes-the-place": ClusterMutant("a copy ends the node beside it", office.copy_takes_the_place, TwinWorld),
    "state-of-a-former-life": ClusterMutant(
        "a drain is written in any life", office.state_of_a_former_life, KilledWhileDrainedWorld
    ),
    "deleted-by-epoch": ClusterMutant("what is not named is moved aside", office.deleted_by_epoch),
    "isr-over-any-version": ClusterMutant("a set is written over another's change", _isr_over_any_version),
    "snapshot-above-high-watermark": ClusterMutant("a snapshot holds what may be cut", _snapshot_above_high_watermark),
    **{name: ClusterMutant(*mistake) for name, mistake in members.MISTAKES.items()},
    "anybody-is-heard": ClusterMutant("who is not in sync has a say", _anybody_is_heard, CopiedNodeWorld),
    "standby-applies-uncommitted": ClusterMutant("a standby replays what may be cut", standby.applies_uncommitted),
    "standby-keeps-what-is-cut": ClusterMutant("what was cut is fed all the same", standby.keeps_what_is_cut),
    "snapshot-past-its-state": ClusterMutant(
        "a snapshot stands for a record it lacks", standby.snapshot_past_its_state
    ),
    "snapshot-shares-what-changes": ClusterMutant(
        "a snapshot has of a group what came after its end", standby.snapshot_shares_what_changes
    ),
    "owner-epochs-go-on": ClusterMutant("an unclean leader grants where it stands", unclean.goes_on, UncleanWorld),
    "keeps-what-was-given-up": ClusterMutant(
        "who was in sync before an unclean election keeps its log", unclean.keeps_log, UncleanWorld
    ),
    "trusts-what-it-reads": ClusterMutant(
        "a start does not write again what it reads", disk.trusts_what_it_reads, FailingDiskWorld
    ),
    "missing-log-is-empty": ClusterMutant(
        "a log that is not there was never made", disk.missing_log_is_empty, MissingLogWorld
    ),
    "counts-the-time-of-day": ClusterMutant("time-outs are those of a clock that is set", disk.counts_the_time_of_day),
    "outlives-its-disk": ClusterMutant("a node goes on without its disk", disk.outlives_its_disk),
    "appended-is-not-told": ClusterMutant("a replica hears late what was appended", _appended_is_not_told),
}


@contextmanager
def planted(name: str) -> Iterator[None]:
    """Make one mistake for as long as the context lasts."""
    with ExitStack() as stack:
        for where, attribute, instead in MUTANTS[name].plant():
            stack.enter_context(patch.object(where, attribute, instead))
        yield


def hunt_cluster(name: str, most_seeds: int = MOST_SEEDS, first: int = 0) -> tuple[ClusterOutcome | None, int]:
    """Run seeds with a mistake until one of them breaks; returns that one and how many events it took.

    Seeds are gone through from 0 on, after the one that is tried first.
    """
    events = 0
    with planted(name):
        for seed in dict.fromkeys((first, *range(most_seeds))):
            outcome = run_cluster_seed(seed, story_lines=10, kind=MUTANTS[name].world)
            events += outcome.events
            if outcome.broken:
                return outcome, events
    return None, events
