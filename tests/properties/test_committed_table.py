"""A table of committed offsets is what a plain mapping is, and so is each copy, whatever is written afterwards."""

from hypothesis import given, settings
from hypothesis import strategies as st

from coordinator.core.groups.hard.records import CommittedPart, OffsetsCommitted, TopicCommit
from coordinator.core.groups.hard.snapshot import _records_of_offsets
from coordinator.core.groups.hard.tables.committed_table import CommittedTable
from coordinator.core.groups.partitions.partition_table import TopicPartition
from tests.helpers.committed_parts import in_parts, parts_of

Model = dict[TopicPartition, CommittedPart]
NUMBERS = st.sampled_from([(0, 1, 2), (0, 1, 2), (3, 4, 5), (1, 4), (2,), (0, 1, 2, 3, 4, 5)])
CHANGES = st.lists(
    st.tuples(st.sampled_from(["together", "together", "alone", "delete", "copy"]), NUMBERS), max_size=16
)


def change(table: CommittedTable, model: Model, what: str, numbers: tuple[int, ...], offset: int) -> None:
    match what:
        case "together":
            metadata = tuple("m" * (offset % 4) for _ in numbers) if offset % 3 else ()
            commit = TopicCommit("t", "id", 1, numbers, tuple(offset + n for n in numbers), metadata=metadata)
            table.write_together(commit)
            model.update({(part.topic, part.partition): part for part in in_parts(commit)})
        case "alone":
            part = CommittedPart("t", "id", numbers[0], offset, None, "alone", 1, None)
            table.write(part)
            model["t", numbers[0]] = part
        case "delete" if ("t", numbers[0]) in model:
            del table["t", numbers[0]]
            del model["t", numbers[0]]


def snapshot_of(table: CommittedTable) -> Model:
    """Return what a snapshot says of a table, read without the product's own reading."""
    found: Model = {}
    for topic in table.topics():
        for record in _records_of_offsets("g", table.rows(topic)):
            assert isinstance(record, OffsetsCommitted)
            found.update({(part.topic, part.partition): part for part in parts_of(record)})
    return found


@settings(max_examples=300, deadline=None)
@given(CHANGES)
def test_table_of_offsets_and_its_copies_are_plain_mappings(changes: list[tuple[str, tuple[int, ...]]]) -> None:
    table, model = CommittedTable(), Model()
    copies: list[tuple[CommittedTable, Model]] = []
    for step, (what, numbers) in enumerate(changes):
        change(table, model, what, numbers, step * 10)
        if what == "copy":
            copies.append((table.copy(), dict(model)))

        for each, then in [(table, model), *copies]:
            assert dict(each.items()) == then == snapshot_of(each)
            assert each.bytes == each.recount()
