"""The shells of a consumer perform what its flows wish for: one on the caller's thread, one on an event loop."""

import asyncio
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest

from spark_kcoord.consumer.conduct.wishes import Answer, Ask, Call, Do, Flow, Tell, Wait
from spark_kcoord.consumer.core.machine import Owed, Told
from spark_kcoord.consumer.errors import InterruptedPollError
from spark_kcoord.consumer.shells.async_bell import AsyncBell
from spark_kcoord.consumer.shells.async_shell import AsyncShell
from spark_kcoord.consumer.shells.bell import Bell
from spark_kcoord.consumer.shells.shell import Shell

LONG_S = 60.0
"""Longer than any test lasts that does not hang."""


class Interrupts:
    """The part of a consumer's flows that a shell asks."""

    def __init__(self) -> None:
        self.is_interrupted = False
        self.lookups_left = 0

    def check_interrupt(self) -> None:
        if self.is_interrupted:
            self.is_interrupted = False
            raise InterruptedPollError("it was ended")

    def leave_lookup(self) -> None:
        self.lookups_left += 1


class Blocking(Shell):
    """The blocking shell alone."""

    def __init__(self, told: Callable[[Owed], Any]) -> None:
        self._bell = Bell()
        flows: Any = Interrupts()
        self._flows = flows
        calls: Any = SimpleNamespace(tell=told)
        self._calls = calls

    def drive(self, flow: Flow[Any]) -> Any:
        return self._drive(flow)

    def ring(self) -> None:
        self._bell.ring()


class OnLoop(AsyncShell):
    """The asyncio shell alone, with a loop for each flow."""

    def __init__(self, told: Callable[[Owed], Any]) -> None:
        self._bell = AsyncBell()
        flows: Any = Interrupts()
        self._flows = flows
        calls: Any = SimpleNamespace(tell=told)
        self._calls = calls

    def drive(self, flow: Flow[Any]) -> Any:
        async def main() -> Any:
            self._bell.bind(asyncio.get_running_loop())
            return await self._drive(flow)

        return asyncio.run(main())

    def ring(self) -> None:
        self._bell.ring()


Make = Callable[..., Any]


@pytest.fixture(params=[Blocking, OnLoop])
def make(request: pytest.FixtureRequest) -> Make:
    """Return a maker of shells of one kind."""

    def made(told: Callable[[Owed], Any] = lambda _: None) -> Any:
        return request.param(told)

    return made


def after(work: Callable[[], object]) -> None:
    """Do something on another thread, soon."""
    threading.Timer(0.05, work).start()


def one(wish: Any) -> Flow[Any]:
    return (yield wish)


def test_a_wish_is_answered_with_what_it_gives(make: Make) -> None:
    answer: Future[int] = Future()
    answer.set_result(3)

    def flow() -> Flow[list[Any]]:
        found = [
            (yield Do(lambda: 1)),
            (yield Ask(lambda: lambda: 2)),
            (yield Call(lambda: 2)),
            (yield Answer(answer, LONG_S)),
        ]
        found.append((yield Tell(Owed(Told.LOST, (("t", 0),)))))
        return found

    heard: list[Owed] = []
    assert make(heard.append).drive(flow()) == [1, 2, 2, 3, None]
    assert heard == [Owed(Told.LOST, (("t", 0),))]


def test_what_a_wish_raises_is_raised_in_the_flow_which_may_go_on(make: Make) -> None:
    answer: Future[int] = Future()
    answer.set_exception(KeyError("refused"))

    def fail(*_: object) -> None:
        raise KeyError("failed")

    def flow() -> Flow[int]:
        caught = 0
        for wish in (Do(fail), Ask(lambda: fail), Call(fail), Tell(Owed(Told.REVOKED, ())), Answer(answer, LONG_S)):
            try:
                yield wish
            except KeyError:
                caught += 1
        return caught

    assert make(fail).drive(flow()) == 5


def test_an_error_that_a_flow_does_not_take_ends_it(make: Make) -> None:
    ended: list[bool] = []

    def flow() -> Flow[None]:
        try:
            yield Do(lambda: 1 / 0)
        finally:
            ended.append(True)

    with pytest.raises(ZeroDivisionError):
        make().drive(flow())
    assert ended == [True]


def test_a_wait_ends_when_the_bell_rings_on_another_thread(make: Make) -> None:
    shell = make()
    after(shell.ring)
    shell.drive(one(Wait(LONG_S)))


def test_a_wait_ends_with_its_time(make: Make) -> None:
    make().drive(one(Wait(0.01)))


def test_a_bell_that_rang_before_is_heard_and_once(make: Make) -> None:
    shell = make()

    def flow() -> Flow[None]:
        shell.ring()
        shell.ring()
        yield Wait(LONG_S)
        after(shell.ring)
        yield Wait(LONG_S)

    shell.drive(flow())


def test_an_answer_from_another_thread_is_awaited(make: Make) -> None:
    shell, answer = make(), Future[str]()

    def come() -> None:
        answer.set_result("it")
        shell.ring()

    after(come)
    assert shell.drive(one(Answer(answer, LONG_S))) == "it"


def test_an_answer_that_does_not_come_is_a_time_out_and_may_come_later(make: Make) -> None:
    answer: Future[str] = Future()
    with pytest.raises(TimeoutError):
        make().drive(one(Answer(answer, 0.01)))
    assert answer.cancelled() is False
    answer.set_result("late")


def test_an_interrupt_ends_the_wait_for_an_answer(make: Make) -> None:
    shell, answer = make(), Future[str]()

    def interrupt() -> None:
        shell._flows.is_interrupted = True
        shell.ring()

    after(interrupt)
    with pytest.raises(InterruptedPollError):
        shell.drive(one(Answer(answer, LONG_S)))


def test_work_that_blocks_does_not_keep_a_ring_from_coming(make: Make) -> None:
    shell = make()

    def work() -> str:
        shell.ring()
        return "done"

    assert shell.drive(one(Do(work))) == "done"


def test_a_task_that_is_cancelled_leaves_an_answer_to_come() -> None:
    answer: Future[str] = Future()
    shell = OnLoop(lambda _: None)

    async def main() -> None:
        shell._bell.bind(asyncio.get_running_loop())
        task = asyncio.create_task(shell._drive(one(Answer(answer, LONG_S))))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    assert answer.set_running_or_notify_cancel()


def test_methods_of_listeners_and_callbacks_may_be_coroutines_on_a_loop() -> None:
    async def told(owed: Owed) -> str:
        await asyncio.sleep(0)
        return owed.news.value

    assert OnLoop(told).drive(one(Tell(Owed(Told.LOST, ())))) == "lost"
    assert OnLoop(told).drive(one(Call(lambda: told(Owed(Told.REVOKED, ()))))) == "revoked"


@pytest.mark.parametrize("wish", [Tell(Owed(Told.REVOKED, (("t", 0),))), Call(lambda: never())])
def test_a_listener_or_callback_that_is_a_coroutine_is_refused_by_a_shell_that_runs_none(wish: Any) -> None:
    with pytest.raises(TypeError, match="AsyncConsumer"):
        Blocking(lambda _: never()).drive(one(wish))


async def never() -> None:
    raise AssertionError


def test_an_interrupt_ends_the_wait_for_a_question_that_nobody_answers(make: Make) -> None:
    shell, is_over = make(), threading.Event()

    def interrupt() -> None:
        shell._flows.is_interrupted = True
        shell.ring()

    after(interrupt)
    try:
        with pytest.raises(InterruptedPollError):
            shell.drive(one(Ask(lambda: lambda: is_over.wait(LONG_S))))
        assert shell._flows.lookups_left == 1, "whoever asks next must not share what the question still uses"
    finally:
        is_over.set()


def test_a_question_that_is_answered_leaves_the_look_up_in_use(make: Make) -> None:
    shell = make()
    assert shell.drive(one(Ask(lambda: lambda: "it"))) == "it"
    assert shell._flows.lookups_left == 0


def on_loop(main: Callable[[OnLoop], Coroutine[Any, Any, None]]) -> None:
    """Run a coroutine that is given the asyncio shell."""
    shell = OnLoop(lambda _: None)

    async def run() -> None:
        shell._bell.bind(asyncio.get_running_loop())
        await main(shell)

    asyncio.run(run())


async def asked(shell: OnLoop, work: Callable[[], Any]) -> "asyncio.Task[Any]":
    task = asyncio.create_task(shell._drive(one(Ask(lambda: work))))
    await asyncio.sleep(0)
    return task


def test_a_question_does_not_stay_behind_one_that_was_given_up() -> None:
    is_over = threading.Event()

    async def main(shell: OnLoop) -> None:
        first = await asked(shell, lambda: is_over.wait(LONG_S))
        second = await asked(shell, lambda: "it")
        first.cancel()
        async with asyncio.timeout(LONG_S / 2):
            assert await second == "it"
        assert shell._flows.lookups_left == 1

    try:
        on_loop(main)
    finally:
        is_over.set()


def test_a_question_that_was_given_up_before_its_turn_is_never_asked() -> None:
    is_over, was_asked = threading.Event(), []

    async def main(shell: OnLoop) -> None:
        first = await asked(shell, lambda: is_over.wait(LONG_S))
        second = await asked(shell, lambda: was_asked.append("it"))
        second.cancel()
        with pytest.raises(asyncio.CancelledError):
            await second
        is_over.set()
        assert await first
        assert await (await asked(shell, lambda: "another")) == "another"
        assert shell._flows.lookups_left == 0
        assert was_asked == []

    try:
        on_loop(main)
    finally:
        is_over.set()


def test_work_that_ends_a_consumer_does_not_wait_for_a_question() -> None:
    is_over = threading.Event()

    async def main(shell: OnLoop) -> None:
        question = await asked(shell, lambda: is_over.wait(LONG_S))
        async with asyncio.timeout(LONG_S / 2):
            assert await shell._drive(one(Do(lambda: "done"))) == "done"
        assert shell._flows.lookups_left == 1, "the question still uses the look-up"
        is_over.set()
        assert await question

    try:
        on_loop(main)
    finally:
        is_over.set()
