"""A cluster and its groups as one look has left them: rows, their order, and the head above them. Pure.

Nothing here is asked and no clock is read. What is not known is None, never 0; totals say of how many groups they are.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from coordinator.cli.verbs.top.pace import Way
from coordinator.client.cluster_view import ClusterView
from coordinator.protocol.vocabulary import NodeStatus


class Sorting(StrEnum):
    """The orders of rows: the greatest first, groups by their ids; a row without the value comes last."""

    LAG = "lag"
    LAG_TIME = "lag-time"
    RATE = "rate"
    MEMBERS = "members"
    GROUP = "group"

    def next(self) -> "Sorting":
        """Return the one after this."""
        every = list(Sorting)
        return every[(every.index(self) + 1) % len(every)]


@dataclass(frozen=True, slots=True)
class Row:
    """A group. `lag` is in records over the partitions where it is known, and of `unknown` ones it is not.

    `status` is Burrow's word. `as_of_ms` is the time of the description, None before the first; `is_old` says that the
    last look did not describe it.
    """

    group: str
    state: str
    members: int
    partitions: int | None = None
    lag: int | None = None
    unknown: int | None = None
    lag_s: float | None = None
    committed_per_s: float | None = None
    arriving_per_s: float | None = None
    way: Way | None = None
    status: str | None = None
    as_of_ms: int | None = None
    is_old: bool = False


@dataclass(frozen=True, slots=True)
class Trouble:
    """A sentence, without its full stop, about what is not as it should be, and since when that was seen here."""

    since_ms: int
    text: str


@dataclass(frozen=True, slots=True)
class Seen:
    """All that a look has left; `cluster` is None for somebody who may not describe it.

    `at_ms` is the time of the last look that was answered.
    """

    at_ms: int
    cluster: ClusterView | None
    rows: tuple[Row, ...]
    troubles: tuple[Trouble, ...] = ()


@dataclass(frozen=True, slots=True)
class Total:
    """A sum over groups, and over how many of them; None over none."""

    value: float | None
    groups: int


@dataclass(frozen=True, slots=True)
class Cluster:
    """The nodes and shards of a cluster in numbers. Nodes that are gone and have nothing are not counted."""

    nodes: int
    nodes_up: int
    shards: int
    leaderless: int
    out_of_sync: int
    waiting: int
    """The shards whose leader loads, is stalled or could not be asked."""


def total(values: Iterable[float | None]) -> Total:
    """Return the sum of those that are known."""
    known = [value for value in values if value is not None]
    return Total(sum(known) if known else None, len(known))


def states(rows: Iterable[Row]) -> Mapping[str, int]:
    """Return how many groups are in each state, the most frequent first."""
    return dict(sorted(Counter(row.state for row in rows).items(), key=lambda found: (-found[1], found[0])))


def numbers(cluster: ClusterView) -> Cluster:
    """Return a cluster in numbers."""
    there = [node for node in cluster.nodes if node.described.status != NodeStatus.GONE or node.replicas]
    led = [shard for shard in cluster.shards if shard.leader is not None]
    return Cluster(
        len(there),
        sum(not node.why_not_asked and node.described.status != NodeStatus.GONE for node in there),
        len(cluster.shards),
        len(cluster.shards) - len(led),
        sum(bool(shard.isr) and len(shard.isr) < len(shard.replicas) for shard in cluster.shards),
        sum(shard.status != "serving" for shard in led),
    )


_VALUES: Final[Mapping[Sorting, Callable[[Row], float | None]]] = {
    Sorting.LAG: lambda row: row.lag,
    Sorting.LAG_TIME: lambda row: row.lag_s,
    Sorting.RATE: lambda row: row.committed_per_s,
    Sorting.MEMBERS: lambda row: row.members,
}


def in_order(rows: Iterable[Row], sorting: Sorting) -> list[Row]:
    """Return rows in an order; those that are equal in it by their ids."""
    by_id = sorted(rows, key=lambda row: row.group)
    if sorting is Sorting.GROUP:
        return by_id
    value = _VALUES[sorting]
    known = [(found, row) for row in by_id if (found := value(row)) is not None]
    known.sort(key=lambda pair: -pair[0])
    return [row for _, row in known] + [row for row in by_id if value(row) is None]


class Troubles:
    """The things that are wrong, by a name for each, each with the time since when.

    One that is over and comes again begins anew.
    """

    def __init__(self) -> None:
        self._since_ms: dict[str, int] = {}

    def see(self, found: Mapping[str, str], at_ms: int) -> tuple[Trouble, ...]:
        """Take in all that is wrong now, sentences by their names, and return them in the same order."""
        self._since_ms = {name: self._since_ms.get(name, at_ms) for name in found}
        return tuple(Trouble(self._since_ms[name], text) for name, text in found.items())


def shown(rows: Sequence[Row], sorting: Sorting, limit: int | None) -> list[Row]:
    """Return the first rows of an order, all of them without a limit."""
    return in_order(rows, sorting)[:limit]
