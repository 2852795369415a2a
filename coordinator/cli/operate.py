"""`kcoord group pause|resume|drain|undrain|delete|delete-offsets|release-claim`: what operators do to running groups.

Each is a dry run unless `--execute` is given, and is recorded with who asks and why.
"""

from collections.abc import Sequence
from typing import Annotated

import typer

from coordinator.cli.asking import Coordinator, Group, Output, Timeout, ask_for, describe_group
from coordinator.cli.deciding import DryRun, Execute, Why, exit_if_refused, is_dry, note_dry_run, who_asks
from coordinator.cli.exits import notes
from coordinator.cli.many import AllGroups, Match, SomeGroup, groups_meant
from coordinator.cli.scope import (
    AllTopics,
    TopicPartition,
    Topics,
    must_be_one_scope,
    named_partitions,
    parse_scope,
)
from coordinator.cli.tables import Cell, OutputFormat, write_rows
from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.operator_messages import (
    ChangeDrain,
    ChangeDrainResponse,
    ChangePause,
    ChangePauseResponse,
    DeleteGroup,
    DeleteGroupResponse,
    DeleteOffsets,
    DeleteOffsetsResponse,
    ReleaseClaims,
    ReleaseClaimsResponse,
)
from coordinator.protocol.parts import PartitionResult

Member = Annotated[str, typer.Argument(metavar="MEMBER", help="The member's id, as `kcoord group members` shows it.")]


def pause(
    group: Group,
    coordinator: Coordinator,
    topic: Topics = None,
    execute: Execute = False,
    dry_run: DryRun = False,
    why: Why = "",
    output: Output = OutputFormat.TABLE,
    timeout: Timeout = 10.0,
) -> None:
    """Pause partitions, or the whole group without --topic: owners let go, and nobody gets them."""
    dry = is_dry(execute=execute, dry_run=dry_run)
    partitions = _named(coordinator, group, topic, timeout) if topic else None
    _change_pause(coordinator, ChangePause(group, partitions, True, who_asks(), why, dry), output, timeout)


def resume(
    group: Group,
    coordinator: Coordinator,
    topic: Topics = None,
    execute: Execute = False,
    dry_run: DryRun = False,
    why: Why = "",
    output: Output = OutputFormat.TABLE,
    timeout: Timeout = 10.0,
) -> None:
    """End the pause of partitions, or without --topic that of the group; each ends only by itself."""
    dry = is_dry(execute=execute, dry_run=dry_run)
    partitions = _named(coordinator, group, topic, timeout) if topic else None
    _change_pause(coordinator, ChangePause(group, partitions, False, who_asks(), why, dry), output, timeout)


def _change_pause(coordinator: str, request: ChangePause, output: OutputFormat, timeout: float) -> None:
    response = ask_for(coordinator, request, timeout, ChangePauseResponse, request.group_id)
    _write_partitions(request.group_id, response.partitions, output)
    if not response.partitions:
        notes.print(f"No partition of group '{request.group_id}' is concerned.")
    note_dry_run(dry=request.is_dry_run)


def drain(
    group: Group,
    member: Member,
    coordinator: Coordinator,
    execute: Execute = False,
    dry_run: DryRun = False,
    why: Why = "",
    output: Output = OutputFormat.TABLE,
    timeout: Timeout = 10.0,
) -> None:
    """Move a member's partitions away and give it none, until `undrain` or its end."""
    dry = is_dry(execute=execute, dry_run=dry_run)
    _change_drain(coordinator, ChangeDrain(group, member, True, who_asks(), why, dry), output, timeout)


def undrain(
    group: Group,
    member: Member,
    coordinator: Coordinator,
    execute: Execute = False,
    dry_run: DryRun = False,
    why: Why = "",
    output: Output = OutputFormat.TABLE,
    timeout: Timeout = 10.0,
) -> None:
    """Let a drained member have partitions again."""
    dry = is_dry(execute=execute, dry_run=dry_run)
    _change_drain(coordinator, ChangeDrain(group, member, False, who_asks(), why, dry), output, timeout)


def _change_drain(coordinator: str, request: ChangeDrain, output: OutputFormat, timeout: float) -> None:
    response = ask_for(coordinator, request, timeout, ChangeDrainResponse, request.group_id)
    if request.is_drained:
        _write_partitions(request.group_id, response.partitions, output)
    if not response.partitions:
        notes.print(f"Member '{request.member_id}' has no partitions now.")
    note_dry_run(dry=request.is_dry_run)


def delete(
    coordinator: Coordinator,
    group: SomeGroup = None,
    match: Match = None,
    all_groups: AllGroups = False,
    execute: Execute = False,
    dry_run: DryRun = False,
    why: Why = "",
    timeout: Timeout = 10.0,
) -> None:
    """Delete groups that have no members, with their offsets; exits with the code of the first that is refused."""
    dry = is_dry(execute=execute, dry_run=dry_run)
    code = 0
    for one in groups_meant(coordinator, group, match, timeout, all_groups=all_groups):
        try:
            ask_for(coordinator, DeleteGroup(one, who_asks(), why, dry), timeout, DeleteGroupResponse, one)
            notes.print(f"Consumer group '{one}' {'can be' if dry else 'has been'} deleted.")
        except typer.Exit as refused:
            code = code or refused.exit_code
    note_dry_run(dry=dry)
    if code:
        raise typer.Exit(code)


def delete_offsets(
    group: Group,
    coordinator: Coordinator,
    topic: Topics = None,
    all_topics: AllTopics = False,
    execute: Execute = False,
    dry_run: DryRun = False,
    why: Why = "",
    output: Output = OutputFormat.TABLE,
    timeout: Timeout = 10.0,
) -> None:
    """Delete the committed offsets of partitions that nobody owns."""
    dry = is_dry(execute=execute, dry_run=dry_run)
    must_be_one_scope(topic, all_topics=all_topics)
    partitions = _named(coordinator, group, topic, timeout, all_topics=all_topics)
    request = DeleteOffsets(group, partitions, who_asks(), why, dry)
    response = ask_for(coordinator, request, timeout, DeleteOffsetsResponse, group)
    _write_results(group, response.results, output, dry=dry)


def release_claim(
    group: Group,
    coordinator: Coordinator,
    topic: Topics = None,
    execute: Execute = False,
    dry_run: DryRun = False,
    why: Why = "",
    output: Output = OutputFormat.TABLE,
    timeout: Timeout = 10.0,
) -> None:
    """Close running claims whose owner is gone, without a commit; their partitions are anybody's then."""
    dry = is_dry(execute=execute, dry_run=dry_run)
    must_be_one_scope(topic, all_topics=False)
    partitions = _named(coordinator, group, topic, timeout)
    request = ReleaseClaims(group, partitions, who_asks(), why, dry)
    response = ask_for(coordinator, request, timeout, ReleaseClaimsResponse, group)
    _write_results(group, response.results, output, dry=dry)


def _named(
    coordinator: str, group: str, topics: list[str] | None, timeout: float, *, all_topics: bool = False
) -> tuple[TopicPartition, ...]:
    for text in topics or ():
        parse_scope(text)
    return named_partitions(describe_group(coordinator, group, timeout), topics, all_topics=all_topics)


def _write_partitions(group: str, partitions: Sequence[TopicPartition], output: OutputFormat) -> None:
    write_rows(output, ("GROUP", "TOPIC", "PARTITION"), [(group, topic, number) for topic, number in partitions])


def _write_results(group: str, results: Sequence[PartitionResult], output: OutputFormat, *, dry: bool) -> None:
    """Write the partitions that were accepted, then say what was refused."""
    rows: list[tuple[Cell, ...]] = [
        (group, result.topic, result.partition, result.committed)
        for result in results
        if result.error is ErrorCode.NONE
    ]
    write_rows(output, ("GROUP", "TOPIC", "PARTITION", "CURRENT-OFFSET"), rows)
    note_dry_run(dry=dry)
    exit_if_refused((result.topic, result.partition, result.error, result.message) for result in results)


def add_verbs(app: typer.Typer) -> None:
    """Add the verbs of operators to those of groups."""
    for verb in (pause, resume, drain, undrain, delete):
        app.command(verb.__name__)(verb)
    app.command("delete-offsets")(delete_offsets)
    app.command("release-claim")(release_claim)
