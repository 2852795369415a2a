"""Spark's own time-out for a Python process to start, which no setting changes and a machine that is too busy meets."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, TypeVar

from tests.helpers.waiting import wait_until

NO_WORKER = "Python worker failed to connect back"
"""Spark's message when a Python process has not connected to it within ten seconds."""
TRIES = 4
TOLD = f'Spark waited ten seconds for a Python process, which no setting changes ("{NO_WORKER}")'


@dataclass(frozen=True, slots=True)
class Tried:
    """The end of something that was tried until Spark's own time-out did not come between.

    ``why`` is None where it went well; ``met`` is how many tries ended by that time-out.
    """

    why: str | None
    met: int

    def told(self) -> str:
        """Say in words how often the time-out was met, empty where it was not."""
        if not self.met:
            return ""
        end = "and each of them: this machine is too busy" if self.met == TRIES else "so it was tried again"
        return f"{TOLD} in {self.met} {'try' if self.met == 1 else 'tries'}, {end}"


def try_until_spark_waits(attempt: Callable[[int], str | None]) -> Tried:
    """Call ``attempt`` with 1, 2 and so on until it is not Spark's own time-out that it returns as its failure."""
    for number in range(1, TRIES + 1):
        why = attempt(number)
        if why is None or NO_WORKER not in why:
            return Tried(why, number - 1)
    return Tried(why, TRIES)


class Query(Protocol):
    """The part of Spark's streaming query that is needed here."""

    @property
    def isActive(self) -> bool:  # noqa: N802 - Spark's name
        """Say whether it runs."""

    def exception(self) -> Exception | None:
        """Return why it has ended."""


Q = TypeVar("Q", bound=Query)


def start_query(start: Callable[[], Q], is_through: Callable[[], bool], timeout_s: float) -> Q:
    """Return a query that runs when its beginning is through; one that Spark's own time-out ended is started again.

    Only that time-out, which ends a query before it has joined anything, is tried again: whatever else ends a query is
    an AssertionError, or the exception of the start itself.
    """
    started: list[Q] = []

    def attempt(_: int) -> str | None:
        try:
            query = start()
        except Exception as error:
            if NO_WORKER not in str(error):
                raise
            return str(error)
        started.append(query)
        wait_until(lambda: is_through() or not query.isActive, timeout_s=timeout_s, what="a query's first micro-batch")
        return None if query.isActive else str(query.exception())

    tried = try_until_spark_waits(attempt)
    assert tried.why is None, tried.why
    return started[-1]
