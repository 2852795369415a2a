"""The commands of the planner of micro-batches: what it has to know or have done, by somebody else.

A plan is a generator of commands. Its shell performs and answers each before the plan goes on; nothing here says how.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from dataclasses import dataclass
from typing import TypeAlias, TypeVar, cast

from coordinator.protocol.ids import TopicPartition
from coordinator.protocol.parts import Claim, ClaimStatus, LostPosition, PartitionResult
from spark_kcoord.member.core.effects import AdvanceOutcome
from spark_kcoord.member.core.held.holdings import Assignment
from spark_kcoord.member.holders import Holder


@dataclass(frozen=True, slots=True)
class ReadAssignment:
    """Tell what the member owns now. Answered with an Assignment, without waiting."""


@dataclass(frozen=True, slots=True)
class AwaitAssignment:
    """Wait for any partition, or for a complete assignment; answered with what there is then or when time is over."""

    complete: bool
    timeout_s: float


@dataclass(frozen=True, slots=True)
class AwaitChange:
    """Wait until the member owns something else than `known`; answered with what there is then or when time is over."""

    known: Assignment
    timeout_s: float


@dataclass(frozen=True, slots=True)
class ReadEnds:
    """Read where these partitions end at the brokers. Answered with an exclusive end for each that is known.

    Fails with UnknownTopicError naming topics that are gone, and with KafkaAwayError after `timeout_s` (None: soon)
    without an answer.
    """

    partitions: tuple[TopicPartition, ...]
    timeout_s: float | None = None


@dataclass(frozen=True, slots=True)
class ReadHighWatermarks:
    """Read where the logs of these partitions end at any isolation level. Answered and failing as ReadEnds, soon.

    The answer is as new as the command.
    """

    partitions: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True)
class ReadStarts:
    """Read the first offset the brokers still have of these partitions. Answered and failing as ReadEnds, soon."""

    partitions: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True)
class ReadSizes:
    """Read how large records are at these positions. Answered with bytes per offset of each partition that is known.

    Fails with KafkaAwayError when there is no answer.
    """

    positions: Mapping[TopicPartition, int]


@dataclass(frozen=True, slots=True)
class ReadTopicIds:
    """Read the ids under which Kafka knows these topics. Answered for each that exists; empty where Kafka names none.

    Fails with KafkaAwayError when there is no answer, soon.
    """

    topics: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class AskAdvance:
    """Commit what is finished and claim what is next; answered with an AdvanceOutcome."""

    finished: tuple[Claim, ...]
    claims: tuple[Claim, ...]


@dataclass(frozen=True, slots=True)
class AskConfirm:
    """Mark open claims as running; answered with a status of each."""

    claims: tuple[Claim, ...]


@dataclass(frozen=True, slots=True)
class AskReport:
    """Say that the brokers do not have the positions of these partitions; answered with a result of each.

    The coordinator asks Kafka too: what it finds otherwise is as it was.
    """

    partitions: tuple[LostPosition, ...]


@dataclass(frozen=True, slots=True)
class AskHolders:
    """Ask who has each of the group's partitions. Answered by the coordinator, with a Holder of each that it knows."""


Command: TypeAlias = (
    ReadAssignment
    | AwaitAssignment
    | AwaitChange
    | ReadEnds
    | ReadHighWatermarks
    | ReadStarts
    | ReadSizes
    | ReadTopicIds
    | AskAdvance
    | AskConfirm
    | AskReport
    | AskHolders
)
Answer: TypeAlias = (
    Assignment
    | Mapping[TopicPartition, int]
    | Mapping[TopicPartition, float]
    | Mapping[str, str]
    | Mapping[TopicPartition, Holder]
    | AdvanceOutcome
    | tuple[ClaimStatus, ...]
    | tuple[PartitionResult, ...]
)
_Plan = TypeVar("_Plan")
Planning: TypeAlias = Generator[Command, Answer, _Plan]
"""Commands in the order in which they are to be answered; it returns what was planned.

A command that cannot be performed is answered by throwing the KcoordError, which the plan may have a way around.
"""


def ask_assignment(command: ReadAssignment | AwaitAssignment | AwaitChange) -> Planning[Assignment]:
    """Ask for an assignment."""
    answer = yield command
    assert isinstance(answer, Assignment)
    return answer


def ask_offsets(command: ReadEnds | ReadHighWatermarks | ReadStarts) -> Planning[Mapping[TopicPartition, int]]:
    """Ask the brokers for offsets."""
    answer = yield command
    assert isinstance(answer, Mapping)
    return cast("Mapping[TopicPartition, int]", answer)


def ask_sizes(command: ReadSizes) -> Planning[Mapping[TopicPartition, float]]:
    """Ask the brokers for sizes of records."""
    answer = yield command
    assert isinstance(answer, Mapping)
    return cast("Mapping[TopicPartition, float]", answer)


def ask_topic_ids(command: ReadTopicIds) -> Planning[Mapping[str, str]]:
    """Ask the brokers for the ids of topics."""
    answer = yield command
    assert isinstance(answer, Mapping)
    return cast("Mapping[str, str]", answer)


def ask_holders(command: AskHolders) -> Planning[Mapping[TopicPartition, Holder]]:
    """Ask the coordinator who has what."""
    answer = yield command
    assert isinstance(answer, Mapping)
    return cast("Mapping[TopicPartition, Holder]", answer)
