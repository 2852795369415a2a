"""Questions of the cluster to ZooKeeper and its answers, as frozen values, and the port between.

Every event names the ZooKeeper session it is of; what comes under another number than the current one is to be
dropped. Results, changes and states of one session may overtake one another. A change is told of once and says only
that what was read may not be true any more. An outcome that is not known is told as such: the operations may have been
done, and, until a later write of the same nodes by the same node is known, may be done yet. The time of an event is
said beside it, by whoever delivers it.
"""

import enum
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Protocol, TypeAlias

MOST_OPERATIONS: Final = 200
"""Of one multi: more would make servers, which keep the last 500 requests, run out of memory."""
MOST_BYTES: Final = 400_000
"""Of one multi, as `size_of` counts: a server ends the connection of a client that sends it more than 1 MB."""
_OVERHEAD_BYTES: Final = 64
"""About what an operation has besides its path and value: header, lengths, version, access list."""


@dataclass(frozen=True, slots=True)
class ZkCreate:
    """Make a node that must not exist; an ephemeral one ends with the session and has no children."""

    path: str
    data: bytes
    is_ephemeral: bool = False


@dataclass(frozen=True, slots=True)
class ZkSet:
    """Set the value of a node that must have this version; it gets the next one."""

    path: str
    data: bytes
    version: int


@dataclass(frozen=True, slots=True)
class ZkDelete:
    """Delete a node that must have this version and no children."""

    path: str
    version: int


@dataclass(frozen=True, slots=True)
class ZkCheck:
    """Change nothing; the node must have this version."""

    path: str
    version: int


ZkOperation: TypeAlias = ZkCreate | ZkSet | ZkDelete | ZkCheck


@dataclass(frozen=True, slots=True)
class ZkMulti:
    """Do all of these operations or none, in their order; ZkMultiDone reports completion.

    At most MOST_OPERATIONS and MOST_BYTES. `request_id` is the asker's, and comes back.
    """

    session: int
    request_id: int
    operations: tuple[ZkOperation, ...]


@dataclass(frozen=True, slots=True)
class ZkRead:
    """Read nodes, and the names of nodes' children; ZkReadDone reports completion.

    They are read one after another, not at one moment, and may be older than what others know, though not older than
    what this session has seen since it was last SUSPENDED. With `is_synced` they are at least as new as when the read
    began. With `is_watched` ZkChanged tells, once for each path, when what was read may not be true any more: of a node
    also when it did not exist; of children unless their node did not exist. To read again is to watch again.
    """

    session: int
    request_id: int
    nodes: tuple[str, ...] = ()
    children: tuple[str, ...] = ()
    is_watched: bool = False
    is_synced: bool = False


ZkEffect: TypeAlias = ZkMulti | ZkRead


class ZkState(enum.Enum):
    """The states of a ZooKeeper session.

    CONNECTED: a server answers; watches that were left before are gone. SUSPENDED: no server answers; the session may
    be over already or go on, and what is asked meanwhile is done later or fails. LOST: the session is over, its
    ephemeral nodes are gone or go now; another session, with the next number, begins by itself.
    """

    CONNECTED = "connected"
    SUSPENDED = "suspended"
    LOST = "lost"


@dataclass(frozen=True, slots=True)
class ZkSession:
    """A session has come into a state. `owner` is its id as ephemeral nodes show it, if CONNECTED."""

    session: int
    state: ZkState
    owner: int = 0


class ZkRefusal(enum.Enum):
    """Why an operation was refused."""

    NODE_EXISTS = "the node exists"
    NO_NODE = "there is no such node, or none above it"
    BAD_VERSION = "the node has another version"
    NOT_EMPTY = "the node has children"
    NO_CHILDREN_FOR_EPHEMERALS = "the node above is ephemeral"
    NO_AUTH = "this node may not do that: look at the access list"
    OTHER = "ZooKeeper refused it"


@dataclass(frozen=True, slots=True)
class ZkApplied:
    """All operations were done; `versions` has for each the version that its node has now, None for ZkDelete."""

    versions: tuple[int | None, ...]


@dataclass(frozen=True, slots=True)
class ZkRefused:
    """None of the operations was done; `index` is the first that could not be."""

    index: int
    refusal: ZkRefusal
    why: str


@dataclass(frozen=True, slots=True)
class ZkUnknown:
    """Nobody knows whether the operations were done, or will be."""

    why: str


ZkOutcome: TypeAlias = ZkApplied | ZkRefused | ZkUnknown


@dataclass(frozen=True, slots=True)
class ZkMultiDone:
    """Completes ZkMulti, exactly once."""

    session: int
    request_id: int
    outcome: ZkOutcome


@dataclass(frozen=True, slots=True)
class ZkNode:
    """A node as it was read; `owner` is the session of an ephemeral node, 0 for any other."""

    data: bytes
    version: int
    owner: int = 0


@dataclass(frozen=True, slots=True)
class ZkValues:
    """Values in the order in which they were asked for; None where there is no such node. Children are sorted."""

    nodes: tuple[ZkNode | None, ...] = ()
    children: tuple[tuple[str, ...] | None, ...] = ()


@dataclass(frozen=True, slots=True)
class ZkUnread:
    """Nothing is known of what was asked about; watches may have been left all the same."""

    why: str


@dataclass(frozen=True, slots=True)
class ZkReadDone:
    """Completes ZkRead, exactly once."""

    session: int
    request_id: int
    found: ZkValues | ZkUnread


class ZkAspect(enum.Enum):
    """The two things that may be read of a node: its existence and value, or the names of its children."""

    NODE = "node"
    CHILDREN = "children"


@dataclass(frozen=True, slots=True)
class ZkChanged:
    """Something that was read and watched of a node may have changed. Nothing more is told until it is read again."""

    session: int
    path: str
    aspect: ZkAspect


ZkEvent: TypeAlias = ZkSession | ZkMultiDone | ZkReadDone | ZkChanged


class ZooKeeperPort(Protocol):
    """Speaks with ZooKeeper under sessions that it begins by itself, numbered from 1; none of its calls waits.

    Events come through a callable that is given when the port is made, from any thread. Not promised: any order
    between results, changes and states, or that the last events of a session come before the first of the next.
    """

    def commit(self, multi: ZkMulti) -> None:
        """Begin a multi. Raises ValueError for one that is empty or above the limits, which is a bug of the caller."""
        ...

    def read(self, read: ZkRead) -> None:
        """Begin to read."""
        ...

    def close(self) -> None:
        """End the session; nothing is told afterwards. Again: does nothing."""
        ...


def size_of(operation: ZkOperation) -> int:
    """Return about how many bytes an operation takes in a request."""
    data = operation.data if isinstance(operation, ZkCreate | ZkSet) else b""
    return len(operation.path.encode()) + len(data) + _OVERHEAD_BYTES


def check_limits(operations: Iterable[ZkOperation]) -> None:
    """Raise ValueError for operations that are no multi: none, or more than the limits allow."""
    sizes = [size_of(operation) for operation in operations]
    if not 0 < len(sizes) <= MOST_OPERATIONS or sum(sizes) > MOST_BYTES:
        raise ValueError(
            f"a multi of {len(sizes)} operations and {sum(sizes)} bytes: it has between 1 and {MOST_OPERATIONS} "
            f"operations and at most {MOST_BYTES} bytes; split it"
        )
