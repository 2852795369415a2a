"""`kcoord group lag` and `kcoord group members`: how far a group is behind, and who is in it and how far along."""

from dataclasses import dataclass
from typing import Annotated, Final

import typer

from coordinator.cli.parts.asking import Coordinator, Output, Timeout, ask_for, describe_group
from coordinator.cli.parts.exits import ExitCode, notes
from coordinator.cli.parts.notes import DocCode
from coordinator.cli.parts.tables import Cell, OutputFormat, View, write_rows, write_views
from coordinator.cli.parts.which_groups import AllGroups, Match, SomeGroup, groups_meant
from coordinator.client.operating.lag import lag_by_topic
from coordinator.protocol.messages import DescribeGroupResponse
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


def note_old_ends(group: DescribeGroupResponse) -> None:
    """Say that the ends of logs are those of before, while Kafka does not answer the coordinator."""
    if group.kafka_failure:
        notes.print(f"Warning: log ends are as they were last read. {group.kafka_failure}.")


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

    A partition without an offset or a known end is counted as unknown; with an offset it fails --fail-above, since
    nobody can say that its lag is low.
    """
    meant = groups_meant(coordinator, group, match, timeout, all_groups=all_groups)
    found = [_lag(coordinator, one, timeout) for one in meant]
    write_views(output, [one.view for one in found], is_one=group is not None)
    if fail_above is None:
        return
    too_high = [(one, why) for one, lag in zip(meant, found, strict=True) if (why := lag.why_above(fail_above))]
    for one, why in too_high:
        notes.error(f"the lag of group '{one}' {why}", DocCode.LAG)
    if too_high:
        raise typer.Exit(ExitCode.LAG_TOO_HIGH)


@dataclass(frozen=True, slots=True)
class _Lag:
    """A group's lag as it is shown, its sum, and of how many committed partitions the end is not known."""

    view: View
    total: int
    without_end: int

    def why_above(self, most: int) -> str:
        """Say why the lag may be over a bound, empty where it is not."""
        if self.total > most:
            return f"is {self.total}, over {most}"
        ends = counted(self.without_end, "partition ends", "partitions end")
        return f"is not known: Kafka has not said where {ends}" if self.without_end else ""


def _lag(coordinator: str, group: str, timeout: float) -> _Lag:
    """Return a group's lag."""
    described = describe_group(coordinator, group, timeout)
    note_old_ends(described)
    lags = lag_by_topic(described.partitions)
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
    without_end = sum(one.committed is not None and one.end_offset is None for one in described.partitions)
    return _Lag(View(LAG_COLUMNS, rows, lambda: document), total, without_end)


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
