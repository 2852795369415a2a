"""ZooKeeper's servers as the simulation needs them: one order of changes, and servers that are late in applying it.

A change is committed at once and reaches the other servers later, so that what is read at one may be old. A session
ends when it was not heard of for its time-out, or before, or a while after; its ephemeral nodes go in one change.
Nothing of clients is known here but who listens to which server.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from random import Random
from typing import Protocol

from coordinator.core.cluster.zookeeper import (
    ZkApplied,
    ZkAspect,
    ZkCheck,
    ZkCreate,
    ZkDelete,
    ZkNode,
    ZkOperation,
    ZkRefusal,
    ZkRefused,
    ZkSet,
)
from tests.sim.schedule import Schedule

Tree = dict[str, ZkNode]
Change = dict[str, ZkNode | None]


class Listener(Protocol):
    """The end of a connection at a server."""

    def on_changed(self, path: str, aspect: ZkAspect) -> None:
        """Take word that a watch has fired."""


@dataclass(slots=True)
class Server:
    """One server: the data as far as it has applied the changes, and who watches what there."""

    tree: Tree
    applied: int = 0
    watches: dict[tuple[str, ZkAspect], list[Listener]] = field(default_factory=dict)


@dataclass(slots=True)
class ServerSession:
    """A session as the servers have it; `silence` counts how often they have begun to wait for it."""

    timeout_ms: int
    on_over: Callable[[], None]
    is_over: bool = False
    silence: int = 0


class Servers:
    """The ensemble. `expires_ms` are bounds of how much later than its time-out a session ends.

    `on_commit` hears of every change, in their order, for whoever checks them.
    """

    def __init__(
        self,
        schedule: Schedule,
        dice: Random,
        *,
        count: int = 3,
        lags_ms: tuple[int, ...] = (0, 1, 5),
        expires_ms: tuple[int, int] = (0, 500),
        on_commit: Callable[[Change], None] = lambda _change: None,
    ) -> None:
        self._schedule = schedule
        self._dice = dice
        self._lags_ms = lags_ms
        self._expires_ms = expires_ms
        self.on_commit = on_commit
        self._changes: list[Change] = []
        self.is_away = False
        """Too few servers run: nothing is done, no connection begins and no session ends."""
        self._epoch = 0
        """Grows whenever the data is replaced: what was on its way to a server before is void."""
        self.tree: Tree = {"/": ZkNode(b"", 0)}
        self.servers = [Server(dict(self.tree)) for _ in range(count)]
        self.sessions: dict[int, ServerSession] = {}
        self._owners = 0

    # ---- sessions ---------------------------------------------------------------------------------------------------

    def begin_session(self, timeout_ms: int, on_over: Callable[[], None]) -> int:
        """Return the id of a new session; `on_over` is called when it ends, for its connection ends with it."""
        self._owners += 1
        self.sessions[self._owners] = ServerSession(timeout_ms, on_over)
        return self._owners

    def is_over(self, owner: int) -> bool:
        """Say whether a session has ended."""
        return owner not in self.sessions or self.sessions[owner].is_over

    def heard(self, owner: int) -> None:
        """A session's client is there: nobody waits for it any more."""
        if owner in self.sessions:
            self.sessions[owner].silence += 1

    def not_heard(self, owner: int) -> None:
        """Nothing is heard of a session from now on; unless that changes it ends."""
        if self.is_over(owner):
            return
        session = self.sessions[owner]
        session.silence += 1
        after_ms = session.timeout_ms + self._dice.randint(*self._expires_ms)
        self._schedule.after(after_ms, self._expire_if_silent, owner, session.silence)

    def _expire_if_silent(self, owner: int, silence: int) -> None:
        if owner in self.sessions and self.sessions[owner].silence == silence:
            self.expire(owner)

    def go_away(self) -> None:
        """End every connection, and do nothing until `come_back`."""
        self.is_away = True
        for session in self.sessions.values():
            if not session.is_over:
                session.on_over()

    def come_back(self) -> None:
        """Go on: every session has its whole time-out from now to be heard of."""
        if self.is_away:
            self.is_away = False
            for owner in self.sessions:
                self.not_heard(owner)

    def expire(self, owner: int) -> None:
        """End a session now, however lately it was heard of, and with it its ephemeral nodes."""
        if self.is_over(owner) or self.is_away:
            return
        self.sessions[owner].is_over = True
        self._commit({path: None for path, node in self.tree.items() if node.owner == owner})
        self.sessions[owner].on_over()

    # ---- data -------------------------------------------------------------------------------------------------------

    def multi(self, server: Server, owner: int, operations: tuple[ZkOperation, ...]) -> ZkApplied | ZkRefused:
        """Do all operations or none; the server through which they came has applied them when it answers."""
        change: Change = {}
        versions: list[int | None] = []
        for index, operation in enumerate(operations):
            refusal = self._refusal(operation, change)
            if refusal is not None:
                why = f"{type(operation).__name__} {operation.path}: {refusal.name}"
                return ZkRefused(index, refusal, why)
            match operation:
                case ZkCreate(path, data, is_ephemeral):
                    change[path] = ZkNode(data, 0, owner if is_ephemeral else 0)
                    versions.append(0)
                case ZkSet(path, data, version):
                    before = self._node(path, change)
                    assert before is not None
                    change[path] = replace(before, data=data, version=version + 1)
                    versions.append(version + 1)
                case ZkDelete(path):
                    change[path] = None
                    versions.append(None)
                case ZkCheck(_, version):
                    versions.append(version)
        if change:
            self._commit(change)
        self.catch_up(server)
        return ZkApplied(tuple(versions))

    def _refusal(self, operation: ZkOperation, change: Mapping[str, ZkNode | None]) -> ZkRefusal | None:
        node = self._node(operation.path, change)
        if isinstance(operation, ZkCreate):
            above = self._node(_parent(operation.path), change)
            if above is None:
                return ZkRefusal.NO_NODE
            if node is not None:
                return ZkRefusal.NODE_EXISTS
            return ZkRefusal.NO_CHILDREN_FOR_EPHEMERALS if above.owner else None
        if node is None:
            return ZkRefusal.NO_NODE
        if node.version != operation.version:
            return ZkRefusal.BAD_VERSION
        if isinstance(operation, ZkDelete) and self._has_children(operation.path, change):
            return ZkRefusal.NOT_EMPTY
        return None

    def _node(self, path: str, change: Mapping[str, ZkNode | None]) -> ZkNode | None:
        return change[path] if path in change else self.tree.get(path)

    def _has_children(self, path: str, change: Mapping[str, ZkNode | None]) -> bool:
        paths = {other for other in self.tree if change.get(other, self.tree[other]) is not None}
        paths |= {other for other, node in change.items() if node is not None}
        return any(_parent(other) == path for other in paths if other != "/")

    def _commit(self, change: Change) -> None:
        if not change:
            return
        for path, node in change.items():
            if node is None:
                self.tree.pop(path, None)
            else:
                self.tree[path] = node
        self._changes.append(change)
        self.on_commit(change)
        for server in self.servers:
            self._schedule.after(self._dice.choice(self._lags_ms), self._apply, server, len(self._changes), self._epoch)

    @property
    def committed(self) -> int:
        """Return how many changes there have been since the data was last replaced."""
        return len(self._changes)

    def catch_up(self, server: Server) -> None:
        """Have a server apply everything that is committed."""
        self._apply(server, len(self._changes), self._epoch)

    def _apply(self, server: Server, until: int, epoch: int) -> None:
        if epoch != self._epoch:
            return
        while server.applied < until:
            change = self._changes[server.applied]
            server.applied += 1
            self._apply_change(server, change)

    def _apply_change(self, server: Server, change: Change) -> None:
        changed: list[tuple[str, ZkAspect]] = []
        for path, node in change.items():
            before = server.tree.get(path)
            if node is None:
                server.tree.pop(path, None)
            else:
                server.tree[path] = node
            changed.append((path, ZkAspect.NODE))
            if (before is None) != (node is None):
                changed.append((_parent(path), ZkAspect.CHILDREN))
            if node is None:
                changed.append((path, ZkAspect.CHILDREN))
        for key in changed:
            for listener in server.watches.pop(key, ()):
                listener.on_changed(*key)

    @staticmethod
    def watch(server: Server, listener: Listener, path: str, aspect: ZkAspect) -> None:
        """Leave a watch; a second one of the same listener is the same."""
        watching = server.watches.setdefault((path, aspect), [])
        if listener not in watching:
            watching.append(listener)

    @staticmethod
    def children(server: Server, path: str) -> tuple[str, ...] | None:
        """Return the names of a node's children as a server has them; None without the node."""
        if path not in server.tree:
            return None
        prefix = "/" if path == "/" else f"{path}/"
        return tuple(sorted(each.removeprefix(prefix) for each in server.tree if each != "/" and _parent(each) == path))

    # ---- what no server does by itself ------------------------------------------------------------------------------

    def copy(self) -> Tree:
        """Return the data as it is, for `put_back`."""
        return dict(self.tree)

    def put_back(self, tree: Mapping[str, ZkNode], *, keeps_sessions: bool = False) -> None:
        """Have all servers begin again with older data; every connection ends, and no watch tells of it.

        The data knows no session of today, unless it `keeps_sessions` that began before it was copied.
        """
        self._epoch += 1
        self._changes = []
        kept = {node.owner for node in tree.values() if node.owner and not self.is_over(node.owner)}
        if not keeps_sessions:
            kept = set()
        self.tree = {path: node for path, node in tree.items() if not node.owner or node.owner in kept}
        for server in self.servers:
            server.tree, server.applied, server.watches = dict(self.tree), 0, {}
        for owner, session in self.sessions.items():
            if not session.is_over:
                session.is_over = owner not in kept
                session.on_over()

    def wipe(self) -> None:
        """Have all servers begin again with nothing."""
        self.put_back({"/": ZkNode(b"", 0)})


def _parent(path: str) -> str:
    return path.rpartition("/")[0] or "/"
