"""A program that runs Spark tries again where Spark's own time-out came between, says so, and repeats nothing else."""

from collections.abc import Sequence

import pytest

from tests.helpers.spark_limits import NO_WORKER, TOLD, TRIES, Tried, start_query, try_until_spark_waits

BUSY = f"pyspark.errors.SparkException: {NO_WORKER}."


@pytest.mark.parametrize(
    ("answers", "tried", "said"),
    [
        ((None,), Tried(None, 0), ""),
        (("a row is missing",), Tried("a row is missing", 0), ""),
        ((BUSY, None), Tried(None, 1), f"{TOLD} in 1 try, so it was tried again"),
        ((BUSY, BUSY, "a row is missing"), Tried("a row is missing", 2), f"{TOLD} in 2 tries, so it was tried again"),
        (
            (BUSY,) * TRIES,
            Tried(BUSY, TRIES),
            f"{TOLD} in {TRIES} tries, and each of them: this machine is too busy",
        ),
    ],
)
def test_only_a_time_out_of_spark_itself_is_tried_again(answers: Sequence[str | None], tried: Tried, said: str) -> None:
    asked: list[int] = []

    def attempt(number: int) -> str | None:
        asked.append(number)
        return answers[number - 1]

    found = try_until_spark_waits(attempt)

    assert found == tried
    assert asked == list(range(1, len(answers) + 1))
    assert found.told() == said


class ScriptedQuery:
    """A query that runs, or has ended with a message."""

    def __init__(self, ended_with: str | None) -> None:
        self._ended_with = ended_with

    @property
    def isActive(self) -> bool:  # noqa: N802 - Spark's name
        return self._ended_with is None

    def exception(self) -> Exception | None:
        return Exception(self._ended_with) if self._ended_with else None


class Starts:
    """Starts of a query, each of which raises, ends or runs as it is said."""

    def __init__(self, *scripted: str | Exception | None) -> None:
        self._left = list(scripted)
        self.running: ScriptedQuery | None = None

    def __call__(self) -> ScriptedQuery:
        said = self._left.pop(0)
        if isinstance(said, Exception):
            raise said
        query = ScriptedQuery(said)
        self.running = query if query.isActive else None
        return query

    def is_through(self) -> bool:
        return self.running is not None


def test_a_query_whose_start_spark_gave_up_is_started_again() -> None:
    starts = Starts(BUSY, Exception(BUSY), None)
    assert start_query(starts, starts.is_through, 5) is starts.running


def test_a_query_that_ends_for_another_reason_is_not_started_again() -> None:
    starts = Starts("a row is missing", None)
    with pytest.raises(AssertionError, match="a row is missing"):
        start_query(starts, starts.is_through, 5)
    starts = Starts(ValueError("no such option"), None)
    with pytest.raises(ValueError, match="no such option"):
        start_query(starts, starts.is_through, 5)


def test_a_machine_that_stays_too_busy_fails_with_what_spark_said() -> None:
    starts = Starts(*[BUSY] * TRIES)
    with pytest.raises(AssertionError, match=NO_WORKER):
        start_query(starts, starts.is_through, 5)
