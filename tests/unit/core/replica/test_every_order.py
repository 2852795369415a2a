"""Three real replicas through every order of what can happen, and each known mistake found by that."""

from dataclasses import replace

import pytest

from tests.model import __main__ as program
from tests.model.explore import ViolationError, every_state, random_walks
from tests.model.mistakes import MISTAKES, planted
from tests.model.scopes import QUICK_SCOPES, QUICK_WALKS


@pytest.mark.parametrize("name", QUICK_SCOPES)
def test_no_order_breaks_an_invariant(name: str) -> None:
    assert every_state(QUICK_SCOPES[name].scope).states == QUICK_SCOPES[name].states


def test_a_scope_that_is_not_seen_to_its_end_says_so() -> None:
    seen = every_state(QUICK_SCOPES["stale-replies"].scope, most=100)
    assert (seen.is_whole, 100 <= seen.states < 200) == (False, True)
    whole = every_state(QUICK_SCOPES["any-order"].scope, most=2_000)
    assert (whole.is_whole, whole.states) == (True, QUICK_SCOPES["any-order"].states)


@pytest.mark.parametrize("name", QUICK_WALKS)
def test_no_walk_through_a_larger_scope_breaks_an_invariant(name: str) -> None:
    walks = QUICK_WALKS[name]
    assert random_walks(walks.scope, seed=0, walks=walks.walks, steps=walks.steps) > 1_000


@pytest.mark.parametrize("name", [name for name, mistake in MISTAKES.items() if mistake.is_quick])
def test_a_planted_mistake_is_found(name: str) -> None:
    with planted(name), pytest.raises(ViolationError, match=rf"^({'|'.join(MISTAKES[name].breaks)}): "):
        every_state(MISTAKES[name].scope, forgets=MISTAKES[name].forgets)


@pytest.mark.parametrize("breaks", [(), ("an-invariant-that-nothing-breaks",)])
def test_the_program_says_whether_all_was_as_it_should_be(
    breaks: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    name = next(name for name, mistake in MISTAKES.items() if mistake.is_quick)
    mistake = replace(MISTAKES[name], breaks=breaks or MISTAKES[name].breaks)
    monkeypatch.setitem(MISTAKES, name, mistake)
    monkeypatch.setattr(program, "MISTAKES", {name: mistake})
    monkeypatch.setattr(program, "SCOPES", {"any-order": QUICK_SCOPES["any-order"].scope})
    monkeypatch.setattr(program, "LARGE_WALKS", {})
    assert program.main(["--jobs", "2"]) == (1 if breaks else 0)
    said = capfd.readouterr().out.splitlines()
    assert sum(f"the planted mistake {name} is " in line for line in said) == 1
    states = QUICK_SCOPES["any-order"].states
    assert said[-1] == f"model: {'FAILED' if breaks else 'OK'} states={states} walks=0 violations=0"
