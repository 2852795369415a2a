"""Everything that is ever written in ZooKeeper, as multis: the only writers of the layout, each with what it expects.

A refusal means that the writer knew something that is not true any more: it reads again and decides anew. What has no
room in one multi is cut where the parts mean something by themselves: each part of a controller's change checks its
epoch, and a node that leaves many in-sync sets has left them before it registers.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import msgspec.structs

from coordinator.core.cluster.znodes import (
    CLUSTER,
    CONTROLLER_ACTIVE,
    CONTROLLER_EPOCH,
    FOLDERS,
    ActiveController,
    Bucket,
    Cluster,
    ControllerEpoch,
    KnownNode,
    LiveNode,
    NodeState,
    Versioned,
    bucket_path,
    encode,
    encode_bucket,
    known_path,
    live_path,
)
from coordinator.core.cluster.zookeeper import (
    MOST_BYTES,
    MOST_OPERATIONS,
    ZkCheck,
    ZkCreate,
    ZkDelete,
    ZkOperation,
    ZkRefusal,
    ZkSet,
    size_of,
)

OVERTAKEN: Final = frozenset({ZkRefusal.BAD_VERSION, ZkRefusal.NODE_EXISTS, ZkRefusal.NO_NODE})
"""Refusals that reading again explains: somebody else has written meanwhile."""
REFUSED_WAIT_MS: Final = 1_000
"""The time without writes after a refusal that reading again does not explain, such as of an access list."""

Operations = tuple[ZkOperation, ...]


@dataclass(frozen=True, slots=True)
class BucketChange:
    """A bucket as it is to be, over the version that was read; None makes one that does not exist."""

    bucket: int
    value: Bucket
    version: int | None

    def operation(self) -> ZkOperation:
        """Return the write."""
        path, data = bucket_path(self.bucket), encode_bucket(self.value)
        return ZkCreate(path, data) if self.version is None else ZkSet(path, data, self.version)


def form_cluster(cluster: Cluster) -> Operations:
    """Make a cluster where there is none; refused with NODE_EXISTS for `/cluster` if somebody was first."""
    return (
        ZkCreate(CLUSTER, encode(cluster)),
        *(ZkCreate(path, b"") for path in FOLDERS),
        ZkCreate(CONTROLLER_EPOCH, encode(ControllerEpoch(epoch=0))),
    )


def register(
    node_id: int,
    known: Versioned[KnownNode] | None,
    live: LiveNode,
    *,
    starts: int,
    former_live: int | None = None,
    leaves: Iterable[BucketChange] = (),
) -> tuple[Operations, ...]:
    """T1: begin a life of a node, under the next node epoch, which `live` gets from here.

    `former_live` is the version of the `live` of a former life, to be deleted: the caller has made sure that it was one
    of this very directory. `leaves` are the buckets in which the node leaves in-sync sets. They are written in the same
    multi as far as it has room, and before it as for the rest: a node that is not registered cannot be taken in again,
    so it may leave early and never late. Only when one multi is known to be done may the next be begun.
    """
    node_epoch = 0 if known is None else known.version + 1
    unknown = {} if known is None else known.value.unknown
    data = encode(KnownNode(directory_id=live.directory_id, starts=starts, unknown=unknown))
    path = known_path(node_id)
    registers: list[ZkOperation] = [ZkCreate(path, data) if known is None else ZkSet(path, data, known.version)]
    if former_live is not None:
        registers.append(ZkDelete(live_path(node_id), former_live))
    registers.append(
        ZkCreate(live_path(node_id), encode(msgspec.structs.replace(live, node_epoch=node_epoch)), is_ephemeral=True)
    )
    writes = [change.operation() for change in leaves]
    last = _taken(writes, registers)
    return (*_cut(writes[last:]), (*registers, *writes[:last]))


def change_state(node_id: int, live: Versioned[LiveNode], state: NodeState) -> Operations:
    """Have a node that runs be ready or draining from now on; the new version of `live` is what T4 checks.

    The versions of `live` begin anew with each life, so the life is checked as well: what a process has asked for may
    arrive after it was killed and the next one has registered.
    """
    value = msgspec.structs.replace(live.value, state=state)
    return ZkSet(live_path(node_id), encode(value), live.version), ZkCheck(known_path(node_id), value.node_epoch)


def leave_late(
    node_id: int, live: Versioned[LiveNode], change: BucketChange | None, lacks: Iterable[int]
) -> Operations:
    """Have a node leave the in-sync sets of a bucket that could not be read when it registered; it `lacks` less then.

    Without a change it is in none of them any more. The life is checked as in `change_state`.
    """
    value = msgspec.structs.replace(live.value, lacks=tuple(sorted(lacks)))
    writes = () if change is None else (change.operation(),)
    return (
        *writes,
        ZkSet(live_path(node_id), encode(value), live.version),
        ZkCheck(known_path(node_id), value.node_epoch),
    )


def become_controller(
    epoch: Versioned[ControllerEpoch], node_id: int, node_epoch: int, *, former_active: int | None = None
) -> Operations:
    """T2: take the next controller epoch; its version after this, one above, is what T3 checks.

    `former_active` is the version of another's `active`, to be deleted because connections to its node are refused. The
    version of `epoch` makes sure that it is still that other's.
    """
    taken = ControllerEpoch(epoch=epoch.value.epoch + 1, node_id=node_id, unknown=epoch.value.unknown)
    active = ActiveController(node_id=node_id, node_epoch=node_epoch, controller_epoch=taken.epoch)
    return (
        ZkSet(CONTROLLER_EPOCH, encode(taken), epoch.version),
        *(() if former_active is None else (ZkDelete(CONTROLLER_ACTIVE, former_active),)),
        ZkCreate(CONTROLLER_ACTIVE, encode(active), is_ephemeral=True),
    )


def leave_office(epoch_version: int, active_version: int) -> Operations:
    """Have a controller leave the office while its session goes on, so that others can stand at once."""
    return ZkCheck(CONTROLLER_EPOCH, epoch_version), ZkDelete(CONTROLLER_ACTIVE, active_version)


def change_shards(epoch_version: int, changes: Iterable[BucketChange]) -> Iterator[Operations]:
    """T3: the controller's changes. Each multi checks that its epoch is the latest; one at a time may be in flight.

    No more changes are taken than the multis that are taken have room for, and one.
    """
    check = ZkCheck(CONTROLLER_EPOCH, epoch_version)
    return ((check, *writes) for writes in _cut((change.operation() for change in changes), (check,)))


@dataclass(frozen=True, slots=True)
class Joining:
    """A follower as its fetch has shown it, and the version of its `live` that said it was ready."""

    node_id: int
    node_epoch: int
    live_version: int


def change_isr(change: BucketChange, joins: Sequence[Joining] = ()) -> Operations:
    """T4: a leader's change of its in-sync set. Who joins must be the same node, and ready, when it is written.

    The bucket comes first, so that a refusal for a registration says that the bucket had the expected version.
    """
    checks: list[ZkOperation] = []
    for follower in joins:
        checks.append(ZkCheck(known_path(follower.node_id), follower.node_epoch))
        checks.append(ZkCheck(live_path(follower.node_id), follower.live_version))
    return (change.operation(), *checks)


def _taken(operations: Sequence[ZkOperation], besides: Iterable[ZkOperation]) -> int:
    """Return how many of the operations, from the first on, have room in one multi besides others."""
    others = list(besides)
    count, size = len(others), sum(size_of(operation) for operation in others)
    for taken, operation in enumerate(operations):
        count, size = count + 1, size + size_of(operation)
        if count > MOST_OPERATIONS or size > MOST_BYTES:
            return taken
    return len(operations)


def _cut(operations: Iterable[ZkOperation], besides: Sequence[ZkOperation] = ()) -> Iterator[Operations]:
    """Cut operations into multis that have room for others, too. One that has no room by itself is a bug of ours."""
    least = sum(size_of(operation) for operation in besides)
    part: list[ZkOperation] = []
    size = least
    for operation in operations:
        added = size_of(operation)
        if part and (len(besides) + len(part) == MOST_OPERATIONS or size + added > MOST_BYTES):
            yield tuple(part)
            part, size = [], least
        if size + added > MOST_BYTES:
            raise ValueError(f"{operation.path} has no room in a multi: it has {added} of {MOST_BYTES} bytes")
        part.append(operation)
        size += added
    if part:
        yield tuple(part)
