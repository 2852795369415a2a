"""`kcoord import …`: what a query's checkpoint or a group of Kafka has done becomes the offsets of a group."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from coordinator.cli.moving.new_partitions import not_named
from coordinator.cli.moving.offsets_set import Manner, Wish, end_with_offsets, set_offsets
from coordinator.cli.moving.spark_checkpoint import CheckpointError, SourcePosition, local_directory, read_checkpoint
from coordinator.cli.moving.which_kafka import Kafka, KafkaConfig, kafka_meant
from coordinator.cli.parts.asking import Coordinator, Output, Timeout
from coordinator.cli.parts.deciding import DryRun, Execute, MoveBack, ReleaseClaims, Why, is_dry
from coordinator.cli.parts.exits import ExitCode, notes
from coordinator.cli.parts.notes import DocCode
from coordinator.cli.parts.tables import OutputFormat
from coordinator.protocol.ids import TopicPartition
from coordinator.protocol.parts import ResetTarget
from coordinator.protocol.text.counts import counted
from coordinator.protocol.vocabulary import ResetKind

if TYPE_CHECKING:
    from coordinator.cli.moving.kafka_groups import KafkaGroup

app = typer.Typer(help="Have a group go on where something else has come to.", no_args_is_help=True)


@app.command("spark-checkpoint")
def spark_checkpoint(
    directory: Annotated[str, typer.Argument(metavar="DIR", help="A checkpointLocation on this machine.")],
    coordinator: Coordinator,
    group: Annotated[str, typer.Option("--group", metavar="GROUP", help="The group that goes on from there.")],
    source: Annotated[
        str | None,
        typer.Option("--source", metavar="N", help="Which source, where the query has several: its number or name."),
    ] = None,
    no_new_partitions: Annotated[
        bool,
        typer.Option("--no-new-partitions", help="Leave out partitions that the query has not seen yet."),
    ] = False,
    without_state: Annotated[
        bool,
        typer.Option("--without-state", help="Leave the state of a query with aggregations or joins behind."),
    ] = False,
    move_back: MoveBack = False,
    release_claims: ReleaseClaims = False,
    execute: Execute = False,
    dry_run: DryRun = False,
    why: Why = "",
    output: Output = OutputFormat.TABLE,
    timeout: Timeout = 30.0,
) -> None:
    """Take over what a query of format("kafka") has finished; a batch that it has only begun does not count."""
    dry = is_dry(execute=execute, dry_run=dry_run)
    try:
        place = local_directory(directory)
        position = read_checkpoint(place, source)
    except CheckpointError as error:
        notes.error(str(error), DocCode.FILE)
        raise typer.Exit(ExitCode.ERROR) from error
    _tell_batches(place, position)
    code = _why_not_without_state(dry=dry) if position.has_state and not without_state else ExitCode.OK
    targets = [ResetTarget(*partition, ResetKind.OFFSET, offset) for partition, offset in position.offsets.items()]
    remarks = dict(_unfinished(position))
    manner = Manner(coordinator, timeout, why, dry, release_claims, move_back)
    if not no_new_partitions:
        first_read = [each for each in position.unfinished_until if each[0] not in position.topics()]
        for partition in first_read:
            targets.append(ResetTarget(*partition, ResetKind.EARLIEST))
            batch = position.unfinished[-1]
            remarks[partition] = f"batch {batch}, not finished, is the first to read it: it starts at its beginning"
        for partition in not_named([*position.offsets, *first_read], group, coordinator, timeout):
            targets.append(ResetTarget(*partition, ResetKind.EARLIEST))
            remarks[partition] = "newer than the checkpoint: it starts at its beginning"
    end_with_offsets([set_offsets(Wish(group, targets, remarks), manner)], output, dry=dry, code=code)


def _why_not_without_state(*, dry: bool) -> int:
    """Say why a query with state is not taken over, and end the program; returns the exit code of a dry run."""
    notes.error(
        "the query has state (of an aggregation, a join or dropDuplicates), which stays in this checkpoint: one "
        "that goes on from these offsets begins without it, and what it counts, joins or drops would be wrong without "
        "an error. Let it read from the beginning, or give --without-state where the new query has no state, or may "
        "begin with none.",
        DocCode.STATE,
    )
    if not dry:
        raise typer.Exit(ExitCode.REFUSED_BY_STATE)
    return ExitCode.REFUSED_BY_STATE


def _tell_batches(place: Path, position: SourcePosition) -> None:
    if position.batch_id is None:
        notes.print(f"No batch of {place} is finished: the position is where the query began.")
    else:
        notes.print(f"Batch {position.batch_id} of {place} is the last one that is finished.")
    if not position.unfinished:
        return
    begun = ", ".join(map(str, position.unfinished[:20])) + (", …" if len(position.unfinished) > 20 else "")
    records = sum(
        until - position.offsets.get(partition, until) for partition, until in position.unfinished_until.items()
    )
    batch = "Batch" if len(position.unfinished) == 1 else "Batches"
    notes.print(
        f"Warning: {batch} {begun} had begun and not finished, with {counted(records, 'offset')}. That is read again, "
        "and what of it has reached the sink is there twice then; start the query once more and let it finish to avoid "
        "that."
    )
    if len(position.unfinished) > 1:
        notes.print(
            "Warning: Spark begins a batch when the one before it is finished, but for asyncProgressTrackingEnabled; "
            "without that commits are missing in this checkpoint."
        )


def _unfinished(position: SourcePosition) -> Mapping[TopicPartition, str]:
    batch = f"batch {position.unfinished[-1]}" if position.unfinished else ""
    return {
        partition: f"{batch}, not finished, reads {position.offsets[partition]} to {until}"
        for partition, until in position.unfinished_until.items()
        if partition in position.offsets and until > position.offsets[partition]
    }


@app.command("kafka-group")
def kafka_group(
    kafka_group: Annotated[str, typer.Argument(metavar="KAFKA-GROUP", help="The consumer group of Kafka.")],
    coordinator: Coordinator,
    as_group: Annotated[
        str | None, typer.Option("--as", metavar="GROUP", help="The group that goes on; else one of the same name.")
    ] = None,
    kafka: Kafka = None,
    kafka_config: KafkaConfig = None,
    move_back: MoveBack = False,
    release_claims: ReleaseClaims = False,
    execute: Execute = False,
    dry_run: DryRun = False,
    why: Why = "",
    output: Output = OutputFormat.TABLE,
    timeout: Timeout = 30.0,
) -> None:
    """Take over the committed offsets of a consumer group of Kafka, once it has no members."""
    dry = is_dry(execute=execute, dry_run=dry_run)
    group = as_group or kafka_group
    with kafka_meant(coordinator, group, kafka, kafka_config, timeout) as groups:
        found = groups.read(kafka_group)
    code = _why_not(found, dry=dry)
    targets = [ResetTarget(*partition, ResetKind.OFFSET, each.offset) for partition, each in found.offsets.items()]
    manner = Manner(coordinator, timeout, why, dry, release_claims, move_back)
    end_with_offsets([set_offsets(Wish(group, targets, {}), manner)], output, dry=dry, code=code)


def _why_not(found: "KafkaGroup", *, dry: bool) -> int:
    """Say what keeps a group of Kafka from being taken over, and end the program where nothing can be shown.

    Returns the exit code of a dry run that shows what its members have committed so far.
    """
    if not found.exists:
        notes.print(f"Consumer group '{found.group_id}' does not exist in Kafka.")
        raise typer.Exit(ExitCode.NOT_FOUND)
    if not found.offsets:
        notes.print(f"Kafka's group '{found.group_id}' has no committed offsets: there is nothing to take over.")
        raise typer.Exit(ExitCode.NOT_FOUND)
    if not found.has_members:
        return ExitCode.OK
    notes.print(
        f"error: {found.say_members()}: what they commit from now on would be read twice. Stop them; the group can be "
        "taken over when it is Empty."
    )
    if not dry:
        raise typer.Exit(ExitCode.REFUSED_BY_STATE)
    return ExitCode.REFUSED_BY_STATE
