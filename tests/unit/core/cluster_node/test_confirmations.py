"""Rounds are asked of peers one at a time, and answered with what is on disk or by themselves."""

from coordinator.core.cluster_node.confirmations import Confirmations
from coordinator.core.replica.effects import ReportProgress


def report(shard: int, durable_end: int, leader: int = 1) -> ReportProgress:
    return ReportProgress(shard, leader, 3, 1, durable_end)


def answers(confirmations: Confirmations) -> list[tuple[int, int, tuple[ReportProgress, ...]]]:
    return list(confirmations.take_answers())


def test_a_decision_waits_for_the_next_round_that_begins_to_anybody() -> None:
    confirmations = Confirmations(2)
    assert confirmations.next_round == 1
    assert confirmations.with_records(2, 0) == 1
    assert confirmations.with_records(3, 0) == 2
    assert confirmations.next_round == 3


def test_a_peer_is_not_asked_while_it_owes_an_answer_nor_at_once_again() -> None:
    confirmations = Confirmations(2)
    assert confirmations.alone(2, 10) == 1
    assert (confirmations.alone(2, 20), confirmations.again_ms(2)) == (None, None)
    confirmations.answered(2, 1)
    assert (confirmations.alone(2, 11), confirmations.again_ms(2)) == (None, 12)
    assert confirmations.alone(2, 12) == 2


def test_a_peer_that_is_connected_again_is_asked_anew_under_a_round_that_was_never_used() -> None:
    confirmations = Confirmations(2)
    assert confirmations.alone(2, 10) == 1
    confirmations.disconnected(2)
    assert confirmations.alone(2, 10) == 2


def test_a_round_by_itself_is_answered_at_the_end_of_the_turn_and_once() -> None:
    confirmations = Confirmations(2)
    confirmations.asked(1, 5, answers_with_sync=False)
    assert answers(confirmations) == [(1, 5, ())]
    assert answers(confirmations) == []


def test_a_round_that_came_with_records_is_answered_when_they_are_on_disk() -> None:
    confirmations = Confirmations(2)
    confirmations.asked(1, 5, answers_with_sync=True)
    assert answers(confirmations) == []
    confirmations.report(report(0, 7))
    confirmations.report(report(0, 9))
    assert answers(confirmations) == [(1, 5, (report(0, 9),))]


def test_a_round_whose_records_are_never_synced_is_answered_all_the_same() -> None:
    confirmations = Confirmations(2)
    confirmations.asked(1, 5, answers_with_sync=True)
    confirmations.owe_all()
    assert answers(confirmations) == [(1, 5, ())]
    confirmations.owe_all()
    assert answers(confirmations) == []


def test_nothing_is_said_of_a_shard_whose_leader_was_left_nor_over_another_connection() -> None:
    confirmations = Confirmations(2)
    confirmations.report(report(0, 9))
    confirmations.withdraw(1, 0)
    assert answers(confirmations) == []
    confirmations.asked(1, 5, answers_with_sync=False)
    confirmations.report(report(0, 9))
    confirmations.disconnected(1)
    assert answers(confirmations) == []
