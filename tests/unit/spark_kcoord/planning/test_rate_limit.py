from hypothesis import given
from hypothesis import strategies as st

from spark_kcoord.planning.rate_limit import BatchLimits, fraction_within, limit_ends, must_wait


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


def test_a_fraction_limits_every_backlog_alike_and_the_lesser_limit_counts() -> None:
    positions, ends = {"a": 10, "b": 0, "c": 0}, {"a": 410, "b": 100, "c": 1}
    assert limit_ends(positions, ends, None, 0.25) == {"a": 110, "b": 25, "c": 1}
    assert limit_ends(positions, ends, 1_000, 0.25) == {"a": 110, "b": 25, "c": 1}
    assert limit_ends(positions, ends, 50, 0.25) == limit_ends(positions, ends, 50) == {"a": 49, "b": 9, "c": 1}
    assert limit_ends(positions, ends, 400, 0.25) == {"a": 110, "b": 25, "c": 1}


def test_bytes_are_a_fraction_by_the_size_that_records_have() -> None:
    backlog = {"a": 100, "b": 50}
    assert fraction_within(backlog, {"a": 10.0, "b": 20.0}, 500) == 0.25
    assert fraction_within(backlog, {"a": 10.0, "b": 20.0}, 2_000) is None


def test_a_partition_of_unknown_size_counts_with_the_average_and_none_known_limits_nothing() -> None:
    backlog = {"a": 100, "b": 50, "c": 10}
    assert fraction_within(backlog, {"a": 10.0, "b": 20.0, "gone": 900.0}, 215) == 0.1
    assert fraction_within(backlog, {"gone": 900.0}, 1) is None


def test_a_small_backlog_waits_for_more_but_not_for_ever_and_not_at_first() -> None:
    limits = BatchLimits(min_offsets=10, max_delay_s=60.0)
    assert not must_wait(limits, 9, None)
    assert must_wait(limits, 9, 0.0)
    assert must_wait(limits, 9, 59.9)
    assert not must_wait(limits, 9, 60.0)
    assert not must_wait(limits, 10, 0.0)
    assert not must_wait(BatchLimits(), 1, 0.0)
