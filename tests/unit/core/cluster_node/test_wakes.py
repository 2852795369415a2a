"""A node has one timer, and wakes for whatever of it wants to wake first."""

from coordinator.core.cluster_node.effects import Effect
from coordinator.core.cluster_node.wakes import Wakes
from coordinator.core.effects import Notice, WakeAt

SAID = Notice("stable", "said")


def steps(*told: tuple[int, bool, list[Effect]]) -> list[list[int]]:
    """Return the wishes of each step, of which is said when it is, whether it is a tick, and what was decided."""
    wakes = Wakes()
    found = [wakes.in_one(effects, now_ms, is_tick=is_tick) for now_ms, is_tick, effects in told]
    for (_, _, effects), left in zip(told, found, strict=True):
        assert [effect for effect in left if effect is SAID] == [effect for effect in effects if effect is SAID]
    return [[effect.now_ms for effect in effects if isinstance(effect, WakeAt)] for effects in found]


def test_the_earliest_wish_takes_the_place_of_all() -> None:
    assert steps((0, False, [WakeAt(30), SAID, WakeAt(10), WakeAt(20)])) == [[10]]


def test_a_later_wish_waits_for_the_tick_of_an_earlier_one() -> None:
    assert steps((0, False, [WakeAt(10)]), (5, False, [SAID, WakeAt(40)]), (10, True, [])) == [[10], [], [40]]


def test_an_earlier_wish_sets_the_timer_anew() -> None:
    assert steps((0, False, [WakeAt(40)]), (5, False, [WakeAt(10)]), (10, True, [])) == [[40], [10], [40]]


def test_a_wish_of_the_moment_stands_until_its_tick_whatever_else_happens_in_it() -> None:
    assert steps((7, False, [WakeAt(7)]), (7, False, [WakeAt(90)]), (8, False, [SAID]), (8, True, [])) == [
        [7],
        [],
        [],
        [90],
    ]


def test_a_tick_that_wants_another_one_at_once_has_it() -> None:
    assert steps((7, False, [WakeAt(7)]), (7, True, [WakeAt(7)]), (7, True, [WakeAt(7)]), (7, True, [])) == [
        [7],
        [7],
        [7],
        [],
    ]
