"""The shell of a consumer by hand: performs what the product's flows wait for, in simulated time.

A question to the coordinators is run twice: first to learn the request, which then travels as those of operators do,
and again with the answer. One that is not answered in time is a coordinator that is away.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from coordinator.client.refusals import PASSING, refusal_of, show_refusal
from coordinator.protocol.messages import ErrorResponse, Request, Response
from coordinator.protocol.messages.pages import join_pages, next_page
from spark_kcoord.consumer.conduct import asking
from spark_kcoord.consumer.conduct.wishes import Ask, Do, Flow, Wait
from spark_kcoord.consumer.errors import CoordinatorUnavailableError, InterruptedPollError
from spark_kcoord.errors import KcoordError

if TYPE_CHECKING:
    from tests.sim.world import World

TIMEOUT_MS = 2_000
"""The time after which a question is given up."""

Then = Callable[[Any, KcoordError | None], object]


class _WantedError(Exception):
    """A question is asked: what is wanted is the answer to a request."""

    def __init__(self, request: Request) -> None:
        self.request = request


class Shell:
    """The calls of one consumer, one at a time. `on_asked` hears each question, `on_answered` each answer."""

    def __init__(
        self, world: "World", on_asked: Callable[[Request], object], on_answered: Callable[[Response], object]
    ) -> None:
        self._world = world
        self._on_asked = on_asked
        self._on_answered = on_answered
        self._out = 0
        self._interrupt: Callable[[], object] | None = None

    def make(self, flow: Flow[Any], then: Then) -> None:
        """Make a call, and go on with its result or its error."""
        self._go_on(flow, then, lambda: next(flow))

    def interrupt(self) -> bool:
        """Have the call that waits be interrupted; say if one waits."""
        if self._interrupt is None:
            return False
        self._interrupt()
        return True

    def _go_on(self, flow: Flow[Any], then: Then, step: Callable[[], Any]) -> None:
        try:
            wish = step()
            while isinstance(wish, Do):
                wish = flow.send(wish.work())
        except StopIteration as end:
            then(end.value, None)
        except KcoordError as error:
            then(None, error)
        else:
            if isinstance(wish, Wait):
                self._wait(flow, then, wish)
                return
            assert isinstance(wish, Ask), f"nothing here waits for {wish}"
            self._ask(flow, then, wish)

    def _wait(self, flow: Flow[Any], then: Then, wish: Wait) -> None:
        end, _ = self._until(flow, then)
        self._world.schedule.after(int(wish.seconds * 1000) + 1, end, lambda: flow.send(None))

    def _until(self, flow: Flow[Any], then: Then) -> tuple[Callable[[Callable[[], Any]], None], int]:
        """Have a flow wait, which may be interrupted; return what ends that, once, and the number of the wait."""
        self._out += 1
        number = self._out

        def end(step: Callable[[], Any]) -> None:
            if number == self._out:
                self._out += 1
                self._interrupt = None
                self._go_on(flow, then, step)

        self._interrupt = lambda: end(lambda: flow.throw(InterruptedPollError("interrupted")))
        return end, number

    def _ask(self, flow: Flow[Any], then: Then, wish: Ask) -> None:
        request = _request_of(wish)
        end, number = self._until(flow, then)
        pages: list[Response] = []

        def answered(response: Response) -> None:
            pages.append(response)
            more = next_page(request, response)
            if number != self._out:
                return
            if more is not None:
                self._world.operator.ask(more, answered)
                return
            end(lambda: self._answer(flow, wish, pages))

        away = CoordinatorUnavailableError(f"No coordinator answered within {TIMEOUT_MS} ms.")
        self._on_asked(request)
        self._world.operator.ask(request, answered)
        self._world.schedule.after(TIMEOUT_MS, end, lambda: flow.throw(away))

    def _answer(self, flow: Flow[Any], wish: Ask, pages: Sequence[Response]) -> Any:
        answer = join_pages(pages)

        def ask(*_: object) -> Response:
            refusal = refusal_of(answer)
            if isinstance(answer, ErrorResponse) or (refusal is not None and refusal[0] in PASSING):
                raise CoordinatorUnavailableError("refused" if refusal is None else show_refusal(refusal))
            self._on_answered(answer)
            return answer

        try:
            with _coordinators(ask):
                found = wish.begin()()
        except KcoordError as error:
            return flow.throw(error)
        return flow.send(found)


def _request_of(wish: Ask) -> Request:
    def ask(_settings: object, request: Request, _timeout_s: float) -> Response:
        raise _WantedError(request)

    try:
        with _coordinators(ask):
            wish.begin()()
    except _WantedError as wanted:
        return wanted.request
    raise AssertionError("Kafka is asked, which nobody here does")


@contextmanager
def _coordinators(ask: Callable[..., Response]) -> Iterator[None]:
    """Have this be asked in place of the coordinators."""
    before = asking.ask_coordinators
    vars(asking)["ask_coordinators"] = ask
    try:
        yield
    finally:
        vars(asking)["ask_coordinators"] = before
