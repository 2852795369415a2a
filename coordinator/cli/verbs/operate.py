"""`kcoord group pause|resume|drain|undrain|delete|delete-offsets|release-claim`: what operators do to running groups.

Each is a dry run unless `--execute` is given, and is recorded with who asks and why.
"""

from collections.abc import Callable, Mapping, Sequence

import typer

from coordinator.cli.parts.asking import Coordinator, Group, Output, Timeout, ask_for, ask_in_portions, describe_group
from coordinator.cli.parts.deciding import DryRun, Execute, Why, end, end_with_results, is_dry, write_accepted
from coordinator.cli.parts.exits import notes
from coordinator.cli.parts.tables import OutputFormat, write_rows
from coordinator.cli.parts.which_groups import AllGroups, Match, SomeGroup, ask_each, groups_meant
from coordinator.cli.parts.which_member import Member, member_meant
from coordinator.cli.parts.which_partitions import AllTopics, Topics, must_be_one_scope, named_partitions
from coordinator.client.operating.author import who_asks
from coordinator.client.operating.partitions_meant import left_claims
from coordinator.protocol.ids import TopicPartition
from coordinator.protocol.messages.operators import (
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


def pause(
    coordinator: Coordinator,
    group: SomeGroup = None,
    match: Match = None,
    all_groups: AllGroups = False,
    topic: Topics = None,
    execute: Execute = False,
    dry_run: DryRun = False,
    why: Why = "",
    output: Output = OutputFormat.TABLE,
    timeout: Timeout = 10.0,
) -> None:
    """Pause partitions, or whole groups without --topic: owners let go, and nobody gets them."""
    dry = is_dry(execute=execute, dry_run=dry_run)
    meant = groups_meant(coordinator, group, match, timeout, all_groups=all_groups)
    _change_pause(coordinator, meant, topic, why, output, timeout, is_paused=True, dry=dry)


def resume(
    coordinator: Coordinator,
    group: SomeGroup = None,
    match: Match = None,
    all_groups: AllGroups = False,
    topic: Topics = None,
    execute: Execute = False,
    dry_run: DryRun = False,
    why: Why = "",
    output: Output = OutputFormat.TABLE,
    timeout: Timeout = 10.0,
) -> None:
    """End the pause of partitions, or without --topic that of groups; each ends only by itself."""
    dry = is_dry(execute=execute, dry_run=dry_run)
    meant = groups_meant(coordinator, group, match, timeout, all_groups=all_groups)
    _change_pause(coordinator, meant, topic, why, output, timeout, is_paused=False, dry=dry)


def _change_pause(
    coordinator: str,
    groups: Sequence[str],
    topics: list[str] | None,
    why: str,
    output: OutputFormat,
    timeout: float,
    *,
    is_paused: bool,
    dry: bool,
) -> None:
    def change(group: str) -> tuple[TopicPartition, ...]:
        def ask(some: tuple[TopicPartition, ...] | None) -> ChangePauseResponse:
            request = ChangePause(group, some, is_paused, who_asks(), why, dry)
            return ask_for(coordinator, request, timeout, ChangePauseResponse, group)

        named = named_partitions(describe_group(coordinator, group, timeout), topics) if topics else None
        answers = [ask(None)] if named is None else ask_in_portions(group, named, ask, dry=dry)
        partitions = tuple(partition for answer in answers for partition in answer.partitions)
        more = sum(max(0, answer.partition_count - len(answer.partitions)) for answer in answers)
        if more:
            notes.print(f"Of group '{group}' there are {more} more than are listed here.")
        if not partitions:
            notes.print(_say_nothing_moves(group, is_paused=is_paused, are_named=named is not None))
        return partitions

    answers, code = ask_each(groups, change)
    if answers:
        _write_partitions(answers, output)
    # A whole group can be paused and resumed also while it has no partitions.
    does_something = any(answers.values()) or (topics is None and bool(answers))
    end(dry=dry, does_something=does_something, code=code)


def _say_nothing_moves(group: str, *, is_paused: bool, are_named: bool) -> str:
    match is_paused, are_named:
        case True, True:
            return f"The partitions of group '{group}' are paused already."
        case True, False:
            return f"No owner has to let go: group '{group}' has no partitions given to members, or is paused already."
        case False, True:
            return (
                f"No partition of group '{group}' is paused by name; `kcoord group resume {group}` ends a pause of the "
                "whole group."
            )
    return (
        f"No partition becomes free: group '{group}' has none given to members, or is not paused as a whole; what was "
        "paused with --topic is resumed with --topic."
    )


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
    meant = member_meant(coordinator, group, member, timeout)
    _change_drain(coordinator, ChangeDrain(group, meant, True, who_asks(), why, dry), output, timeout)


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
    meant = member_meant(coordinator, group, member, timeout)
    _change_drain(coordinator, ChangeDrain(group, meant, False, who_asks(), why, dry), output, timeout)


def _change_drain(coordinator: str, request: ChangeDrain, output: OutputFormat, timeout: float) -> None:
    response = ask_for(coordinator, request, timeout, ChangeDrainResponse, request.group_id)
    _write_partitions({request.group_id: response.partitions if request.is_drained else ()}, output)
    if not response.partitions:
        notes.print(f"Member '{request.member_id}' has no partitions now.")
    end(dry=request.is_dry_run, does_something=True)


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

    def delete_one(group: str) -> None:
        ask_for(coordinator, DeleteGroup(group, who_asks(), why, dry), timeout, DeleteGroupResponse, group)
        notes.print(f"Consumer group '{group}' {'can be' if dry else 'has been'} deleted.")

    meant = groups_meant(coordinator, group, match, timeout, all_groups=all_groups)
    deleted, code = ask_each(meant, delete_one)
    end(dry=dry, does_something=bool(deleted), code=code)


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
    described = describe_group(coordinator, group, timeout)
    partitions = named_partitions(described, topic, lambda found: found.committed is not None)
    if not partitions:
        notes.print(f"Group '{group}' has no committed offset there.")

    def ask(some: tuple[TopicPartition, ...]) -> DeleteOffsetsResponse:
        request = DeleteOffsets(group, some, who_asks(), why, dry)
        return ask_for(coordinator, request, timeout, DeleteOffsetsResponse, group)

    _change_offsets(group, partitions, ask, output, dry=dry)


def release_claim(
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
    """Close running claims whose owner is gone, without a commit; their partitions are anybody's then."""
    dry = is_dry(execute=execute, dry_run=dry_run)
    must_be_one_scope(topic, all_topics=all_topics)
    described = describe_group(coordinator, group, timeout)
    left = frozenset(left_claims(described))
    partitions = named_partitions(described, topic, lambda found: (found.topic, found.partition) in left)
    if not partitions:
        notes.print(f"No claim of group '{group}' is running there whose owner is gone.")

    def ask(some: tuple[TopicPartition, ...]) -> ReleaseClaimsResponse:
        request = ReleaseClaims(group, some, who_asks(), why, dry)
        return ask_for(coordinator, request, timeout, ReleaseClaimsResponse, group)

    _change_offsets(group, partitions, ask, output, dry=dry)


def _change_offsets(
    group: str,
    partitions: Sequence[TopicPartition],
    ask: Callable[[tuple[TopicPartition, ...]], DeleteOffsetsResponse | ReleaseClaimsResponse],
    output: OutputFormat,
    *,
    dry: bool,
) -> None:
    """Ask about partitions, show which were accepted with their offsets, and end with those that were refused."""
    answers = ask_in_portions(group, partitions, ask, dry=dry)
    results = {group: tuple(result for answer in answers for result in answer.results)}
    write_accepted(results, output)
    end_with_results(results, dry=dry)


def _write_partitions(partitions: Mapping[str, Sequence[TopicPartition]], output: OutputFormat) -> None:
    rows = [(group, topic, number) for group, mine in partitions.items() for topic, number in mine]
    write_rows(output, ("GROUP", "TOPIC", "PARTITION"), rows)


def add_verbs(app: typer.Typer) -> None:
    """Add the verbs of operators to those of groups."""
    for verb in (pause, resume, drain, undrain, delete):
        app.command(verb.__name__)(verb)
    app.command("delete-offsets")(delete_offsets)
    app.command("release-claim")(release_claim)
