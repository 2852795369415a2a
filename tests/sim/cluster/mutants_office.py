"""Known mistakes of controllers, and of nodes in what they make of a controller's words and of ZooKeeper's."""

from dataclasses import replace
from typing import Any

from msgspec import structs

from coordinator.core.cluster import identity as cluster_identity
from coordinator.core.cluster import registration
from coordinator.core.cluster.identity import ZkSeen
from coordinator.core.cluster.image import Image
from coordinator.core.cluster.office import controller as office
from coordinator.core.cluster.znodes import Cluster
from coordinator.core.cluster.zookeeper import ZkCreate, ZkMulti, ZkSession, ZkState
from coordinator.core.cluster_node.rooms import Rooms
from coordinator.core.replica.replicas import Replicas

Patches = list[tuple[Any, str, Any]]


def told_before_published() -> Patches:
    """A controller takes its write for done when it is asked for."""
    rightly = office._ask

    def ask(controller: office.Controller, operations: Any) -> office.Result:
        controller, effects = rightly(controller, operations)
        multi = controller.asked
        assert isinstance(multi, ZkMulti)
        if controller.office is None:
            return controller, effects
        versions = tuple(0 if isinstance(each, ZkCreate) else getattr(each, "version", -1) + 1 for each in operations)
        taken, more = office._take_in(controller, multi, versions, 0)
        return taken, effects + more

    return [(office, "_ask", ask)]


def new_disk_in_isr() -> Patches:
    """A node with another disk, or a damaged log, stays in the in-sync sets of what it had."""
    return [(registration, "leaves_of", lambda image, node_id, lost: [])]


def failed_starts_count() -> Patches:
    """A directory that was started more often than ZooKeeper has seen is the newest one."""
    rightly = registration.has_lost_all
    return [(registration, "has_lost_all", lambda image, own: rightly(image, replace(own, intended_epoch=None)))]


def nothing_is_remembered() -> Patches:
    """A directory that remembers nothing is the one that ZooKeeper knows."""
    rightly = registration.has_lost_all
    return [(registration, "has_lost_all", lambda image, own: rightly(image, replace(own, has_memory=True)))]


def deleted_by_epoch() -> Patches:
    """A node moves aside what a controller does not name, also where it names only what has changed."""
    rightly = Replicas.obey
    return [(Replicas, "obey", lambda replicas, told: rightly(replicas, structs.replace(told, is_init=True)))]


def garbage_is_nothing() -> Patches:
    """A controller takes shards of which it cannot read anything for such as are not there any more."""
    return [(Image, "unreadable_shards", lambda image: frozenset())]


def tells_without_cluster() -> Patches:
    """A controller that cannot read which shards there are tells nodes of those that it knows, which are none."""
    rightly = office._tell

    def tell(controller: office.Controller, now_ms: int) -> office.Result:
        observer = controller.observer
        image = replace(observer.image, cluster=observer.image.cluster or object())
        told, effects = rightly(replace(controller, observer=replace(observer, image=image)), now_ms)
        return replace(told, observer=observer), effects

    return [(office, "_tell", tell)]


def breaks_with_zookeeper() -> Patches:
    """A node takes a connection that broke for a session that is over."""
    rightly = registration.step

    def step(here: Any, event: Any, now_ms: int) -> Any:
        if isinstance(event, ZkSession) and event.state is ZkState.SUSPENDED:
            event = replace(event, state=ZkState.LOST)
        return rightly(here, event, now_ms)

    return [(registration, "step", step)]


def epochs_reused() -> Patches:
    """A node registers in a ZooKeeper whose controllers are of an earlier time than those that it has obeyed."""
    rightly = registration.contradiction

    def contradiction(image: Any, identity: Any, lived: int | None) -> str:
        return rightly(image, replace(identity, controller_epoch=0, seen=ZkSeen()), lived)

    return [(registration, "contradiction", contradiction)]


def joins_by_any_number() -> Patches:
    """A node that starts obeys whatever number of shards and buckets there is."""
    rightly = registration.contradiction

    def contradiction(image: Any, identity: Any, lived: int | None) -> str:
        return rightly(image, replace(identity, shards=0), lived)

    nowhere_wrong = (cluster_identity, "why_out_of_place", lambda image, *, is_new: "")
    return [(registration, "contradiction", contradiction), nowhere_wrong]


def believes_any_number() -> Patches:
    """A node that runs obeys another number of shards or buckets than it has joined by."""
    return [(Cluster, "why_not_as_made", lambda cluster, made: "")]


def takes_office_by_any_number() -> Patches:
    """A node that runs becomes controller by whatever number of shards and buckets there is by then."""
    rightly = office.having_seen
    return [(office, "having_seen", lambda controller, seen: rightly(controller, replace(seen, made=None)))]


def older_buckets() -> Patches:
    """A node does not compare what ZooKeeper has with what it has seen there."""

    def gone_back(image: Any, identity: Any, *, is_first_look: bool = True) -> str:
        return ""

    return [(registration, "gone_back", gone_back), (cluster_identity, "gone_back", gone_back)]


def forgets_what_it_has_seen() -> Patches:
    """A node that is started again does not know what it has seen in ZooKeeper."""
    rightly = registration.begin

    def begin(identity: Any, session_timeout_ms: int) -> registration.Registration:
        return rightly(replace(identity, seen=ZkSeen()), session_timeout_ms)

    return [(registration, "begin", begin)]


def acts_before_it_has_looked() -> Patches:
    """A controller and leaders go on as soon as ZooKeeper is connected, whatever that has become."""
    rightly = Rooms.zookeeper

    def zookeeper(rooms: Rooms, event: Any, now_ms: int) -> Any:
        effects = rightly(rooms, event, now_ms)
        connected, rooms._connected = rooms._connected, None
        return effects if connected is None else [*effects, *rooms._tell_others(connected, now_ms)]

    return [(Rooms, "zookeeper", zookeeper)]


def state_of_a_former_life() -> Patches:
    """A node that is to be drained, or filled again, says so whatever life it is in by then."""
    rightly = registration.change_state
    return [(registration, "change_state", lambda node_id, live, state: rightly(node_id, live, state)[:1])]


def knows_no_leader_epochs() -> Patches:
    """A node that takes the office takes what it reads of the shards for the newest there has been."""
    return [(office, "having_seen", lambda controller, seen: controller)]


def copy_takes_the_place() -> Patches:
    """A node takes whatever has its directory's id for a life of its own that is over."""
    return [(registration, "_is_former_life", lambda live, identity: live.directory_id == identity.directory_id)]
