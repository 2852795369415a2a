"""Turns of the loop, and who reads too little: by a clock that is moved by hand."""

import asyncio

from coordinator.runtime.server.turns import TURN_NS, Turns
from coordinator.runtime.server.unread import READ_BYTES, Unread
from tests.helpers.event_loops import run
from tests.helpers.loopback import until


class HandTime:
    """Nanoseconds that pass when something is done."""

    def __init__(self) -> None:
        self.now = 0

    def __call__(self) -> int:
        return self.now


class Talker:
    """Takes half a turn each time it is handled, as often as it has something to say."""

    def __init__(self, name: str, turns: Turns["Talker"], time: HandTime, order: list[str], pieces: int) -> None:
        self.name, self.turns, self.time, self.order, self.pieces = name, turns, time, order, pieces

    def take_turn(self) -> None:
        self.order.append(self.name)
        self.time.now += TURN_NS // 2
        self.pieces -= 1
        if self.pieces:
            self.turns.wait(self, says_much=True)


def test_those_who_wait_take_turns_and_who_says_much_comes_after_those_who_do_not() -> None:
    async def act() -> None:
        time, order = HandTime(), list[str]()
        turns: Turns[Talker] = Turns(lambda: False, time)
        greedy, modest, other = (
            Talker(name, turns, time, order, pieces) for name, pieces in (("g", 5), ("m", 1), ("o", 1))
        )
        turns.wait(greedy, says_much=True)
        turns.wait(modest, says_much=False)
        turns.wait(other, says_much=False)
        assert turns.is_over
        await until(lambda: len(turns) == 0)
        assert order == ["m", "o", *"ggggg"]
        assert not turns.is_over

    run(act())


def test_those_who_have_asked_nothing_yet_come_before_those_who_wait_for_longer_and_leave_them_a_quarter() -> None:
    async def act() -> None:
        time, order = HandTime(), list[str]()
        turns: Turns[Talker] = Turns(lambda: False, time)
        for number in range(6):
            turns.wait(Talker(f"w{number}", turns, time, order, 1), says_much=False)
        for number in range(6):
            turns.wait(Talker(f"n{number}", turns, time, order, 1), says_much=False, is_new=True)
        assert len(turns) == 12
        await asyncio.sleep(0)  # a turn of a millisecond, of which each takes half of one
        assert order == ["n0", "n1", "w0"]
        await until(lambda: not turns.is_behind)
        assert order[3:6] == ["n2", "n3", "w1"]
        assert order[-3:] == ["w3", "w4", "w5"]

    run(act())


def test_who_has_asked_nothing_yet_and_is_gone_gets_no_turn() -> None:
    async def act() -> None:
        time, order = HandTime(), list[str]()
        turns: Turns[Talker] = Turns(lambda: False, time)
        stays, goes = (Talker(name, turns, time, order, 1) for name in "sg")
        turns.wait(goes, says_much=False, is_new=True)
        turns.wait(stays, says_much=False, is_new=True)
        turns.forget(goes)
        await until(lambda: order == ["s"])
        assert len(turns) == 0

    run(act())


def test_a_turn_is_over_once_its_time_is_spent_and_the_next_one_begins_by_itself() -> None:
    async def act() -> None:
        time = HandTime()
        turns: Turns[Talker] = Turns(lambda: False, time)
        assert not turns.is_over
        time.now = TURN_NS
        turns.spend(0)
        assert turns.is_over
        await asyncio.sleep(0)
        assert not turns.is_over

    run(act())


def test_nobody_is_given_a_turn_while_they_are_off_and_who_is_gone_gets_none() -> None:
    async def act() -> None:
        time, order, is_off = HandTime(), list[str](), [True]
        turns: Turns[Talker] = Turns(lambda: is_off[0], time)
        stays, goes = (Talker(name, turns, time, order, 1) for name in "sg")
        turns.wait(stays, says_much=False)
        turns.wait(goes, says_much=True)
        turns.forget(goes)
        await asyncio.sleep(0.01)
        assert order == []
        is_off[0] = False
        turns.go_on()
        await until(lambda: order == ["s"])

    run(act())


class Reader:
    """A peer that has read so much."""

    def __init__(self) -> None:
        self.taken = 0

    def taken_bytes(self) -> int:
        return self.taken


def test_who_reads_too_little_is_late_and_who_reads_enough_is_not() -> None:
    unread: Unread[Reader] = Unread(1_000)
    deaf, slow, drop_by_drop = Reader(), Reader(), Reader()
    for each in (deaf, slow, drop_by_drop):
        unread.add(each, 0)
    for now_ms in range(100, 1_000, 100):
        slow.taken += READ_BYTES // 4
        drop_by_drop.taken += 1
        assert unread.overdue(now_ms) == []
    assert unread.overdue(1_000) == [deaf, drop_by_drop]
    unread.discard(deaf)
    assert (len(unread), unread.overdue(1_000)) == (2, [drop_by_drop])
    assert slow in unread.overdue(1_900)
