"""Keeps an image as new as ZooKeeper lets it be: what is watched, and when it is read again.

A watch that fires says only that something is to be read again; what was told while a read was under way is read once
more, since nobody knows which of them was first. After every reconnect, and now and then besides, all is read, for a
connection that is back has no watches and nothing else makes up for a word that was lost. A frozen value: `step` makes
the next one and the questions to ask.
"""

from dataclasses import dataclass, field, replace
from typing import Final, TypeAlias, assert_never

from coordinator.core.cluster.events import ObserverEvent, ReadAnew, Scope, Ticked, Written
from coordinator.core.cluster.image import Image, read_all, read_node
from coordinator.core.cluster.znodes import (
    CLUSTER,
    CONTROLLER_ACTIVE,
    CONTROLLER_EPOCH,
    NODES_KNOWN,
    NODES_LIVE,
    SHARDS,
    live_path,
)
from coordinator.core.cluster.zookeeper import (
    ZkAspect,
    ZkChanged,
    ZkRead,
    ZkReadDone,
    ZkSession,
    ZkState,
    ZkUnread,
)

READ_ALL_MS: Final = 30_000
"""The time after which all is read again although no word of a change has come."""
RETRY_MS: Final = 1_000
"""The time from a read that failed, while the session goes on, to the next one."""


OF_A_NODE: Final = Scope((CLUSTER, CONTROLLER_EPOCH, CONTROLLER_ACTIVE))
"""The part that every node has to know: that there is a cluster, and who its controller is."""
OF_A_CONTROLLER: Final = Scope(OF_A_NODE.nodes, (NODES_KNOWN, NODES_LIVE, SHARDS))
"""Everything."""

Part: TypeAlias = tuple[str, ZkAspect]


def of_a_candidate(node_id: int) -> Scope:
    """Return what a node observes that may become controller: besides all of a node's, whether it is being drained."""
    return Scope((*OF_A_NODE.nodes, live_path(node_id)))


@dataclass(frozen=True, slots=True)
class Observer:
    """All that is known, and what is being asked. One read at a time is under way.

    The image `is_whole` when everything has been read since the session was last connected: until then what is in it
    may be of before. `due_ms` is when all is to be read again, and `why_unread` why the last read failed, if it did.
    """

    scope: Scope
    image: Image = field(default_factory=Image)
    session: int = 0
    is_connected: bool = False
    is_whole: bool = False
    due_ms: int = 0
    request_id: int = 0
    asked: ZkRead | None = None
    stale: frozenset[Part] = frozenset()
    """The parts that are to be read with the next question, which waits for `due_ms` if the last one failed."""
    why_unread: str = ""


def step(observer: Observer, event: ObserverEvent, now_ms: int) -> tuple[Observer, tuple[ZkRead, ...]]:
    """Take one event."""
    match event:
        case ZkSession(session, ZkState.CONNECTED):
            observer = replace(observer, session=session, is_connected=True, asked=None, why_unread="")
            return _ask(_begin_anew(observer, now_ms))
        case ZkSession():
            return replace(observer, is_connected=False, is_whole=False, asked=None), ()
        case ZkChanged(session, path, aspect):
            if session != observer.session or not _is_observed(observer, path):
                return observer, ()
            is_waiting = observer.asked is None and bool(observer.stale)  # for the next try of a read that failed
            observer = replace(observer, stale=observer.stale | {(path, aspect)})
            return (observer, ()) if is_waiting else _ask(observer)
        case ZkReadDone():
            return _take(observer, event, now_ms)
        case Ticked():
            if now_ms < observer.due_ms or not observer.is_connected or observer.asked is not None:
                return observer, ()
            return _ask(replace(observer, stale=_all_parts(observer), due_ms=now_ms + READ_ALL_MS))
        case ReadAnew(scope):
            observer = replace(observer, scope=observer.scope if scope is None else scope, asked=None)
            return _ask(_begin_anew(observer, now_ms))
        case Written(path, node):
            return replace(observer, image=read_node(observer.image, path, node)), ()
        case _:
            assert_never(event)


def _take(observer: Observer, done: ZkReadDone, now_ms: int) -> tuple[Observer, tuple[ZkRead, ...]]:
    asked = observer.asked
    if asked is None or (done.session, done.request_id) != (asked.session, asked.request_id):
        return observer, ()
    observer = replace(observer, asked=None)
    if isinstance(done.found, ZkUnread):
        # Nothing of it is known, and neither is which watches it has left: no less than all makes up for it.
        due_ms, why = now_ms + RETRY_MS, done.found.why
        return replace(observer, stale=_all_parts(observer), is_whole=False, due_ms=due_ms, why_unread=why), ()
    image = read_all(observer.image, asked, done.found)
    listed = {
        (f"{folder}/{name}", ZkAspect.NODE)
        for folder, names in zip(asked.children, done.found.children, strict=True)
        for name in names or ()
    }
    # A node that was read beside its folder is not read again; one that is new to it is.
    new = listed - {(path, ZkAspect.NODE) for path in asked.nodes}
    return _ask(replace(observer, image=image, stale=observer.stale | new, why_unread=""))


def _begin_anew(observer: Observer, now_ms: int) -> Observer:
    parts = _all_parts(observer)
    return replace(observer, is_whole=False, stale=parts, due_ms=now_ms + READ_ALL_MS)


def _all_parts(observer: Observer) -> frozenset[Part]:
    """Return everything that is observed by name; what is in folders follows when they are read."""
    nodes = {(path, ZkAspect.NODE) for path in observer.scope.nodes}
    return frozenset(nodes | {(path, ZkAspect.CHILDREN) for path in observer.scope.folders})


def _ask(observer: Observer) -> tuple[Observer, tuple[ZkRead, ...]]:
    """Ask for what is stale, unless something is being asked or nothing is: then all is known."""
    if observer.asked is not None or not observer.is_connected:
        return observer, ()
    if not observer.stale:
        return replace(observer, is_whole=True), ()
    read = ZkRead(
        observer.session,
        observer.request_id + 1,
        tuple(sorted(path for path, aspect in observer.stale if aspect is ZkAspect.NODE)),
        tuple(sorted(path for path, aspect in observer.stale if aspect is ZkAspect.CHILDREN)),
        is_watched=True,
        is_synced=True,
    )
    return replace(observer, asked=read, request_id=read.request_id, stale=frozenset()), (read,)


def _is_observed(observer: Observer, path: str) -> bool:
    """Say whether a path is of the scope; what was watched under a wider one is let be."""
    folder = path.rpartition("/")[0]
    return path in observer.scope.nodes or path in observer.scope.folders or folder in observer.scope.folders
