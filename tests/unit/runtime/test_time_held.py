"""While the disk is so far behind that nobody is read, no time passes: who is not heard is not late."""

import asyncio
import time

from coordinator.core.effects import Append, Effect
from coordinator.core.events import ConnectionOpened, Event, Ticked
from coordinator.core.security.principal import ANONYMOUS
from coordinator.runtime.clock import SystemClock
from tests.helpers.loopback import until
from tests.unit.runtime.test_driver import MAX_PENDING_BYTES, World, play

ROUNDING_MS = 2


class Stopwatch:
    """Says how many milliseconds have really passed since it was made."""

    def __init__(self) -> None:
        self._begun_ns = time.monotonic_ns()

    def __call__(self) -> float:
        return (time.monotonic_ns() - self._begun_ns) / 1_000_000


def test_no_time_passes_and_no_timer_is_due_while_nobody_is_read() -> None:
    async def act(on: World) -> None:
        on.driver.connection_opened(1, "h", ANONYMOUS)
        await until(lambda: ("hold", 0) in on.done)
        really_ms = Stopwatch()
        begun_ms = on.driver.clock.monotonic_ms()
        on.node.events.clear()
        on.node.times_ms.clear()
        held_ms = Stopwatch()
        await asyncio.wait({asyncio.ensure_future(asyncio.Event().wait())}, timeout=0.5)
        not_passed_ms = held_ms()
        assert not [event for event in on.node.events if isinstance(event, Ticked)]
        on.pending_bytes = 0
        await until(lambda: [event for event in on.node.events if isinstance(event, Ticked)])
        assert ("release",) in on.done
        assert on.node.times_ms[0] - begun_ms <= really_ms() - not_passed_ms + ROUNDING_MS

    def script(event: Event, _now_ms: int) -> list[Effect]:
        opened = isinstance(event, ConnectionOpened)
        return [Append(0, 0, 0, (bytes(MAX_PENDING_BYTES // 2 + 1),))] if opened else []

    play(script, act)


def test_clock_goes_on_from_where_it_was_held() -> None:
    clock = SystemClock()
    held_ms = (clock.hold(), clock.monotonic_ms())[1]
    assert clock.monotonic_ms() == held_ms
    gone_on_ms = Stopwatch()
    assert clock.go_on() >= 0
    assert 0 <= clock.monotonic_ms() - held_ms <= gone_on_ms() + ROUNDING_MS
    assert clock.take_stall_ms() == 0
