import asyncio
import gc
import weakref
from collections.abc import Iterator

import pytest

from coordinator.runtime.process.collector import Rounds
from tests.helpers.event_loops import run
from tests.helpers.loopback import until


class Cycle:
    """Garbage that only a collector finds."""

    def __init__(self) -> None:
        self.itself = self


@pytest.fixture
def rounds() -> Iterator[list[str]]:
    """Note every round of the collector, and leave it as it was before."""
    seen: list[str] = []
    threshold, frozen = gc.get_threshold(), gc.get_freeze_count()

    def note(phase: str, _info: dict[str, int]) -> None:
        seen.append(phase)

    gc.callbacks.append(note)
    yield seen
    gc.callbacks.remove(note)
    gc.set_threshold(*threshold)
    if not frozen:  # else a run of all tests would look at all of them in each round from here on
        gc.unfreeze()


def new_objects() -> list[tuple[int, list[int]]]:
    return [(number, []) for number in range(100_000)]


@pytest.mark.usefixtures("each_event_loop", "rounds")
def test_garbage_in_cycles_is_found_while_the_loop_runs() -> None:
    async def make_garbage() -> None:
        Rounds(asyncio.get_running_loop()).begin()
        garbage = weakref.ref(Cycle())
        kept = new_objects()
        await until(lambda: garbage() is None)
        assert len(kept) == 100_000

    run(make_garbage())


@pytest.mark.usefixtures("each_event_loop")
def test_no_round_comes_in_the_middle_of_a_piece_of_work(rounds: list[str]) -> None:
    async def work() -> None:
        Rounds(asyncio.get_running_loop()).begin()
        rounds.clear()
        kept = new_objects()
        assert rounds == []
        await until(lambda: rounds)
        assert rounds[:2] == ["start", "stop"]
        assert len(kept) == 100_000

    run(work())


@pytest.mark.usefixtures("rounds")
def test_what_outlives_a_full_round_is_left_out_of_later_ones() -> None:
    async def grow() -> None:
        Rounds(asyncio.get_running_loop()).begin()
        before = gc.get_freeze_count()
        kept = new_objects()
        await until(lambda: gc.get_freeze_count() >= before + 100_000)
        assert len(kept) == 100_000

    run(grow())


@pytest.mark.usefixtures("rounds")
def test_what_takes_the_place_of_others_is_looked_at_though_there_are_no_more() -> None:
    async def exchange() -> None:
        kept = new_objects()
        Rounds(asyncio.get_running_loop()).begin()
        garbage = weakref.ref(Cycle())
        for number in range(30_000):
            kept[number] = (number, [number])  # one ends for one that begins
            if number % 1_000 == 0:
                await asyncio.sleep(0)
                assert gc.get_count()[0] < 5_000
        await until(lambda: garbage() is None)
        assert len(kept) == 100_000

    run(exchange())
