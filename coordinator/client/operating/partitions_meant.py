"""The partitions of a group that somebody means who names topics, numbers of partitions, or nothing. Pure."""

from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from typing import TypeVar

from coordinator.protocol.ids import MAX_NAMED, TopicPartition
from coordinator.protocol.messages import DescribeGroupResponse
from coordinator.protocol.parts import ClaimState, PartitionDescription
from coordinator.protocol.text.scopes import parse_scope

_Item = TypeVar("_Item")


class UnknownTopicError(ValueError):
    """A topic is named of which the group knows no partition; the text says what to do."""


def left_claims(group: DescribeGroupResponse) -> tuple[TopicPartition, ...]:
    """Return the partitions with a running claim whose owner is not a member any more."""
    members = {member.member_id for member in group.members}
    return tuple(
        (found.topic, found.partition)
        for found in group.partitions
        if found.claim_state is ClaimState.RUNNING and found.member_id not in members
    )


def partitions_meant(
    group: DescribeGroupResponse,
    named: Sequence[str] | None,
    counts: Callable[[PartitionDescription], bool] = lambda _: True,
) -> tuple[TopicPartition, ...]:
    """Return the partitions that are meant by texts `TOPIC` and `TOPIC:0,1`, each once.

    Those that are named by number are meant whatever the group knows of them. A topic alone means those of it that the
    group knows and that count, no text all of these. Raises UnknownTopicError when the group knows none of a topic, and
    ValueError for a text that names none.
    """
    counted: dict[str, list[TopicPartition]] = {found.topic: [] for found in group.partitions}
    for found in group.partitions:
        if counts(found):
            counted[found.topic].append((found.topic, found.partition))
    if not named:
        return tuple(chain.from_iterable(counted.values()))
    meant: list[TopicPartition] = []
    for text in dict.fromkeys(named):
        topic, numbers = parse_scope(text)
        if numbers is not None:
            meant.extend((topic, number) for number in numbers)
        elif topic in counted:
            meant.extend(counted[topic])
        else:
            raise UnknownTopicError(
                f"group '{group.group_id}' knows no partition of topic '{topic}'; correct the name, or name partitions "
                f"as {topic}:0,1"
            )
    return tuple(dict.fromkeys(meant))


def in_portions(named: Sequence[_Item]) -> Iterator[tuple[_Item, ...]]:
    """Yield as many at a time as one request may name."""
    for begin in range(0, len(named), MAX_NAMED):
        yield tuple(named[begin : begin + MAX_NAMED])
