"""The partitions that a verb is about, in Kafka's words: `--topic t`, `--topic t:0,1`, `--all-topics`."""

from collections.abc import Callable, Sequence
from typing import Annotated

import typer

from coordinator.cli.parts.exits import ExitCode, notes
from coordinator.cli.parts.notes import DocCode
from coordinator.client.operating.partitions_meant import UnknownTopicError, partitions_meant
from coordinator.protocol.ids import TopicPartition
from coordinator.protocol.messages import DescribeGroupResponse
from coordinator.protocol.parts import PartitionDescription
from coordinator.protocol.text import scopes


def parse_scope(text: str) -> tuple[str, tuple[int, ...] | None]:
    """Read `topic` or `topic:0,1`; raises typer.BadParameter."""
    try:
        return scopes.parse_scope(text)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error


def _checked(texts: list[str] | None) -> list[str] | None:
    for text in texts or ():
        parse_scope(text)
    return texts


Topics = Annotated[
    list[str] | None,
    typer.Option(
        "--topic",
        callback=_checked,
        metavar="TOPIC[:0,1]",
        help="A topic, or some of its partitions; may be given repeatedly.",
    ),
]
AllTopics = Annotated[bool, typer.Option("--all-topics", help="Every partition that the group knows.")]


def must_be_one_scope(topics: Sequence[str] | None, *, all_topics: bool) -> None:
    """Raise typer.BadParameter unless exactly one scope is named."""
    if bool(topics) == all_topics:
        raise typer.BadParameter("name the partitions with --topic, or all of them with --all-topics")


def named_partitions(
    group: DescribeGroupResponse,
    topics: Sequence[str] | None,
    counts: Callable[[PartitionDescription], bool] = lambda _: True,
) -> tuple[TopicPartition, ...]:
    """Return the partitions that are meant, as `partitions_meant` does; exits with NOT_FOUND for an unknown topic."""
    try:
        return partitions_meant(group, topics, counts)
    except UnknownTopicError as error:
        notes.error(str(error), DocCode.INPUT)
        raise typer.Exit(ExitCode.NOT_FOUND) from None


def format_partitions(partitions: Sequence[TopicPartition]) -> str:
    """Write partitions as `topic:0,1,2 other:5`."""
    numbers: dict[str, list[str]] = {}
    for topic, partition in partitions:
        numbers.setdefault(topic, []).append(str(partition))
    return " ".join(f"{topic}:{','.join(mine)}" for topic, mine in numbers.items())
