"""The acts of operators that the console offers: what each needs, the requests it is made of, and what came of it.

They are those of the command line, with the same requests, the same refusals and the same audit. Each is a dry run
first. To do it a reason is needed, and the group's name where a position may be lost; where such an act says as what
the group was shown, it is done to that group or not at all. Pure.
"""

import difflib
import hashlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from coordinator.client.operating.partitions_meant import in_portions, left_claims, partitions_meant
from coordinator.client.operating.resets import delta_of
from coordinator.client.times import parse_time_ms
from coordinator.console.documents import Act, ActResult, ActRow
from coordinator.console.known.selection import BadQueryError
from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.ids import MAX_OFFSET, TopicPartition
from coordinator.protocol.messages import DescribeGroupResponse, Response
from coordinator.protocol.messages.operators import (
    CancelResets,
    CancelResetsResponse,
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
    ResetOffsets,
    ResetOffsetsResponse,
)
from coordinator.protocol.parts import PartitionDescription, PartitionResult, ResetResult, ResetTarget
from coordinator.protocol.text.counts import counted
from coordinator.protocol.text.durations import parse_duration_ms
from coordinator.protocol.text.escaping import one_line
from coordinator.protocol.text.scopes import parse_scope
from coordinator.protocol.vocabulary import ResetKind

Change: TypeAlias = (
    ChangePause | ChangeDrain | ResetOffsets | CancelResets | DeleteOffsets | DeleteGroup | ReleaseClaims
)
LONGEST_REASON: Final = 1_000


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of act: its title, what it does, and what a form for it asks."""

    name: str
    title: str
    meaning: str
    takes_topics: bool = False
    takes_member: bool = False
    takes_target: bool = False
    loses_position: bool = False


KINDS: Final = {
    kind.name: kind
    for kind in (
        Kind("pause", "Pause", "Owners let go of the partitions, and nobody gets them.", takes_topics=True),
        Kind("resume", "Resume", "End the pause of the group, or of the partitions that are named.", takes_topics=True),
        Kind("drain", "Drain a member", "Move its partitions away and give it none.", takes_member=True),
        Kind("undrain", "Undrain a member", "Let it have partitions again.", takes_member=True),
        Kind(
            "reset-offsets",
            "Reset offsets",
            "Set committed offsets; where a member owns the partition, once it has let go.",
            takes_topics=True,
            takes_target=True,
            loses_position=True,
        ),
        Kind("cancel-resets", "Cancel resets", "Drop resets that are pending.", takes_topics=True),
        Kind(
            "release-claims",
            "Release claims",
            "Close running claims whose owner is gone, without a commit; their records are read again.",
            takes_topics=True,
        ),
        Kind(
            "delete-offsets",
            "Delete offsets",
            "Delete the committed offsets of partitions that nobody owns.",
            takes_topics=True,
            loses_position=True,
        ),
        Kind(
            "delete-group", "Delete the group", "Delete a group without members, with its offsets.", loses_position=True
        ),
    )
}

_WITHOUT_VALUE: Final = frozenset({ResetKind.EARLIEST, ResetKind.LATEST, ResetKind.CURRENT})


def kind_of(name: str) -> Kind:
    """Return a kind of act; raises BadQueryError."""
    kind = KINDS.get(name)
    if kind is None:
        near = difflib.get_close_matches(name, KINDS, 1)
        known = f"is '{near[0]}' meant?" if near else f"known: {', '.join(KINDS)}"
        raise BadQueryError(f"there is no act '{one_line(name)}'; {known}")
    return kind


def check(kind: Kind, group: str, act: Act) -> None:
    """Raise BadQueryError for an act that says too little or too much."""
    if act.topics and not kind.takes_topics:
        raise BadQueryError(f"'{kind.name}' takes no topics")
    if bool(act.member) != kind.takes_member:
        raise BadQueryError(
            f"'{kind.name}' needs the id of a member" if kind.takes_member else f"'{kind.name}' takes no member"
        )
    if (act.to or act.value or act.release_claims) and not kind.takes_target:
        raise BadQueryError(f"'{kind.name}' leads nowhere: leave out 'to', 'value' and 'release_claims'")
    if len(act.why) > LONGEST_REASON or not act.why.isprintable():
        raise BadQueryError(f"'why' is one line of at most {LONGEST_REASON} printable characters")
    for text in act.topics:
        _scope(text)
    if kind.takes_target:
        target_of(act)
    if act.shown and not kind.loses_position:
        raise BadQueryError(f"'{kind.name}' moves no position: leave out 'shown'")
    if act.dry_run:
        return
    if not act.why.strip():
        raise BadQueryError("'why' is missing: say the reason, which is recorded with who asks")
    if kind.loses_position and act.confirm != group:
        raise BadQueryError("'confirm' is not the group's name: type it, since a position may be lost")


def target_of(act: Act) -> tuple[ResetKind, int | None]:
    """Return where a reset leads; raises BadQueryError."""
    try:
        kind = ResetKind(act.to)
    except ValueError:
        known = ", ".join(ResetKind)
        raise BadQueryError(f"'to' is '{one_line(act.to)}' and has to be one of {known}") from None
    text = act.value.strip()
    if kind in _WITHOUT_VALUE:
        if text:
            raise BadQueryError(f"'{kind}' takes no value")
        return kind, None
    try:
        return kind, _value(kind, text)
    except ValueError as error:
        raise BadQueryError(f"'value': {one_line(str(error))}") from None


def _value(kind: ResetKind, text: str) -> int:
    if kind is ResetKind.DURATION:
        return parse_duration_ms(text)
    if kind is ResetKind.TIMESTAMP:
        return parse_time_ms(text)
    digits = text.removeprefix("-") if kind is ResetKind.SHIFT else text
    if not (digits.isascii() and digits.isdigit() and len(digits) <= 19 and int(digits) <= MAX_OFFSET):
        raise ValueError(f"'{text}' is not a number{' of records' if kind is ResetKind.SHIFT else ''}")
    return int(text)


def needs_description(kind: Kind, act: Act) -> bool:
    """Say whether the requests of an act depend on the partitions that the group has now."""
    return kind.takes_topics and (kind.name not in ("pause", "resume", "cancel-resets") or bool(act.topics))


def requests_of(kind: Kind, group: str, act: Act, described: DescribeGroupResponse | None, who: str) -> list[Change]:
    """Return the requests that an act is made of, each naming as many partitions as one may; raises BadQueryError."""
    why, dry = act.why.strip(), act.dry_run

    def portions(counts: Callable[[PartitionDescription], bool] = lambda _: True) -> list[tuple[TopicPartition, ...]]:
        assert described is not None, "an act that names partitions is made of the group's description"
        return list(in_portions(_named(described, act.topics, counts)))

    match kind.name:
        case "pause" | "resume":
            is_paused = kind.name == "pause"
            if not act.topics:
                return [ChangePause(group, None, is_paused, who, why, dry)]
            return [ChangePause(group, some, is_paused, who, why, dry) for some in portions()]
        case "drain" | "undrain":
            return [ChangeDrain(group, act.member, kind.name == "drain", who, why, dry)]
        case "reset-offsets":
            to, value = target_of(act)
            # What was confirmed as it was shown is of the topics that were shown: one made again since is refused.
            ids = dict(described.topic_ids) if described is not None and act.shown else {}
            return [
                ResetOffsets(
                    group,
                    tuple(ResetTarget(topic, number, to, value, ids.get(topic, "")) for topic, number in some),
                    who,
                    why,
                    act.release_claims,
                    dry,
                )
                for some in portions()
            ]
        case "cancel-resets":
            if not act.topics:
                return [CancelResets(group, None, who, why, dry)]
            return [CancelResets(group, some, who, why, dry) for some in portions()]
        case "delete-offsets":
            return [
                DeleteOffsets(group, some, who, why, dry) for some in portions(lambda one: one.committed is not None)
            ]
        case "release-claims":
            assert described is not None
            left = frozenset(left_claims(described))
            is_left = portions(lambda one: (one.topic, one.partition) in left)
            return [ReleaseClaims(group, some, who, why, dry) for some in is_left]
        case _:
            return [DeleteGroup(group, who, why, dry)]


def shown_of(kind: Kind, act: Act, described: DescribeGroupResponse) -> str:
    """Return a digest of what an act that may lose positions rests on: partitions, their owners, and where they are.

    A topic that was deleted and made again has other partitions than before, though they have the same names.
    An owner commits all the time, so where it has got to does not count, unless the act goes from there. A reset takes
    the partition from its owner, which does.
    """
    meant = frozenset(_named(described, act.topics, lambda _: True)) if act.topics else None
    topic_ids = dict(described.topic_ids)
    is_relative = kind.takes_target and act.to == ResetKind.SHIFT
    digest = hashlib.sha256()
    for one in described.partitions:
        if meant is None or (one.topic, one.partition) in meant:
            is_moving = one.member_id is not None and kind.takes_target and not is_relative
            committed = None if is_moving else one.committed
            owner = (one.member_id, one.owner_epoch, one.is_stopping)
            topic = (one.topic, topic_ids.get(one.topic, ""))
            digest.update(repr((topic, one.partition, committed, owner)).encode())
    return digest.hexdigest()


def result_of(kind: Kind, group: str, act: Act, answers: Iterable[Response], shown: str = "") -> ActResult:
    """Return what came of an act."""
    rows: list[ActRow] = []
    left_out = 0
    for answer in answers:
        match answer:
            case ChangePauseResponse(partitions=partitions, partition_count=partition_count):
                state = _word(act, "let go" if kind.name == "pause" else "become free")
                rows += [_plain(topic, number, state) for topic, number in partitions]
                left_out += max(0, partition_count - len(partitions))
            case ChangeDrainResponse(partitions=partitions):
                state = _word(act, "moved away" if kind.name == "drain" else "the member has it")
                rows += [_plain(topic, number, state) for topic, number in partitions]
            case ResetOffsetsResponse(results=resets):
                rows += [_reset(one, act) for one in resets]
            case CancelResetsResponse(results=results):
                rows += [_changed(one, _word(act, "reset dropped"), one.committed) for one in results]
            case DeleteOffsetsResponse(results=results):
                rows += [_changed(one, _word(act, "deleted"), None) for one in results]
            case ReleaseClaimsResponse(results=results):
                rows += [_changed(one, _word(act, "claim closed"), one.committed) for one in results]
            case DeleteGroupResponse():
                pass
            case _:
                raise AssertionError(f"{type(answer).__name__} answers no act")
    refused = sum(row.state == "refused" for row in rows)
    return ActResult(
        group=group,
        act=kind.name,
        is_dry_run=act.dry_run,
        summary=_summary(kind, act, len(rows) + left_out - refused, refused),
        rows=rows,
        left_out=left_out,
        refused=refused,
        shown=shown,
    )


def _summary(kind: Kind, act: Act, count: int, refused: int) -> str:
    if kind.name == "delete-group":
        return "The group can be deleted." if act.dry_run else "The group has been deleted."
    if not count and refused:
        what = "Every partition is refused"
    elif kind.takes_member or kind.name in ("pause", "resume"):
        what = f"{counted(count, 'partition is', 'partitions are')} concerned now"
    else:
        what = (
            f"{counted(count, 'partition')} would change"
            if act.dry_run
            else f"{counted(count, 'partition is', 'partitions are')} done"
        )
    more = f"; {counted(refused, 'is refused', 'are refused')}" if refused and count else ""
    return f"{what}{more}.{' Nothing has been changed yet.' if act.dry_run else ''}"


def _named(
    described: DescribeGroupResponse, topics: Sequence[str], counts: Callable[[PartitionDescription], bool]
) -> tuple[TopicPartition, ...]:
    """Return the partitions that are meant; raises BadQueryError."""
    try:
        return partitions_meant(described, topics, counts)
    except ValueError as error:
        raise BadQueryError(one_line(str(error))) from None


def _scope(text: str) -> tuple[str, tuple[int, ...] | None]:
    try:
        return parse_scope(text)
    except ValueError as error:
        raise BadQueryError(one_line(str(error))) from None


def _word(act: Act, done: str) -> str:
    return f"would: {done}" if act.dry_run else done


def _plain(topic: str, number: int, state: str) -> ActRow:
    return ActRow(topic=topic, partition=number, old_offset=None, new_offset=None, delta=None, state=state, remark=None)


def _changed(result: PartitionResult, state: str, new: int | None) -> ActRow:
    is_refused = result.error is not ErrorCode.NONE
    return ActRow(
        topic=result.topic,
        partition=result.partition,
        old_offset=result.committed,
        new_offset=result.committed if is_refused else new,
        delta=None,
        state="refused" if is_refused else state,
        remark=result.message or None,
    )


def _reset(result: ResetResult, act: Act) -> ActRow:
    old, new = result.old_offset, result.new_offset
    if result.error is not ErrorCode.NONE:
        state = "refused"
    elif result.is_pending:
        state = "would wait for the owner" if act.dry_run else "waits for the owner"
    else:
        state = "would be set" if act.dry_run else "set"
    return ActRow(
        topic=result.topic,
        partition=result.partition,
        old_offset=old,
        new_offset=new,
        delta=delta_of(result),
        state=state,
        remark=result.message or None,
    )
