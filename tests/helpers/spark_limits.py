"""Spark's own time-out for a Python process to start, which no setting changes and a machine that is too busy meets."""

from collections.abc import Callable
from dataclasses import dataclass

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
