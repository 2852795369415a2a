"""The controller: stands for the office, elects leaders, and leaves when it cannot be sure to hold it.

A frozen value: `step` makes the next one and what is to be done. One multi is under way at a time, and
all that is due is gathered into it. Nothing is decided while ZooKeeper does not answer, nor before everything was read
that predecessors could have written. A choice is told of (Published) only when it is known to be in ZooKeeper, whether
by the outcome of the write or because it was read there. What the choices are is in `election` and `placement`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TypeAlias, assert_never

from coordinator.core.cluster import observer as observing
from coordinator.core.cluster.effects import (
    ControllerEffect,
    LeftOffice,
    Published,
    Stuck,
    TookOffice,
    WishRefused,
)
from coordinator.core.cluster.events import (
    ControllerEvent,
    ElectUnclean,
    GiveBackShard,
    NodeAnswered,
    NodeRefused,
    ObserverEvent,
    PeerLost,
    PeerReached,
    ReadAnew,
    ReassignShard,
    Registered,
    ShardWish,
    StepDown,
    StepDownReason,
    Ticked,
    Written,
)
from coordinator.core.cluster.image import Image
from coordinator.core.cluster.observer import OF_A_CONTROLLER, OF_A_NODE, Observer, of_a_candidate
from coordinator.core.cluster.office.due import Due, Office, lives_in
from coordinator.core.cluster.office.index import ShardIndex, index_of
from coordinator.core.cluster.office.reassignment import target_of
from coordinator.core.cluster.office.settings import ControllerSettings
from coordinator.core.cluster.office.telling import Outbox, late, take_answer, tell, unsaid
from coordinator.core.cluster.transactions import (
    OVERTAKEN,
    REFUSED_WAIT_MS,
    Operations,
    become_controller,
    change_shards,
    leave_office,
)
from coordinator.core.cluster.troubles import of_a_controller, of_candidates, part_removed
from coordinator.core.cluster.znodes import CONTROLLER_EPOCH, NodeState, ShardEntry
from coordinator.core.cluster.zookeeper import (
    ZkApplied,
    ZkChanged,
    ZkCreate,
    ZkDelete,
    ZkMulti,
    ZkMultiDone,
    ZkNode,
    ZkReadDone,
    ZkRefusal,
    ZkRefused,
    ZkSession,
    ZkSet,
    ZkState,
    ZkUnknown,
)


@dataclass(frozen=True, slots=True)
class Controller:
    """A node's part in the office, held or not. `asked` is the multi under way; `office` is None while it is not held.

    `index` is always that of the observer's image. `decided_on` is the one of which everything that was due has been
    decided until `look_again_ms`.
    """

    node_id: int
    settings: ControllerSettings = field(default_factory=ControllerSettings)
    observer: Observer = field(default_factory=lambda: Observer(OF_A_NODE))
    index: ShardIndex = field(default_factory=ShardIndex)
    reached: frozenset[tuple[int, int]] = frozenset()
    """Node and node epoch: to whom this node has a connection."""
    node_epoch: int | None = None
    owner: int = 0
    office: Office | None = None
    asked: ZkMulti | None = None
    request_id: int = 0
    refused: frozenset[tuple[int, int]] = frozenset()
    """Node and node epoch: to whom connections were refused."""
    decided_on: ShardIndex | None = None
    look_again_ms: int = 0
    write_after_ms: int = 0
    stand_after_ms: int = 0
    vacant_since_ms: int | None = None
    """Since when nobody has been seen in the office."""
    refusal: str = ""
    """Why the last write was refused, if reading again does not explain it."""
    stuck: tuple[str, ...] = ()
    """The sentences that were said last about what a person has to put right."""


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
            # Whoever is in office while its session goes on has it under a node epoch that is over.
            controller, effects = _leave(controller, f"this node lives under node epoch {node_epoch} now")
            if effects:
                controller = replace(controller, stand_after_ms=now_ms + controller.settings.stand_wait_ms)
            # What is decided upon is not older than that: a cluster that it has made itself is there.
            controller = replace(controller, node_epoch=node_epoch)
            controller, reads = _observe(controller, ReadAnew(of_a_candidate(controller.node_id)), now_ms)
            effects += reads
        case NodeRefused(node_id, node_epoch):
            controller = _meet(controller, (node_id, node_epoch), is_reached=False, is_refused=True)
        case PeerReached(node_id, node_epoch):
            controller = _meet(controller, (node_id, node_epoch), is_reached=True, is_refused=False)
        case PeerLost(node_id, node_epoch):
            is_refused = (node_id, node_epoch) in controller.refused
            controller = _meet(controller, (node_id, node_epoch), is_reached=False, is_refused=is_refused)
        case StepDown():
            controller = _hear_step_down(controller, event)
        case NodeAnswered(node_id, node_epoch, number):
            controller = _hear_answer(controller, node_id, node_epoch, number)
        case ReassignShard() | GiveBackShard() | ElectUnclean():
            controller, effects = _hear_wish(controller, event, now_ms)
        case _:
            assert_never(event)
    controller, more = _go_on(controller, now_ms)
    controller, messages = _tell(controller, now_ms)
    return controller, effects + more + messages


def _tell(controller: Controller, now_ms: int) -> Result:
    """Say to the nodes what they do not know, and give up leaders who do not hear it.

    Nothing is said while ZooKeeper does not answer, or before everything was read: another may hold the office. Nor is
    it while nobody can read which shards there are: whoever is told of none has none any more.
    """
    office, observer = controller.office, controller.observer
    if office is None or office.outbox is None or not _is_certain(observer) or observer.image.cluster is None:
        return controller, ()
    lives = lives_in(controller.index.image, controller.refused)
    outbox, messages = tell(office.outbox, controller.index, lives, _reached(controller), now_ms)
    are_late = late(outbox, controller.settings.tell_timeout_ms, now_ms)
    if are_late != office.late:
        controller = replace(controller, decided_on=None)
    elif outbox is office.outbox:
        return controller, messages
    return replace(controller, office=replace(office, outbox=outbox, late=are_late)), messages


def _reached(controller: Controller) -> frozenset[tuple[int, int]]:
    """Return the lives of nodes that can be told something, this one among them."""
    assert controller.node_epoch is not None
    return controller.reached | {(controller.node_id, controller.node_epoch)}


def _hear_answer(controller: Controller, node_id: int, node_epoch: int, number: int) -> Controller:
    office = controller.office
    if office is None or office.outbox is None:
        return controller
    office = replace(office, outbox=take_answer(office.outbox, node_id, node_epoch, number))
    decided_on = None if controller.index.is_any_moving else controller.decided_on
    return replace(controller, office=office, decided_on=decided_on)


def _observe(controller: Controller, event: ObserverEvent, now_ms: int) -> Result:
    observer, reads = observing.step(controller.observer, event, now_ms)
    if observer is controller.observer and observer.image is controller.index.image:
        return controller, reads
    return replace(controller, observer=observer, index=index_of(observer.image, controller.index)), reads


def _meet(controller: Controller, life: tuple[int, int], *, is_reached: bool, is_refused: bool) -> Controller:
    """Take in how a life of another node has met this one's connections."""
    reached, refused = controller.reached - {life}, controller.refused - {life}
    if is_refused != (life in controller.refused):
        controller = replace(controller, decided_on=None)
    office = controller.office
    if not is_reached and office is not None and office.outbox is not None:
        controller = replace(controller, office=replace(office, outbox=unsaid(office.outbox, *life)))
    return replace(
        controller,
        reached=reached | {life} if is_reached else reached,
        refused=refused | {life} if is_refused else refused,
    )


def having_seen(controller: Controller, seen: Image) -> Controller:
    """Return a controller without the office that knows what there has been: leader epochs, and which cluster."""
    observer, image = controller.observer, controller.observer.image.having_seen(seen)
    return controller if image is observer.image else replace(controller, observer=replace(observer, image=image))


def why_not(controller: Controller, wish: ShardWish, now_ms: int) -> str:
    """Say why this node does not do with a shard what a person wants; empty if it does."""
    office, cluster = controller.office, controller.observer.image.cluster
    if office is None or office.told is None or cluster is None:
        return "this node is not the controller: ask that one"
    return _due_of(controller, office, now_ms).why_not(wish, cluster.value)


def _hear_wish(controller: Controller, wish: ShardWish, now_ms: int) -> Result:
    """Take note of what a person wants, if it can be."""
    office, why = controller.office, why_not(controller, wish, now_ms)
    if why or office is None:
        return controller, (WishRefused(wish.shard, why),)
    if isinstance(wish, ReassignShard):
        office = replace(office, wanted={**office.wanted, wish.shard: wish.replicas})
    elif isinstance(wish, ElectUnclean):
        office = replace(office, unclean={**office.unclean, wish.shard: wish})
    else:
        office = replace(office, given_back=office.given_back | {wish.shard})
    return replace(controller, office=office, decided_on=None), ()


def _hear_step_down(controller: Controller, event: StepDown) -> Controller:
    office, entry = controller.office, controller.index.entry(event.shard)
    if office is None or entry is None or entry.leader is None or entry.leader_epoch != event.leader_epoch:
        return controller
    if (entry.leader, entry.leader_node_epoch) != (event.node_id, event.node_epoch):
        return controller  # only the leader knows whether it can lead
    stepped_down = {**office.stepped_down, event.shard: event}
    unfit = office.unfit
    if event.reason is StepDownReason.CANNOT_LOAD and entry.leader_node_epoch is not None:
        unfit |= {(event.shard, entry.leader, entry.leader_node_epoch)}
    office = replace(office, stepped_down=stepped_down, unfit=unfit)
    return replace(controller, office=office, decided_on=None)


def _leave(controller: Controller, why: str) -> Result:
    if controller.office is None:
        return controller, ()
    observer = replace(controller.observer, scope=of_a_candidate(controller.node_id))
    return replace(controller, office=None, observer=observer, decided_on=None), (LeftOffice(why),)


def _resign(controller: Controller, now_ms: int, why: str) -> Result:
    """Leave the office while the session goes on, look again who holds it, and let others stand first.

    Without that wait two nodes that take each other for dead would depose each other without end. Whoever loses its
    session needs no wait: others have had the time to stand when it learns of that.
    """
    controller, left = _leave(controller, why)
    controller = replace(controller, stand_after_ms=now_ms + controller.settings.stand_wait_ms)
    controller, reads = _observe(controller, ReadAnew(), now_ms)
    return controller, left + reads


def _give_up(controller: Controller, why: str, now_ms: int) -> Result:
    """Leave the office because others can do more in it, and have ZooKeeper say that nobody has it."""
    controller, left = _leave(controller, why)
    controller = replace(controller, stand_after_ms=now_ms + controller.settings.stand_wait_ms)
    controller, multi = _clear(controller)
    return controller, left + multi


def _clear(controller: Controller) -> Result:
    image = controller.observer.image
    assert image.epoch is not None
    assert image.active is not None
    return _ask(controller, leave_office(image.epoch.version, image.active.version))


def _ask(controller: Controller, operations: Operations) -> Result:
    multi = ZkMulti(controller.observer.session, controller.request_id + 1, operations)
    return replace(controller, asked=multi, request_id=multi.request_id), (multi,)


def _take_outcome(controller: Controller, done: ZkMultiDone, now_ms: int) -> Result:
    asked = controller.asked
    if asked is None or (done.session, done.request_id) != (asked.session, asked.request_id):
        return controller, ()
    # Also where all is found to be as it was, what was not written is due again.
    controller = replace(controller, asked=None, decided_on=None)
    match done.outcome:
        case ZkApplied(versions):
            return _take_in(replace(controller, refusal=""), asked, versions, now_ms)
        case ZkRefused(index, refusal, why):
            operation = asked.operations[index]
            if controller.office is not None and operation.path == CONTROLLER_EPOCH:
                return _resign(controller, now_ms, "another node has become controller")
            if refusal is ZkRefusal.NO_NODE and isinstance(operation, ZkCreate):
                why = part_removed(operation.path.rpartition("/")[0])
            elif refusal in OVERTAKEN:
                why = ""
            if why:
                controller = replace(controller, refusal=why, write_after_ms=now_ms + REFUSED_WAIT_MS)
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
        elif isinstance(operation, ZkDelete):
            controller, reads = _observe(controller, Written(operation.path, None), now_ms)
            effects += reads
    return controller, effects


# ---- what is due -----------------------------------------------------------------------------------------------------


def _go_on(controller: Controller, now_ms: int) -> Result:
    observer = controller.observer
    if controller.node_epoch is None or not _is_certain(observer) or controller.asked is not None:
        return controller, ()
    if now_ms < controller.write_after_ms:
        return _say(controller, controller.stuck)
    if controller.office is None:
        troubles = of_candidates(observer.image)
        controller, said = _say(controller, troubles)
        controller, effects = (controller, ()) if troubles else _stand(controller, now_ms)
        controller, more = _without_refusal(controller, troubles)
        return controller, said + effects + more
    if not _holds(controller, controller.office.epoch_version):
        return _resign(controller, now_ms, "another node has become controller")
    controller, why = _look_around(controller, controller.office, now_ms)
    if why:
        return _give_up(controller, why, now_ms)
    assert controller.office is not None
    if controller.decided_on is controller.index and now_ms < controller.look_again_ms:
        return controller, ()
    return _decide(controller, controller.office, now_ms)


def _look_around(controller: Controller, office: Office, now_ms: int) -> tuple[Controller, str]:
    """Return why others should have the office; empty if this node is as good as they."""
    image = controller.observer.image
    live = {(node, life): image.live[node].value.state for node, life in lives_in(image, controller.refused).items()}
    me = [life for life in live if life[0] == controller.node_id]
    if NodeState.DRAINING in (live[life] for life in me) and NodeState.READY in live.values():
        return controller, "this node is being drained, and others are ready"
    reached = len(controller.reached & live.keys()) + len(me)
    since_ms = None if 2 * reached >= len(live) else now_ms if office.few_since_ms is None else office.few_since_ms
    if since_ms is not None and now_ms - since_ms >= controller.settings.reach_wait_ms:
        return controller, f"{reached} of the {len(live)} nodes that live can be reached from here"
    if since_ms != office.few_since_ms:
        controller = replace(controller, office=replace(office, few_since_ms=since_ms))
    return controller, ""


def _is_certain(observer: Observer) -> bool:
    """Say whether everything is known and nothing is being asked."""
    return observer.is_connected and observer.is_whole and observer.asked is None


def _say(controller: Controller, whys: tuple[str, ...]) -> Result:
    """Say what a person has to put right, if it is not what was said last."""
    if controller.refusal and controller.refusal not in whys:
        whys += (controller.refusal,)
    return (controller, ()) if whys == controller.stuck else (replace(controller, stuck=whys), (Stuck(whys),))


def _without_refusal(controller: Controller, whys: tuple[str, ...]) -> Result:
    """Forget why a write was refused, unless it is asked for again: it is wanted no more."""
    return (controller, ()) if controller.asked is not None else _say(replace(controller, refusal=""), whys)


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
    assert image.epoch is not None
    is_early = now_ms < controller.stand_after_ms
    if _holds(controller, image.epoch.version):
        if is_early:  # the outcome of giving it up was lost
            return _clear(controller)
        office = Office(image.epoch.value.epoch, image.epoch.version, now_ms, now_ms + controller.settings.balance_ms)
        return _observe(replace(controller, office=office), ReadAnew(OF_A_CONTROLLER), now_ms)
    former = None
    if image.active is not None:
        controller = controller if controller.vacant_since_ms is None else replace(controller, vacant_since_ms=None)
        if (image.active.value.node_id, image.active.value.node_epoch) not in controller.refused:
            return controller, ()
        former = image.active.version
    elif controller.vacant_since_ms is None:
        controller = replace(controller, vacant_since_ms=now_ms)
    if is_early or _is_drained_and_early(controller, now_ms):
        return controller, ()
    return _ask(controller, become_controller(image.epoch, controller.node_id, node_epoch, former_active=former))


def _is_drained_and_early(controller: Controller, now_ms: int) -> bool:
    """Say whether this node is being drained and others have not had the time to stand."""
    live, since_ms = controller.observer.image.live.get(controller.node_id), controller.vacant_since_ms
    if live is None or live.value.state is NodeState.READY:
        return False
    return since_ms is None or now_ms < since_ms + controller.settings.stand_wait_ms


def _due_of(controller: Controller, office: Office, now_ms: int) -> Due:
    by = f"controller {controller.node_id}"
    return Due(controller.index, office, controller.settings, controller.refused, by, now_ms)


def _decide(controller: Controller, office: Office, now_ms: int) -> Result:
    index, cluster = controller.index, controller.index.image.cluster
    if cluster is None:
        return _say(controller, of_candidates(index.image))
    troubles = of_a_controller(index.image, office.told or {})
    controller, effects = _say(controller, troubles)
    told = office.told or {}
    changed = {
        shard: entry
        for bucket in index.changed_since(office.index)
        for shard, entry in bucket.entries.items()
        if told.get(shard) != entry
    }
    if office.told is None:
        effects += (TookOffice(office.controller_epoch),)
    elif changed:
        effects += (Published(changed),)
    office = replace(
        office,
        outbox=office.outbox or Outbox(controller.node_id, office.controller_epoch),
        told=told if changed == {} and office.told is not None else {**told, **changed},
        in_sync_since_ms=_in_sync_since(office, index, now_ms),
        index=index,
        wanted={shard: wanted for shard, wanted in office.wanted.items() if _is_wanted(index.entry(shard), wanted)},
        unclean={
            shard: wish
            for shard, wish in office.unclean.items()
            if (entry := index.entry(shard)) is not None and entry.leader_epoch == wish.leader_epoch
        },
    )
    due = _due_of(controller, office, now_ms)
    office = replace(office, given_back=frozenset(shard for shard in office.given_back if due.goes_back(shard)))
    changes = _due_of(controller, office, now_ms).changes(cluster.value)
    if now_ms >= office.balance_due_ms:
        office = replace(office, balance_due_ms=now_ms + controller.settings.balance_ms)
    elect_due_ms = office.since_ms + controller.settings.elect_wait_ms
    due_ms = [office.balance_due_ms, *([elect_due_ms] if elect_due_ms > now_ms else [])]
    controller = replace(controller, office=office, decided_on=index, look_again_ms=min(due_ms))
    # The rest of what has no room in one multi is found to be due again after it.
    operations = next(change_shards(office.epoch_version, changes), None)
    controller, more = _without_refusal(controller, troubles) if operations is None else _ask(controller, operations)
    return controller, effects + more


def _is_wanted(entry: ShardEntry | None, replicas: tuple[int, ...]) -> bool:
    """Say whether the replicas that a person wants are still to be written."""
    return entry is not None and target_of(entry) != replicas


def _in_sync_since(office: Office, index: ShardIndex, now_ms: int) -> Mapping[int, int]:
    if index is office.index:
        return office.in_sync_since_ms
    return {
        shard: office.in_sync_since_ms.get(shard, now_ms)
        for bucket in index.buckets.values()
        for shard in bucket.astray
    }
