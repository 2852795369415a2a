"""The committed offsets that stand for a place in the topic as it is now, for somebody who cannot tell by himself.

An offset keeps the id of its topic here, and in Spark's and Kafka's forms it does not. One of a topic that was deleted
and made again would be taken for one of the new topic, whose records up to there nobody has read. The coordinator
tells them apart by dry runs of a reset, as it does when offsets come in.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import typer

from coordinator.cli.moving.offsets_set import is_after_the_end
from coordinator.cli.parts.asking import ask_for, ask_in_portions
from coordinator.cli.parts.exits import ExitCode, notes
from coordinator.cli.parts.notes import DocCode
from coordinator.client.operating.author import who_asks
from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.ids import TopicPartition
from coordinator.protocol.messages.operators import ResetOffsets, ResetOffsetsResponse
from coordinator.protocol.parts import CommittedOffset, ResetResult, ResetTarget
from coordinator.protocol.vocabulary import ResetKind

_MOST_NAMED: Final = 5


@dataclass(frozen=True, slots=True)
class NotNow:
    """The partitions whose offsets say nothing of what Kafka has."""

    of_another_log: frozenset[TopicPartition]
    """Those of a topic that was made again, or that has lost its records: all that is there may be unread."""
    absent: frozenset[TopicPartition]
    """Those that Kafka does not have."""


def which_are_not(offsets: Sequence[CommittedOffset], group: str, coordinator: str, timeout_s: float) -> NotNow:
    """Return the partitions whose offsets do not count; where that cannot be said the program ends."""
    targets = tuple(
        ResetTarget(each.topic, each.partition, ResetKind.OFFSET, each.offset, each.topic_id) for each in offsets
    )

    def ask(some: tuple[ResetTarget, ...]) -> ResetOffsetsResponse:
        request = ResetOffsets(group, some, who_asks(), release_claims=True, is_dry_run=True)
        return ask_for(coordinator, request, timeout_s, ResetOffsetsResponse, group)

    of_another_log: list[TopicPartition] = []
    absent: list[TopicPartition] = []
    answers = ask_in_portions(group, targets, ask, dry=True) if targets else []
    results = [result for answer in answers for result in answer.results]
    for target, result in zip(targets, results, strict=True):
        _must_be_known(result)
        if result.error is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            absent.append((target.topic, target.partition))
        elif result.error is ErrorCode.UNKNOWN_TOPIC_ID or is_after_the_end(target, result):
            of_another_log.append((target.topic, target.partition))
    _tell(
        of_another_log, "was made again or has lost records: the offset that is known is of another log, and left out"
    )
    _tell(absent, "is not in Kafka any more, and left out")
    return NotNow(frozenset(of_another_log), frozenset(absent))


def _must_be_known(result: ResetResult) -> None:
    if result.error is ErrorCode.COORDINATOR_NOT_AVAILABLE:
        name = f"{result.topic}-{result.partition}"
        notes.error(
            f"whether the offset of {name} still counts is not known for now: {result.message}", DocCode.NOT_KNOWN_NOW
        )
        raise typer.Exit(ExitCode.REFUSED_BY_STATE)


def _tell(partitions: Iterable[TopicPartition], what: str) -> None:
    names = [f"{topic}-{number}" for topic, number in partitions]
    if names:
        more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
        notes.print(f"Warning: {', '.join(names[:_MOST_NAMED])}{more} {what}.")
