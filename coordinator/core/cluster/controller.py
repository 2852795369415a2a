"""The controller: stands for the office, elects leaders, and leaves when it cannot be sure to hold it.

A frozen value: `step` makes the next one and what is to be done. One multi is under way at a time, and
all that is due is gathered into it. Nothing is decided while ZooKeeper does not answer, nor before everything was read
that predecessors could have written. A choice is told of (Published) only when it is known to be in ZooKeeper, whether
by the outcome of the write or because it was read there. What the choices are is in `election` and `placement`.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final, TypeAlias, assert_never

import msgspec.structs

from coordinator.core.cluster import observer as observing
from coordinator.core.cluster.effects import ControllerEffect, LeftOffice, Published, TookOffice
from coordinator.core.cluster.election import (
    Candidates,
    elect,
    elect_longest,
    give_back,
    is_led,
    is_waited_for,
    move_away,
)
from coordinator.core.cluster.events import (
    ControllerEvent,
    NodeRefused,
    ObserverEvent,
    ReadAnew,
    Registered,
    StepDown,
    StepDownReason,
    Ticked,
    Written,
)
from coordinator.core.cluster.image import Image
from coordinator.core.cluster.observer import OF_A_CONTROLLER, OF_A_NODE, Observer
from coordinator.core.cluster.placement import place
from coordinator.core.cluster.transactions import (
    OVERTAKEN,
    REFUSED_WAIT_MS,
    BucketChange,
    Operations,
    become_controller,
    change_shards,
)
from coordinator.core.cluster.znodes import (
    CONTROLLER_ACTIVE,
    CONTROLLER_EPOCH,
    Bucket,
    Cluster,
    NodeState,
    ShardEntry,
    Versioned,
    bucket_of,
    bucket_path,
)
from coordinator.core.cluster.zookeeper import (
    ZkApplied,
    ZkChanged,
    ZkCreate,
    ZkMulti,
    ZkMultiDone,
    ZkNode,
    ZkReadDone,
    ZkRefused,
    ZkSession,
    ZkSet,
    ZkState,
    ZkUnknown,
)

FIRST_LEADER_EPOCH: Final = 1


@dataclass(frozen=True, slots=True)
class ControllerSettings:
    """How long the controller waits for what; `moves_at_once` bounds moves that nobody needs at once."""

    elect_wait_ms: int = 2_000
    balance_ms: int = 10_000
    balance_delay_ms: int = 60_000
    moves_at_once: int = 5


@dataclass(frozen=True, slots=True)
class Office:
    """What a controller holds: its epoch, and the version of the epoch's node, which each of its writes checks.

    `told` are the entries as they were published, None until everything was read for the first time.
    """

    controller_epoch: int
    epoch_version: int
    since_ms: int
    balance_due_ms: int
    told: Mapping[int, ShardEntry] | None = None
    in_sync_since_ms: Mapping[int, int] = field(default_factory=dict)
    """Since when a shard's preferred replica has been in its in-sync set without leading it."""
    stepped_down: Mapping[int, tuple[int, StepDownReason]] = field(default_factory=dict)
    """By shard: the leader epoch in which its leader has asked to be relieved, and why."""
    unfit: frozenset[tuple[int, int, int]] = frozenset()
    """Shard, node and node epoch: who cannot load what."""


@dataclass(frozen=True, slots=True)
class Controller:
    """A node's part in the office, held or not. `asked` is the multi under way; `office` is None while it is not held.

    `decided_on` is the image of which everything that was due has been decided until `look_again_ms`.
    """

    node_id: int
    settings: ControllerSettings = field(default_factory=ControllerSettings)
    observer: Observer = field(default_factory=lambda: Observer(OF_A_NODE))
    node_epoch: int | None = None
    owner: int = 0
    office: Office | None = None
    asked: ZkMulti | None = None
    request_id: int = 0
    refused: frozenset[tuple[int, int]] = frozenset()
    """Node and node epoch: to whom connections were refused."""
    decided_on: Image | None = None
    look_again_ms: int = 0
    write_after_ms: int = 0


Result: TypeAlias = tuple[Controller, tuple[ControllerEffect, ...]]


def step(controller: Controller, event: ControllerEvent, now_ms: int) -> Result:
    """Take one event."""
    effects: tuple[ControllerEffect, ...] = ()
    match event:
        case ZkSession(_, state, owner):
            if state is ZkState.LOST:
                controller, effects = _leave(controller, "its ZooKeeper session is over")
                controller = replace(controller, node_epoch=None, owner=0, asked=None)
            elif state is ZkState.CONNECTED:
                controller = replace(controller, owner=owner)
            controller, reads = _observe(controller, event, now_ms)
            effects += reads
        case ZkChanged() | ZkReadDone() | Ticked():
            controller, effects = _observe(controller, event, now_ms)
        case ZkMultiDone():
            controller, effects = _take_outcome(controller, event, now_ms)
        case Registered(node_epoch):
            controller = replace(controller, node_epoch=node_epoch)
        case NodeRefused(node_id, node_epoch):
            controller = replace(controller, refused=controller.refused | {(node_id, node_epoch)}, decided_on=None)
        case StepDown():
            controller = _hear_step_down(controller, event)
        case _:
            assert_never(event)
    controller, more = _go_on(controller, now_ms)
    return controller, effects + more


def _observe(controller: Controller, event: ObserverEvent, now_ms: int) -> Result:
    observer, reads = observing.step(controller.observer, event, now_ms)
    return replace(controller, observer=observer), reads


def _hear_step_down(controller: Controller, event: StepDown) -> Controller:
    office, entry = controller.office, controller.observer.image.shard(event.shard)
    if office is None or entry is None or entry.leader is None or entry.leader_epoch != event.leader_epoch:
        return controller
    stepped_down = {**office.stepped_down, event.shard: (event.leader_epoch, event.reason)}
    unfit = office.unfit
    if event.reason is StepDownReason.CANNOT_LOAD and entry.leader_node_epoch is not None:
        unfit |= {(event.shard, entry.leader, entry.leader_node_epoch)}
    office = replace(office, stepped_down=stepped_down, unfit=unfit)
    return replace(controller, office=office, decided_on=None)


def _leave(controller: Controller, why: str) -> Result:
    if controller.office is None:
        return controller, ()
    observer = replace(controller.observer, scope=OF_A_NODE)
    return replace(controller, office=None, observer=observer), (LeftOffice(why),)


def _resign(controller: Controller, now_ms: int, why: str) -> Result:
    """Leave the office while the session goes on, and look again who holds it."""
    controller, left = _leave(controller, why)
    controller, reads = _observe(controller, ReadAnew(), now_ms)
    return controller, left + reads


def _ask(controller: Controller, operations: Operations) -> Result:
    multi = ZkMulti(controller.observer.session, controller.request_id + 1, operations)
    return replace(controller, asked=multi, request_id=multi.request_id), (multi,)


def _take_outcome(controller: Controller, done: ZkMultiDone, now_ms: int) -> Result:
    asked = controller.asked
    if asked is None or (done.session, done.request_id) != (asked.session, asked.request_id):
        return controller, ()
    controller = replace(controller, asked=None)
    match done.outcome:
        case ZkApplied(versions):
            return _take_in(controller, asked, versions, now_ms)
        case ZkRefused(index, refusal):
            if controller.office is not None and asked.operations[index].path == CONTROLLER_EPOCH:
                return _resign(controller, now_ms, "another node has become controller")
            if refusal not in OVERTAKEN:
                controller = replace(controller, write_after_ms=now_ms + REFUSED_WAIT_MS)
        case ZkUnknown():
            # The write may arrive yet; whatever is written next then is refused, for it names the version read now.
            pass
        case _:
            assert_never(done.outcome)
    return _observe(controller, ReadAnew(), now_ms)


def _take_in(controller: Controller, multi: ZkMulti, versions: tuple[int | None, ...], now_ms: int) -> Result:
    effects: tuple[ControllerEffect, ...] = ()
    for operation, version in zip(multi.operations, versions, strict=True):
        if isinstance(operation, ZkCreate | ZkSet) and version is not None:
            is_ephemeral = isinstance(operation, ZkCreate) and operation.is_ephemeral
            node = ZkNode(operation.data, version, controller.owner if is_ephemeral else 0)
            controller, reads = _observe(controller, Written(operation.path, node), now_ms)
            effects += reads
    return controller, effects


# ---- what is due -----------------------------------------------------------------------------------------------------


def _go_on(controller: Controller, now_ms: int) -> Result:
    observer = controller.observer
    is_certain = observer.is_connected and observer.is_whole and observer.asked is None
    if controller.node_epoch is None or not is_certain or controller.asked is not None:
        return controller, ()
    if now_ms < controller.write_after_ms:
        return controller, ()
    if controller.office is None:
        return _stand(controller, now_ms)
    if not _holds(controller, controller.office.epoch_version):
        return _resign(controller, now_ms, "another node has become controller")
    if controller.decided_on is observer.image and now_ms < controller.look_again_ms:
        return controller, ()
    return _decide(controller, controller.office, now_ms)


def _holds(controller: Controller, epoch_version: int) -> bool:
    """Say whether ZooKeeper names this node, in this session, as controller, and nobody has come after it."""
    image = controller.observer.image
    return (
        image.active is not None
        and image.epoch is not None
        and image.active.owner == controller.owner
        and image.active.value.controller_epoch == image.epoch.value.epoch
        and image.epoch.version == epoch_version
    )


def _stand(controller: Controller, now_ms: int) -> Result:
    """Become controller if nobody is; or find that this node is already, by a write whose outcome was lost."""
    image, node_epoch = controller.observer.image, controller.node_epoch
    assert node_epoch is not None
    if image.cluster is None or image.epoch is None or CONTROLLER_ACTIVE in image.unreadable:
        return controller, ()
    if _holds(controller, image.epoch.version):
        office = Office(image.epoch.value.epoch, image.epoch.version, now_ms, now_ms + controller.settings.balance_ms)
        controller = replace(controller, office=office)
        return _observe(controller, ReadAnew(OF_A_CONTROLLER), now_ms)
    former = None
    if image.active is not None:
        if (image.active.value.node_id, image.active.value.node_epoch) not in controller.refused:
            return controller, ()
        former = image.active.version
    return _ask(controller, become_controller(image.epoch, controller.node_id, node_epoch, former_active=former))


def _decide(controller: Controller, office: Office, now_ms: int) -> Result:
    image = controller.observer.image
    if image.cluster is None:  # a person has to look at that
        return controller, ()
    effects: tuple[ControllerEffect, ...] = ()
    entries = dict(image.shards())
    if office.told is None:
        effects += (TookOffice(office.controller_epoch),)
    elif changed := {shard: entry for shard, entry in entries.items() if office.told.get(shard) != entry}:
        effects += (Published(changed),)
    office = replace(office, told=entries, in_sync_since_ms=_in_sync_since(office, entries, now_ms))
    due = _Due(image, office, controller.settings, controller.refused, f"controller {controller.node_id}", now_ms)
    changes = due.changes(image.cluster.value, entries)
    if now_ms >= office.balance_due_ms:
        office = replace(office, balance_due_ms=now_ms + controller.settings.balance_ms)
    elect_due_ms = office.since_ms + controller.settings.elect_wait_ms
    due_ms = [office.balance_due_ms, *([elect_due_ms] if elect_due_ms > now_ms else [])]
    controller = replace(controller, office=office, decided_on=image, look_again_ms=min(due_ms))
    if not changes:
        return controller, effects
    # The rest of what has no room in one multi is found to be due again after it.
    controller, multi = _ask(controller, change_shards(office.epoch_version, changes)[0])
    return controller, effects + multi


def _in_sync_since(office: Office, entries: Mapping[int, ShardEntry], now_ms: int) -> Mapping[int, int]:
    return {
        shard: office.in_sync_since_ms.get(shard, now_ms)
        for shard, entry in entries.items()
        if entry.replicas[0] in entry.isr and entry.leader != entry.replicas[0]
    }


class _Due:
    """All that is to be changed now, as one set of buckets."""

    def __init__(
        self,
        image: Image,
        office: Office,
        settings: ControllerSettings,
        refused: Iterable[tuple[int, int]],
        changed_by: str,
        now_ms: int,
    ) -> None:
        self._image = image
        self._office = office
        self._settings = settings
        self._changed_by = changed_by
        self._now_ms = now_ms
        nodes = {node: known.value for node, known in image.live.items()}
        self._live = {
            node: live.node_epoch for node, live in nodes.items() if (node, live.node_epoch) not in set(refused)
        }
        self._ready = frozenset(node for node in self._live if nodes[node].state is NodeState.READY)
        self._racks = {node: nodes[node].rack for node in self._ready}
        self._moves = settings.moves_at_once

    def changes(self, cluster: Cluster, entries: Mapping[int, ShardEntry]) -> list[BucketChange]:
        """Return the buckets to write; a bucket that cannot be read is not among them."""
        changed: dict[int, ShardEntry] = {}
        is_starting = not any(is_led(entry, self._candidates(shard, entry)) for shard, entry in entries.items())
        for shard, entry in entries.items():
            after = self._next(shard, entry, cluster.min_insync_replicas, is_starting=is_starting)
            if after is not None:
                changed[shard] = after
        by_bucket: dict[int, dict[int, ShardEntry]] = {}
        for shard, entry in {**changed, **self._new_shards(cluster)}.items():
            by_bucket.setdefault(bucket_of(shard, cluster.buckets), {})[shard] = entry
        return [_bucket_change(bucket, self._image.buckets.get(bucket), new) for bucket, new in by_bucket.items()]

    def _new_shards(self, cluster: Cluster) -> dict[int, ShardEntry]:
        """Return the shards of buckets that are not there, which a new cluster gets once it has nodes enough."""
        missing = {
            bucket
            for bucket in range(cluster.buckets)
            if bucket not in self._image.buckets and bucket_path(bucket) not in self._image.unreadable
        }
        if not missing or len(self._racks) < cluster.replication_factor:
            return {}
        placed = place(cluster.shards, cluster.replication_factor, self._racks)
        return {
            shard: ShardEntry(
                leader=replicas[0],
                leader_node_epoch=self._live[replicas[0]],
                leader_epoch=FIRST_LEADER_EPOCH,
                isr=replicas,
                replicas=replicas,
                changed_by=self._changed_by,
            )
            for shard, replicas in enumerate(placed)
            if bucket_of(shard, cluster.buckets) in missing
        }

    def _candidates(self, shard: int, entry: ShardEntry) -> Candidates:
        epoch, reason = self._office.stepped_down.get(shard, (None, None))
        lacking: frozenset[int] = frozenset()
        if epoch == entry.leader_epoch and reason is StepDownReason.LACKS_RECORDS and entry.leader is not None:
            lacking = frozenset({entry.leader})
        unfit = {node for node, life in self._live.items() if (shard, node, life) in self._office.unfit}
        return Candidates(self._live, self._ready - unfit, lacking)

    def _next(self, shard: int, entry: ShardEntry, min_insync: int, *, is_starting: bool) -> ShardEntry | None:
        candidates = self._candidates(shard, entry)
        is_unfit = (shard, entry.leader, entry.leader_node_epoch) in self._office.unfit
        if not is_led(entry, candidates) or is_unfit:
            if not is_starting:
                return elect(entry, candidates, min_insync, self._changed_by)
            # The whole cluster has started: others may come that have more.
            if self._now_ms < self._office.since_ms + self._settings.elect_wait_ms and is_waited_for(entry, candidates):
                return None
            log_ends = {
                node: live.value.log_ends[shard]
                for node, live in self._image.live.items()
                if shard in live.value.log_ends
            }
            return elect_longest(entry, candidates, min_insync, log_ends, self._changed_by)
        if self._office.stepped_down.get(shard, (None, None))[0] == entry.leader_epoch:
            return move_away(entry, candidates, self._changed_by)
        if self._moves <= 0:
            return None
        moved = None
        if entry.leader not in self._ready:
            moved = move_away(entry, candidates, self._changed_by)
        elif self._now_ms >= self._office.balance_due_ms:
            since_ms = self._office.in_sync_since_ms.get(shard, self._now_ms)
            is_long = self._now_ms - since_ms >= self._settings.balance_delay_ms
            moved = give_back(entry, candidates, frozenset(entry.replicas[:1] if is_long else ()), self._changed_by)
        self._moves -= moved is not None
        return moved


def _bucket_change(bucket: int, before: Versioned[Bucket] | None, new: Mapping[int, ShardEntry]) -> BucketChange:
    if before is None:
        return BucketChange(bucket, Bucket(shards=dict(new)), None)
    value = msgspec.structs.replace(before.value, shards={**before.value.shards, **new})
    return BucketChange(bucket, value, before.version)
