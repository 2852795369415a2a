"""The pace of the producer."""

import pytest

from coordinator.demo.producer import due_by


@pytest.mark.parametrize(
    ("elapsed_s", "held_back", "due"),
    [
        (0.0, 250, 0),
        (30.0, 250, 500),
        (45.0, 250, 750),
        (59.0, 250, 750),
        (600.0, 250, 750),
        (59.9, 0, 998),
        (60.0, 0, 1000),
        (600.0, 0, 1000),
    ],
)
def test_the_pace_is_even_and_the_last_part_waits(elapsed_s: float, held_back: int, due: int) -> None:
    assert due_by(elapsed_s, total=1000, seconds=60.0, held_back=held_back) == due


def test_no_time_means_all_at_once() -> None:
    assert due_by(0.0, total=1000, seconds=0.0, held_back=0) == 1000
