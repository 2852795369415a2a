"""The connections on which a broker is asked: a new position waits for none, and what was parted comes together."""

import pytest

from spark_kcoord.fetch.tailing.lanes import BESIDE_S, LANES, lane_of, wait_s

NOW = 100.0
LONG, SOON = NOW + 0.5, NOW + BESIDE_S / 2


@pytest.mark.parametrize(
    ("ends", "for_a_new_one", "for_another"),
    [
        ([], 0, 0),
        ([(0, LONG)], 1, 1),
        ([(0, SOON)], 1, None),
        ([(1, LONG)], 0, 0),
        ([(0, LONG), (1, LONG)], 2, None),
        ([(0, LONG), (1, SOON), (2, SOON)], None, None),
    ],
    ids=["nothing is out", "a long poll", "one that is over soon", "the second alone", "two", "all"],
)
def test_a_new_position_is_asked_for_at_once_and_others_leave_it_a_connection(
    ends: list[tuple[int, float]], for_a_new_one: int | None, for_another: int | None
) -> None:
    assert lane_of(ends, NOW, is_new=True) == for_a_new_one
    assert lane_of(ends, NOW, is_new=False) == for_another


@pytest.mark.parametrize(
    ("ends", "seconds"),
    [([], 0.5), ([(0, LONG)], BESIDE_S), ([(0, SOON)], BESIDE_S / 2), ([(0, NOW - 1)], 0.0)],
    ids=["alone", "beside a long poll", "beside one that is over soon", "beside one that is late"],
)
def test_a_request_beside_another_waits_for_no_longer_than_that(ends: list[tuple[int, float]], seconds: float) -> None:
    assert wait_s(ends, NOW, 0.5) == pytest.approx(seconds)
    assert wait_s(ends, NOW, 0.0) == 0.0


def test_partitions_that_were_parted_are_asked_for_together_again() -> None:
    """A long poll of one partition is out when another is sought: both are in one request soon after that ends."""
    ends, now, asked, together_at = {0: NOW + 0.5}, NOW, {0: ["old"]}, None
    waiting = ["new"]
    known: set[str] = {"old"}
    while together_at is None:
        assert now < NOW + 2, "they are never together"
        for name in list(waiting):
            lane = lane_of(list(ends.items()), now, is_new=name not in known)
            if lane is not None:
                asked.setdefault(lane, []).append(name)
                waiting.remove(name)
                known.add(name)
        for lane in [lane for lane in LANES if lane in asked and lane not in ends]:
            ends[lane] = now + wait_s(list(ends.items()), now, 0.5)
            if len(asked[lane]) == 2:
                together_at = now
        over = min(ends, key=lambda lane: ends[lane])
        now = ends.pop(over)
        waiting += asked.pop(over)
    assert together_at <= NOW + 0.5 + 2 * BESIDE_S
