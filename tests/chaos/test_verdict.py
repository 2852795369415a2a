"""The verdict of a chaos run finds what it is there to find."""

import pytest

from tests.chaos.log_of_cuts import Cut
from tests.chaos.verdict import Verdict, describe_cuts, judge

ENDS = {0: 3, 1: 2}
ALL = [(partition, offset, f"{partition}:{offset}") for partition, end in ENDS.items() for offset in range(end)]
CUT = Cut("t", 0, 7, 1, 3, "m1", "Granted")


def figures(verdict: Verdict) -> tuple[int, int, int, int]:
    return verdict.missing, verdict.wrong, verdict.duplicates, verdict.unexplained


@pytest.mark.parametrize(
    ("rows", "cuts", "found"),
    [
        (ALL, (), (0, 0, 0, 0)),
        (ALL[1:], (), (1, 0, 0, 0)),
        ([*ALL, (0, 2, "0:2")], (), (0, 0, 1, 1)),
        ([*ALL, (0, 2, "0:2")], (CUT,), (0, 0, 1, 0)),
        ([*ALL, (0, 2, "0:2"), (0, 2, "0:2")], (CUT,), (0, 0, 2, 1)),
        ([*ALL, (0, 0, "0:0")], (CUT,), (0, 0, 1, 1)),
        ([*ALL[:-1], (1, 1, "1:0")], (), (0, 1, 0, 0)),
        ([*ALL, (1, 2, "1:2")], (), (0, 1, 0, 0)),
    ],
)
def test_every_kind_of_fault_is_counted(
    rows: list[tuple[int, int, str]], cuts: tuple[Cut, ...], found: tuple[int, int, int, int]
) -> None:
    verdict = judge(rows, ENDS, cuts)
    assert figures(verdict) == found
    assert verdict.is_good == (not (found[0] or found[1] or found[3]))


def test_a_duplicate_is_told_with_the_range_that_was_cut() -> None:
    (line,) = describe_cuts([*ALL, (0, 2, "0:2")], [CUT])
    assert line == "t-0 [1, 3) of m1 under owner epoch 7 was cut by Granted: 1 records came again"
