"""A reply waits for a round that began after it was decided."""

from coordinator.core.replica.rounds import Rounds


def test_a_decision_waits_for_a_round_that_has_not_begun() -> None:
    rounds, first = Rounds(linger_ms=2).asking(2, 0)
    assert (first, rounds.needed) == (1, 2), "what is decided after round 1 was sent is not confirmed by it"


def test_one_confirmation_is_on_its_way_to_a_peer_and_the_next_lingers() -> None:
    rounds, first = Rounds(linger_ms=2).asking(2, 10)
    assert rounds.asking(2, 50) == (rounds, None), "it has not been answered"
    assert first is not None
    rounds = rounds.answered(2, first)
    assert rounds.asking(2, 11) == (rounds, None)
    assert rounds.asking(2, 12)[1] == 2
    assert rounds.asking(3, 11)[1] == 2, "peers do not wait for each other"


def test_records_carry_a_round_of_their_own_at_any_time() -> None:
    rounds = Rounds(linger_ms=2).asking(2, 0)[0]
    assert rounds.asking_with_records(2, 0)[1] == 2


def test_an_answer_counts_once_and_only_to_what_was_asked() -> None:
    rounds = Rounds(linger_ms=2).asking(2, 0)[0]
    assert rounds.answered(2, 9) is rounds
    answered = rounds.answered(2, 1)
    assert (answered.of(2).answered, answered.answered(2, 1)) == (1, answered)


def test_a_connection_that_ends_takes_its_answers_with_it_and_no_round_is_used_again() -> None:
    rounds = Rounds(linger_ms=2).asking(2, 0)[0].disconnected(2)
    assert rounds.answered(2, 1) is rounds
    assert rounds.asking(2, 0)[1] == 2
