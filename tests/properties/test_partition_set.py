"""A set of partitions does what a set of tuples does, whatever is put in and taken out."""

from collections.abc import Iterable

from hypothesis import given
from hypothesis import strategies as st

from coordinator.core.groups.partitions.partition_set import PartitionSet
from coordinator.core.groups.partitions.partition_table import TopicPartition

TOPICS = st.sampled_from(["t", "u", "v"])
NUMBERS = st.lists(st.integers(0, 60), unique=True).map(lambda some: tuple(sorted(some)))
SETS = st.frozensets(st.tuples(TOPICS, st.integers(0, 30)))
CHANGES = st.lists(st.tuples(st.booleans(), TOPICS, NUMBERS), max_size=12)


def partitions(topic: str, numbers: Iterable[int]) -> set[TopicPartition]:
    return {(topic, number) for number in numbers}


@given(SETS, CHANGES)
def test_it_holds_what_was_put_in_and_not_taken_out(begin: frozenset[TopicPartition], changes: list) -> None:  # type: ignore[type-arg]
    held, expected = PartitionSet(begin), set(begin)
    for is_added, topic, numbers in changes:
        before = held.copy()
        if is_added:
            held.add_all(topic, numbers)
            expected |= partitions(topic, numbers)
        else:
            held.discard_all(topic, numbers)
            expected -= partitions(topic, numbers)
        assert (held == before) is (set(held) == set(before)), "a copy stays as it is"
    assert held.in_order() == sorted(expected)
    assert (set(held), len(held), bool(held)) == (expected, len(expected), bool(expected))
    assert all((("t", number) in held) is (("t", number) in expected) for number in range(61))
    assert held == PartitionSet(expected) == expected
    assert all(numbers for _, numbers in held.columns())


@given(SETS, SETS)
def test_two_are_compared_and_subtracted_as_sets_are(
    one: frozenset[TopicPartition], other: frozenset[TopicPartition]
) -> None:
    ours, theirs = PartitionSet(one), PartitionSet(other)
    assert (ours == theirs, ours <= theirs, ours <= other) == (one == other, one <= other, one <= other)
    assert (ours - theirs, ours - other) == (one - other, one - other)
    assert (PartitionSet(one), PartitionSet(other)) == (ours, theirs), "neither is changed"
