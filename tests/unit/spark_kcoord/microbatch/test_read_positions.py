"""Positions belong to grants: what was done under one owner epoch says nothing of another."""

from coordinator.protocol.parts import Claim
from spark_kcoord.member.core.held.holdings import AssignedPartition
from spark_kcoord.microbatch.read_positions import ReadPositions, claims_between


def owned(partition: int, owner_epoch: int, start: int) -> AssignedPartition:
    return AssignedPartition("t", "id", partition, owner_epoch, start, start, is_stopping=False, has_claim=False)


def claim(partition: int, owner_epoch: int, begin: int, until: int) -> Claim:
    return Claim("t", "id", partition, owner_epoch, begin, until)


def test_a_grant_begins_at_its_start_and_goes_on_where_it_is_done() -> None:
    done = ReadPositions()
    assert done.of([owned(0, 7, 100)], ()) == {("t", 0): 100}
    done.note_finished(claim(0, 7, 100, 150))
    assert done.of([owned(0, 7, 100)], ()) == {("t", 0): 150}
    assert done.of([owned(0, 7, 100)], [claim(0, 7, 150, 180)]) == {("t", 0): 180}
    assert done.of([owned(0, 7, 100)], ()) == {("t", 0): 150}, "what is to be done counts in that look alone"


def test_a_later_grant_begins_at_its_own_start() -> None:
    done = ReadPositions()
    done.note_finished(claim(0, 7, 100, 150))
    assert done.of([owned(0, 9, 120)], ()) == {("t", 0): 120}


def test_a_start_that_was_moved_on_meanwhile_counts() -> None:
    done = ReadPositions()
    done.note(claim(0, 7, 100, 150), 130)
    assert done.of([owned(0, 7, 140)], ()) == {("t", 0): 140}


def test_what_is_told_counts_and_what_is_not_owned_is_forgotten() -> None:
    done = ReadPositions()
    done.note_told([(("t", 0, 7), 110), (("t", 1, 7), 210)])
    assert done.of([owned(0, 7, 100), owned(1, 7, 200)], ()) == {("t", 0): 110, ("t", 1): 210}
    done.keep([owned(1, 7, 200)])
    assert done.of([owned(0, 7, 100), owned(1, 7, 200)], ()) == {("t", 0): 100, ("t", 1): 210}


def test_claims_lie_between_positions_and_untils() -> None:
    positions, untils = {("t", 0): 5, ("t", 1): 8}, {("t", 0): 9, ("t", 1): 8}
    claims = claims_between([owned(0, 7, 0), owned(1, 8, 0)], positions, untils)
    assert claims == (claim(0, 7, 5, 9), claim(1, 8, 8, 8))
