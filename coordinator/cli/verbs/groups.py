"""`kcoord group …`: what the coordinator says about its groups, in the columns of Kafka's own tool."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Annotated, Final

import typer

from coordinator.cli.parts.asking import Coordinator, Output, Timeout, ask_for
from coordinator.cli.parts.exits import ExitCode, notes
from coordinator.cli.parts.surveying import every_group
from coordinator.cli.parts.tables import Cell, OutputFormat, View, write_document, write_rows, write_views
from coordinator.cli.parts.which_groups import AllGroups, Match, SomeGroup, groups_meant
from coordinator.cli.parts.which_partitions import format_partitions
from coordinator.cli.verbs import operate
from coordinator.cli.verbs.lag import lag, members, note_old_ends
from coordinator.cli.verbs.looking.events import events, time_text
from coordinator.cli.verbs.reset import reset_offsets
from coordinator.cli.verbs.waiting.wait import wait
from coordinator.cli.verbs.waiting.watch import watch
from coordinator.client.operating.lag import lag_of
from coordinator.client.operating.partitions_meant import left_claims
from coordinator.client.operating.what_is_asked import filter_groups
from coordinator.protocol.messages import (
    DescribeGroup,
    DescribeGroupResponse,
    FindCoordinator,
    FindCoordinatorResponse,
)
from coordinator.protocol.messages.operators import DescribeControls, DescribeControlsResponse
from coordinator.protocol.parts import ControlDescription, MemberDescription, PartitionDescription
from coordinator.protocol.text.addresses import format_address
from coordinator.protocol.vocabulary import ControlKind, GroupStatus

app = typer.Typer(help="Look at consumer groups, and operate them.", no_args_is_help=True)


REBALANCING_STATES: Final = frozenset({GroupStatus.ASSIGNING, GroupStatus.RECOVERING, GroupStatus.RECONCILING})

PARTITION_COLUMNS: Final = (
    "GROUP",
    "TOPIC",
    "PARTITION",
    "CURRENT-OFFSET",
    "LOG-END-OFFSET",
    "LAG",
    "CONSUMER-ID",
    "HOST",
    "CLIENT-ID",
    "PID",
)
MEMBER_COLUMNS: Final = ("GROUP", "CONSUMER-ID", "HOST", "CLIENT-ID", "#PARTITIONS", "PID")
STATE_COLUMNS: Final = ("GROUP", "COORDINATOR (ID)", "ASSIGNMENT-STRATEGY", "STATE", "#MEMBERS")
LIST_COLUMNS: Final = ("GROUP", "STATE", "#MEMBERS", "GROUP-EPOCH", "BYTES")


@app.command("list")
def list_groups(
    coordinator: Coordinator,
    match: Match = None,
    state: Annotated[
        list[GroupStatus] | None,
        typer.Option("--state", case_sensitive=False, help="Only groups in this state; may be given repeatedly."),
    ] = None,
    output: Output = OutputFormat.TABLE,
    timeout: Timeout = 10.0,
) -> None:
    """List the groups that the coordinator knows, on all of its nodes, or those that match."""
    every, are_all = every_group(coordinator, timeout)
    meant = frozenset(filter_groups([group.group_id for group in every], match))
    groups = [g for g in every if g.group_id in meant and (not state or g.state in state)]
    if output.is_document:
        write_document(
            output,
            [
                {
                    "group": group.group_id,
                    "state": group.state,
                    "members": group.members,
                    "group_epoch": group.group_epoch,
                    "bytes": group.bytes,
                }
                for group in groups
            ],
        )
    else:
        rows = [(group.group_id, group.state, group.members, group.group_epoch, group.bytes) for group in groups]
        write_rows(output, LIST_COLUMNS, rows)
    if not are_all:
        raise typer.Exit(ExitCode.REFUSED_BY_STATE)
    if not groups and not output.is_document:
        notes.print("No group matches." if every else "There are no groups.")


@app.command()
def describe(
    coordinator: Coordinator,
    group: SomeGroup = None,
    match: Match = None,
    all_groups: AllGroups = False,
    offsets: Annotated[bool, typer.Option("--offsets", help="Show partitions, which is the default.")] = False,
    members: Annotated[bool, typer.Option("--members", help="Show members.")] = False,
    state: Annotated[bool, typer.Option("--state", help="Show states.")] = False,
    output: Output = OutputFormat.TABLE,
    timeout: Timeout = 10.0,
) -> None:
    """Show partitions of groups with offsets, lag and owners; or their members; or their states."""
    if [offsets, members, state].count(True) > 1:
        raise typer.BadParameter("--offsets, --members and --state are different views: name one")
    view = _view_state if state else _view_members if members else _view_partitions
    meant = groups_meant(coordinator, group, match, timeout, all_groups=all_groups)
    write_views(output, [view(coordinator, one, timeout) for one in meant], is_one=group is not None)


def _described(coordinator: str, group: str, timeout: float) -> tuple[DescribeGroupResponse, list[ControlDescription]]:
    """Return what the coordinator says of a group, after the notes that belong to it."""
    response = ask_for(coordinator, DescribeGroup(group), timeout, DescribeGroupResponse, group)
    if not response.members:
        notes.print(f"Consumer group '{group}' has no active members.{_say_forgotten(response)}")
    elif response.state in REBALANCING_STATES:
        notes.print(f"Warning: Consumer group '{group}' is rebalancing.")
    note_old_ends(response)
    controls = ask_for(coordinator, DescribeControls(group), timeout, DescribeControlsResponse, group).controls
    for control in controls:
        notes.print(_say_control(control))
    left = left_claims(response)
    if left:
        notes.print(
            f"Running claims on {format_partitions(left)} were left by owners that are gone; wait for them to come "
            f"back, or close the claims with `kcoord group release-claim {group} --all-topics`."
        )
    return response, list(controls)


def _say_forgotten(response: DescribeGroupResponse) -> str:
    if response.forgotten_in_ms is None:
        return ""
    left = timedelta(seconds=response.forgotten_in_ms // 1000)
    return (
        f" It is forgotten with its offsets when the coordinator has run for {left}, unless a member joins or offsets "
        "are set before."
    )


def _view_partitions(coordinator: str, group: str, timeout: float) -> View:
    response, controls = _described(coordinator, group, timeout)
    members = {member.member_id: member for member in response.members}

    def document() -> Mapping[str, object]:
        return {
            **_head(group, response),
            "partitions": [_partition_as_json(p, members.get(p.member_id or "")) for p in response.partitions],
            "controls": [_control_as_json(control) for control in controls],
        }

    rows: list[tuple[Cell, ...]] = []
    for p in response.partitions:
        owner = members.get(p.member_id or "")
        who = (owner.host, owner.client_id, owner.pid) if owner else (None, None, None)
        rows.append((group, p.topic, p.partition, p.committed, p.end_offset, lag_of(p), p.member_id, *who))
    owners = {p.member_id for p in response.partitions}
    for member in response.members:
        if member.member_id not in owners:
            who = (member.host, member.client_id, member.pid)
            rows.append((group, None, None, None, None, None, member.member_id, *who))
    return View(PARTITION_COLUMNS, rows, document)


def _view_members(coordinator: str, group: str, timeout: float) -> View:
    response, _ = _described(coordinator, group, timeout)
    document = {**_head(group, response), "members": [_member_as_json(member) for member in response.members]}
    rows: list[tuple[Cell, ...]] = [(group, m.member_id, m.host, m.client_id, m.owned, m.pid) for m in response.members]
    columns: tuple[str, ...] = MEMBER_COLUMNS
    if any(member.instance_id is not None for member in response.members):
        columns = (*columns[:2], "GROUP-INSTANCE-ID", *columns[2:])
        rows = [(*row[:2], member.instance_id, *row[2:]) for row, member in zip(rows, response.members, strict=True)]
    return View(columns, rows, lambda: document)


def _view_state(coordinator: str, group: str, timeout: float) -> View:
    response, _ = _described(coordinator, group, timeout)
    node = ask_for(coordinator, FindCoordinator(group), timeout, FindCoordinatorResponse, group).coordinator
    policy = response.reset_policy
    document = {
        **_head(group, response),
        "coordinator": {"host": node.host, "port": node.port, "node_id": node.node_id} if node else None,
        "assignor": response.assignor or None,
        "reset_policy": {"kind": policy.kind, "timestamp_ms": policy.timestamp_ms} if policy else None,
        "handover": response.handover or None,
        "members": len(response.members),
        "bytes": response.bytes,
    }
    where = f"{format_address((node.host, node.port))} ({node.node_id})" if node else None
    row = (group, where, response.assignor, response.state, len(response.members))
    return View(STATE_COLUMNS, [row], lambda: document)


def _head(group: str, response: DescribeGroupResponse) -> dict[str, object]:
    return {
        "group": group,
        "state": response.state,
        "group_epoch": response.group_epoch,
        "forgotten_in_ms": response.forgotten_in_ms,
    }


def _partition_as_json(p: PartitionDescription, owner: MemberDescription | None) -> dict[str, object]:
    claim = None
    if p.claim is not None and p.claim_state is not None:
        claim = {
            "from_offset": p.claim.from_offset,
            "until_offset": p.claim.until_offset,
            "owner_epoch": p.claim.owner_epoch,
            "state": p.claim_state.name,
        }
    return {
        "topic": p.topic,
        "partition": p.partition,
        "current_offset": p.committed,
        "log_end_offset": p.end_offset,
        "lag": lag_of(p),
        "consumer_id": p.member_id,
        "host": owner.host if owner else None,
        "client_id": owner.client_id if owner else None,
        "pid": owner.pid if owner else None,
        "owner_epoch": p.owner_epoch,
        "stream": p.stream,
        "is_stopping": p.is_stopping,
        "claim": claim,
    }


def _say_control(control: ControlDescription) -> str:
    sentences: dict[str, str] = {
        ControlKind.GROUP_PAUSED: "The group is paused",
        ControlKind.PARTITION_PAUSED: f"{control.topic}-{control.partition} is paused",
        ControlKind.MEMBER_DRAINED: f"Member '{control.member_id}' is drained",
        ControlKind.RESET_PENDING: f"A reset of {control.topic}-{control.partition} to {control.offset} is pending",
    }
    what = sentences.get(control.kind, control.kind)
    return f"{what}, by {control.who} at {time_text(control.at_ms)}{': ' if control.why else '.'}{control.why}"


def _control_as_json(control: ControlDescription) -> dict[str, object]:
    return {
        "kind": control.kind,
        "topic": control.topic or None,
        "partition": control.partition,
        "consumer_id": control.member_id or None,
        "new_offset": control.offset,
        "who": control.who,
        "why": control.why or None,
        "time": time_text(control.at_ms),
    }


def _member_as_json(member: MemberDescription) -> dict[str, object]:
    return {
        "consumer_id": member.member_id,
        "group_instance_id": member.instance_id,
        "host": member.host,
        "client_id": member.client_id,
        "pid": member.pid,
        "state": member.state,
        "member_epoch": member.member_epoch,
        "streams": member.streams,
        "connected": member.connected,
        "partitions": member.owned,
        "target_partitions": member.target,
        "commits": member.commits,
        "unpolled_ms": member.unpolled_ms,
    }


# `--help` shows the verbs in this order, after those above: first what only looks.
app.command("events")(events)
app.command("members")(members)
app.command("lag")(lag)
app.command("wait")(wait)
app.command("watch")(watch)
app.command("reset-offsets")(reset_offsets)
operate.add_verbs(app)
