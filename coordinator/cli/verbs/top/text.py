"""A look as text for people: the lines of its head, and the cells of its rows. Pure.

Nothing in it is obeyed by a terminal. A value that is not known is `-`.
"""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final

from coordinator.cli.verbs.top.pace import duration_text
from coordinator.cli.verbs.top.seen import Row, Seen, Total, Trouble, numbers, states, total
from coordinator.protocol.text.counts import counted
from coordinator.protocol.text.escaping import one_line

COLUMNS: Final = (
    "GROUP",
    "STATE",
    "MEMBERS",
    "PARTITIONS",
    "LAG",
    "LAG-TIME",
    "COMMITTED/S",
    "ARRIVING/S",
    "WAY",
    "STATUS",
)
NUMBERS: Final = frozenset({"MEMBERS", "PARTITIONS", "LAG", "LAG-TIME", "COMMITTED/S", "ARRIVING/S"})
"""The columns that are read from the right."""
UNKNOWN: Final = "-"
MOST_TROUBLES: Final = 4


def clock_text(at_ms: int) -> str:
    """Return a time of day in UTC."""
    return datetime.fromtimestamp(at_ms / 1000, UTC).strftime("%H:%M:%SZ")


def head_lines(seen: Seen) -> list[str]:
    """Return the lines about the cluster and about all groups together, without those about what is wrong."""
    return [*_cluster_lines(seen), _groups_line(seen.rows)]


def trouble_lines(troubles: Sequence[Trouble]) -> list[str]:
    """Return a line for each of the first things that are wrong, and how many more there are."""
    shown = [f"! since {clock_text(one.since_ms)}: {one_line(one.text)}" for one in troubles[:MOST_TROUBLES]]
    more = len(troubles) - MOST_TROUBLES
    return [*shown, f"! and {more} more: `kcoord cluster status` names them"] if more > 0 else shown


def cells(row: Row) -> tuple[str, ...]:
    """Return a row as text, in the order of COLUMNS."""
    return (
        one_line(row.group),
        one_line(row.state),
        str(row.members),
        UNKNOWN if row.partitions is None else str(row.partitions),
        _lag(row),
        UNKNOWN if row.lag_s is None else duration_text(row.lag_s),
        rate_text(row.committed_per_s),
        rate_text(row.arriving_per_s),
        _way(row),
        row.status or UNKNOWN,
    )


def rate_text(rate: float | None) -> str:
    """Return records a second, with a digit behind the point where there are few."""
    if rate is None:
        return UNKNOWN
    if 0 < rate < 0.05:
        return "<0.1"
    return f"{rate:.1f}" if 0 < rate < 9.95 else f"{rate:.0f}"


def _cluster_lines(seen: Seen) -> list[str]:
    if seen.cluster is None:
        return [f"{clock_text(seen.at_ms)}  cluster -  controller -  nodes -", "shards -"]
    cluster, found = seen.cluster, numbers(seen.cluster)
    where = "cluster none: the coordinator is alone"
    if cluster.cluster_id is not None:
        controller = UNKNOWN if cluster.controller is None else str(cluster.controller)
        where = f"cluster {one_line(cluster.cluster_id)}  controller {controller}"
    wrong = [
        f"{number} {what}"
        for number, what in (
            (found.leaderless, "without a leader"),
            (found.waiting, "not serving"),
            (found.out_of_sync, "out of sync"),
        )
        if number
    ]
    return [
        f"{clock_text(seen.at_ms)}  {where}  nodes {found.nodes_up} of {found.nodes} up",
        f"{counted(found.shards, 'shard')}: {', '.join(wrong) or 'all served and in sync'}",
    ]


def _groups_line(rows: Sequence[Row]) -> str:
    of_states = ", ".join(f"{number} {one_line(state)}" for state, number in states(rows).items())
    lag = total(row.lag for row in rows)
    committed = total(row.committed_per_s for row in rows)
    return (
        f"{counted(len(rows), 'group')}{': ' if of_states else ''}{of_states}  "
        f"lag {UNKNOWN if lag.value is None else f'{lag.value:.0f}'}{_of(lag, len(rows))}  "
        f"committed/s {rate_text(committed.value)}{_of(committed, len(rows))}"
    )


def _of(found: Total, groups: int) -> str:
    return "" if found.groups in (0, groups) else f" (of {counted(found.groups, 'group')})"


def _lag(row: Row) -> str:
    if row.lag is None:
        return UNKNOWN
    return f"{row.lag}+" if row.unknown else str(row.lag)


def _way(row: Row) -> str:
    if row.is_old and row.as_of_ms is not None:
        return f"old: as of {clock_text(row.as_of_ms)}"
    return UNKNOWN if row.way is None else row.way.words
