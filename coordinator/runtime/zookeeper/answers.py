"""The answers of servers as values: the outcome of a multi, the values of a read.

No outcome is given as known that is not: an answer that does not fit its question is unknown, with what was wrong.
"""

import threading
from collections.abc import Callable, Sequence
from typing import Any, Final

from kazoo.exceptions import (
    BadVersionError,
    KazooException,
    NoAuthError,
    NoChildrenForEphemeralsError,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
    RolledBackError,
)
from kazoo.protocol.states import ZnodeStat

from coordinator.core.cluster.zookeeper import (
    ZkApplied,
    ZkCheck,
    ZkCreate,
    ZkDelete,
    ZkNode,
    ZkOperation,
    ZkOutcome,
    ZkRead,
    ZkReadDone,
    ZkRefusal,
    ZkRefused,
    ZkSet,
    ZkUnknown,
    ZkUnread,
    ZkValues,
)

_REFUSALS: Final = {
    NodeExistsError: ZkRefusal.NODE_EXISTS,
    NoNodeError: ZkRefusal.NO_NODE,
    BadVersionError: ZkRefusal.BAD_VERSION,
    NotEmptyError: ZkRefusal.NOT_EMPTY,
    NoChildrenForEphemeralsError: ZkRefusal.NO_CHILDREN_FOR_EPHEMERALS,
    NoAuthError: ZkRefusal.NO_AUTH,
}


def outcome_of(operations: Sequence[ZkOperation], results: Any, error: BaseException | None = None) -> ZkOutcome:
    """Read the results of a multi, or the error in their stead; a result may be an exception, which is not raised.

    The first that was not merely undone says why.
    """
    if error is not None:
        return ZkUnknown(say(error))
    if not isinstance(results, list) or len(results) != len(operations):
        return ZkUnknown(f"a server's answer to {len(operations)} operations does not fit them: {results!r:.300}")
    for index, (operation, result) in enumerate(zip(operations, results, strict=True)):
        if isinstance(result, KazooException) and not isinstance(result, RolledBackError):
            refusal = _REFUSALS.get(type(result), ZkRefusal.OTHER)
            return ZkRefused(index, refusal, f"{type(operation).__name__} {operation.path}: {say(result)}")
    versions: list[int | None] = []
    for operation, result in zip(operations, results, strict=True):
        match operation, result:
            case ZkCreate(), str():
                versions.append(0)
            case ZkSet(), ZnodeStat():
                versions.append(result.version)
            case ZkCheck(_, version), True:
                versions.append(version)
            case ZkDelete(), True:
                versions.append(None)
            case _:
                return ZkUnknown(f"a server's answer to {type(operation).__name__} does not fit it: {result!r:.300}")
    return ZkApplied(tuple(versions))


class Reading:
    """The answers to one ZkRead as they come; what failed of it makes all of it unread."""

    def __init__(self, read: ZkRead, emit: Callable[[ZkReadDone], None]) -> None:
        self._read = read
        self._emit = emit
        self._lock = threading.Lock()
        self._nodes: list[ZkNode | None] = [None] * len(read.nodes)
        self._children: list[tuple[str, ...] | None] = [None] * len(read.children)
        watches = len(read.nodes) if read.is_watched else 0
        self._missing = 1 + read.is_synced + watches + len(read.nodes) + len(read.children)
        self._why = ""

    def all_asked(self) -> None:
        """Everything has been asked: a read of nothing is done now."""
        self._take(None, "")

    def take_sync(self, _value: Any, error: BaseException | None) -> None:
        """Without it, what was read may be too old."""
        self._take(error, "sync")

    def take_watch(self, _value: Any, error: BaseException | None) -> None:
        """Take the answer to a watch: whether the node exists is seen from its value."""
        self._take(error, "watch")

    def take_node(self, index: int, value: Any, error: BaseException | None) -> None:
        """Take a node's value."""
        if value is not None:
            data, stat = value
            self._nodes[index] = ZkNode(data, stat.version, stat.ephemeralOwner or 0)
        self._take(None if isinstance(error, NoNodeError) else error, self._read.nodes[index])

    def take_children(self, index: int, value: Any, error: BaseException | None) -> None:
        """Take the names of a node's children."""
        if value is not None:
            self._children[index] = tuple(sorted(value))
        self._take(None if isinstance(error, NoNodeError) else error, self._read.children[index])

    def _take(self, error: BaseException | None, what: str) -> None:
        with self._lock:
            if error is not None and not self._why:
                self._why = f"{what}: {say(error)}"
            self._missing -= 1
            if self._missing:
                return
        found = ZkUnread(self._why) if self._why else ZkValues(tuple(self._nodes), tuple(self._children))
        self._emit(ZkReadDone(self._read.session, self._read.request_id, found))


def say(error: BaseException) -> str:
    """Return an error's kind and text."""
    text = str(error)
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
