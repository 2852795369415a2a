"""Known mistakes of controllers, and of nodes in what they make of a controller's words and of ZooKeeper's."""

from dataclasses import replace
from typing import Any

from coordinator.core.cluster import observer, registration
from coordinator.core.cluster.office import controller as office
from coordinator.core.cluster.zookeeper import ZkCheck, ZkCreate, ZkMulti
from coordinator.core.cluster_node import isr_writes
from coordinator.core.cluster_node.node import ClusterNode
from coordinator.core.replica.replicas import Replicas

Patches = list[tuple[Any, str, Any]]


def write_of_old_controller() -> Patches:
    """A controller's writes do not check its epoch."""
    rightly = office.change_shards

    def change_shards(epoch_version: int, changes: Any) -> Any:
        multis = rightly(epoch_version, changes)
        return tuple(tuple(each for each in multi if not isinstance(each, ZkCheck)) for multi in multis)

    return [(office, "change_shards", change_shards)]


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


def _obeys(is_void_for: Any) -> Patches:
    """A node obeys commands that `is_void_for` makes look as if they were for it."""
    rightly, of_replicas = ClusterNode._obey, Replicas.obey

    def obey(node: ClusterNode, told_here: Any, answer: Any) -> None:
        assert node.replication is not None
        rightly(node, is_void_for(told_here, node.replication.replicas, node.node_epoch), answer)

    return [(ClusterNode, "_obey", obey), (Replicas, "obey", of_replicas)]


def obeys_old_controller() -> Patches:
    """A node obeys a controller that was replaced."""
    return _obeys(
        lambda told, replicas, life: replace(
            told, controller_epoch=max(told.controller_epoch, replicas.controller_epoch)
        )
    )


def obeys_for_former_life() -> Patches:
    """A node obeys what was meant for a life of it that is over."""
    return _obeys(lambda told, replicas, life: replace(told, node_epoch=life))


def new_disk_in_isr() -> Patches:
    """A node with another disk, or a damaged log, stays in the in-sync sets of what it had."""
    return [(registration, "_leaves", lambda image, identity, is_all: [])]


def drained_slips_in() -> Patches:
    """Who joins an in-sync set is not looked at when that is written."""
    rightly = isr_writes.change_isr
    return [(isr_writes, "change_isr", lambda change, joins: rightly(change, ()))]


def watch_trusted() -> Patches:
    """What is observed is not read again unless a watch says so."""
    return [(observer, "READ_ALL_MS", 10**9)]


def deleted_by_epoch() -> Patches:
    """A node moves aside what a controller does not name, also where it names only what has changed."""
    rightly = Replicas.obey
    return [(Replicas, "obey", lambda replicas, told: rightly(replicas, replace(told, is_init=True)))]


def epochs_reused() -> Patches:
    """A node registers in a ZooKeeper whose controllers are of an earlier time than those that it has obeyed."""
    rightly = registration.contradiction

    def contradiction(image: Any, identity: Any, lived: int | None) -> str:
        return rightly(image, replace(identity, controller_epoch=0), lived)

    return [(registration, "contradiction", contradiction)]
