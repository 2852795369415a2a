"""`kcoord group lag` and `kcoord group members`: how far a group is behind, and who is in it and how far along."""

from typing import Annotated, Final

import typer

from coordinator.cli.asking import Coordinator, Group, Output, Timeout, ask_for, describe_group
from coordinator.cli.exits import ExitCode, notes
from coordinator.cli.tables import Cell, OutputFormat, write_json, write_rows
from coordinator.protocol.operator_messages import DescribeControls, DescribeControlsResponse
from coordinator.protocol.parts import PartitionDescription

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
)


def lag_of(partition: PartitionDescription) -> int | None:
    """Records between the commit and the end, both as last known: a commit can be newer than the polled end."""
    if partition.committed is None or partition.end_offset is None:
        return None
    return max(0, partition.end_offset - partition.committed)


def lag(
    group: Group,
    coordinator: Coordinator,
    fail_above: Annotated[
        int | None, typer.Option("--fail-above", metavar="N", min=0, help="Exit with 7 when the lag is over N.")
    ] = None,
    output: Output = OutputFormat.TABLE,
    timeout: Timeout = 10.0,
) -> None:
    """Show a group's lag a topic; a partition without an offset or a known end is counted as unknown."""
    lags: dict[str, list[int | None]] = {}
    for partition in describe_group(coordinator, group, timeout).partitions:
        lags.setdefault(partition.topic, []).append(lag_of(partition))
    known = {topic: [value for value in mine if value is not None] for topic, mine in lags.items()}
    total = sum(sum(mine) for mine in known.values())
    unknown = sum(len(mine) - len(known[topic]) for topic, mine in lags.items())
    rows: list[tuple[Cell, ...]] = [
        (group, topic, len(mine), sum(known[topic]), max(known[topic], default=None), len(mine) - len(known[topic]))
        for topic, mine in lags.items()
    ]
    if output is OutputFormat.JSON:
        names = ("topic", "partitions", "lag", "max_lag", "unknown")
        topics = [dict(zip(names, row[1:], strict=True)) for row in rows]
        write_json({"group": group, "lag": total, "unknown": unknown, "topics": topics})
    else:
        write_rows(output, LAG_COLUMNS, rows)
    if unknown:
        notes.print(f"{unknown} partitions have no committed offset or no known end and are not counted.")
    if fail_above is not None and total > fail_above:
        notes.print(f"error: the lag of group '{group}' is {total}, over {fail_above}")
        raise typer.Exit(ExitCode.LAG_TOO_HIGH)


def members(
    group: Group, coordinator: Coordinator, output: Output = OutputFormat.TABLE, timeout: Timeout = 10.0
) -> None:
    """Show a group's members: what they hold and are to hold, how far they are, and whether they are drained."""
    response = describe_group(coordinator, group, timeout)
    found = ask_for(coordinator, DescribeControls(group), timeout, DescribeControlsResponse, group)
    drained = {control.member_id for control in found.controls if control.kind == "member-drained"}
    if not response.members:
        notes.print(f"Consumer group '{group}' has no active members.")
    rows: list[tuple[Cell, ...]] = [
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
        )
        for member in response.members
    ]
    write_rows(output, MEMBERS_COLUMNS, rows)
