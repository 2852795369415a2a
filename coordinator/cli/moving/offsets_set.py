"""Offsets that come from elsewhere become those of a group: as resets, which are asked for as a dry run first.

A group that is not there is made. A partition whose offset would move back is left as it is unless that is asked for,
and is shown with what would be read again; so a list of offsets that is older than its group never takes it back
unseen. One that the group has already is not set again, unless a reset that is pending would take it away. An offset
after the end is one of another log than Kafka has: it is refused, for a reset would move it to the end, and pass over
what nobody has read. What owners hold waits for them, as every reset does.
"""

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field

from msgspec.structs import replace

from coordinator.cli.moving.reset_results import write_results
from coordinator.cli.parts.asking import ask_for, ask_if_there, ask_in_portions
from coordinator.cli.parts.deciding import end_with_results
from coordinator.cli.parts.exits import ExitCode, notes
from coordinator.cli.parts.tables import OutputFormat
from coordinator.client.operating.author import who_asks
from coordinator.client.operating.resets import delta_of
from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.ids import TopicPartition
from coordinator.protocol.messages.operators import (
    DescribeControls,
    DescribeControlsResponse,
    ResetOffsets,
    ResetOffsetsResponse,
)
from coordinator.protocol.parts import NewGroup, ResetResult, ResetTarget
from coordinator.protocol.text.counts import counted
from coordinator.protocol.vocabulary import ControlKind, ResetKind


@dataclass(frozen=True, slots=True)
class Wish:
    """Offsets that a group is to have, with a remark for some, and the settings of the group if it is to be made."""

    group: str
    targets: Sequence[ResetTarget]
    remarks: Mapping[TopicPartition, str]
    new_group: NewGroup = field(default_factory=NewGroup)


@dataclass(frozen=True, slots=True)
class Manner:
    """The way in which offsets are set: for whose reason, and what is allowed."""

    coordinator: str
    timeout_s: float
    why: str
    dry: bool
    release_claims: bool = False
    moves_back: bool = False


@dataclass(frozen=True, slots=True)
class Outcome:
    """The results of a group's targets, in their order, and how many were left alone so as not to move them back."""

    group: str
    results: tuple[ResetResult, ...]
    kept: int


def set_offsets(wish: Wish, manner: Manner) -> Outcome:
    """Return what is done or would be; a refusal of the whole group ends the program."""
    about_to_move = _about_to_move(wish.group, manner)
    asked = _ask(wish, wish.targets, manner, dry=True)
    shown = [
        _unless_it_is_there(_unless_after_the_end(target, result), about_to_move)
        for target, result in zip(wish.targets, asked, strict=True)
    ]
    done = {_place(result): result for result in shown}
    refused = {} if manner.moves_back else {_place(result): _kept(result) for result in shown if _would_go_back(result)}
    done |= refused
    if not manner.dry:
        # Without any that is accepted a group is not made; one that is to have no offsets at all is.
        wanted = [
            target for target in wish.targets if _is_to_be_set(done[target.topic, target.partition], about_to_move)
        ]
        if wanted or not wish.targets:
            done |= {_place(result): result for result in _ask(wish, wanted, manner, dry=False)}
    results = tuple(done[target.topic, target.partition] for target in wish.targets)
    _tell(wish.group, results, manner)
    told = tuple(_with_remark(result, wish.remarks.get(_place(result), "")) for result in results)
    return Outcome(wish.group, told, len(refused))


def end_with_offsets(outcomes: Sequence[Outcome], output: OutputFormat, *, dry: bool, code: int = ExitCode.OK) -> None:
    """Write the results of groups, and end with the code that is given, or of the first that was refused."""
    write_results([(one.group, result) for one in outcomes for result in one.results], output, dry=dry)
    if any(one.kept for one in outcomes):
        code = code or ExitCode.REFUSED_BY_STATE
    end_with_results({one.group: one.results for one in outcomes}, dry=dry, code=code)


def _ask(wish: Wish, targets: Sequence[ResetTarget], manner: Manner, *, dry: bool) -> list[ResetResult]:
    def ask(some: tuple[ResetTarget, ...]) -> ResetOffsetsResponse:
        request = ResetOffsets(
            wish.group, some, who_asks(), manner.why, manner.release_claims, dry, new_group=wish.new_group
        )
        return ask_for(manner.coordinator, request, manner.timeout_s, ResetOffsetsResponse, wish.group)

    return [result for answer in ask_in_portions(wish.group, targets, ask, dry=dry) for result in answer.results]


def _tell(group: str, results: Sequence[ResetResult], manner: Manner) -> None:
    good = [result for result in results if result.error is ErrorCode.NONE]
    back = [result for result in good if _is_behind(result)]
    if back:
        records = -sum(delta_of(result) or 0 for result in back)
        does = "would move" if manner.dry else "moves" if len(back) == 1 else "move"
        notes.print(
            f"Warning: {counted(len(back), 'partition')} of group '{group}' {does} back, by "
            f"{counted(records, 'record')} in all, to be read again."
        )
    pending = [result for result in good if result.is_pending]
    if pending:
        does = "would wait" if manner.dry else "waits" if len(pending) == 1 else "wait"
        owners = "its owner" if len(pending) == 1 else "their owners"
        notes.print(
            f"Warning: {counted(len(pending), 'partition')} of group '{group}' {does} for {owners} to let go; what is "
            "committed until then is read again where it is further. `kcoord group describe` shows it."
        )


def _about_to_move(group: str, manner: Manner) -> frozenset[TopicPartition]:
    """Return the partitions with a reset that is pending: they do not go on where they are committed."""
    answer = ask_if_there(manner.coordinator, DescribeControls(group), manner.timeout_s, DescribeControlsResponse)
    return frozenset(
        (control.topic, control.partition)
        for control in (answer.controls if answer is not None else ())
        if control.kind == ControlKind.RESET_PENDING and control.partition is not None
    )


def _is_there(result: ResetResult, about_to_move: Container[TopicPartition]) -> bool:
    return delta_of(result) == 0 and _place(result) not in about_to_move


def _is_to_be_set(result: ResetResult, about_to_move: Container[TopicPartition]) -> bool:
    return result.error is ErrorCode.NONE and not _is_there(result, about_to_move)


def _unless_it_is_there(result: ResetResult, about_to_move: Container[TopicPartition]) -> ResetResult:
    """Have an offset that is the group's already wait for nobody: its owner is not stopped for it."""
    return replace(result, is_pending=False) if _is_there(result, about_to_move) else result


def is_after_the_end(target: ResetTarget, result: ResetResult) -> bool:
    """Say whether a reset would move an offset back to the end of what Kafka has."""
    end, wanted = result.new_offset, target.value
    return target.kind == ResetKind.OFFSET and end is not None and wanted is not None and wanted > end


def _unless_after_the_end(target: ResetTarget, result: ResetResult) -> ResetResult:
    if not is_after_the_end(target, result):
        return result
    why = (
        f"offset {target.value} is after the end, which is {result.new_offset}: the topic was deleted and made again, "
        "is of another Kafka, or has lost records. What is there may never have been read; say where to start with "
        "`kcoord group reset-offsets`"
    )
    return replace(result, error=ErrorCode.OFFSET_OUT_OF_RANGE, message=why, new_offset=None, is_pending=False)


def _would_go_back(result: ResetResult) -> bool:
    return result.error is ErrorCode.NONE and _is_behind(result)


def _is_behind(result: ResetResult) -> bool:
    return (delta_of(result) or 0) < 0


def _kept(result: ResetResult) -> ResetResult:
    why = f"it would move back by {counted(-(delta_of(result) or 0), 'record')}; add --move-back to have it so"
    return replace(result, error=ErrorCode.INVALID_REQUEST, message=why, is_pending=False)


def _with_remark(result: ResetResult, remark: str) -> ResetResult:
    return replace(result, message="; ".join(text for text in (result.message, remark) if text))


def _place(result: ResetResult) -> TopicPartition:
    return result.topic, result.partition
