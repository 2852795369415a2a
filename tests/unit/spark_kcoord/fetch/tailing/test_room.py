"""The memory of a fetcher is bounded, what is parked keeps the others from nothing, and brokers share what there is."""

from hypothesis import given
from hypothesis import strategies as st

from spark_kcoord.fetch.tailing.room import Room

MAX, PARTITION, ANSWER = 100, 10, 60
ROOMS = st.builds(
    Room,
    max_bytes=st.integers(4, 1_000),
    partition_bytes=st.integers(1, 1_000),
    answer_bytes=st.integers(1, 1_000),
)


def room(held_bytes: int = 0, parked_bytes: int = 0) -> Room:
    return Room(MAX, PARTITION, ANSWER, held_bytes, parked_bytes)


def test_what_is_held_leaves_the_rest() -> None:
    assert [room(held).left() for held in (0, 95, 100, 120)] == [100, 5, 0, -20]


def test_what_is_parked_leaves_room_for_one_partition_until_that_is_held() -> None:
    assert [room(held, 100).left() for held in (100, 109, 110)] == [PARTITION, PARTITION, -10]
    assert room(95, 90).left() == PARTITION
    assert room(60, 50).left() == 40


def test_fetcher_is_woken_when_there_is_room_again() -> None:
    full = room(100)
    assert not full.free(0, 0)
    assert full.free(1, 0)
    assert not full.free(1, 0)
    parked = room(100)
    assert parked.free(0, 100)
    assert not parked.free(0, 0)


def test_one_answer_takes_a_part_of_the_memory() -> None:
    assert room().share(100, 1) == 25
    assert room().share(100, 10) == 10
    assert Room(MAX, PARTITION, 20).share(100, 1) == 20


def test_each_of_many_requests_asks_for_something() -> None:
    assert [room().share(left, 3) for left in (2, 1, 0)] == [1, 1, 1]


@given(ROOMS, st.integers(1, 1_000), st.integers(1, 20))
def test_requests_take_together_no_more_than_there_is(one: Room, left: int, requests: int) -> None:
    asked, shares = left, []
    for number in range(requests):
        shares.append(one.share(asked, requests - number))
        asked -= shares[-1]
    assert min(shares) >= 1
    assert sum(shares) <= max(left, requests)
    assert max(shares) - min(shares) <= 1


@given(ROOMS, st.lists(st.tuples(st.integers(0, 300), st.booleans()), max_size=30))
def test_what_is_parked_neither_takes_all_nor_frees_others_from_the_bound(
    one: Room, fetched: list[tuple[int, bool]]
) -> None:
    for size, is_parked in fetched:
        one.held_bytes += max(0, min(size, one.left()))
        one.free(0, one.held_bytes if is_parked else one.parked_bytes)
        others_bytes = one.held_bytes - one.parked_bytes
        assert one.left() > 0 or others_bytes >= one.least
        assert one.held_bytes <= one.max_bytes or others_bytes < 2 * one.least
