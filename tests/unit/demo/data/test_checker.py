"""The comparison of what was produced with what reached the sinks."""

import pytest

from coordinator.demo.data.checker import Delivered, Verdict, check_delivery, explain_repeats

EXPECTED = range(2, 12)


def rows(*lines: int, partition: int = 0) -> list[Delivered]:
    """Flights whose offset is their line less 2, as if all were in one partition."""
    return [Delivered(line, partition, line - 2) for line in lines]


def check(survivor: list[Delivered], killed: list[Delivered], committed: int = 0) -> Verdict:
    return check_delivery(EXPECTED, survivor, killed, {0: committed})


def test_each_flight_once_is_good() -> None:
    verdict = check(rows(*range(2, 8)), rows(*range(8, 12)), committed=10)
    assert verdict == Verdict(flights=10, rows=10, missing=0, repeats=0, repeated_offsets={}, wrong=())
    assert verdict.is_good


def test_a_missing_flight_is_not_hidden_by_a_repeated_one() -> None:
    verdict = check(rows(*range(2, 11)), rows(9, 10), committed=7)
    assert (verdict.missing, verdict.repeats, verdict.is_good) == (1, 2, False)


def test_an_uncommitted_micro_batch_that_came_again_is_excused_and_counted() -> None:
    verdict = check(rows(2, 3, *range(6, 12)), rows(4, 5, 6, 7, 8), committed=4)
    assert verdict.is_good
    assert verdict.repeats == 3
    assert verdict.repeated_offsets == {0: (4, 7)}


def test_what_was_committed_must_not_come_again() -> None:
    verdict = check(rows(*range(5, 12)), rows(2, 3, 4, 5), committed=4)
    assert verdict.wrong == ("1 flights came again although the killed application had committed them",)
    assert not verdict.is_good


def test_one_sink_must_not_have_a_flight_twice() -> None:
    assert check(rows(*EXPECTED, 4), []).wrong == (
        "1 flights are twice in the sink of the surviving application alone",
    )
    assert check(rows(*EXPECTED), rows(4, 4)).wrong == (
        "1 flights are twice in the sink of the killed application alone",
    )


def test_a_flight_from_two_places_of_the_topic_was_produced_twice() -> None:
    verdict = check(rows(*EXPECTED), [Delivered(4, 1, 77)])
    assert verdict.wrong == ("1 flights came from two places of the topic: they were produced twice",)


def test_a_row_that_is_no_flight_is_wrong_and_replaces_none() -> None:
    verdict = check(rows(*range(2, 11), 99), [])
    assert verdict.missing == 1
    assert verdict.wrong == ("1 rows are no flights that were produced",)


@pytest.mark.parametrize(
    ("killed", "sentence"),
    [
        ([], "No flight was delivered twice: the micro-batch in flight when B was killed had not reached its sink"),
        (
            rows(4, 5),
            "2 flights were delivered twice: the micro-batch in flight when B was killed had reached its sink",
        ),
    ],
)
def test_repeats_are_explained(killed: list[Delivered], sentence: str) -> None:
    assert explain_repeats(check(rows(*EXPECTED), killed), "B", "A").startswith(sentence)


def test_the_explanation_names_the_range() -> None:
    assert "partition 0 [2, 4)" in explain_repeats(check(rows(*EXPECTED), rows(4, 5)), "B", "A")
