"""The partitions that Kafka has of topics, and that a list of offsets does not name: those that came after it."""

from collections.abc import Iterable, Sequence
from itertools import count, islice, takewhile
from typing import Final

import typer

from coordinator.cli.parts.asking import ask_for, ask_in_portions
from coordinator.cli.parts.exits import ExitCode, notes
from coordinator.cli.parts.notes import DocCode
from coordinator.client.operating.author import who_asks
from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.ids import MAX_NAMED, TopicPartition
from coordinator.protocol.messages.operators import ResetOffsets, ResetOffsetsResponse
from coordinator.protocol.parts import NewGroup, ResetTarget
from coordinator.protocol.vocabulary import ResetKind

_FIRST_ASKED: Final = 50
"""Partitions of one topic that are looked for at first; where all of them are there, twice as many each time."""


def not_named(
    named: Iterable[TopicPartition], group: str, coordinator: str, timeout_s: float
) -> tuple[TopicPartition, ...]:
    """Return the other partitions of the topics, topic by topic.

    The coordinator is asked by dry runs of a reset, for it says of each partition whether Kafka has it; what it cannot
    say for now ends the program, since a partition that is left out would be passed over.
    """
    numbers: dict[str, set[int]] = {}
    for topic, number in named:
        numbers.setdefault(topic, set()).add(number)
    found: list[TopicPartition] = []
    for topic, known in numbers.items():
        # From 0 on, for those of a topic have no gaps: a number that is far too large costs nothing.
        others = (number for number in count() if number not in known)
        most = _FIRST_ASKED
        while True:
            wanted = list(islice(others, most))
            there = _that_are_there(topic, wanted, group, coordinator, timeout_s)
            found += takewhile(there.__contains__, ((topic, number) for number in wanted))
            if len(there) < len(wanted):
                break
            most = min(2 * most, MAX_NAMED)
    return tuple(found)


def _that_are_there(
    topic: str, numbers: Sequence[int], group: str, coordinator: str, timeout_s: float
) -> set[TopicPartition]:
    targets = tuple(ResetTarget(topic, number, ResetKind.EARLIEST) for number in numbers)

    def ask(some: tuple[ResetTarget, ...]) -> ResetOffsetsResponse:
        request = ResetOffsets(group, some, who_asks(), is_dry_run=True, new_group=NewGroup())
        return ask_for(coordinator, request, timeout_s, ResetOffsetsResponse, group)

    results = [result for answer in ask_in_portions(group, targets, ask, dry=True) for result in answer.results]
    for result in results:
        if result.error is ErrorCode.COORDINATOR_NOT_AVAILABLE:
            notes.error(
                f"which partitions topic {topic} has is not known for now: {result.message}", DocCode.NOT_KNOWN_NOW
            )
            raise typer.Exit(ExitCode.REFUSED_BY_STATE)
    return {
        (result.topic, result.partition)
        for result in results
        if result.error is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    }
