"""Processes of a benchmark's own, one a reader: what one library imports, allocates or leaves running costs no other.

Nothing of any library is imported here, so that a process can be made to lack one before a reader is.
"""

import multiprocessing
import sys
from collections.abc import Callable, Sequence
from multiprocessing.pool import Pool
from pathlib import Path
from types import TracebackType
from typing import Any, Self

_PROC = Path("/proc/self")
_RESET_PEAK = "5"


class Child:
    """A process that makes one call at a time; a context manager that ends it. `lacks` are modules that it has not."""

    def __init__(self, lacks: Sequence[str] = ()) -> None:
        self._pool: Pool = multiprocessing.get_context("spawn").Pool(1, _lack, (tuple(lacks),))

    def ask(self, work: Callable[..., Any], *arguments: Any) -> Any:
        """Return what a call made there returns, which also raises what it raises."""
        return self._pool.apply(work, arguments)

    def begin(self, work: Callable[..., Any], *arguments: Any) -> Callable[[float], Any]:
        """Begin a call and return what waits for its outcome, for so many seconds at most."""
        return self._pool.apply_async(work, arguments).get

    def __enter__(self) -> Self:
        """Return the process."""
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """End it."""
        self._pool.terminate()
        self._pool.join()


def memory_mib(name: str) -> float:
    """Return this process's resident memory: VmRSS, or VmHWM, its highest since `reset_peak`."""
    (line,) = (line for line in (_PROC / "status").read_text().splitlines() if line.startswith(f"{name}:"))
    return int(line.split()[1]) / 1024


def reset_peak() -> None:
    """Have VmHWM begin at what is resident now."""
    (_PROC / "clear_refs").write_text(_RESET_PEAK)


def _lack(modules: tuple[str, ...]) -> None:
    for module in modules:
        sys.modules[module] = None  # type: ignore[assignment] # what an import of it then refuses
