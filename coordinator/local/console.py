"""A console on loopback as a child process, gone when its owner is; it answers when `start` returns.

It is the real command, `kcoord console`, run with this Python. Knows of it its command line and the line it prints.
"""

import importlib.util
import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from coordinator.local.process.ports import free_ports
from coordinator.local.process.service import LocalService

_READY: Final = re.compile(r"^kcoord: console on \S+$", re.MULTILINE)
_NEEDED: Final = ("jinja2", "starlette", "uvicorn")


def can_run_console() -> bool:
    """Say whether the packages of the extra `console` are installed."""
    return all(importlib.util.find_spec(name) is not None for name in _NEEDED)


class LocalConsole(LocalService):
    """A console over coordinators at these addresses, HOST:PORT with commas between; writes to `console.log`."""

    def __init__(
        self,
        coordinators: str,
        data_dir: Path,
        *,
        port: int = 0,
        flags: Sequence[str] = (),
        start_timeout_s: float = 60.0,
    ) -> None:
        super().__init__(
            "The console",
            data_dir,
            log_name="console.log",
            port=port,
            start_timeout_s=start_timeout_s,
            stop_timeout_s=10.0,
            environment=os.environ,
        )
        self._coordinators = coordinators
        self._flags = tuple(flags)

    @property
    def url(self) -> str:
        """Return the address for a browser."""
        return f"http://{self.address}/"

    def _command(self) -> Sequence[str]:
        if not self._port:
            (self._port,) = free_ports(1)
        return [
            *[sys.executable, "-m", "coordinator", "console", "--coordinator", self._coordinators],
            *["--listen", self.address, *self._flags],
        ]

    def _why_not_ready(self) -> str:
        return "" if _READY.search(self.log_tail(lines=1000)) else "it has not said that it answers"
