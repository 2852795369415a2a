"""`kcoord export GROUP --as …`: where a group has come to, for Spark's own source, for Kafka's groups and its tool."""

import sys
from collections.abc import Sequence
from enum import StrEnum
from typing import Annotated

import msgspec
import typer
from msgspec.structs import replace

from coordinator.cli.moving.new_partitions import not_named
from coordinator.cli.moving.offsets_now import which_are_not
from coordinator.cli.moving.offsets_set import Outcome, end_with_offsets
from coordinator.cli.moving.which_kafka import Kafka, KafkaConfig, kafka_meant
from coordinator.cli.parts.asking import Coordinator, Group, Timeout, ask_for, describe_group
from coordinator.cli.parts.deciding import DryRun, Execute, Why, is_dry
from coordinator.cli.parts.exits import ExitCode, notes
from coordinator.cli.parts.notes import DocCode
from coordinator.cli.parts.reset_target import write_csv_of_offsets
from coordinator.cli.parts.tables import OutputFormat
from coordinator.cli.parts.which_partitions import Topics, named_partitions, parse_scope
from coordinator.client.operating.author import who_asks
from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.messages import DescribeGroupResponse, FetchOffsets, FetchOffsetsResponse
from coordinator.protocol.messages.operators import DescribeControls, DescribeControlsResponse
from coordinator.protocol.parts import CommittedOffset
from coordinator.protocol.text.counts import counted
from coordinator.protocol.text.escaping import json_document
from coordinator.protocol.vocabulary import ControlKind


class ExportForm(StrEnum):
    """The readers of a group's position."""

    STARTING_OFFSETS = "starting-offsets"
    KAFKA_GROUP = "kafka-group"
    CSV = "csv"


def export(
    group: Group,
    coordinator: Coordinator,
    form: Annotated[
        ExportForm,
        typer.Option(
            "--as",
            help="The value of Spark's startingOffsets, a group of Kafka without members, or the CSV of --from-file.",
        ),
    ],
    topic: Topics = None,
    kafka_group: Annotated[
        str | None,
        typer.Option("--kafka-group", metavar="NAME", help="Which group of Kafka; else the one of the same name."),
    ] = None,
    kafka: Kafka = None,
    kafka_config: KafkaConfig = None,
    while_running: Annotated[
        bool, typer.Option("--while-running", help="Also while the group has members, which go on meanwhile.")
    ] = False,
    move_back: Annotated[
        bool, typer.Option("--move-back", help="Also set offsets of the group of Kafka back.")
    ] = False,
    execute: Execute = False,
    dry_run: DryRun = False,
    why: Why = "",
    output: Annotated[
        OutputFormat | None, typer.Option("--output", "-o", help="How to write what is done to a group of Kafka.")
    ] = None,
    timeout: Timeout = 30.0,
) -> None:
    """Write where a group has come to: to standard output, or with --execute into a group of Kafka."""
    dry = is_dry(execute=execute, dry_run=dry_run)
    if form is not ExportForm.KAFKA_GROUP and (execute or output or kafka_group or move_back or while_running):
        raise typer.BadParameter(f"--as {form} is written to standard output and changes nothing: leave out the others")
    described = describe_group(coordinator, group, timeout)
    _tell(described, coordinator, timeout)
    if form is ExportForm.STARTING_OFFSETS:
        _write_starting_offsets(described, topic, coordinator, timeout)
        return
    offsets = _committed(described, topic, coordinator, timeout)
    if form is ExportForm.CSV:
        write_csv_of_offsets((each.topic, each.partition, each.offset) for each in offsets)
        return
    code = _why_running(described, dry=dry, while_running=while_running)
    name = kafka_group or group
    from coordinator.cli.moving.ways_out import for_kafka, planned, written

    wanted = for_kafka(offsets, f"from kcoord's group {group}, by {who_asks()}" + (f": {why}" if why else ""))
    with kafka_meant(coordinator, group, kafka, kafka_config, timeout) as groups:
        found = groups.read(name)
        results, kept = planned(wanted, found.offsets, moves_back=move_back)
        if found.has_members:
            notes.error(f"{found.say_members()}: Kafka takes offsets of a group without members only.", DocCode.STATE)
            code = ExitCode.REFUSED_BY_STATE
            if not dry:
                raise typer.Exit(code)
        good = {(each.topic, each.partition) for each in results if each.error is ErrorCode.NONE}
        if not dry and good:
            refused = groups.write(name, {partition: wanted[partition] for partition in wanted if partition in good})
            results = written(results, refused)
    end_with_offsets([Outcome(name, tuple(results), kept)], output or OutputFormat.TABLE, dry=dry, code=code)


def _tell(described: DescribeGroupResponse, coordinator: str, timeout: float) -> None:
    """Say what is about to change, and so is not in what is written."""
    group = described.group_id
    if described.members:
        members = counted(len(described.members), "member")
        notes.print(f"Warning: group '{group}' has {members}; what is committed from now on is not in it.")
    controls = ask_for(coordinator, DescribeControls(group), timeout, DescribeControlsResponse, group).controls
    pending = sum(control.kind == ControlKind.RESET_PENDING for control in controls)
    if pending:
        resets = counted(pending, "reset is", "resets are")
        notes.print(f"Warning: {resets} pending in group '{group}', and not in what is written.")


def _write_starting_offsets(
    described: DescribeGroupResponse, topics: Sequence[str] | None, coordinator: str, timeout: float
) -> None:
    from coordinator.cli.moving.ways_out import starting_offsets

    meant = set(named_partitions(described, topics))
    _must_be_some(described.group_id, meant)
    not_now = which_are_not(_fetched(described, meant, coordinator, timeout), described.group_id, coordinator, timeout)
    meant -= not_now.absent
    _must_be_some(described.group_id, meant)
    by_number = {topic for topic, numbers in map(parse_scope, topics or ()) if numbers is not None}
    whole = [partition for partition in meant if partition[0] not in by_number]
    unknown = not_named(whole, described.group_id, coordinator, timeout)
    partitions = (
        replace(each, committed=None, claim=None) if (each.topic, each.partition) in not_now.of_another_log else each
        for each in described.partitions
        if (each.topic, each.partition) in meant
    )
    found = starting_offsets(partitions, unknown)
    if found.from_claims:
        notes.print(f"{_without_offset(found.from_claims)}; the start is where the unfinished range begins.")
    if found.from_beginning:
        notes.print(f"{_without_offset(found.from_beginning)}; the start is the beginning, which is -2.")
    sys.stdout.write(json_document(msgspec.json.encode(found.offsets).decode()) + "\n")


def _committed(
    described: DescribeGroupResponse, topics: Sequence[str] | None, coordinator: str, timeout: float
) -> list[CommittedOffset]:
    group = described.group_id
    meant = set(named_partitions(described, topics))
    offsets = _fetched(described, meant, coordinator, timeout)
    not_now = which_are_not(offsets, group, coordinator, timeout)
    left_out = not_now.of_another_log | not_now.absent
    offsets = [each for each in offsets if (each.topic, each.partition) not in left_out]
    _must_be_some(group, offsets)
    if len(offsets) < len(meant):
        notes.print(
            f"{_without_offset(len(meant) - len(offsets))} and no line here; whoever reads there next starts by "
            "auto.offset.reset of its own."
        )
    return offsets


def _without_offset(number: int) -> str:
    return counted(number, "partition has no committed offset", "partitions have no committed offset")


def _fetched(
    described: DescribeGroupResponse, meant: set[tuple[str, int]], coordinator: str, timeout: float
) -> list[CommittedOffset]:
    group = described.group_id
    answer = ask_for(coordinator, FetchOffsets(group), timeout, FetchOffsetsResponse, group)
    return [each for each in answer.offsets if (each.topic, each.partition) in meant]


def _must_be_some(group: str, found: Sequence[object] | set[tuple[str, int]]) -> None:
    if not found:
        notes.error(f"group '{group}' has no offsets of what is named: there is nothing to write", DocCode.STATE)
        raise typer.Exit(ExitCode.NOT_FOUND)


def _why_running(described: DescribeGroupResponse, *, dry: bool, while_running: bool) -> int:
    """Say that members go on; return the exit code of a dry run, and end the program where it is none."""
    if not described.members or while_running:
        return ExitCode.OK
    notes.print(
        f"error: stop the members of group '{described.group_id}' first, or what they commit meanwhile is read twice; "
        "--while-running writes its offsets all the same"
    )
    if not dry:
        raise typer.Exit(ExitCode.REFUSED_BY_STATE)
    return ExitCode.REFUSED_BY_STATE
