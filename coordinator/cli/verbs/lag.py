"""`kcoord group lag` and `kcoord group members`: how far a group is behind, and who is in it and how far along."""

from typing import Annotated, Final

import typer

from coordinator.cli.parts.asking import Coordinator, Output, Timeout, ask_for, describe_group
from coordinator.cli.parts.exits import ExitCode, notes
from coordinator.cli.parts.tables import Cell, OutputFormat, View, write_rows, write_views
from coordinator.cli.parts.which_groups import AllGroups, Match, SomeGroup, groups_meant
from coordinator.client.operating.lag import lag_by_topic
from coordinator.protocol.messages.operators import DescribeControls, DescribeControlsResponse
from coordinator.protocol.text.counts import counted
from coordinator.protocol.vocabulary import ControlKind

LAG_COLUMNS: Final = ("GROUP", "TOPIC", "#PARTITIONS", "LAG", "MAX-LAG", "UNKNOWN")
MEMBERS_COLUMNS: Final = (
    "GROUP",
    "CONSUMER-ID",
    "GROUP-INSTANCE-ID",
    "HOST",
    "CLIENT-ID",
    "#PARTITIONS",
    "#TARGET",
    "CURRENT-EPOCH",
    "STATE",
    "CONNECTED",
    "DRAINED",
    "COMMITS",
    "ISOLATION-LEVEL",
    "UNPOLLED-MS",
    "PID",
)


def lag(
    coordinator: Coordinator,
    group: SomeGroup = None,
    match: Match = None,
    all_groups: AllGroups = False,
    fail_above: Annotated[
        int | None, typer.Option("--fail-above", metavar="N", min=0, help="Exit with 7 when the lag is over N.")
    ] = None,
    output: Output = OutputFormat.TABLE,
    timeout: Timeout = 10.0,
) -> None:
    """Show the lag of groups a topic, to the high watermark whatever the members' isolation level.

    A partition without an offset or a known end is counted as unknown.
    """
    meant = groups_meant(coordinator, group, match, timeout, all_groups=all_groups)
    found = [_lag(coordinator, one, timeout) for one in meant]
    write_views(output, [view for view, _ in found], is_one=group is not None)
    behind = [(one, total) for one, (_, total) in zip(meant, found, strict=True) if total > (fail_above or 0)]
    if fail_above is not None and behind:
        for one, total in behind:
            notes.print(f"error: the lag of group '{one}' is {total}, over {fail_above}")
        raise typer.Exit(ExitCode.LAG_TOO_HIGH)


def _lag(coordinator: str, group: str, timeout: float) -> tuple[View, int]:
    """Return a group's lag as it is shown, and its sum."""
    lags = lag_by_topic(describe_group(coordinator, group, timeout).partitions)
    total = sum(mine.lag for mine in lags)
    unknown = sum(mine.unknown for mine in lags)
    rows: list[tuple[Cell, ...]] = [
        (group, mine.topic, mine.partitions, mine.lag, mine.max_lag, mine.unknown) for mine in lags
    ]
    names = ("topic", "partitions", "lag", "max_lag", "unknown")
    topics = [dict(zip(names, row[1:], strict=True)) for row in rows]
    if unknown:
        without = counted(unknown, "partition is", "partitions are")
        notes.print(f"{without} not counted: no committed offset or no known end.")
    document = {"group": group, "lag": total, "counted_to": "high watermark", "unknown": unknown, "topics": topics}
    return View(LAG_COLUMNS, rows, lambda: document), total


def members(
    coordinator: Coordinator,
    group: SomeGroup = None,
    match: Match = None,
    all_groups: AllGroups = False,
    output: Output = OutputFormat.TABLE,
    timeout: Timeout = 10.0,
) -> None:
    """Show the members of groups: what they hold and are to hold, how far they are, and whether they are drained.

    UNPOLLED-MS is for how long a consumer's program had not polled it as of its last ping; a query has none.
    """
    meant = groups_meant(coordinator, group, match, timeout, all_groups=all_groups)
    rows = [row for one in meant for row in _members(coordinator, one, timeout)]
    write_rows(output, MEMBERS_COLUMNS, rows)


def _members(coordinator: str, group: str, timeout: float) -> list[tuple[Cell, ...]]:
    response = describe_group(coordinator, group, timeout)
    found = ask_for(coordinator, DescribeControls(group), timeout, DescribeControlsResponse, group)
    drained = {control.member_id for control in found.controls if control.kind == ControlKind.MEMBER_DRAINED}
    if not response.members:
        notes.print(f"Consumer group '{group}' has no active members.")
    return [
        (
            group,
            member.member_id,
            member.instance_id,
            member.host,
            member.client_id,
            member.owned,
            member.target,
            member.member_epoch,
            member.state,
            "yes" if member.connected else "no",
            "yes" if member.member_id in drained else "no",
            "yes" if member.commits else "no",
            member.isolation_level,
            member.unpolled_ms,
            member.pid,
        )
        for member in response.members
    ]
