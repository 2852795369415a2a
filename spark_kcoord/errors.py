"""The errors of the Spark side of kcoord: one family whose messages say what failed, why, and what to do.

Spark shows a Python data source's failure as its message and traceback, so the message has to stand alone. No
message contains a secret. Those are classes of their own that code treats differently: data loss
(``failOnDataLoss`` may turn it into a warning), an unknown topic (``kcoord.wait.for.topics`` may wait), a Kafka or a
coordinator that gives no answer (a running query waits for it), a coordinator's refusal (whose code tells what it is),
a member that is closed, and a batch that counts as done and was not read (no later try helps).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

__all__ = [
    "CoordinatorAwayError",
    "DataLossError",
    "KafkaAwayError",
    "KcoordError",
    "LeftAloneError",
    "MemberClosedError",
    "OptionError",
    "RefusedError",
    "UnknownTopicError",
    "UnreadBatchError",
]


class KcoordError(Exception):
    """A failure a user can act on; the message is the whole story.

    ``partitions`` are those that it is about, and ``is_retriable`` says that the same call may succeed later.
    ``doc_code`` is the code of its kind, such as KC-2001; a traceback ends with it, and ``kcoord explain`` says more.
    """

    partitions: tuple[tuple[str, int], ...] = ()
    is_retriable = False
    doc_code = "KC-2000"

    @property
    def __notes__(self) -> list[str]:
        """Return what a traceback shows behind the message: the code, and what others have added."""
        said = f"{self.doc_code}: `kcoord explain {self.doc_code}` says what it means and what to do."
        notes: list[str] = self.__dict__.setdefault("notes", [said])
        return notes

    @__notes__.setter
    def __notes__(self, notes: list[str]) -> None:
        self.__dict__["notes"] = notes

    def __reduce__(self) -> tuple[Any, ...]:
        """Return what a copy in another process is made of: its arguments and attributes, whatever made it here."""
        return _made_again, (type(self), self.args), dict(self.__dict__)


def _made_again(kind: type[KcoordError], args: tuple[Any, ...]) -> KcoordError:
    error = kind.__new__(kind, *args)
    error.args = args
    return error


class OptionError(KcoordError, ValueError):
    """An option that is missing, misspelt, of the wrong type or not allowed here."""

    doc_code = "KC-2001"


class DataLossError(KcoordError):
    """Records of a range can no longer be read: aged out, truncated, or their topic deleted or made again."""

    doc_code = "KC-2002"


class KafkaAwayError(KcoordError):
    """Kafka gave no answer in the time there was; the same question may be answered later."""

    doc_code = "KC-2003"


class CoordinatorAwayError(KcoordError):
    """A coordinator gave no answer in the time there was; the same question may be answered later."""

    doc_code = "KC-2004"


class MemberClosedError(KcoordError):
    """A member was asked for something after its end."""

    doc_code = "KC-2005"


class LeftAloneError(MemberClosedError):
    """A member was asked for something after it had left, because its user had asked for nothing for too long."""


class RefusedError(KcoordError):
    """A coordinator refused; ``refusal`` is the name of its error code, and ``doc_code`` that of the same."""

    def __init__(self, message: str, refusal: str = "", doc_code: str = "") -> None:
        super().__init__(message)
        self.refused_with(refusal, doc_code)

    def refused_with(self, refusal: str, doc_code: str) -> None:
        """Take the name of the coordinator's error code, and its code for people, empty where it is not known."""
        self.refusal = refusal
        self.doc_code = doc_code or type(self).doc_code


class UnreadBatchError(KcoordError):
    """A batch that is said to be done and of which nothing was planned to be read; it is not committed."""

    doc_code = "KC-2006"


class UnknownTopicError(KcoordError):
    """Topics that Kafka does not know; ``topics`` names them."""

    doc_code = "KC-2007"

    def __init__(self, message: str, topics: Iterable[str]) -> None:
        super().__init__(message)
        self.topics = tuple(topics)
