"""The offset to which a reset leads: what Kafka has to be asked for it, and what follows from the answers.

The rules are those of Kafka's own tool: a target outside of what the partition holds is moved to its nearer end, a time
after the last record means the end, and a partition without a committed offset cannot be shifted.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias, assert_never

from coordinator.core.events import ResolvedOffset
from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.ids import EARLIEST, LATEST, why_bad_partition, why_bad_time, why_bad_topic_id
from coordinator.protocol.parts import ResetTarget
from coordinator.protocol.vocabulary import ResetKind

KINDS_WITH_VALUE: Final = frozenset({ResetKind.OFFSET, ResetKind.TIMESTAMP, ResetKind.DURATION, ResetKind.SHIFT})

Answers: TypeAlias = Mapping[int, ResolvedOffset]
"""Kafka's answers about one partition, by EARLIEST, LATEST or the timestamp asked for."""


@dataclass(frozen=True, slots=True)
class NewOffset:
    """The offset to set, and a remark when it is not the one that was asked for."""

    offset: int
    leader_epoch: int | None = None
    remark: str = ""


@dataclass(frozen=True, slots=True)
class NoOffset:
    """Why there is none."""

    error: ErrorCode
    why: str


def why_bad_target(target: ResetTarget) -> str | None:
    """Say what is wrong with a target, or return None."""
    if why := why_bad_partition(target.topic, target.partition):
        return why
    name = f"{target.topic}-{target.partition}"
    if target.kind not in set(ResetKind):
        return f"{name} is to be set to {target.kind[:50]!r}; use one of {', '.join(sorted(ResetKind))}"
    if (target.kind in KINDS_WITH_VALUE) != (target.value is not None):
        return f"{name}: a value belongs to {', '.join(sorted(KINDS_WITH_VALUE))}, and to no other"
    if target.kind == ResetKind.TIMESTAMP and target.value is not None and (why := why_bad_time(target.value)):
        return f"{name}: {why}"
    if target.kind == ResetKind.DURATION and target.value is not None and target.value < 0:
        return f"{name}: the duration {target.value} is negative"
    if why := why_bad_topic_id(target.topic_id):
        return f"{name}: {why}"
    return None


def to_ask(target: ResetTarget, committed: int | None, wall_ms: int) -> tuple[int, ...]:
    """Return what Kafka has to be asked about a partition: EARLIEST, LATEST, timestamps, or nothing."""
    match ResetKind(target.kind):
        case ResetKind.EARLIEST:
            return (EARLIEST,)
        case ResetKind.LATEST:
            return (LATEST,)
        case ResetKind.CURRENT:
            return () if committed is not None else (LATEST,)
        case ResetKind.TIMESTAMP | ResetKind.DURATION:
            return (timestamp_of(target, wall_ms), LATEST)
        case ResetKind.OFFSET | ResetKind.SHIFT:
            return (EARLIEST, LATEST)
        case unreachable:
            assert_never(unreachable)


def timestamp_of(target: ResetTarget, wall_ms: int) -> int:
    """Return the time that a target stands for, in milliseconds since 1970."""
    value = _value_of(target)
    return value if target.kind == ResetKind.TIMESTAMP else max(0, wall_ms - value)


def new_offset(target: ResetTarget, committed: int | None, answers: Answers, wall_ms: int) -> NewOffset | NoOffset:
    """Return the offset that a target leads to."""
    for answer in answers.values():
        if answer.is_absent:
            return NoOffset(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"{answer.why}; correct the name or the number")
        if answer.offset is None:
            why = f"Kafka could not say what the partition holds: {answer.why}; check the name, or try again"
            return NoOffset(ErrorCode.COORDINATOR_NOT_AVAILABLE, why)
    match ResetKind(target.kind):
        case ResetKind.EARLIEST:
            return _as_answered(answers[EARLIEST])
        case ResetKind.LATEST:
            return _as_answered(answers[LATEST])
        case ResetKind.CURRENT:
            if committed is not None:
                return NewOffset(committed)
            if LATEST not in answers:
                why = "its committed offset was deleted while the other partitions were looked up; ask again"
                return NoOffset(ErrorCode.COORDINATOR_NOT_AVAILABLE, why)
            return _as_answered(answers[LATEST])
        case ResetKind.TIMESTAMP | ResetKind.DURATION:
            found = answers[timestamp_of(target, wall_ms)]
            return _as_answered(found if found.offset != LATEST else answers[LATEST])
        case ResetKind.OFFSET:
            return _clamped(_value_of(target), answers)
        case ResetKind.SHIFT:
            if committed is None:
                why = "there is no committed offset to shift; use another way to say where to"
                return NoOffset(ErrorCode.INVALID_REQUEST, why)
            return _clamped(committed + _value_of(target), answers)
        case unreachable:
            assert_never(unreachable)


def _value_of(target: ResetTarget) -> int:
    assert target.value is not None, "a target without its value is refused before"
    return target.value


def _as_answered(answer: ResolvedOffset) -> NewOffset:
    assert answer.offset is not None
    return NewOffset(answer.offset, answer.leader_epoch)


def _clamped(wanted: int, answers: Answers) -> NewOffset:
    begin, end = answers[EARLIEST], answers[LATEST]
    assert begin.offset is not None
    assert end.offset is not None
    if wanted < begin.offset:
        remark = f"offset {wanted} is before the first one; set to {begin.offset}"
        return NewOffset(begin.offset, begin.leader_epoch, remark)
    if wanted > end.offset:
        return NewOffset(end.offset, end.leader_epoch, f"offset {wanted} is after the end; set to {end.offset}")
    return NewOffset(wanted)
