"""`kcoord cluster backup FILE` and `kcoord cluster restore FILE`: offsets, settings and decisions of all groups."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Final

import typer

from coordinator.cli.moving.backup import Backup, BackupError, GroupKept, encode, kept, make_backup, read, write
from coordinator.cli.moving.controls_set import ControlResult, set_controls, write_controls
from coordinator.cli.moving.offsets_set import Manner, Outcome, Wish, set_offsets
from coordinator.cli.moving.reset_results import row_as_json, write_results
from coordinator.cli.moving.which_kafka import find_group
from coordinator.cli.parts.asking import Coordinator, Output, Timeout, ask_if_there
from coordinator.cli.parts.deciding import (
    DryRun,
    Execute,
    MoveBack,
    ReleaseClaims,
    Why,
    end_with_results,
    is_dry,
)
from coordinator.cli.parts.exits import ExitCode, notes
from coordinator.cli.parts.new_file import must_be_free
from coordinator.cli.parts.notes import DocCode
from coordinator.cli.parts.surveying import every_group
from coordinator.cli.parts.tables import Cell, OutputFormat, write_document, write_rows
from coordinator.cli.parts.which_groups import Match, ask_each
from coordinator.client.operating.author import who_asks
from coordinator.client.operating.resets import delta_of
from coordinator.client.operating.what_is_asked import filter_groups
from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.messages import (
    DescribeGroup,
    DescribeGroupResponse,
    FetchOffsets,
    FetchOffsetsResponse,
)
from coordinator.protocol.messages.operators import DescribeControls, DescribeControlsResponse
from coordinator.protocol.text.counts import counted
from coordinator.protocol.vocabulary import ControlKind

BACKUP_COLUMNS: Final = ("GROUP", "#OFFSETS", "PAUSED", "#PAUSED", "#DRAINED", "#PENDING")
"""Of each group: its offsets, whether it is paused as a whole, its paused partitions, drained members, resets."""

_MOST_READS: Final = 10
"""So often the offsets of a group are read whose pauses, drains or resets change all the time."""

File = Annotated[Path, typer.Argument(metavar="FILE", help="The backup, a JSON document.")]


def backup(
    file: File,
    coordinator: Coordinator,
    match: Match = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Put it in the place of a file that is there.")
    ] = False,
    output: Output = OutputFormat.TABLE,
    timeout: Timeout = 30.0,
) -> None:
    """Write the offsets and settings of all groups, or of some, and what operators have decided, into a file."""
    if str(file) == "-":
        raise typer.BadParameter("a backup is a file, which comes whole or not at all: name one", param_hint="FILE")
    must_be_free(file, "a backup", replaces=overwrite, option="--overwrite")
    listed, are_all = every_group(coordinator, timeout)
    if not are_all:
        notes.error(f"not all groups are known, so {file} has not been written", DocCode.NOT_KNOWN_NOW)
        raise typer.Exit(ExitCode.REFUSED_BY_STATE)
    names = list(filter_groups([group.group_id for group in listed], match))
    if match is not None and not names:
        notes.print(f"No group matches '{match}', so {file} has not been written.")
        raise typer.Exit(ExitCode.NOT_FOUND)
    groups = [_kept(name, coordinator, timeout) for name in names]
    found = [group for group in groups if group is not None]
    cluster_id = find_group(coordinator, found[0].group, timeout).kafka_cluster_id if found else None
    must_be_free(file, "a backup", replaces=overwrite, option="--overwrite")  # reading may have taken long
    try:
        write(file, encode(make_backup(found, cluster_id, who_asks())))
    except BackupError as error:
        notes.error(str(error), DocCode.FILE)
        raise typer.Exit(ExitCode.ERROR) from error
    rows: list[tuple[Cell, ...]] = [
        (
            group.group,
            len(group.offsets),
            "yes" if group.count(ControlKind.GROUP_PAUSED) else "no",
            group.count(ControlKind.PARTITION_PAUSED),
            group.count(ControlKind.MEMBER_DRAINED),
            group.count(ControlKind.RESET_PENDING),
        )
        for group in found
    ]
    write_rows(output, BACKUP_COLUMNS, rows)
    kept_of = f"{counted(len(found), 'group')} with {counted(sum(len(group.offsets) for group in found), 'offset')}"
    notes.print(f"{file} has {kept_of}, each group as it was when it was read.")


def _kept(group: str, coordinator: str, timeout: float) -> GroupKept | None:
    """Return a group as a backup has it; None where it has gone meanwhile.

    Offsets and controls are of one time: a pending reset that is done in between would be restored over what was
    committed since.
    """
    described = ask_if_there(coordinator, DescribeGroup(group), timeout, DescribeGroupResponse)
    controls = ask_if_there(coordinator, DescribeControls(group), timeout, DescribeControlsResponse)
    for _ in range(_MOST_READS):
        offsets = ask_if_there(coordinator, FetchOffsets(group), timeout, FetchOffsetsResponse)
        before = controls
        controls = ask_if_there(coordinator, DescribeControls(group), timeout, DescribeControlsResponse)
        if controls == before:
            break
    if described is None or controls is None or offsets is None:
        notes.print(f"Group '{group}' has gone while it was read, and is not in the backup.")
        return None
    return kept(described, offsets.offsets, controls.controls)


def restore(
    file: File,
    coordinator: Coordinator,
    match: Match = None,
    other_kafka: Annotated[
        bool,
        typer.Option("--other-kafka", help="Restore offsets of another Kafka cluster, whose topics are the same."),
    ] = False,
    move_back: MoveBack = False,
    release_claims: ReleaseClaims = False,
    execute: Execute = False,
    dry_run: DryRun = False,
    why: Why = "",
    output: Output = OutputFormat.TABLE,
    timeout: Timeout = 30.0,
) -> None:
    """Bring groups to where a backup has them: make those that are gone, set offsets, pause what was paused.

    What is there and not in the backup stays as it is.
    """
    dry = is_dry(execute=execute, dry_run=dry_run)
    found = _read(file)
    _must_be_of_this_kafka(found, coordinator, timeout, other_kafka=other_kafka)
    groups = {group.group: group for group in found.groups}
    names = sorted(filter_groups(list(groups), match))
    if not names:
        notes.print(f"{file} has no groups" + (f" that match '{match}'." if match else "."))
        raise typer.Exit(ExitCode.NOT_FOUND)
    manner = Manner(
        coordinator, timeout, why or f"restored from the backup of {found.made_at}", dry, release_claims, move_back
    )

    def bring_back(name: str) -> tuple[Outcome, Sequence[ControlResult]]:
        return _bring_back(groups[name], manner, has_topic_ids=not other_kafka)

    answers, code = ask_each(names, bring_back)
    outcomes = [outcome for outcome, _ in answers.values()]
    controls = [control for _, found in answers.values() for control in found]
    _write(outcomes, controls, output, dry=dry)
    if any(outcome.kept for outcome in outcomes) or any(control.is_refused for control in controls):
        code = code or ExitCode.REFUSED_BY_STATE
    end_with_results({one.group: one.results for one in outcomes}, dry=dry, code=code)


def _read(file: Path) -> Backup:
    try:
        return read(file)
    except BackupError as error:
        notes.error(str(error), DocCode.FILE)
        raise typer.Exit(ExitCode.ERROR) from error


def _must_be_of_this_kafka(found: Backup, coordinator: str, timeout: float, *, other_kafka: bool) -> None:
    if not found.groups:
        return
    here = find_group(coordinator, found.groups[0].group, timeout).kafka_cluster_id
    if other_kafka or here is None or found.kafka_cluster_id in {None, here}:
        return
    notes.print(
        f"error: the backup is of Kafka cluster {found.kafka_cluster_id} and this coordinator reads {here}: offsets of "
        "one say nothing in the other. Add --other-kafka if its topics are a true copy, offset for offset"
    )
    raise typer.Exit(ExitCode.REFUSED_BY_STATE)


def _bring_back(group: GroupKept, manner: Manner, *, has_topic_ids: bool) -> tuple[Outcome, Sequence[ControlResult]]:
    before = ask_if_there(manner.coordinator, DescribeGroup(group.group), manner.timeout_s, DescribeGroupResponse)
    _tell_settings(group, before)
    wish = Wish(group.group, group.targets(has_topic_ids=has_topic_ids), {}, group.settings.as_new_group())
    outcome = set_offsets(wish, manner)
    accepted = {(each.topic, each.partition) for each in outcome.results if each.error is ErrorCode.NONE}
    if before is None and group.offsets and not accepted:
        return outcome, ()  # without an offset that is accepted the group is not made
    try:
        return outcome, set_controls(group, before, accepted, manner)
    except typer.Exit:
        if not manner.dry and accepted:
            notes.print(f"The offsets of group '{group.group}' are set all the same: {len(accepted)} of them.")
        raise


def _tell_settings(group: GroupKept, before: DescribeGroupResponse | None) -> None:
    if before is None:
        return
    is_as_kept = kept(before, (), ()).settings == group.settings
    if not is_as_kept:
        notes.print(
            f"Group '{group.group}' is there with other settings than in the backup, and keeps them: its members "
            "choose them."
        )


def _write(outcomes: Sequence[Outcome], controls: Sequence[ControlResult], output: OutputFormat, *, dry: bool) -> None:
    """Write what changes or is refused; partitions that are where the backup has them are only counted."""
    results = [(one.group, each) for one in outcomes for each in one.results]
    shown = [
        (group, each)
        for group, each in results
        if each.error is not ErrorCode.NONE or delta_of(each) != 0 or each.is_pending
    ]
    if output.is_document:
        offsets = [row_as_json(group, each, dry=dry) for group, each in shown]
        write_document(output, {"offsets": offsets, "controls": [control.as_json() for control in controls]})
    else:
        write_results(shown, output, dry=dry)
        write_controls(controls, output, is_first=not shown)
    if len(shown) < len(results):
        there = counted(len(results) - len(shown), "partition is", "partitions are")
        notes.print(f"{there} as in the backup.")


def add_verbs(clusters: typer.Typer) -> None:
    """Add this file's verbs to those of the cluster."""
    clusters.command("backup")(backup)
    clusters.command("restore")(restore)
