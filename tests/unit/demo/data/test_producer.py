"""The pace of the producer."""

import itertools

from coordinator.demo.data.producer import Pace


def due(pace: Pace, *seconds: float) -> list[int]:
    return [pace.due_at(second) for second in seconds]


def test_the_pace_is_even_when_nothing_holds_it_back() -> None:
    pace = Pace(total=1000, seconds=50.0, free=1000)
    assert due(pace, 0, 1, 25, 49.9, 50, 600) == [0, 20, 500, 998, 1000, 1000]


def test_past_the_free_ones_it_slows_down_but_never_runs_dry() -> None:
    pace = Pace(total=10_000, seconds=10.0, free=5_000)
    produced = [pace.due_at(second) for second in range(121)]
    assert produced[5] == 5_000
    assert produced[6] == 5_075
    assert all(later - earlier >= 10 for earlier, later in itertools.pairwise(produced))
    assert produced[-1] < 10_000


def test_once_released_it_goes_on_evenly_without_a_burst() -> None:
    pace = Pace(total=1000, seconds=10.0, free=500)
    due(pace, 5)
    before = pace.due_at(6)
    pace.release()
    assert due(pace, 7, 8, 20) == [before + 100, before + 200, 1000]


def test_released_early_it_is_even_all_the_way() -> None:
    pace = Pace(total=1000, seconds=10.0, free=500)
    pace.release()
    assert due(pace, 4, 6, 10) == [400, 600, 1000]
