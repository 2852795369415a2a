"""A program that runs Spark tries again where Spark's own time-out came between, says so, and repeats nothing else."""

from collections.abc import Sequence

import pytest

from tests.helpers.spark_limits import NO_WORKER, TOLD, TRIES, Tried, try_until_spark_waits

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
