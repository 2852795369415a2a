"""Committed offsets that share a value: what is written together, over one another and one by one."""

from hypothesis import given
from hypothesis import strategies as st

from coordinator.core.groups.committed_table import OFFSET_BYTES, CommittedTable, Together
from coordinator.core.groups.records import MOST_TOGETHER, CommittedPart, TopicCommit
from tests.helpers.committed_parts import in_parts

TOPICS = ("t", "u")


def part(topic: str, number: int, offset: int) -> CommittedPart:
    return CommittedPart(topic, "id", number, offset, 7, "note", 9, 3)


def together(topic: str, offsets: dict[int, int]) -> TopicCommit:
    numbers = tuple(sorted(offsets))
    return TopicCommit(topic, "id", 9, numbers, tuple(offsets[number] for number in numbers))


def noted(topic: str, notes: dict[int, str]) -> TopicCommit:
    numbers = tuple(sorted(notes))
    return TopicCommit(topic, "id", 9, numbers, numbers, (), (), tuple(notes[number] for number in numbers))


ROWS = st.builds(part, st.sampled_from(TOPICS), st.integers(0, 5), st.integers(0, 99))
NOTED_ROWS = st.builds(
    lambda topic, number, note: CommittedPart(topic, "id", number, 3, None, note, 9, None),
    st.sampled_from(TOPICS),
    st.integers(0, 5),
    st.text(max_size=9),
)
COLUMNS = st.builds(together, st.sampled_from(TOPICS), st.dictionaries(st.integers(0, 5), st.integers(0, 99)))
NOTED_COLUMNS = st.builds(
    noted, st.sampled_from(TOPICS), st.dictionaries(st.integers(0, 5), st.text(max_size=9), min_size=1)
)


@given(st.lists(ROWS | COLUMNS | NOTED_ROWS | NOTED_COLUMNS | st.tuples(st.sampled_from(TOPICS), st.integers(0, 5))))
def test_the_account_is_what_a_recount_gives(
    writes: list[CommittedPart | TopicCommit | tuple[str, int]],
) -> None:
    table = CommittedTable()
    for write in writes:
        if isinstance(write, CommittedPart):
            table.write(write)
        elif isinstance(write, TopicCommit):
            if write.partitions:
                table.write_together(write)
        elif write in table:
            del table[write]
        notes = sum(len(known.metadata.encode()) for _, known in table.items())
        assert table.bytes == table.recount() == table.copy().bytes == OFFSET_BYTES * len(table) + notes


@given(st.lists(ROWS | COLUMNS, max_size=12))
def test_a_table_has_what_was_written_last_of_each_partition(writes: list[CommittedPart | TopicCommit]) -> None:
    table, expected = CommittedTable(), {}
    for write in writes:
        if isinstance(write, CommittedPart):
            table.write(write)
            expected[write.topic, write.partition] = write
        elif write.partitions:
            table.write_together(write)
            expected.update({(part.topic, part.partition): part for part in in_parts(write)})
    assert dict(table.items()) == expected
    assert {key: table[key] for key in table} == expected
    assert (len(table), table.get(("t", 99))) == (len(expected), None)
    for topic in table.topics():
        rows = table.rows(topic)
        for known in rows.values():
            if isinstance(known, Together):
                assert known.left == sum(other is known for other in rows.values())


def test_tables_are_equal_by_what_they_have_not_by_how_it_came() -> None:
    one, other = CommittedTable(), CommittedTable()
    one.write_together(TopicCommit("t", "id", 9, (0, 1), (5, 6), (3, 3), (7, 7), ("note", "note")))
    for number in (1, 0):
        other.write(part("t", number, 5 + number))
    assert one == other
    other.write(part("t", 1, 7))
    assert one != other


def test_a_copy_and_its_original_change_apart() -> None:
    table = CommittedTable()
    table.write_together(together("t", {0: 5, 1: 6}))
    copy = table.copy()
    table.write_together(together("t", {0: 7, 1: 8}))
    assert {key: known.offset for key, known in copy.items()} == {("t", 0): 5, ("t", 1): 6}
    assert {key: known.offset for key, known in table.items()} == {("t", 0): 7, ("t", 1): 8}
    table.write_together(together("t", {0: 9}))
    del table["t", 1]
    assert {key: known.offset for key, known in copy.items()} == {("t", 0): 5, ("t", 1): 6}
    assert {key: known.offset for key, known in table.items()} == {("t", 0): 9}


def test_the_same_partitions_again_change_one_place() -> None:
    table = CommittedTable()
    table.write_together(together("t", {0: 5, 1: 6}))
    place = table.rows("t")[0]
    table.write_together(together("t", {0: 7, 1: 8}))
    assert table.rows("t")[0] is table.rows("t")[1] is place
    table.write(part("t", 1, 9))
    table.write_together(together("t", {0: 10, 1: 11}))
    assert table.rows("t")[0] is not place
    assert {key: known.offset for key, known in table.items()} == {("t", 0): 10, ("t", 1): 11}


def test_a_long_commit_is_cut_and_says_the_same_of_each_partition() -> None:
    count = 2 * MOST_TOGETHER + 1
    numbers = tuple(range(count))
    whole = TopicCommit("t", "id", 9, numbers, numbers, numbers, (None, *numbers[1:]), ("", *map(str, numbers[1:])))
    pieces = tuple(whole.cut())
    assert [len(piece.partitions) for piece in pieces] == [MOST_TOGETHER, MOST_TOGETHER, 1]
    assert [piece.part(n) for piece in pieces for n in piece.partitions] == list(in_parts(whole))
