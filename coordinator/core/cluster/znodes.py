"""The layout in ZooKeeper: every node's path, and its value as a frozen struct that is JSON there.

Who writes what, and which version it expects, is in `transactions`. Fields that this release does not know are kept and
written back, so that an older node takes nothing away from what a newer one has said. A value that cannot be read
speaks for itself alone: it becomes `Unreadable` with the reason, and of a bucket only the shard whose entry it is.
"""

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Annotated, Any, Final, Generic, TypeVar

import msgspec

from coordinator.core.cluster.zookeeper import ZkNode

FORMAT: Final = 1
MOST_BUCKETS: Final = 64
"""Few enough to be written together, many enough that leaders seldom meet in one."""

CLUSTER: Final = "/cluster"
CONTROLLER_EPOCH: Final = "/controller/epoch"
CONTROLLER_ACTIVE: Final = "/controller/active"
NODES_KNOWN: Final = "/nodes/known"
NODES_LIVE: Final = "/nodes/live"
SHARDS: Final = "/shards"
FOLDERS: Final = ("/controller", "/nodes", NODES_KNOWN, NODES_LIVE, SHARDS)
"""Nodes that hold others and say nothing themselves."""

_Count = Annotated[int, msgspec.Meta(ge=0, le=2**62)]
_MOST_NUMBER: Final = 2**31 - 1
_NodeId = Annotated[int, msgspec.Meta(ge=0, le=_MOST_NUMBER)]
MOST_LEADER_EPOCH: Final = 2**32 - 1
"""The greatest that a frame of a log and a message have room for."""
_LeaderEpoch = Annotated[int, msgspec.Meta(ge=0, le=MOST_LEADER_EPOCH)]
_Text = Annotated[str, msgspec.Meta(max_length=4_096)]

Unknown = Mapping[str, Any]


class _Value(msgspec.Struct, frozen=True, kw_only=True):
    """The part that every value has: the fields of it that this release does not know."""

    unknown: Unknown = {}

    def problem(self) -> str:
        """Say what is wrong with values that fit their types; empty if nothing is."""
        return ""


class Cluster(_Value, frozen=True, kw_only=True):
    """`/cluster`: what all nodes agree on. The first node makes it; shards and buckets never change."""

    cluster_id: _Text
    shards: Annotated[int, msgspec.Meta(ge=1, le=100_000)]
    buckets: Annotated[int, msgspec.Meta(ge=1, le=100_000)]
    replication_factor: Annotated[int, msgspec.Meta(ge=1, le=32)]
    min_insync_replicas: Annotated[int, msgspec.Meta(ge=1, le=32)]
    format: _Count = FORMAT

    def problem(self) -> str:
        """Say what is wrong with values that fit their types."""
        if self.format != FORMAT:
            return f"its format is {self.format} and this release reads {FORMAT}: run the release that wrote it"
        if self.min_insync_replicas > self.replication_factor:
            return f"min_insync_replicas {self.min_insync_replicas} is above replication_factor"
        return ""

    def why_not_as_made(self, made: "Cluster") -> str:
        """Say which number here is not the one that the cluster was made with; empty if each is.

        Buckets beyond the shards hold nothing, so how many of these there are makes no difference.
        """
        if self.shards != made.shards:
            return f"it says {self.shards} shards, and the cluster was made with {made.shards}, which never changes"
        if min(self.buckets, self.shards) != min(made.buckets, made.shards):
            return f"it says {self.buckets} buckets, and the cluster was made with {made.buckets}, which never changes"
        return ""


class ControllerEpoch(_Value, frozen=True, kw_only=True):
    """`/controller/epoch`: counts controllers. A candidate sets it; its version is what every later write checks."""

    epoch: _Count
    node_id: _NodeId | None = None


class ActiveController(_Value, frozen=True, kw_only=True):
    """`/controller/active`, ephemeral: who the controller is. All nodes watch it."""

    node_id: _NodeId
    node_epoch: _Count
    controller_epoch: _Count


class KnownNode(_Value, frozen=True, kw_only=True):
    """`/nodes/known/N`: a node that was ever there. Its version is the node epoch, which grows with each registration.

    `starts` counts the starts over the directory: a directory with fewer is an older copy.
    """

    directory_id: _Text
    starts: _Count


class NodeState(enum.Enum):
    """The states of a node: it may be given leaderships (READY) or is being emptied (DRAINING)."""

    READY = "ready"
    DRAINING = "draining"


class LogEnd(msgspec.Struct, frozen=True, kw_only=True, order=True):
    """The end of a shard's log when its node started: the epoch of its last record, then its end."""

    leader_epoch: _Count
    end: _Count


class LiveNode(_Value, frozen=True, kw_only=True):
    """`/nodes/live/N`, ephemeral: a node that runs. The node makes and changes it; the controller watches it.

    `lacks` are shards in whose in-sync sets the node may be, and whose records it does not have: it leaves these as
    soon as their entries can be read, and is elected for none of them before.
    """

    node_epoch: _Count
    directory_id: _Text
    addresses: Annotated[dict[_Text, _Text], msgspec.Meta(max_length=100)]
    rack: _Text
    release: _Text
    state: NodeState = NodeState.READY
    log_ends: dict[int, LogEnd] = {}
    place: _Text = ""
    """The place of the directory, of which one process at most can be; empty from a release that does not say it."""
    lacks: tuple[int, ...] = ()
    session_timeout_ms: _Count = 0
    """The session time-out that it asks ZooKeeper for; 0 from a release that does not say it."""


class ShardEntry(_Value, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One shard in its bucket: its leader, the epoch it leads in, and its replicas, the preferred leader first.

    `leader_node_epoch` is the life of the leader's node in which it was elected: a node that was started again does not
    lead what its former life led. `adding` and `removing` are a reassignment under way. `changed_by` says who wrote it
    last, for people. `unclean_epoch` is the leader epoch of the last unclean election, 0 if there was none: what other
    replicas have from before counts for nothing.
    """

    leader: _NodeId | None
    leader_node_epoch: _Count | None = None
    leader_epoch: _LeaderEpoch
    isr: tuple[_NodeId, ...]
    replicas: tuple[_NodeId, ...]
    adding: tuple[_NodeId, ...] = ()
    removing: tuple[_NodeId, ...] = ()
    changed_by: _Text = ""
    unclean_epoch: _LeaderEpoch = 0

    def problem(self) -> str:
        """Say what is wrong with values that fit their types."""
        replicas = set(self.replicas)
        for name in ("isr", "replicas", "adding", "removing"):
            nodes = getattr(self, name)
            if len(set(nodes)) != len(nodes):
                return f"{name} names a node twice"
            if not set(nodes) <= replicas:
                return f"{name} names a node that is no replica"
        if not replicas:
            return "it has no replica"
        if self.leader is not None and self.leader not in self.isr:
            return f"its leader {self.leader} is not in its ISR"
        if (self.leader is None) != (self.leader_node_epoch is None):
            return "it names a leader without a node epoch, or a node epoch without a leader"
        if self.unclean_epoch > self.leader_epoch:
            return f"it names an unclean election of epoch {self.unclean_epoch}, which is to come"
        return ""


class Bucket(msgspec.Struct, frozen=True, kw_only=True):
    """`/shards/B`: the shards whose number modulo the buckets is B. Controller, leaders and leaving nodes write it.

    `unread` are entries that cannot be read, as they are, with the reason in `why_unread`: nobody may change them.
    """

    shards: dict[int, ShardEntry]
    unread: Mapping[str, Any] = {}
    why_unread: Mapping[str, str] = {}
    unknown: Unknown = {}


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A value that does not say what it should, and why."""

    path: str
    why: str


ValueT = TypeVar("ValueT", Cluster, ControllerEpoch, ActiveController, KnownNode, LiveNode, ShardEntry)
AnyT = TypeVar("AnyT")


@dataclass(frozen=True, slots=True)
class Versioned(Generic[AnyT]):
    """A value as it was read, with the version that a change of it expects and the owner if it is ephemeral.

    `data` are the bytes of it that were read, for nothing but to tell whether they are read again.
    """

    value: AnyT
    version: int
    owner: int = 0
    data: bytes | None = field(default=None, compare=False, repr=False)

    def is_of(self, found: ZkNode) -> bool:
        """Say whether a node that was read is the one that this was read of, and has not changed since."""
        return (self.data, self.version, self.owner) == (found.data, found.version, found.owner)


def known_path(node_id: int) -> str:
    """Return where a node's registrations are counted."""
    return f"{NODES_KNOWN}/{node_id}"


def live_path(node_id: int) -> str:
    """Return where a node that runs is."""
    return f"{NODES_LIVE}/{node_id}"


def bucket_path(bucket: int) -> str:
    """Return where a bucket is."""
    return f"{SHARDS}/{bucket}"


def bucket_count(shards: int) -> int:
    """Return how many buckets a new cluster of so many shards has."""
    return min(shards, MOST_BUCKETS)


def bucket_of(shard: int, buckets: int) -> int:
    """Return the bucket that a shard's entry is in."""
    return shard % buckets


def number_in(name: str) -> int | None:
    """Return the number that a node's name is, as this layout writes it; None for any other name."""
    if not (name.isascii() and name.isdigit() and len(name) <= 10 and str(int(name)) == name):
        return None
    return int(name) if int(name) <= _MOST_NUMBER else None


def encode(value: _Value) -> bytes:
    """Return a value as it is stored, with what was unknown when it was read."""
    return _json.encode(_plain(value))


def decode(kind: type[ValueT], path: str, data: bytes) -> ValueT | Unreadable:
    """Read a value; anything may be there."""
    try:
        return _value(kind, msgspec.json.decode(data))
    except _TROUBLES as error:
        return Unreadable(path, _why(error))


def encode_bucket(bucket: Bucket) -> bytes:
    """Return a bucket as it is stored, with what could not be read of it as it was."""
    shards: dict[str, Any] = {str(shard): _plain(entry) for shard, entry in bucket.shards.items()}
    return _json.encode({**bucket.unknown, "shards": {**bucket.unread, **shards}})


def decode_bucket(path: str, data: bytes) -> Bucket | Unreadable:
    """Read a bucket; an entry that cannot be read is kept apart."""
    usual = _usual_bucket(data)
    if usual is not None:
        return usual
    try:
        stored = msgspec.convert(msgspec.json.decode(data), dict[str, Any])
        entries = msgspec.convert(stored.pop("shards"), dict[str, Any])
    except KeyError:
        return Unreadable(path, "it has no field shards")
    except _TROUBLES as error:
        return Unreadable(path, _why(error))
    shards: dict[int, ShardEntry] = {}
    unread: dict[str, Any] = {}
    why: dict[str, str] = {}
    for name, entry in entries.items():
        number = number_in(name)
        try:
            if number is None:
                raise msgspec.ValidationError("it is no number of a shard")
            shards[number] = _value(ShardEntry, entry)
        except _TROUBLES as error:
            unread[name], why[name] = entry, _why(error)
    return Bucket(shards=dict(sorted(shards.items())), unread=unread, why_unread=why, unknown=stored)


def without_older(bucket: Bucket, leader_epochs: Mapping[int, int]) -> Bucket:
    """Return a bucket whose entries of smaller leader epochs than have been there are kept apart, as they are."""
    older = {
        str(shard): entry for shard, entry in bucket.shards.items() if entry.leader_epoch < leader_epochs.get(shard, 0)
    }
    if not older:
        return bucket
    why = {
        name: f"its leader epoch is {entry.leader_epoch} and has been {leader_epochs[int(name)]}, so an older value "
        "was put in the place of a newer one, and epochs would be given again"
        for name, entry in older.items()
    }
    return msgspec.structs.replace(
        bucket,
        shards={shard: entry for shard, entry in bucket.shards.items() if str(shard) not in older},
        unread={**bucket.unread, **{name: _plain(entry) for name, entry in older.items()}},
        why_unread={**bucket.why_unread, **why},
    )


_json: Final = msgspec.json.Encoder(order="deterministic")
_TROUBLES: Final = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
_MOST_WHY: Final = 300


class _UsualBucket(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A bucket in which nothing is unknown."""

    shards: dict[str, ShardEntry]


_usual: Final = msgspec.json.Decoder(_UsualBucket)


def _usual_bucket(data: bytes) -> Bucket | None:
    """Read a bucket in which nothing is wrong and nothing unknown, a tenth of the work; None for any other."""
    if b'"unknown"' in data:  # which would be taken for the field of that name here
        return None
    try:
        entries = _usual.decode(data).shards
    except _TROUBLES:
        return None
    numbers = {number_in(name) for name in entries}
    if None in numbers or any(entry.problem() for entry in entries.values()):
        return None
    return Bucket(shards=dict(sorted((int(name), entry) for name, entry in entries.items())))


@cache
def _fields(kind: type[_Value]) -> frozenset[str]:
    return frozenset(kind.__struct_fields__) - {"unknown"}


def _plain(value: _Value) -> dict[str, Any]:
    fields: dict[str, Any] = msgspec.to_builtins(value, str_keys=True)
    fields.pop("unknown")
    return {**value.unknown, **fields}


def _value(kind: type[ValueT], stored: Any) -> ValueT:
    fields = msgspec.convert(stored, dict[str, Any])
    names = _fields(kind)
    unknown = {name: field for name, field in fields.items() if name not in names}
    known = {name: field for name, field in fields.items() if name in names}
    value = msgspec.convert({**known, "unknown": unknown}, kind, str_keys=True)
    if problem := value.problem():
        raise msgspec.ValidationError(problem)
    return value


def _why(error: Exception) -> str:
    return str(error)[:_MOST_WHY] or type(error).__name__
