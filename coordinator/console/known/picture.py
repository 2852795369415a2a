"""All that the console knows, as last heard: the cluster, its groups, and why nothing newer is known.

The survey alone changes it; requests read it from other threads, under one lock that nobody holds for long. Every
change of a group or of the cluster gets the next version, by which watchers tell what is new to them. Pure but for the
lock: times are arguments.
"""

import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from msgspec.structs import replace

from coordinator.client.cluster_view import ClusterView
from coordinator.console.documents import Change, Group, LagCurve
from coordinator.console.known.group_seen import GroupSeen, Measured, Trail, measure, row_of
from coordinator.core.shards.place import shard_of
from coordinator.protocol.messages import DescribeGroupResponse
from coordinator.protocol.parts import CommittedOffset, GroupSummary

MOST_FOLLOWED: Final = 100_000
"""Partitions, over all groups, of which lag in time and health are told: each takes a kilobyte of what was seen."""
WATCHED_MS: Final = 30_000
"""A group whose page was asked for so lately is watched, and described more often than others."""
MOST_WATCHED: Final = 8
NAMED_IN_CHANGE: Final = 100


@dataclass(frozen=True, slots=True)
class Heard:
    """The picture at one moment."""

    cluster: ClusterView | None
    groups: Sequence[GroupSeen]
    unlisted: tuple[int, ...]
    as_of_ms: int | None
    trouble: str | None
    version: int
    is_partial: bool = False
    """True while the groups of some shards are not listed by anybody."""


class Picture:
    """The state of the console; `first_version` is beyond those of the console before it, so that all is new."""

    def __init__(self, first_version: int = 0) -> None:
        self._lock = threading.Lock()
        self._groups: dict[str, GroupSeen] = {}
        self._trails: dict[str, Trail] = {}
        self._followed: dict[str, int] = {}
        self._followed_in_all = 0
        self._cluster: ClusterView | None = None
        self._cluster_version = first_version
        self._unlisted: tuple[int, ...] = ()
        self._shards: int | None = None
        self._as_of_ms: int | None = None
        self._trouble: str | None = None
        self._version = first_version
        self._watched: dict[str, int] = {}

    def heard(self) -> Heard:
        """Return all as it is now."""
        with self._lock:
            return Heard(
                self._cluster,
                list(self._groups.values()),
                self._unlisted,
                self._as_of_ms,
                self._trouble,
                self._version,
                bool(self._unlisted),
            )

    def is_unlisted(self, group_id: str) -> bool:
        """Say whether a group would be of a shard that nobody has listed, or perhaps."""
        with self._lock:
            return self._is_unlisted(group_id)

    def group(self, group_id: str) -> GroupSeen | None:
        """Return a group, None if it is not known."""
        with self._lock:
            return self._groups.get(group_id)

    def curve(self, group_id: str) -> LagCurve:
        """Return the lag of a group over the last hour."""
        with self._lock:
            trail = self._trails.get(group_id)
            return LagCurve(at_ms=[], lag=[]) if trail is None else trail.curve.document()

    def watch(self, group_id: str, now_ms: int) -> None:
        """Note that somebody looks at a group."""
        with self._lock:
            self._watched.pop(group_id, None)
            self._watched[group_id] = now_ms
            while len(self._watched) > MOST_WATCHED:
                del self._watched[next(iter(self._watched))]

    def due(self, now_ms: int, refresh_ms: int) -> list[tuple[str, int | None]]:
        """Return the groups that are watched and were not described lately, each with its node."""
        with self._lock:
            # What is later than now is of a clock that was set back since, or of another thread, by a little.
            self._watched = {name: at_ms for name, at_ms in self._watched.items() if abs(now_ms - at_ms) < WATCHED_MS}
            found = []
            for name in self._watched:
                group = self._groups.get(name)
                measured = None if group is None else group.measured
                is_fresh = measured is not None and 0 <= now_ms - measured.as_of_ms < refresh_ms
                if group is not None and not is_fresh:
                    found.append((name, group.node))
            return found

    def see_cluster(self, cluster: ClusterView, now_ms: int) -> None:
        """Take in what the nodes say together; what was wrong before is over."""
        with self._lock:
            if cluster != self._cluster or self._trouble is not None:
                self._version += 1
                self._cluster_version = self._version
            self._cluster, self._as_of_ms, self._trouble = cluster, now_ms, None

    def see_trouble(self, why: str) -> None:
        """Take in that no coordinator could be asked: what is known stays, with its age."""
        with self._lock:
            if why != self._trouble:
                self._version += 1
                self._cluster_version = self._version
            self._trouble = why

    def see_list(
        self, listed: Mapping[str, tuple[GroupSummary, int]], unlisted: Iterable[int], shards: int | None = None
    ) -> None:
        """Take in the groups of all nodes, each with its node; groups that are gone are forgotten.

        Groups that are missing and of a shard that is not listed are kept as they were. Where it is not known how many
        `shards` there are, any group may be of one of those.
        """
        missing = tuple(sorted(unlisted))
        with self._lock:
            for name in sorted(listed):
                summary, node = listed[name]
                old = self._groups.get(name)
                if old is not None and old.summary == summary and old.node == node:
                    continue
                measured = None if old is None else old.measured
                self._put(name, GroupSeen(summary, node, row_of_listed(old, summary, node), measured, 0), old)
            is_changed = missing != self._unlisted
            self._unlisted, self._shards = missing, shards
            gone = [name for name in self._groups if name not in listed and not self._is_unlisted(name)]
            for name in gone:
                del self._groups[name]
                self._trails.pop(name, None)
                self._followed_in_all -= self._followed.pop(name, 0)
            if gone or is_changed:
                self._version += 1
                self._cluster_version = self._version

    def see_described(
        self, description: DescribeGroupResponse, offsets: Sequence[CommittedOffset], now_ms: int
    ) -> None:
        """Take in the description of a group that is listed; one that is not is passed over."""
        name = description.group_id
        with self._lock:
            old = self._groups.get(name)
            trail = self._trails.setdefault(name, Trail()) if old is not None else None
        if old is None or trail is None:
            return
        self._keep_in_bounds(name, trail, len(description.partitions))
        # The trail is this thread's alone but for its curve, which is read under the lock: measuring may take long.
        measured = measure(description, offsets, trail, now_ms)
        summary = replace(
            old.summary,
            state=description.state,
            group_epoch=description.group_epoch,
            members=len(description.members),
            bytes=description.bytes,
        )
        row = row_of(summary, old.node, measured)
        with self._lock:
            if self._groups.get(name) is old:
                self._put(name, GroupSeen(summary, old.node, row, measured, 0), old)

    def change_since(self, version: int, shown: frozenset[str] | None = None) -> Change | None:
        """Return what is new since a version, None if nothing is; of groups only those that are `shown`, if given."""
        with self._lock:
            if version >= self._version:
                return None
            names = [
                name
                for name, group in self._groups.items()
                if group.version > version and (shown is None or name in shown)
            ]
            return Change(
                version=self._version,
                as_of_ms=self._as_of_ms,
                groups=names[:NAMED_IN_CHANGE],
                more=max(0, len(names) - NAMED_IN_CHANGE),
                is_cluster=self._cluster_version > version,
                trouble=self._trouble,
            )

    def _is_unlisted(self, group_id: str) -> bool:
        if not self._unlisted or self._shards is None:
            return bool(self._unlisted)
        return shard_of(self._shards, group_id) in self._unlisted

    def _put(self, name: str, new: GroupSeen, old: GroupSeen | None) -> None:
        """Replace a group; only what a person would see as a change gets a version."""
        is_changed = old is None or replace(old.row, as_of_ms=None) != replace(new.row, as_of_ms=None)
        if is_changed or (old is not None and _shape(old.measured) != _shape(new.measured)):
            self._version += 1
            version = self._version
        else:
            version = old.version if old is not None else 0
        self._groups[name] = GroupSeen(new.summary, new.node, new.row, new.measured, version)

    def _keep_in_bounds(self, name: str, trail: Trail, partitions: int) -> None:
        """Stop following a group with which there would be too many partitions that are followed."""
        others = self._followed_in_all - self._followed.get(name, 0)
        trail.is_followed = others + partitions <= MOST_FOLLOWED
        if not trail.is_followed:
            trail.ends, trail.commits, partitions = {}, {}, 0
        self._followed_in_all = others + partitions
        self._followed[name] = partitions


def row_of_listed(old: GroupSeen | None, summary: GroupSummary, node: int) -> Group:
    """Return the row of a group that was listed again: what its description said stays."""
    if old is None or old.measured is None:
        return row_of(summary, node, None)
    return replace(
        old.row,
        state=summary.state,
        members=summary.members,
        group_epoch=summary.group_epoch,
        bytes=summary.bytes,
        node=node,
    )


def _shape(measured: Measured | None) -> object:
    """Return what of a group's description is no number that its row sums up: its members, and who owns what."""
    if measured is None:
        return None
    description = measured.description
    return description.members, description.partitions, description.kafka_failure
