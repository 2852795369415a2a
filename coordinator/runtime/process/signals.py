"""The signals of a node: SIGTERM and SIGINT stop it in order, the others are a line in its log.

By itself the system ends a process on almost any signal, without a word. So handlers are there in every phase: from
before the node's code is loaded until the process is gone. They run on the main thread between two steps of Python,
also while the log is loaded and while the event loop stands still. Knows nothing of what is stopped.
"""

import asyncio
import contextlib
import os
import resource
import select
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from types import FrameType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger

STOPPING = (signal.SIGTERM, signal.SIGINT)
IGNORED = tuple(
    getattr(signal, name)
    for name in ("SIGUSR2", "SIGALRM", "SIGVTALRM", "SIGPROF", "SIGIO", "SIGPWR")
    if hasattr(signal, name)
)
"""Signals that ask a node for nothing; each is said."""
_MOST_FRAMES = 40


class Signals:
    """The handlers of a running node, for as long as the block of `with`; on the main thread.

    `asked` is the signal that told the node to stop, once one has. A second of those ends the process at once.
    """

    def __init__(self, log: "FilteringBoundLogger") -> None:
        self.asked: signal.Signals | None = None
        self._log = log
        self._began_s = time.monotonic()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._told: asyncio.Future[str] | None = None
        self._state: Callable[[], Mapping[str, object]] | None = None
        self._look: Callable[[], None] | None = None

    @contextlib.contextmanager
    def handled(self) -> Iterator[None]:
        """Handle every signal within the block."""
        before = {
            **{number: signal.signal(number, self._stop) for number in STOPPING},
            **{number: signal.signal(number, self._ignore) for number in IGNORED},
            signal.SIGHUP: signal.signal(signal.SIGHUP, self._look_at_files),
            signal.SIGUSR1: signal.signal(signal.SIGUSR1, self._tell_state),
            signal.SIGQUIT: signal.signal(signal.SIGQUIT, self._tell_stacks),
        }
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def told(self, loop: asyncio.AbstractEventLoop, state: Callable[[], Mapping[str, object]]) -> "asyncio.Future[str]":
        """Return a future of why the node is to stop, also where that was told before; `state` is what SIGUSR1 shows.

        `state` is called on the loop.
        """
        self._loop, self._state, self._told = loop, state, loop.create_future()
        if self.asked is not None:
            self._resolve()
        return self._told

    def look_at_files(self, look: Callable[[], None] | None) -> None:
        """Have SIGHUP call this on the loop, which reads certificates and the like anew; None: there are none."""
        self._look = look

    def _look_at_files(self, number: int, frame: FrameType | None) -> None:
        look = self._look
        if look is None or not self._call_soon(look):
            self._ignore(number, frame)

    def _stop(self, number: int, _frame: FrameType | None) -> None:
        if self.asked is not None:
            self._end_at_once(signal.Signals(number))
        self.asked = signal.Signals(number)
        self._call_soon(self._resolve)

    def _resolve(self) -> None:
        if self._told is not None and self.asked is not None and not self._told.done():
            self._told.set_result(f"{self.asked.name} came")

    def _end_at_once(self, number: signal.Signals) -> None:
        # Not through the log, whose thread may be what does not come to an end.
        write_line(f"kcoord: {number.name} came again while the node was stopping: ended at once")
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
        os._exit(128 + number)  # the first process of a container is not ended by its own signal

    def _ignore(self, number: int, _frame: FrameType | None) -> None:
        name = signal.Signals(number).name
        self._log.warning(
            "signal-ignored",
            why=f"{name} came and does nothing: settings are read when a node starts; SIGTERM stops it, SIGUSR1 shows "
            "its state and SIGQUIT where its threads stand",
        )

    def _tell_state(self, _number: int, _frame: FrameType | None) -> None:
        if not self._call_soon(self._say_state):
            self._say_state()

    def _say_state(self) -> None:
        state = {"phase": "starting"} if self._state is None else {"phase": self._phase(), **self._state()}
        self._log.warning(
            "state",
            why="SIGUSR1 came",
            **state,
            seconds=round(time.monotonic() - self._began_s),
            peak_memory_kib=_peak_memory_kib(),
            threads=threading.active_count(),
        )

    def _phase(self) -> str:
        return "serving" if self.asked is None else "stopping"

    def _call_soon(self, call: Callable[[], None]) -> bool:
        if self._loop is None or self._loop.is_closed():
            return False
        self._loop.call_soon_threadsafe(call)
        return True

    def _tell_stacks(self, _number: int, frame: FrameType | None) -> None:
        names = {thread.ident: thread.name for thread in threading.enumerate()}
        for ident, at in sys._current_frames().items():
            here = frame if ident == threading.get_ident() else at
            name = names.get(ident, str(ident))
            self._log.warning("stack", why="SIGQUIT came", thread=name, calls=calls_of(here))


@contextlib.contextmanager
def standing_by() -> Iterator[None]:
    """Within the block, while no node handles signals: those that stop end the process well, others do nothing.

    After a block that ends well the process is taken to end too: only what stops is given back to the system.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    others = (*IGNORED, signal.SIGHUP, signal.SIGUSR1, signal.SIGQUIT)
    before: dict[signal.Signals, Any] = {
        **{number: signal.signal(number, _end_well) for number in STOPPING},
        **{number: signal.signal(number, signal.SIG_IGN) for number in others},
    }
    try:
        yield
    except BaseException:
        for number, handler in before.items():
            signal.signal(number, handler)
        raise
    for number in STOPPING:
        signal.signal(number, signal.SIG_DFL)


def calls_of(frame: FrameType | None) -> str:
    """Return the calls that led to a frame, the innermost first, each with its place."""
    calls: list[str] = []
    while frame is not None and len(calls) < _MOST_FRAMES:
        calls.append(f"{frame.f_code.co_name} ({frame.f_code.co_filename}:{frame.f_lineno})")
        frame = frame.f_back
    return " < ".join(calls)


def _end_well(number: int, _frame: FrameType | None) -> None:
    write_line(f"kcoord: {signal.Signals(number).name} came while no node ran: nothing is open, nothing to stop")
    raise SystemExit(0)


def write_line(line: str) -> None:
    """Write a short line to standard error at once, unless it would have to wait for a reader."""
    with contextlib.suppress(OSError, ValueError):
        if select.select((), (2,), (), 0)[1]:
            os.write(2, line.encode() + b"\n")


def _peak_memory_kib() -> int:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak // 1024 if sys.platform == "darwin" else peak
