"""A table of committed offsets is what a plain mapping is, and so is each copy, whatever is written afterwards."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coordinator.core.groups.hard.records import CommittedPart, OffsetsCommitted, TopicCommit
from coordinator.core.groups.hard.snapshot import _records_of_offsets
from coordinator.core.groups.hard.tables.committed_table import CommittedTable
from coordinator.core.groups.partitions.partition_table import TopicPartition
from tests.helpers.committed_parts import in_parts, parts_of
from tests.helpers.examples import examples

Model = dict[TopicPartition, CommittedPart]
NUMBERS = st.sampled_from([(0, 1, 2), (0, 1, 2), (3, 4, 5), (1, 4), (2,), (0, 1, 2, 3, 4, 5)])
KINDS = st.sampled_from(["together", "together", "alone", "delete", "copy"])
LONELY = st.sampled_from(["alone", "alone", "delete", "copy"])
CHANGES = st.lists(st.tuples(KINDS, NUMBERS, st.just("t")), max_size=16) | st.lists(
    st.tuples(LONELY, st.sampled_from([(0,), (0,), (1,)]), st.sampled_from("ttu")), max_size=8
)


def change(table: CommittedTable, model: Model, what: str, numbers: tuple[int, ...], topic: str, offset: int) -> None:
    match what:
        case "together":
            metadata = tuple("m" * (offset % 4) for _ in numbers) if offset % 3 else ()
            commit = TopicCommit(topic, "id", 1, numbers, tuple(offset + n for n in numbers), metadata=metadata)
            table.write_together(commit)
            model.update({(part.topic, part.partition): part for part in in_parts(commit)})
        case "alone":
            part = CommittedPart(topic, "id", numbers[0], offset, None, "alone" * (offset % 3), 1, None)
            table.write(part)
            model[topic, numbers[0]] = part
        case "delete" if (topic, numbers[0]) in model:
            del table[topic, numbers[0]]
            del model[topic, numbers[0]]
        case "delete":
            with pytest.raises(KeyError):
                del table[topic, numbers[0]]


def looked_up_in(table: CommittedTable) -> Model:
    """Return what a table says of each partition that is asked for, by all the ways to ask."""
    found: Model = {}
    for partition in [(topic, number) for topic in "tu" for number in range(6)]:
        part, place = table.get(partition), table.place_of(partition)
        assert (part is not None) == (place is not None) == (partition in table) == (partition in list(table))
        assert table.offset_of(partition) == (None if part is None else part.offset)
        assert (partition[1] in table.rows(partition[0])) == (part is not None)
        if part is not None:
            assert table[partition] == part
            found[partition] = part
        else:
            with pytest.raises(KeyError):
                table[partition]
    assert len(table) == len(found)
    assert set(table.topics()) == {topic for topic, _ in found}
    return found


def snapshot_of(table: CommittedTable) -> Model:
    """Return what a snapshot says of a table, read without the product's own reading."""
    found: Model = {}
    for topic in table.topics():
        for record in _records_of_offsets("g", table.rows(topic)):
            assert isinstance(record, OffsetsCommitted)
            found.update({(part.topic, part.partition): part for part in parts_of(record)})
    return found


@settings(max_examples=examples(75, 300), deadline=None)
@given(CHANGES)
def test_table_of_offsets_and_its_copies_are_plain_mappings(changes: list[tuple[str, tuple[int, ...], str]]) -> None:
    table, model = CommittedTable(), Model()
    copies: list[tuple[CommittedTable, Model]] = []
    for step, (what, numbers, topic) in enumerate(changes):
        change(table, model, what, numbers, topic, step * 10)
        if what == "copy":
            copies.append((table.copy(), dict(model)))

        for each, then in [(table, model), *copies]:
            assert dict(each.items()) == then == snapshot_of(each) == looked_up_in(each)
            assert each.bytes == each.recount()
