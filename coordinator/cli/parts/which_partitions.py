"""The partitions that a verb is about, in Kafka's words: `--topic t`, `--topic t:0,1`, `--all-topics`."""

from collections.abc import Callable, Sequence
from typing import Annotated

import typer

from coordinator.cli.parts.exits import ExitCode, notes
from coordinator.protocol.ids import TopicPartition
from coordinator.protocol.messages import DescribeGroupResponse
from coordinator.protocol.parts import ClaimState, PartitionDescription
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


def left_claims(group: DescribeGroupResponse) -> tuple[TopicPartition, ...]:
    """Return the partitions with a running claim whose owner is not a member any more."""
    members = {member.member_id for member in group.members}
    return tuple(
        (found.topic, found.partition)
        for found in group.partitions
        if found.claim_state is ClaimState.RUNNING and found.member_id not in members
    )


def named_partitions(
    group: DescribeGroupResponse,
    topics: Sequence[str] | None,
    counts: Callable[[PartitionDescription], bool] = lambda _: True,
) -> tuple[TopicPartition, ...]:
    """Return the partitions that are meant: those that are named by number, whatever the group knows of them.

    A topic alone means those of it that the group knows and that count, no topic all of these. Exits with NOT_FOUND
    when the group knows none of a topic.
    """
    known = {found.topic for found in group.partitions}
    counted = [(found.topic, found.partition) for found in group.partitions if counts(found)]
    if not topics:
        return tuple(counted)
    named: list[TopicPartition] = []
    for text in topics:
        topic, numbers = parse_scope(text)
        if numbers is not None:
            named.extend((topic, number) for number in numbers)
        elif topic in known:
            named.extend(part for part in counted if part[0] == topic)
        else:
            notes.print(
                f"error: group '{group.group_id}' knows no partition of topic '{topic}'; correct the name, or name "
                f"partitions as {topic}:0,1"
            )
            raise typer.Exit(ExitCode.NOT_FOUND)
    return tuple(dict.fromkeys(named))


def format_partitions(partitions: Sequence[TopicPartition]) -> str:
    """Write partitions as `topic:0,1,2 other:5`."""
    numbers: dict[str, list[str]] = {}
    for topic, partition in partitions:
        numbers.setdefault(topic, []).append(str(partition))
    return " ".join(f"{topic}:{','.join(mine)}" for topic, mine in numbers.items())
