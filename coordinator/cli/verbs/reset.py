"""`kcoord group reset-offsets`: set committed offsets while the group runs, in the words of Kafka's own tool."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from coordinator.cli.moving.reset_results import write_results
from coordinator.cli.parts.asking import Coordinator, Output, Timeout, ask_for, ask_in_portions, describe_group
from coordinator.cli.parts.deciding import (
    DryRun,
    Execute,
    ReleaseClaims,
    Why,
    end_with_results,
    is_dry,
    write_accepted,
)
from coordinator.cli.parts.exits import notes
from coordinator.cli.parts.reset_target import read_csv, targets_of, where_to, write_csv_of_offsets
from coordinator.cli.parts.tables import OutputFormat
from coordinator.cli.parts.which_groups import AllGroups, Match, SomeGroup, ask_each, groups_meant
from coordinator.cli.parts.which_partitions import AllTopics, Topics, must_be_one_scope, named_partitions
from coordinator.client.operating.author import who_asks
from coordinator.protocol.ids import MAX_OFFSET, TopicPartition
from coordinator.protocol.messages.operators import (
    CancelResets,
    CancelResetsResponse,
    ResetOffsets,
    ResetOffsetsResponse,
)
from coordinator.protocol.parts import PartitionResult, ResetResult, ResetTarget


def reset_offsets(
    coordinator: Coordinator,
    group: SomeGroup = None,
    match: Match = None,
    all_groups: AllGroups = False,
    topic: Topics = None,
    all_topics: AllTopics = False,
    to_earliest: Annotated[bool, typer.Option("--to-earliest", help="The first offset there is.")] = False,
    to_latest: Annotated[bool, typer.Option("--to-latest", help="The end.")] = False,
    to_current: Annotated[bool, typer.Option("--to-current", help="Where it is; without an offset the end.")] = False,
    to_offset: Annotated[
        int | None, typer.Option("--to-offset", metavar="N", min=0, max=MAX_OFFSET, help="This offset.")
    ] = None,
    to_datetime: Annotated[
        str | None,
        typer.Option("--to-datetime", metavar="TIME", help="The first record since 2026-01-31T06:30:00.000 (UTC)."),
    ] = None,
    by_duration: Annotated[
        str | None,
        typer.Option("--by-duration", metavar="DURATION", help="The first record of the last 15m, or PT15M."),
    ] = None,
    shift_by: Annotated[
        int | None,
        typer.Option(
            "--shift-by",
            metavar="N",
            min=-MAX_OFFSET,
            max=MAX_OFFSET,
            help="So many records on, or back when it is negative.",
        ),
    ] = None,
    from_file: Annotated[
        Path | None,
        typer.Option(
            "--from-file",
            metavar="CSV",
            help="Lines of topic,partition,offset; of several groups with the group in front.",
        ),
    ] = None,
    cancel: Annotated[bool, typer.Option("--cancel", help="Drop resets that are pending.")] = False,
    release_claims: ReleaseClaims = False,
    export: Annotated[
        bool,
        typer.Option(
            "--export", help="Write the new offsets as CSV for --from-file, of several groups with the group in front."
        ),
    ] = False,
    execute: Execute = False,
    dry_run: DryRun = False,
    why: Why = "",
    output: Output = OutputFormat.TABLE,
    timeout: Timeout = 30.0,
) -> None:
    """Set committed offsets. Where a member owns the partition this is pending until it has let go."""
    dry = is_dry(execute=execute, dry_run=dry_run)
    where = where_to(
        to_earliest=to_earliest,
        to_latest=to_latest,
        to_current=to_current,
        to_offset=to_offset,
        to_datetime=to_datetime,
        by_duration=by_duration,
        shift_by=shift_by,
    )
    if (where is not None) + (from_file is not None) + cancel != 1:
        raise typer.BadParameter("say where to with one of --to-earliest, --to-latest, …, --from-file, or --cancel")
    if from_file is None:
        must_be_one_scope(topic, all_topics=all_topics)
    elif topic or all_topics:
        raise typer.BadParameter("--from-file names the partitions: leave out --topic and --all-topics")
    meant = groups_meant(coordinator, group, match, timeout, all_groups=all_groups)
    if cancel:
        _cancel(coordinator, meant, topic, why, timeout, output, dry=dry)
        return
    # The whole file is read before anything is asked for: a line that is wrong leaves all groups as they are.
    in_file = (
        {one: read_csv(from_file, one, is_one_of_several=group is None) for one in meant}
        if from_file is not None
        else {}
    )

    def reset(group: str) -> tuple[ResetResult, ...]:
        if where is None:
            targets = in_file[group]
        else:
            targets = targets_of(named_partitions(describe_group(coordinator, group, timeout), topic), where)
        if not targets:
            notes.print(f"Consumer group '{group}' knows no partitions.")
            return ()

        def ask(some: tuple[ResetTarget, ...]) -> ResetOffsetsResponse:
            request = ResetOffsets(group, some, who_asks(), why, release_claims, dry)
            return ask_for(coordinator, request, timeout, ResetOffsetsResponse, group)

        return tuple(result for answer in ask_in_portions(group, targets, ask, dry=dry) for result in answer.results)

    answers, code = ask_each(meant, reset)
    results = [(one, result) for one, mine in answers.items() for result in mine]
    if export:
        write_csv_of_offsets(
            (*(() if group is not None else (one,)), result.topic, result.partition, result.new_offset)
            for one, result in results
            if result.new_offset is not None
        )
    elif answers:
        write_results(results, output, dry=dry)
    if not dry and any(result.is_pending for _, result in results):
        notes.print("Pending resets are done when the owners have let go; `kcoord group describe` shows them.")
    end_with_results(answers, dry=dry, code=code)


def _cancel(
    coordinator: str,
    groups: Sequence[str],
    topics: list[str] | None,
    why: str,
    timeout: float,
    output: OutputFormat,
    *,
    dry: bool,
) -> None:
    def cancel(group: str) -> tuple[PartitionResult, ...]:
        def ask(some: tuple[TopicPartition, ...] | None) -> CancelResetsResponse:
            request = CancelResets(group, some, who_asks(), why, dry)
            return ask_for(coordinator, request, timeout, CancelResetsResponse, group)

        named = named_partitions(describe_group(coordinator, group, timeout), topics) if topics else None
        answers = [ask(None)] if named is None else ask_in_portions(group, named, ask, dry=dry)
        results = tuple(result for answer in answers for result in answer.results)
        if not results:
            notes.print(f"No reset of group '{group}' is pending.")
        return results

    answers, code = ask_each(groups, cancel)
    if answers:
        write_accepted(answers, output)
    end_with_results(answers, dry=dry, code=code)
