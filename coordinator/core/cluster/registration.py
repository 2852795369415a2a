"""The way of a node into the cluster: whether it may, what it leaves first, and under which node epoch it lives.

A frozen value; `step` makes the next one and what is to be done. It stops the node, with a sentence that
names both sides, where ZooKeeper and the data directory are not of one cluster or not of one time, or where another
directory lives under the same node id. A node whose disk is new, or older than the cluster has seen, leaves every
in-sync set in the multi that registers it, and one with a damaged shard leaves that shard's: nobody may be elected for
what it has lost. What cannot be read then it leaves as soon as it can; see `leaving`.
"""

import re
from dataclasses import dataclass, replace
from typing import Final, TypeAlias, assert_never

from coordinator.core.cluster import observer as observing
from coordinator.core.cluster.effects import (
    JoinedCluster,
    LifeBegan,
    MayNotJoin,
    RegistrationEffect,
    RememberSeen,
    Stuck,
)
from coordinator.core.cluster.events import (
    Obeyed,
    ObserverEvent,
    ReadAnew,
    RegistrationEvent,
    Remembered,
    Scope,
    StateWanted,
    Ticked,
)
from coordinator.core.cluster.identity import Identity, ZkSeen, contradiction, gone_back, has_lost_all, seen_in
from coordinator.core.cluster.image import Image
from coordinator.core.cluster.leaving import found_lacking, lacked, leaves_of, shards_lost
from coordinator.core.cluster.observer import Observer
from coordinator.core.cluster.transactions import (
    OVERTAKEN,
    REFUSED_WAIT_MS,
    BucketChange,
    Operations,
    change_state,
    form_cluster,
    leave_late,
    register,
)
from coordinator.core.cluster.troubles import part_left, part_removed
from coordinator.core.cluster.znodes import (
    CLUSTER,
    CONTROLLER_EPOCH,
    SHARDS,
    LiveNode,
    NodeState,
    known_path,
    live_path,
)
from coordinator.core.cluster.zookeeper import (
    ZkApplied,
    ZkChanged,
    ZkCreate,
    ZkMulti,
    ZkMultiDone,
    ZkReadDone,
    ZkRefusal,
    ZkRefused,
    ZkSession,
    ZkState,
)

MARGIN_MS: Final = 3_000
"""The time by which a session may outlast its time-out, counted from here: servers see its end in ticks."""
REMEMBER_EVERY_MS: Final = 1_000
"""The least time between two writes of what was seen: while nodes go, buckets change one after the other."""


@dataclass(frozen=True, slots=True)
class Registration:
    """A node's way into the cluster, once a session. `rest` are multis to be done after the one under way.

    `has_lost_all` is what the first look at ZooKeeper said of the directory, before this start has written anything
    there. It counts until the first life began: what is in in-sync sets after that has come there properly.
    """

    identity: Identity
    session_timeout_ms: int
    observer: Observer
    owner: int = 0
    asked: ZkMulti | None = None
    rest: tuple[Operations, ...] = ()
    request_id: int = 0
    is_remembering: bool = False
    other_since_ms: int | None = None
    """Since when another life under this node id has been seen."""
    node_epoch: int | None = None
    has_lost_all: bool | None = None
    lived: int | None = None
    """The latest node epoch under which this process has lived."""
    doubt: str = ""
    """Why the node may not join, as it was read once: it is read again before that ends the node."""
    stuck: tuple[str, ...] = ()
    """The sentences that were said last about what keeps this node from registering."""
    write_after_ms: int = 0
    remembered: ZkSeen | None = None
    """The versions that this process has had its directory remember last; newer ones are in `identity`."""
    remember_after_ms: int = 0
    is_first_look: bool = True
    """True from a change of the connection until ZooKeeper was found to be of this node's time."""
    is_over: bool = False
    state: NodeState = NodeState.READY
    """The state that `/nodes/live/N` is to say; this node writes it until it is there."""
    is_stopping: bool = False
    """True from when this process is told to end: nothing fills the node again before it has started again."""


Result: TypeAlias = tuple[Registration, tuple[RegistrationEffect, ...]]


def begin(identity: Identity, session_timeout_ms: int) -> Registration:
    """Return the registration of a node that has just started."""
    nodes = (CLUSTER, CONTROLLER_EPOCH, known_path(identity.node_id), live_path(identity.node_id))
    image = Image(log_epochs={shard: log.leader_epoch for shard, log in identity.log_ends.items()})
    return Registration(identity, session_timeout_ms, Observer(Scope(nodes, (SHARDS,)), image))


def step(registration: Registration, event: RegistrationEvent, now_ms: int) -> Result:
    """Take one event."""
    effects: tuple[RegistrationEffect, ...] = ()
    match event:
        case ZkSession(_, state, owner):
            # Where ZooKeeper did not run, the session of another life goes on for its whole time-out from when it does.
            registration = replace(registration, is_first_look=True, other_since_ms=None)
            if state is ZkState.LOST:
                registration = replace(registration, node_epoch=None, owner=0, asked=None, rest=())
            elif state is ZkState.CONNECTED:
                registration = replace(registration, owner=owner)
            registration, effects = _observe(registration, event, now_ms)
        case ZkChanged() | ZkReadDone() | Ticked():
            registration, effects = _observe(registration, event, now_ms)
        case ZkMultiDone():
            registration, effects = _take_outcome(registration, event, now_ms)
        case Remembered():
            identity = registration.identity
            cluster = registration.observer.image.cluster
            if registration.is_remembering and cluster is not None:
                identity = replace(identity, cluster_id=cluster.value.cluster_id, shards=cluster.value.shards)
            registration = replace(registration, identity=identity, is_remembering=False)
        case Obeyed(controller_epoch):
            identity = replace(registration.identity, controller_epoch=controller_epoch)
            registration = replace(registration, identity=identity)
        case StateWanted() if registration.is_stopping:
            pass
        case StateWanted(state, is_last):
            registration = replace(registration, state=state, is_stopping=is_last)
        case _:
            assert_never(event)
    registration, more = _go_on(registration, now_ms)
    return registration, effects + more


def is_of_our_time(registration: Registration) -> bool:
    """Say whether all that was read since ZooKeeper was connected is as new as this node has seen it: who may act."""
    observer = registration.observer
    is_read = observer.is_connected and observer.is_whole and not registration.is_over
    return is_read and not _gone_back(registration)


def _gone_back(registration: Registration) -> str:
    image, identity = registration.observer.image, registration.identity
    return gone_back(image, identity, is_first_look=registration.is_first_look)


def waits_for(registration: Registration) -> str:
    """Say what a node that is not registered waits for, for people; empty if it is registered."""
    observer = registration.observer
    if registration.node_epoch is not None:
        return ""
    if not observer.is_connected:
        return "no server of ZooKeeper answers"
    if not observer.is_whole:
        why = f": {observer.why_unread}" if observer.why_unread else ""
        return f"ZooKeeper has not answered all that was asked{why}"
    if registration.other_since_ms is not None:
        return (
            f"another directory is registered as node {registration.identity.node_id}, and this node stops if that "
            "does not end"
        )
    return "; ".join(registration.stuck) or "its registration is being written"


def _observe(registration: Registration, event: ObserverEvent, now_ms: int) -> Result:
    observer, reads = observing.step(registration.observer, event, now_ms)
    return registration if observer is registration.observer else replace(registration, observer=observer), reads


def _ask(registration: Registration, operations: Operations, rest: tuple[Operations, ...] = ()) -> Result:
    multi = ZkMulti(registration.observer.session, registration.request_id + 1, operations)
    return replace(registration, asked=multi, request_id=multi.request_id, rest=rest), (multi,)


def _take_outcome(registration: Registration, done: ZkMultiDone, now_ms: int) -> Result:
    asked = registration.asked
    if asked is None or (done.session, done.request_id) != (asked.session, asked.request_id):
        return registration, ()
    rest = registration.rest
    registration = replace(registration, asked=None, rest=())
    if isinstance(done.outcome, ZkApplied) and rest:
        return _ask(registration, rest[0], rest[1:])
    effects: tuple[RegistrationEffect, ...] = ()
    if isinstance(done.outcome, ZkRefused):
        operation, refusal = asked.operations[done.outcome.index], done.outcome.refusal
        has_no_folder = refusal is ZkRefusal.NO_NODE and isinstance(operation, ZkCreate)
        if has_no_folder and registration.observer.image.cluster is not None:
            # Folders are made with the cluster and never deleted.
            return _end(registration, part_removed(operation.path.rpartition("/")[0]))
        # Of two that make a cluster at once the later one is refused for `/cluster`, which comes first.
        is_left = refusal is ZkRefusal.NODE_EXISTS and asked.operations[0].path == CLUSTER != operation.path
        if has_no_folder or is_left or refusal not in OVERTAKEN:
            why = part_left(operation.path) if is_left else done.outcome.why
            registration, effects = _say(registration, (why,))
            registration = replace(registration, write_after_ms=now_ms + REFUSED_WAIT_MS)
    elif isinstance(done.outcome, ZkApplied):
        registration, effects = _say(registration, ())
    # Whatever came of it is read: also that this node is registered, by a write whose outcome was lost.
    registration, reads = _observe(registration, ReadAnew(), now_ms)
    return registration, effects + reads


def _say(registration: Registration, whys: tuple[str, ...]) -> Result:
    return (registration, ()) if whys == registration.stuck else (replace(registration, stuck=whys), (Stuck(whys),))


def _go_on(registration: Registration, now_ms: int) -> Result:
    observer = registration.observer
    is_certain = observer.is_connected and observer.is_whole and observer.asked is None
    is_busy = registration.asked is not None or registration.is_remembering or now_ms < registration.write_after_ms
    if not is_certain or is_busy or registration.is_over:
        return registration, ()
    image, identity = observer.image, registration.identity
    if registration.node_epoch is not None:
        why = _gone_back(registration)
        if not why and _is_registered(registration):
            certain = replace(registration, doubt="") if registration.doubt else registration
            return _go_on_living(certain, registration.node_epoch, now_ms)
        why = why or _why_replaced(registration)
    else:
        why = contradiction(image, identity, registration.lived)
        if registration.lived is not None and CLUSTER in image.unreadable:
            return _say(registration, (why,))  # it serves on as one that is registered does, until that is put right
    if why and _without_numbers(why) != _without_numbers(registration.doubt):
        # One read is of several moments, between which another process may have registered.
        return _observe(replace(registration, doubt=why), ReadAnew(), now_ms)
    if why:
        return _end(registration, why)
    doubt, registration = registration.doubt, replace(registration, doubt="", node_epoch=None)
    if image.cluster is None:
        return _ask(registration, form_cluster(identity.forms))
    cluster = image.cluster.value
    if image.made is None:
        image = replace(image, made=cluster)
        registration = replace(registration, observer=replace(observer, image=image))
    if not identity.cluster_id:
        return replace(registration, is_remembering=True), (JoinedCluster(cluster.cluster_id, cluster.shards),)
    live = image.live.get(identity.node_id)
    known = image.known.get(identity.node_id)
    if live is not None and known is not None and live.owner == registration.owner:
        # `known` was read before it, and a write whose outcome was lost may have come between: it counts one life less.
        node_epoch = live.value.node_epoch
        registration = replace(registration, node_epoch=node_epoch, lived=node_epoch, other_since_ms=None)
        registration, remember = _see(registration, node_epoch, now_ms)
        return registration, (*remember, LifeBegan(node_epoch))
    if live is not None and not _is_former_life(live.value, identity):
        return _wait_for_the_other(registration, live.value, doubt, now_ms)
    if registration.has_lost_all is None:
        registration = replace(registration, has_lost_all=has_lost_all(image, identity))
    lost = shards_lost(image, identity, is_all=bool(registration.has_lost_all))
    leaves: list[BucketChange] = []
    lacks = left = identity.lacks
    if registration.lived is None:
        leaves, lacks = leaves_of(image, identity.node_id, lost), lacked(image, identity, lost)
        left = lacks if known is None else lacks | lost  # a node that was never there is in no in-sync set
    mine = LiveNode(
        node_epoch=0,  # which `register` sets
        directory_id=identity.directory_id,
        addresses=dict(identity.addresses),
        rack=identity.rack,
        release=identity.release,
        state=registration.state,
        log_ends=dict(identity.log_ends),
        place=identity.place,
        lacks=tuple(sorted(lacks)),
        session_timeout_ms=registration.session_timeout_ms,
    )
    multis = register(
        identity.node_id,
        known,
        mine,
        starts=identity.starts,
        former_live=None if live is None else live.version,
        leaves=leaves,
    )
    node_epoch = 0 if known is None else known.version + 1
    registration, remember = _remember_before(registration, node_epoch, left)
    registration, asked = _ask(registration, multis[0], multis[1:])
    return registration, remember + asked


def _remember_before(registration: Registration, node_epoch: int, lacks: frozenset[int]) -> Result:
    """Have the directory know before it is registered under which epoch, and what is not left yet, in one write.

    If this process ends between that and the registration, the next start has a directory that is as new as ZooKeeper
    by its epoch, and knows of what it lacks by this alone.
    """
    identity = registration.identity
    if lacks <= identity.lacks and identity.intended_epoch == node_epoch:
        return registration, ()
    identity = replace(identity, lacks=identity.lacks | lacks, intended_epoch=node_epoch)
    remember = RememberSeen(identity.seen.node_epoch, identity.seen.buckets, identity.lacks, node_epoch)
    return replace(registration, identity=identity), (remember,)


def _go_on_living(registration: Registration, node_epoch: int, now_ms: int) -> Result:
    registration, remember = _see(registration, node_epoch, now_ms)
    registration, asked = _say_state(registration)
    if not asked:  # what was refused is wanted no more
        registration, asked = _say(registration, ())
    return registration, remember + asked


def _see(registration: Registration, node_epoch: int, now_ms: int) -> Result:
    """Take in how far ZooKeeper is, and have it remembered: at once when a life begins, else not too often."""
    seen = seen_in(registration.observer.image, node_epoch, registration.identity.seen)
    live = registration.observer.image.live.get(registration.identity.node_id)
    lacks = registration.identity.lacks if live is None else frozenset(live.value.lacks)
    has_left = lacks != registration.identity.lacks
    if has_left or seen != registration.identity.seen or registration.is_first_look:
        identity = replace(registration.identity, seen=seen, lacks=lacks)
        registration = replace(registration, identity=identity, is_first_look=False)
    former = registration.remembered
    is_new_life = former is None or former.node_epoch != node_epoch
    if not has_left and (seen == former or (now_ms < registration.remember_after_ms and not is_new_life)):
        return registration, ()
    registration = replace(registration, remembered=seen, remember_after_ms=now_ms + REMEMBER_EVERY_MS)
    intended_epoch = registration.identity.intended_epoch
    return registration, (RememberSeen(node_epoch, seen.buckets, lacks, intended_epoch),)


def _say_state(registration: Registration) -> Result:
    """Have ZooKeeper say of this node what is so; not where its lives are not counted any more."""
    image, node_id = registration.observer.image, registration.identity.node_id
    live, known = image.live.get(node_id), image.known.get(node_id)
    if live is None or live.owner != registration.owner or known is None or known.version != live.value.node_epoch:
        return registration, ()
    if live.value.state is not registration.state:
        return _ask(registration, change_state(node_id, live, registration.state))
    found = found_lacking(image, node_id, live.value)
    return (registration, ()) if found is None else _ask(registration, leave_late(node_id, live, *found))


def _is_registered(registration: Registration) -> bool:
    """Say whether this life is still in ZooKeeper, or that cannot be told since a part of the data is not as it was."""
    image, node_id = registration.observer.image, registration.identity.node_id
    live = image.live.get(node_id)
    if live is None:
        is_told = live_path(node_id) not in image.unreadable and known_path(node_id) not in image.unreadable
        return not is_told or contradiction(image, registration.identity, registration.lived) != ""
    return live.owner in (registration.owner, 0)


def _is_former_life(live: LiveNode, identity: Identity) -> bool:
    """Say whether a registration is surely of a process that has ended: it ran where this one has the lock now."""
    is_same_place = live.place == identity.place or not (live.place and identity.place)
    return live.directory_id == identity.directory_id and is_same_place


def _without_numbers(why: str) -> str:
    """Return a reason as it stays while others write there: versions and epochs grow, and buckets take turns."""
    return re.sub(r"[0-9]+", "", why)


def _why_replaced(registration: Registration) -> str:
    """Say who has registered in the place of this process, whose session goes on; empty if nobody has."""
    identity = registration.identity
    other = registration.observer.image.live.get(identity.node_id)
    if other is None:
        return ""
    at = ", ".join(f"{name} {address}" for name, address in sorted(other.value.addresses.items()))
    return (
        f"another process has registered as node {identity.node_id} ({at or 'no address'}), with directory "
        f"{other.value.directory_id}, while this one has {identity.directory_id}: one of them runs on a copy, and is "
        "to be stopped"
    )


def _wait_for_the_other(registration: Registration, other: LiveNode, doubt: str, now_ms: int) -> Result:
    """Another directory, or a copy, lives under this node id: it may be dead and not yet expired, or a mistake.

    It is read once more before it ends this node: word of its end may not have come. Time counts from the last change
    of the connection.
    """
    since_ms = now_ms if registration.other_since_ms is None else registration.other_since_ms
    if now_ms < since_ms + max(registration.session_timeout_ms, other.session_timeout_ms) + MARGIN_MS:
        return replace(registration, other_since_ms=since_ms), ()
    at = ", ".join(f"{name} {address}" for name, address in sorted(other.addresses.items()))
    node_id = registration.identity.node_id
    if other.directory_id == registration.identity.directory_id:
        why = (
            f"node {node_id} runs ({at or 'no address'}), with directory {other.directory_id}, and so has this process "
            "in another place: this is a copy, or that is. Leave alone which of them was there first, and never start "
            "the other one; a new node gets an id of its own and an empty directory"
        )
    else:
        why = (
            f"node id {node_id} is in use by the node with directory {other.directory_id} ({at or 'no address'}): give "
            "each node an id of its own. If that one is gone for good, its session with ZooKeeper lasts longer than "
            "this node waits for: start again in a moment"
        )
    if why != doubt:
        return _observe(replace(registration, doubt=why), ReadAnew(), now_ms)
    return _end(registration, why)


def _end(registration: Registration, why: str) -> Result:
    return replace(registration, is_over=True), (MayNotJoin(why),)
