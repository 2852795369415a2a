"""Every state of the small model in a scope, one after another, or some of them in random walks."""

import gc
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from random import Random

from tests.model.invariants import OPTIONAL
from tests.model.node import BrokenInvariantError
from tests.model.state import Name, Scope, State
from tests.model.world import Model


class ViolationError(AssertionError):
    """An invariant does not hold; the message has every step that leads there."""


@dataclass(frozen=True, slots=True)
class Explored:
    """How much was seen; what is not whole are the nearest states of a scope that has more."""

    states: int
    steps: int
    is_whole: bool = True


def every_state(
    scope: Scope, *, forgets: bool = True, most: int | None = None, progress: Callable[[int, int], None] | None = None
) -> Explored:
    """Go through every state of a scope, nearest first; raises ViolationError with the shortest way to one.

    With `most` it ends after about so many states, and says that they were not all.
    """
    with _without_collector():
        return _every_state(scope, forgets, most, progress)


@contextmanager
def _without_collector() -> Iterator[None]:
    """Hold the collector off: it would look again and again at a million tuples that are all kept."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def _every_state(
    scope: Scope, forgets: bool, most: int | None, progress: Callable[[int, int], None] | None
) -> Explored:
    model = Model(scope, forgets=forgets)
    first = model.canonical(model.first())
    came_from: dict[State, tuple[State, Name] | None] = {first: None}
    waiting, steps = deque([first]), 0
    while waiting:
        if most is not None and len(came_from) >= most:
            return Explored(len(came_from), steps, is_whole=False)
        state = waiting.popleft()
        try:
            is_at_rest = True
            for name, after in model.successors(state):
                steps += 1
                is_at_rest = is_at_rest and (name[0] == "elected:" or name[1] in OPTIONAL)
                known = model.canonical(after)
                if known in came_from:
                    continue
                came_from[known] = state, name
                _check(model, known, came_from)
                waiting.append(known)
                if progress is not None and len(came_from) % 50_000 == 0:
                    progress(len(came_from), len(waiting))
            if is_at_rest:
                model.check_rest(state)
        except BrokenInvariantError as error:
            raise ViolationError(f"{error}\n{_way(state, came_from)}") from error
    return Explored(len(came_from), steps)


def _check(model: Model, state: State, came_from: dict[State, tuple[State, Name] | None]) -> None:
    try:
        model.check(state)
    except BrokenInvariantError as error:
        raise ViolationError(f"{error}\n{_way(state, came_from)}") from error


def _way(state: State, came_from: dict[State, tuple[State, Name] | None]) -> str:
    """Return the steps that lead to a state; nodes are named as in the state before each."""
    names: list[str] = []
    step = came_from[state]
    while step is not None:
        before, name = step
        names.append(" ".join(map(str, name)))
        step = came_from[before]
    return "\n".join(reversed(names))


def random_walks(scope: Scope, seed: int, walks: int, steps: int) -> int:
    """Take walks of random steps, each from the begin, and return how many steps they were in all."""
    model, taken = Model(scope), 0
    for walk in range(walks):
        chance, state, names = Random(f"{seed}/{walk}"), model.first(), list[str]()
        for _ in range(steps):
            try:
                choices = list(model.successors(state))
                if not choices:
                    break
                name, state = chance.choice(choices)
                names.append(" ".join(map(str, name)))
                taken += 1
                model.check(state)
            except BrokenInvariantError as error:
                way = "\n".join(names)
                raise ViolationError(f"walk {walk} of seed {seed}: {error}\n{way}") from error
    return taken
