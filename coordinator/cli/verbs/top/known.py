"""All that looks have told so far: the picture as the console keeps it, the pace of each group, and what is wrong.

Pure but for the picture's lock: times are arguments. Lag in time and health are computed as a node's metrics and the
console do it, from what was seen here, so that they begin with the first looks.
"""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence

from coordinator.cli.verbs.top.pace import Pace, way_of
from coordinator.cli.verbs.top.seen import Row, Seen, Troubles
from coordinator.client.cluster_view import ClusterView
from coordinator.client.operating.what_is_asked import filter_groups
from coordinator.console.known.group_seen import GroupSeen
from coordinator.console.known.picture import Picture
from coordinator.protocol.messages import DescribeGroupResponse
from coordinator.protocol.parts import CommittedOffset, GroupSummary
from coordinator.protocol.text.counts import counted
from coordinator.protocol.vocabulary import GroupStatus


class Known:
    """The state of one `kcoord top`; `match` is a glob of ids, and without `states` groups in every state count."""

    def __init__(self, match: str | None = None, states: Collection[GroupStatus] = ()) -> None:
        self._match = match
        self._states = states
        self._picture = Picture()
        self._paces: dict[str, Pace] = {}
        self._troubles = Troubles()
        self._cluster: ClusterView | None = None
        self._at_ms = 0
        self._described: set[str] = set()
        self._health: dict[str, str | None] = {}
        self._unlisted: tuple[int, ...] = ()
        self._refused: dict[str, int] = {}
        self._silent: list[str] = []
        self._kafka = ""

    def begin(
        self,
        cluster: ClusterView | None,
        listed: Mapping[str, tuple[GroupSummary, int]],
        unlisted: Iterable[int],
        at_ms: int,
        shards: int | None = None,
    ) -> None:
        """Take in the cluster and the groups of all nodes, each with its node; a look has begun that is answered.

        Of how many `shards` there are follows which groups may be missing since theirs is `unlisted`.
        """
        meant = {name: listed[name] for name in filter_groups(list(listed), self._match)}
        self._unlisted = tuple(sorted(unlisted))
        self._picture.see_list(meant, self._unlisted, shards)
        there = {group.summary.group_id for group in self._picture.heard().groups}
        self._paces = {name: pace for name, pace in self._paces.items() if name in there}
        self._health = {name: status for name, status in self._health.items() if name in there}
        self._cluster, self._at_ms = cluster, at_ms
        self._described = set()
        self._refused, self._silent, self._kafka = {}, [], ""

    def in_turn(self) -> list[tuple[str, int | None]]:
        """Return the groups that count, each with its node: those that were described longest ago first."""
        groups = [group for group in self._picture.heard().groups if self._counts(group)]
        groups.sort(key=lambda group: -1 if group.measured is None else group.measured.as_of_ms)
        return [(group.summary.group_id, group.node) for group in groups]

    def see(
        self,
        description: DescribeGroupResponse,
        offsets: Sequence[CommittedOffset] | None,
        at_ms: int,
        at_s: float,
    ) -> None:
        """Take in the description of a group, at a time by the wall clock and by one that only grows.

        `offsets` have the times of its commits, by which its health is told; None where they were not asked for.
        """
        name = description.group_id
        if self._picture.group(name) is None:
            return
        self._picture.see_described(description, offsets or (), at_ms)
        self._paces.setdefault(name, Pace()).see(description, at_s)
        self._described.add(name)
        seen = self._picture.group(name)
        self._health[name] = None if seen is None or offsets is None else seen.row.status
        self._kafka = self._kafka or description.kafka_failure

    def see_refused(self, why: str) -> None:
        """Take in that a group could not be described."""
        self._refused[why] = self._refused.get(why, 0) + 1

    def see_silent(self, why: str) -> None:
        """Take in that a node did not tell of all its groups that were to be described."""
        self._silent.append(why)

    def end(self, at_ms: int) -> Seen:
        """Return all as it is after a look that was answered."""
        found: dict[str, str] = {}
        if self._cluster is not None:
            found.update((f"cluster: {_kind_of(text)}", text) for text in self._cluster.troubles())
        else:
            found["no cluster"] = "nodes and shards are not shown: this client may not describe the cluster"
        if self._unlisted:
            shards = ", ".join(map(str, self._unlisted[:8])) + (" and more" if len(self._unlisted) > 8 else "")
            found["unlisted"] = f"groups of {'shards' if len(self._unlisted) > 1 else 'shard'} {shards} are not listed"
        found.update((f"silent: {why}", f"groups of a node are as they were: {why}") for why in self._silent)
        for why, groups in self._refused.items():
            found[f"refused: {why}"] = f"{counted(groups, 'group')} could not be described: {why}"
        if self._kafka:
            found["kafka"] = f"log ends are as they were last read. {self._kafka}"
        return self._seen(found, at_ms)

    def fail(self, why: str, at_ms: int) -> Seen:
        """Return all as it was, after a look that was not answered."""
        self._described = set()
        return self._seen({"not answered": why}, at_ms)

    def _seen(self, found: Mapping[str, str], at_ms: int) -> Seen:
        rows = tuple(self._row(group) for group in self._picture.heard().groups if self._counts(group))
        return Seen(self._at_ms, self._cluster, rows, self._troubles.see(found, at_ms))

    def _counts(self, group: GroupSeen) -> bool:
        return not self._states or group.row.state in self._states

    def _row(self, group: GroupSeen) -> Row:
        row, measured = group.row, group.measured
        if measured is None:
            return Row(row.group, row.state, row.members)
        rates = self._paces[row.group].rates()
        partitions = measured.description.partitions
        way = None
        if partitions:
            has_commit = any(partition.committed is not None for partition in partitions)
            way = way_of(row.lag, is_lag_whole=not row.unknown, has_commit=has_commit, rates=rates)
        return Row(
            row.group,
            row.state,
            row.members,
            row.partitions,
            row.lag,
            row.unknown,
            row.lag_seconds,
            rates.committed,
            rates.arriving,
            way,
            self._health.get(row.group),
            row.as_of_ms,
            row.group not in self._described,
        )


def _kind_of(trouble: str) -> str:
    """Return the part of a sentence about shards that stays while other shards come to it; of others all of it."""
    return re.sub(r"^shards? [^a-z]*(?:and \d+ more )?(?:has|have) ", "", trouble)
