"""The part of the picture that one person may see: groups that the coordinators list to them, and the cluster or not.

A group is shown whole or not at all, as it is by the coordinators, whose right to describe is one for the group. Which
they are is told by each node, and stays for a while where a node does not answer. Pure.
"""

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from msgspec.structs import replace

from coordinator.console.documents import Change, LagCurve
from coordinator.console.known.group_seen import GroupSeen
from coordinator.console.known.picture import Heard, Picture
from coordinator.protocol.text.addresses import Address

OUTAGE_S: Final = 300.0
"""The longest time for which what a node has listed counts while it does not answer."""
ASKED_AGAIN_S: Final = 300.0
"""The time after which somebody who may not describe the cluster is asked for it again."""
NOT_OF_THE_CLUSTER: Final = "no coordinator answers the console"
"""The trouble that is told to who may not describe the cluster: the sentence itself names its nodes."""


@dataclass(frozen=True, slots=True)
class Listed:
    """The groups that a node has listed, of which shards, and when."""

    groups: frozenset[str]
    shards: frozenset[int]
    at_s: float


@dataclass(frozen=True, slots=True)
class Sight:
    """All that one person may see; `by_node` is kept to go on with while a node does not answer."""

    groups: frozenset[str]
    sees_cluster: bool
    by_node: Mapping[Address, Listed] = field(default_factory=dict, repr=False)
    cluster_at_s: float = 0.0
    """The time at which it was asked whether they may describe the cluster."""

    def may_ask_cluster(self, now_s: float) -> bool:
        """Say whether that is asked again: always of who may, and seldom of who may not, since each is a refusal."""
        return self.sees_cluster or now_s - self.cluster_at_s >= ASKED_AGAIN_S


def sight_of(heard: Mapping[Address, Listed], *, sees_cluster: bool | None, old: Sight | None, now_s: float) -> Sight:
    """Return what a person may see by what nodes have listed just now, and those that are silent lately.

    A silent node counts as long as some of its shards are listed by nobody else: a right may be taken meanwhile.
    `sees_cluster` is None where that was not asked.
    """
    told = frozenset().union(*(one.shards for one in heard.values()))
    before = {} if old is None else old.by_node
    kept = {at: one for at, one in before.items() if now_s - one.at_s < OUTAGE_S and not one.shards <= told}
    by_node = {**kept, **heard}
    groups = frozenset().union(*(one.groups for one in by_node.values()))
    if sees_cluster is None:
        return Sight(groups, False, by_node, 0.0 if old is None else old.cluster_at_s)
    return Sight(groups, sees_cluster, by_node, now_s)


class SeenBy:
    """The picture as one person sees it, by what they may see now."""

    def __init__(self, picture: Picture, sight: Callable[[], Sight]) -> None:
        self._picture = picture
        self._sight = sight

    @property
    def sees_cluster(self) -> bool:
        """Say whether nodes, shards and settings are shown."""
        return self._sight().sees_cluster

    def heard(self) -> Heard:
        """Return all as it is now."""
        sight, heard = self._sight(), self._picture.heard()
        groups = [group for group in heard.groups if group.summary.group_id in sight.groups]
        if sight.sees_cluster:
            return dataclasses.replace(heard, groups=groups)
        trouble = heard.trouble and NOT_OF_THE_CLUSTER
        return dataclasses.replace(heard, cluster=None, groups=groups, unlisted=(), trouble=trouble)

    def group(self, group_id: str) -> GroupSeen | None:
        """Return a group, None if it is not known or not to be seen."""
        return self._picture.group(group_id) if group_id in self._sight().groups else None

    def is_unlisted(self, group_id: str) -> bool:
        """Say whether a group would be of a shard that nobody has listed; its name alone decides that."""
        return self._picture.is_unlisted(group_id)

    def curve(self, group_id: str) -> LagCurve:
        """Return the lag of a group over the last hour."""
        if group_id not in self._sight().groups:
            return LagCurve(at_ms=[], lag=[])
        return self._picture.curve(group_id)

    def watch(self, group_id: str, now_ms: int) -> None:
        """Note that somebody looks at a group."""
        if group_id in self._sight().groups:
            self._picture.watch(group_id, now_ms)

    def change_since(self, version: int) -> Change | None:
        """Return what is new since a version, None if nothing is."""
        sight = self._sight()
        change = self._picture.change_since(version, sight.groups)
        if change is None or sight.sees_cluster or change.trouble is None:
            return change
        return replace(change, trouble=NOT_OF_THE_CLUSTER)
