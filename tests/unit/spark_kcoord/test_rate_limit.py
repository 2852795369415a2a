from hypothesis import given
from hypothesis import strategies as st

from spark_kcoord.rate_limit import limit_ends


def test_without_a_limit_everything_is_read() -> None:
    assert limit_ends({"a": 5, "b": 0}, {"a": 9, "b": 3}, None) == {"a": 9, "b": 3}


def test_a_limit_is_split_by_backlog() -> None:
    assert limit_ends({"a": 0, "b": 0}, {"a": 300, "b": 100}, 100) == {"a": 75, "b": 25}


def test_a_share_below_one_is_rounded_up_and_any_other_down() -> None:
    assert limit_ends({"a": 0, "b": 0}, {"a": 1000, "b": 1}, 10) == {"a": 9, "b": 1}


def test_an_end_that_is_unknown_or_behind_keeps_the_position() -> None:
    assert limit_ends({"a": 5, "b": 7}, {"b": 3}, 10) == {"a": 5, "b": 7}


@given(
    st.dictionaries(st.integers(0, 50), st.tuples(st.integers(0, 10**6), st.integers(0, 10**6)), min_size=1),
    st.integers(1, 10**6),
)
def test_the_limit_holds_up_to_one_offset_a_partition(sizes: dict[int, tuple[int, int]], limit: int) -> None:
    positions = {key: start for key, (start, _) in sizes.items()}
    ends = {key: start + size for key, (start, size) in sizes.items()}
    untils = limit_ends(positions, ends, limit)
    assert all(positions[key] <= untils[key] <= ends[key] for key in positions)
    assert sum(untils[key] - positions[key] for key in positions) <= limit + len(positions)
    waiting = {key for key, (_, size) in sizes.items() if size}
    assert all(
        untils[key] > positions[key] for key in waiting if limit * sizes[key][1] < sum(s for _, s in sizes.values())
    )
