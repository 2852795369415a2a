"""Every coordinator node a member ever learned of is tried, within bounds, and the likeliest next one first."""

from itertools import permutations

import pytest

from coordinator.client.nodes import MAX_LEARNED, MOST_SILENCES, Nodes

GIVEN, A, B, C = ("given", 1), ("a", 1), ("b", 1), ("c", 1)


def nodes(*remembered: tuple[str, int]) -> Nodes:
    return Nodes((GIVEN,), lambda: 0.0, remembered=remembered)


def test_nodes_named_by_an_earlier_answer_are_kept_when_a_later_one_does_not_name_them() -> None:
    known = nodes()
    known.learn((GIVEN, A, B))
    known.learn((C,))
    assert known.candidates == (GIVEN, C, A, B)


def test_remembered_nodes_come_after_those_given() -> None:
    assert nodes(A, GIVEN, B).candidates == (GIVEN, A, B)


def test_those_given_are_not_worth_remembering() -> None:
    known = nodes(B)
    known.learn((A, GIVEN))
    assert known.learned == (A, B)


def test_the_oldest_are_forgotten_and_those_given_never() -> None:
    known = nodes(*((f"old-{number}", 1) for number in range(MAX_LEARNED)))
    known.learn((A,))
    assert known.learned[:2] == (A, ("old-0", 1))
    assert len(known.candidates) == MAX_LEARNED + 1
    assert known.candidates[0] == GIVEN


def test_the_node_that_is_talked_to_stays_the_current_one() -> None:
    known = nodes()
    known.choose(B)
    known.learn((A,))
    assert known.current == B


# ---- the next one ---------------------------------------------------------------------------------------------------


def test_successors_are_tried_first_and_in_their_order_once_the_coordinator_is_lost() -> None:
    known = Nodes((A, B, C, GIVEN), lambda: 0.0)
    known.choose(B)
    known.expect((GIVEN, C))
    assert visits(known, 6, set()) == ["b", "given", "c", "a", "b", "given"]


def test_successors_that_a_coordinator_names_later_are_learned_and_take_the_place_of_those_before() -> None:
    known = nodes(A, B)
    known.expect((B,))
    known.follow_on((C, B))
    known.note_trouble("gone", is_elsewhere_better=True)
    assert known.current == C
    known.note_trouble("gone", is_elsewhere_better=True)
    assert known.current == B


def test_successors_of_the_coordinator_before_are_first_no_longer() -> None:
    known = Nodes((A, B, C), lambda: 0.0)
    known.expect((C, B))
    assert visits(known, 2, set()) == ["a", "c"]
    known.expect((A, C))
    assert visits(known, 4, set()) == ["b", "a", "c", "b"]


def test_successor_that_was_forgotten_is_passed_over() -> None:
    known = Nodes((A, B), lambda: 0.0)
    known.expect((C, B))
    assert visits(known, 3, set()) == ["a", "b", "a"]


@pytest.mark.parametrize("successors", [order for count in range(4) for order in permutations((A, B, C), count)])
@pytest.mark.parametrize("told", [(), (A,), (B, C), (C, B, A)])
def test_every_node_has_its_turn_whatever_was_expected_and_is_named_on_the_way(
    successors: tuple[tuple[str, int], ...], told: tuple[tuple[str, int], ...]
) -> None:
    known = nodes(A, B, C)
    known.expect(successors)
    seen = set()
    for _ in range(4):
        seen.add(known.current)
        known.learn(told)
        known.note_trouble("it knows nobody", is_elsewhere_better=True)
    assert seen == {GIVEN, A, B, C}


def test_nodes_that_name_each_other_first_keep_nobody_from_the_one_that_was_given() -> None:
    known, seen = nodes(), []
    for _ in range(6):
        seen.append(known.current[0])
        known.learn((known.current, *(other for other in (B, C) if other != known.current)))
        known.note_trouble("it knows nobody", is_elsewhere_better=True)
    assert seen == ["given", "b", "c"] * 2


# ---- silence --------------------------------------------------------------------------------------------------------


def visits(known: Nodes, count: int, silent: set[tuple[str, int]]) -> list[str]:
    """Return the nodes that are tried one after another, of which some are silent and nobody serves."""
    seen = []
    for _ in range(count):
        seen.append(known.current[0])
        known.note_trouble("no", is_elsewhere_better=True, was_silent=known.current in silent)
    return seen


def test_node_that_was_silent_has_twice_the_time_up_to_eight_times() -> None:
    known = Nodes((A,), lambda: 0.0)
    times = []
    for _ in range(MOST_SILENCES + 2):
        times.append(known.patience_ms(3_000))
        known.note_trouble("silent", is_elsewhere_better=True, was_silent=True)
    assert times == [3_000, 6_000, 12_000, 24_000, 24_000]


def test_node_that_refuses_has_no_more_time() -> None:
    known = Nodes((A,), lambda: 0.0)
    known.note_trouble("refused", is_elsewhere_better=True)
    assert known.patience_ms(3_000) == 3_000


def test_silent_node_is_passed_over_once_then_thrice_then_seven_times() -> None:
    assert "".join(visits(Nodes((A, B, C), lambda: 0.0), 30, {B})) == "ab" + "ca" + "cab" + "cacaca" + "cab" + "ca" * 7


def test_silent_nodes_are_tried_in_turn_where_all_are() -> None:
    assert "".join(visits(Nodes((A, B, C), lambda: 0.0), 9, {A, B, C})) == "abc" * 3


def test_silence_is_forgotten_once_a_node_serves() -> None:
    known = Nodes((A, B), lambda: 0.0)
    visits(known, 6, {A})
    known.settle()
    known.choose(A)
    assert known.patience_ms(3_000) == 3_000
    assert "".join(visits(known, 4, set())) == "abab"


def test_node_that_was_named_is_tried_at_once_though_it_was_silent() -> None:
    known = Nodes((A, B), lambda: 0.0)
    known.note_trouble("silent", is_elsewhere_better=True, was_silent=True)
    known.choose(A)
    assert (known.current, known.patience_ms(3_000)) == (A, 6_000)
