"""Every coordinator node a member ever learned of is tried, within bounds."""

from coordinator.client.nodes import MAX_LEARNED, Nodes

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
