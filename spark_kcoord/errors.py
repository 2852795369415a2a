"""The errors of the Spark side of kcoord: one family whose messages say what failed, why, and what to do.

Spark shows a Python data source's failure as its message and traceback, so the message has to stand alone. No
message contains a secret. Those are classes of their own that code treats differently: data loss
(``failOnDataLoss`` may turn it into a warning), an unknown topic (``kcoord.wait.for.topics`` may wait), a Kafka or a
coordinator that gives no answer (a running query waits for it), a coordinator's refusal (whose code tells what it is),
a member that is closed, and a batch that counts as done and was not read (no later try helps).
"""

from __future__ import annotations

from collections.abc import Iterable

__all__ = [
    "CoordinatorAwayError",
    "DataLossError",
    "KafkaAwayError",
    "KcoordError",
    "MemberClosedError",
    "OptionError",
    "RefusedError",
    "UnknownTopicError",
    "UnreadBatchError",
]


class KcoordError(Exception):
    """A failure a user can act on; the message is the whole story.

    ``partitions`` are those that it is about, and ``is_retriable`` says that the same call may succeed later.
    """

    partitions: tuple[tuple[str, int], ...] = ()
    is_retriable = False


class OptionError(KcoordError, ValueError):
    """An option that is missing, misspelt, of the wrong type or not allowed here."""


class DataLossError(KcoordError):
    """Records of a range can no longer be read: aged out, truncated, or their topic deleted or made again."""


class KafkaAwayError(KcoordError):
    """Kafka gave no answer in the time there was; the same question may be answered later."""


class CoordinatorAwayError(KcoordError):
    """A coordinator gave no answer in the time there was; the same question may be answered later."""


class MemberClosedError(KcoordError):
    """A member was asked for something after its end."""


class RefusedError(KcoordError):
    """A coordinator refused; ``refusal`` is the name of its error code."""

    def __init__(self, message: str, refusal: str = "") -> None:
        super().__init__(message)
        self.refusal = refusal


class UnreadBatchError(KcoordError):
    """A batch that is said to be done and of which nothing was planned to be read; it is not committed."""


class UnknownTopicError(KcoordError):
    """Topics that Kafka does not know; ``topics`` names them."""

    def __init__(self, message: str, topics: Iterable[str]) -> None:
        super().__init__(message)
        self.topics = tuple(topics)
