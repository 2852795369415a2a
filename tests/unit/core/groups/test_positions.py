"""Committed offsets of many partitions at once, and the same one by one."""

from random import Random

import pytest

from coordinator.core.groups.hard.records import CommittedPart, TopicCommit
from coordinator.core.groups.hard.tables.committed_table import CommittedTable, positions


def table_of(dice: Random) -> CommittedTable:
    """Return offsets that were committed together or by themselves, some of them again; not all are."""
    table = CommittedTable()
    for _ in range(12):
        begin, count = dice.randrange(40), dice.choice((1, 2, 5, 32))
        numbers = tuple(range(begin, begin + count * dice.choice((1, 2)), dice.choice((1, 2))))
        offsets = tuple(dice.randrange(1_000) for _ in numbers)
        epochs = tuple(dice.choice((None, 3)) for _ in numbers) if dice.random() < 0.5 else ()
        table.write_together(TopicCommit("t", "id", 1, numbers, offsets, (), epochs))
        if dice.random() < 0.3:
            table.write(CommittedPart("t", "id", dice.randrange(60), 7, 4, "", 1, None))
    return table


@pytest.mark.parametrize("seed", range(40))
def test_positions_of_many_partitions_are_those_of_each(seed: int) -> None:
    dice = Random(seed)
    table = table_of(dice)
    asked = dice.choice((range(120), range(0, 120, 3), dice.sample(range(120), 50), [5, 5, 6, 6]))
    each = [table.get(("t", number)) for number in asked]
    expected = [None if part is None else (part.offset, part.leader_epoch) for part in each]
    assert positions(table.rows("t"), tuple(asked)) == expected
    assert positions(table.rows("t"), list(asked)) == expected
