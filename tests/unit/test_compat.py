"""The frame of `make compat`: the line of a case, and the end of a suite that says nothing any more."""

import threading
from pathlib import Path

import pytest

from tests.compat.__main__ import Place, Result, Silence
from tests.compat.environments import Wanted

PLACE = Place(Wanted("4.3.0", "3.11", Path("python")), "classic")


@pytest.mark.parametrize(
    ("result", "line"),
    [
        (Result("batch", 4.25, None), "ok       4.2 s  spark-4.3.0 python-3.11 classic  batch"),
        (
            Result("batch", 4.25, None, "Spark waited ten seconds in 1 try"),
            "ok       4.2 s  spark-4.3.0 python-3.11 classic  batch: Spark waited ten seconds in 1 try",
        ),
        (
            Result("lag", 600.0, "AssertionError: []"),
            "FAILED 600.0 s  spark-4.3.0 python-3.11 classic  lag\nAssertionError: []",
        ),
    ],
)
def test_line_says_how_a_case_went_and_whether_sparks_own_limit_came_between(result: Result, line: str) -> None:
    assert result.line(PLACE) == line


def test_suite_that_says_nothing_any_more_is_ended() -> None:
    ended = threading.Event()

    silence = Silence(0.001, ended.set)

    assert ended.wait(60)
    assert silence.is_too_long
