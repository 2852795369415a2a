"""Connections that are left unread for a while: whether anybody is, and until when."""

import asyncio

from coordinator.runtime.server.held_input import HeldInput
from tests.helpers.event_loops import run


class Speaker:
    """Takes note of when it is taken in."""

    is_taken_in = False

    def take_held(self) -> None:
        self.is_taken_in = True


def test_somebody_is_held_from_the_order_to_hold_until_the_last_one_is_taken_in_or_gone() -> None:
    async def act() -> None:
        held: HeldInput[Speaker] = HeldInput()
        stays, goes = Speaker(), Speaker()
        assert not held.is_any
        held.hold(10)
        assert held.is_any
        assert [held.holds(stays, 10), held.holds(stays, 11), held.holds(goes, 11)] == [False, True, True]
        held.release()
        assert held.is_any, "they wait still, and what they say now comes after what is held"
        held.forget(goes)
        assert held.is_any
        await asyncio.sleep(0)
        assert (stays.is_taken_in, goes.is_taken_in) == (True, False)
        assert not held.is_any

    run(act())


def test_nobody_is_held_after_a_release_when_nobody_has_waited() -> None:
    held: HeldInput[Speaker] = HeldInput()
    held.hold(0)
    held.release()
    assert not held.is_any


def test_those_who_go_while_input_is_held_leave_the_order_standing() -> None:
    held: HeldInput[Speaker] = HeldInput()
    held.hold(0)
    goes = Speaker()
    assert held.holds(goes, 1)
    held.forget(goes)
    assert held.is_any
