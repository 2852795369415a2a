"""Since when partitions have no owner: each for itself, or very many at once."""

import pytest

from coordinator.core.groups.partitions.partition_set import PartitionSet
from coordinator.core.groups.soft import lost_owners
from coordinator.core.groups.soft.lost_owners import LostOwner, LostOwners

FIRST, THEN = LostOwner(1, "left"), LostOwner(2, "taken")


@pytest.mark.parametrize("many", [1, lost_owners._MANY])
def test_partition_is_told_once_since_when_it_had_no_owner(monkeypatch: pytest.MonkeyPatch, many: int) -> None:
    """Those that were lost at once are told again until the group is settled: a loss after that counts before it."""
    monkeypatch.setattr(lost_owners, "_MANY", many)
    lost = LostOwners()
    assert not lost
    lost.note(PartitionSet([("t", 1), ("t", 2), ("u", 1)]), FIRST)
    assert lost
    assert (lost.take(("t", 1)), lost.take(("t", 3))) == (FIRST, None)
    lost.note([("t", 1), ("t", 2)], THEN)
    assert (lost.take(("t", 1)), lost.take(("t", 2)), lost.take(("u", 1))) == (THEN, THEN, FIRST)
    lost.settle()
    assert lost.take(("t", 2)) is None


def test_only_the_newest_large_losses_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lost_owners, "_MANY", 1)
    lost = LostOwners()
    for number in range(lost_owners._MOST + 1):
        lost.note(PartitionSet([("t", number)]), LostOwner(number, "left"))
    found = [lost.take(("t", number)) for number in range(lost_owners._MOST + 1)]
    assert found == [None, *(LostOwner(number, "left") for number in range(1, lost_owners._MOST + 1))]
