"""Ends everything that a run has started, however it ends: well, by an error, or by Ctrl-C, SIGTERM or a hang-up.

Spark's processes have sessions and process groups of their own, so they are known by a mark in their environment, which
every child inherits. What the run stops in order is gone by then; whatever is left is killed.
"""

import os
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from uuid import uuid4

MARK = "KCOORD_TEST_RUN"
ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
PATIENCE_S = 60.0


class InterruptedRunError(BaseException):
    """A signal asked for the end; no `except Exception` keeps the run from it."""

    def __init__(self, number: int) -> None:
        super().__init__(f"interrupted by {signal.Signals(number).name}")
        self.number = number


@contextmanager
def leaving_no_process() -> Iterator[None]:
    """Run a block on the main thread; after it none of the processes that it has started lives.

    The first signal unwinds the block, so that services stop in order, and then ends this process with 128 plus its
    number. A second one does not wait for the order.
    """
    mark = uuid4().hex
    marked_before = os.environ.get(MARK)
    os.environ[MARK] = mark
    asked: list[int] = []

    def end(number: int, _frame: FrameType | None) -> None:
        asked.append(number)
        if len(asked) > 1:
            kill_marked(mark)
            os._exit(128 + number)
        raise InterruptedRunError(number)

    before = {number: signal.signal(number, end) for number in ENDING}
    interrupted: InterruptedRunError | None = None
    try:
        yield
    except InterruptedRunError as error:
        interrupted = error
    finally:
        kill_marked(mark)
        for number, handler in before.items():
            signal.signal(number, handler)
        if marked_before is None:
            del os.environ[MARK]
        else:
            os.environ[MARK] = marked_before
    if interrupted is not None:
        print(f"{interrupted}; everything that was started is ended", file=sys.stderr)
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(128 + interrupted.number)  # threads that are at work would keep an ordinary exit waiting


def kill_marked(mark: str, name: str = MARK) -> None:
    """Kill other processes that have a mark in their environment, until there are none."""
    deadline_s = time.monotonic() + PATIENCE_S
    while (found := marked(mark, name)) and time.monotonic() < deadline_s:
        for pid in found:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.01)


def marked(mark: str, name: str = MARK) -> list[int]:
    """Return the living processes, but this one, that have a mark in their environment."""
    wanted = f"{name}={mark}".encode()
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        pid = int(folder.name)
        with suppress(OSError):  # it has ended meanwhile, or is somebody else's; a zombie has no environment any more
            if pid != os.getpid() and wanted in (folder / "environ").read_bytes().split(b"\0"):
                found.append(pid)
    return found
