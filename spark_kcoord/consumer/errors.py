"""The errors of a plain consumer: each is a KcoordError, and the kafka-python error that programs catch for it.

`code` names the kind in Kafka's way, `partitions` are those that it is about, and `is_retriable` says that the same
call may succeed later. The message is the whole story, in the names of the consumer's settings; it holds no secret.
"""

# mypy: disable-error-code="misc"
# kafka-python has no types: what is derived from its classes cannot be checked.

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

from kafka import errors as kafka_errors

from spark_kcoord.consumer.values import TopicPartition
from spark_kcoord.errors import CoordinatorAwayError, KafkaAwayError, KcoordError, MemberClosedError, RefusedError

__all__ = [
    "CommitRefusedError",
    "ConsumerClosedError",
    "ConsumerError",
    "CoordinatorUnavailableError",
    "CorruptRecordError",
    "GroupRefusedError",
    "InterruptedPollError",
    "KafkaUnavailableError",
    "KcoordError",
    "LogTruncatedError",
    "OffsetOutOfRangeError",
    "OffsetUnknownError",
    "PartitionNotAssignedError",
    "PartitionsNotOwnedError",
    "RecordDeserializationError",
    "RecordError",
    "RecordTimeoutError",
    "SettingError",
    "StartNotKnownError",
    "SubscriptionEmptyError",
    "SubscriptionNotValidError",
    "TopicUnknownError",
    "WrongThreadError",
    "translated",
]


class ConsumerError(KcoordError):
    """Anything that a consumer's call can fail with."""

    code: ClassVar[str] = "CONSUMER_ERROR"
    doc_code = "KC-2008"
    is_retriable: ClassVar[bool] = False

    def __init__(self, message: str, partitions: Iterable[tuple[str, int]] = ()) -> None:
        Exception.__init__(self, message)  # the classes of the library have constructors of other shapes
        self.partitions = tuple(TopicPartition(*partition) for partition in partitions)

    def __str__(self) -> str:
        """Return the message alone."""
        return str(self.args[0]) if self.args else type(self).__name__


class SettingError(ConsumerError, kafka_errors.KafkaConfigurationError, ValueError):
    """A setting that is not known, not allowed here, or has a value of the wrong type or out of range."""

    code = "INVALID_CONFIG"
    doc_code = "KC-2001"


class SubscriptionNotValidError(ConsumerError, kafka_errors.IllegalStateError, ValueError):
    """A subscription that does not go with the one there is, or that could not be one."""

    code = "SUBSCRIPTION_NOT_VALID"
    doc_code = "KC-2010"


class SubscriptionEmptyError(ConsumerError, kafka_errors.IllegalStateError):
    """Records or partitions are asked for by a consumer that has subscribed to nothing."""

    code = "SUBSCRIPTION_EMPTY"
    doc_code = "KC-2010"


class StartNotKnownError(ConsumerError, kafka_errors.NoOffsetForPartitionError):
    """Partitions without a committed offset in a group whose policy is none."""

    code = "NO_OFFSET_FOR_PARTITION"
    doc_code = "KC-2011"


class PartitionsNotOwnedError(ConsumerError, kafka_errors.CommitFailedError):
    """Offsets of partitions that are not this consumer's are to be committed."""

    code = "ILLEGAL_PARTITIONS"
    doc_code = "KC-2012"


class PartitionNotAssignedError(ConsumerError, kafka_errors.IllegalStateError, ValueError, KeyError):
    """A partition that this consumer does not read is named in a call about what it reads."""

    code = "PARTITION_NOT_ASSIGNED"
    doc_code = "KC-2013"


class OffsetUnknownError(ConsumerError, kafka_errors.NoOffsetForPartitionError):
    """The group has no committed offset of a partition."""

    code = "OFFSET_UNKNOWN"
    doc_code = "KC-2014"


class CommitRefusedError(ConsumerError, kafka_errors.CommitFailedError):
    """The coordinator refused offsets; those that it names are not committed, the others are."""

    code = "COMMIT_FAILED"
    doc_code = "KC-2015"


class OffsetOutOfRangeError(ConsumerError, kafka_errors.OffsetOutOfRangeError):
    """Kafka does not have the offset at which a partition is to be read, and the policy is none."""

    code = "OFFSET_OUT_OF_RANGE"
    doc_code = "KC-2016"


class LogTruncatedError(ConsumerError, kafka_errors.LogTruncationError):
    """A log was cut back below what was read of it, and the policy is none; `divergent_offsets` says up to where."""

    code = "LOG_TRUNCATION"
    doc_code = "KC-2002"

    def __init__(self, message: str, divergent_offsets: dict[TopicPartition, int] | None = None) -> None:
        ConsumerError.__init__(self, message, divergent_offsets or ())
        self.divergent_offsets = dict(divergent_offsets or {})


class TopicUnknownError(ConsumerError, kafka_errors.UnknownTopicOrPartitionError):
    """Kafka has no such topic or partition."""

    code = "UNKNOWN_TOPIC_OR_PARTITION"
    doc_code = "KC-2007"


class RecordError(ConsumerError):
    """One record cannot be given: `topic`, `partition` and `offset` name it; `seek` to the next offset passes it."""

    code = "RECORD_ERROR"
    doc_code = "KC-2017"

    def __init__(self, message: str, topic: str, partition: int, offset: int) -> None:
        super().__init__(message, ((topic, partition),))
        self.topic = topic
        self.partition = partition
        self.offset = offset


class RecordDeserializationError(RecordError):
    """A deserializer raised; its error is the cause."""

    code = "RECORD_DESERIALIZATION"


class CorruptRecordError(RecordError, kafka_errors.CorruptRecordError):
    """A record batch whose checksum does not match or that cannot be read; `offset` is where it begins."""

    code = "CORRUPT_MESSAGE"


class CoordinatorUnavailableError(
    ConsumerError, CoordinatorAwayError, kafka_errors.CoordinatorNotAvailableError, kafka_errors.KafkaTimeoutError
):
    """No coordinator answered in the time there was."""

    code = "COORDINATOR_NOT_AVAILABLE"
    doc_code = "KC-2004"
    is_retriable = True


class KafkaUnavailableError(ConsumerError, KafkaAwayError, kafka_errors.KafkaTimeoutError):
    """Kafka gave no answer in the time there was."""

    code = "REQUEST_TIMED_OUT"
    doc_code = "KC-2003"
    is_retriable = True


class GroupRefusedError(ConsumerError, RefusedError, kafka_errors.KafkaConfigurationError):
    """The coordinator does not take this consumer into the group; `refusal` names its error code."""

    code = "GROUP_REFUSED"

    def __init__(self, message: str, refusal: str = "", doc_code: str = "") -> None:
        ConsumerError.__init__(self, message)
        self.refused_with(refusal, doc_code)


class ConsumerClosedError(ConsumerError, MemberClosedError, kafka_errors.IllegalStateError):
    """The consumer is closed, or belongs to another process."""

    code = "CONSUMER_CLOSED"
    doc_code = "KC-2005"


class WrongThreadError(ConsumerError, kafka_errors.IllegalStateError, RuntimeError):
    """Two threads are inside of one consumer, or a listener polls; both are named."""

    code = "WRONG_THREAD"
    doc_code = "KC-2018"


class InterruptedPollError(ConsumerError):
    """`interrupt()` ended this call; nothing is lost."""

    code = "INTERRUPTED"
    doc_code = "KC-2019"
    is_retriable = True


class RecordTimeoutError(ConsumerError, kafka_errors.KafkaTimeoutError, TimeoutError):
    """No record came within `consumer_timeout_ms`."""

    code = "NO_RECORD"
    doc_code = "KC-2020"
    is_retriable = True


def translated(error: KcoordError) -> KcoordError:
    """Return an error of the member, of Kafka's look-ups or of the options as the consumer's own."""
    message = str(error)
    if isinstance(error, ConsumerError):
        return error
    if isinstance(error, CoordinatorAwayError):
        return CoordinatorUnavailableError(message)
    if isinstance(error, KafkaAwayError):
        return KafkaUnavailableError(message)
    if isinstance(error, RefusedError):
        return GroupRefusedError(message, error.refusal, error.doc_code)
    if isinstance(error, MemberClosedError):
        return ConsumerClosedError(message)
    return error
