"""A commit that is answered after its partition was lost, and before it comes back under the same owner epoch."""

import pytest

from coordinator.protocol.columns import OffsetToCommit
from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.parts import PartitionResult
from spark_kcoord.consumer.core.machine import ConsumerMachine, Told
from spark_kcoord.member.core.held.holdings import Assignment
from tests.helpers.fake_consuming import owned

KEY = ("t", 0)


def settle(machine: ConsumerMachine, *partitions: tuple[int, int]) -> list[Told]:
    """Have the machine adopt partition 0 by position and owner epoch, or nothing; return the news told."""
    machine.adopt(Assignment(tuple(owned(0, position, epoch) for position, epoch in partitions), is_complete=True))
    told = []
    while (owed := machine.next_owed()) is not None:
        told.append(owed.news)
        machine.begin_telling(owed)
        machine.end_telling(owed)
    return told


def answer(machine: ConsumerMachine, offset: int, epoch: int, error: ErrorCode = ErrorCode.NONE) -> None:
    """Answer a commit of an offset under an owner epoch."""
    machine.note_committed([OffsetToCommit(*KEY, offset, epoch)], [PartitionResult(*KEY, error)])


@pytest.fixture
def machine() -> ConsumerMachine:
    """Return a consumer that has lost what it had from 135 on under owner epoch 290."""
    machine = ConsumerMachine(auto_commit=False, starts_over=True)
    assert settle(machine, (135, 290)) == [Told.ASSIGNED]
    assert settle(machine) == [Told.LOST]
    return machine


def place(machine: ConsumerMachine) -> tuple[int | None, int | None]:
    """Return the position, and the offset that is known to be committed."""
    held = machine.held(KEY)
    assert held is not None
    return held.position, held.committed


def test_it_goes_on_behind_what_it_has_committed(machine: ConsumerMachine) -> None:
    answer(machine, 282, 290)
    assert settle(machine, (135, 290)) == [Told.ASSIGNED]
    assert place(machine) == (282, 282)


def test_what_was_told_behind_the_commit_counts(machine: ConsumerMachine) -> None:
    answer(machine, 282, 290)
    assert settle(machine, (300, 290)) == [Told.ASSIGNED]
    assert place(machine) == (300, 300)


def test_under_another_owner_epoch_it_starts_as_it_is_granted(machine: ConsumerMachine) -> None:
    answer(machine, 282, 290)
    assert settle(machine, (135, 400)) == [Told.ASSIGNED]
    assert place(machine) == (135, 135)


def test_a_commit_that_was_refused_moves_nothing(machine: ConsumerMachine) -> None:
    answer(machine, 282, 290, ErrorCode.FENCED_OWNER_EPOCH)
    assert settle(machine, (135, 290)) == [Told.ASSIGNED]
    assert place(machine) == (135, 135)


def test_it_counts_for_the_next_grant_alone(machine: ConsumerMachine) -> None:
    answer(machine, 282, 290)
    assert settle(machine, (135, 290)) == [Told.ASSIGNED]
    assert settle(machine) == [Told.LOST]
    assert settle(machine, (200, 290)) == [Told.ASSIGNED]
    assert place(machine) == (200, 200)
