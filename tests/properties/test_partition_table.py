"""A partition table is a mapping by partition, whatever is put in and taken out."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator.core.groups.partitions.partition_table import PartitionTable, TopicPartition

partitions = st.tuples(st.sampled_from(("a", "b", "c")), st.integers(0, 3))
changes = st.lists(st.tuples(partitions, st.one_of(st.none(), st.integers())), max_size=40)


def changed(steps: list[tuple[TopicPartition, int | None]]) -> tuple[PartitionTable[int], dict[TopicPartition, int]]:
    """Make the same changes to a table and to a dict; None stands for taking out."""
    table: PartitionTable[int] = PartitionTable()
    model: dict[TopicPartition, int] = {}
    for partition, value in steps:
        if value is not None:
            table[partition] = model[partition] = value
        elif partition in model:
            assert table.pop(partition) == model.pop(partition)
        else:
            with pytest.raises(KeyError):
                del table[partition]
    return table, model


@given(changes)
def test_it_holds_what_a_dict_by_partition_holds(steps: list[tuple[TopicPartition, int | None]]) -> None:
    table, model = changed(steps)
    assert dict(table.items()) == model
    assert (set(table), len(table)) == (set(model), len(model))
    for partition in [(topic, number) for topic in "abcd" for number in range(4)]:
        assert (partition in table, table.get(partition)) == (partition in model, model.get(partition))
        assert table.rows(partition[0]).get(partition[1]) == model.get(partition)
        if partition in model:
            assert table[partition] == model[partition]
        else:
            with pytest.raises(KeyError):
                table[partition]


@given(changes, changes)
def test_tables_are_equal_when_they_hold_the_same(
    some: list[tuple[TopicPartition, int | None]], others: list[tuple[TopicPartition, int | None]]
) -> None:
    (one, model), (other, other_model) = changed(some), changed(others)
    assert (one == other) == (model == other_model)
    assert one == one.copy()


def test_a_copy_goes_its_own_way() -> None:
    table: PartitionTable[int] = PartitionTable()
    table["t", 0] = 1
    copied = table.copy()
    table["t", 1] = 2
    table.rows_to_fill("t")[0] = 3
    assert dict(copied.items()) == {("t", 0): 1}
