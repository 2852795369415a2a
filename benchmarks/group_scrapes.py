"""A scrape of a node's /metrics each second, as a Prometheus makes it: from a process of its own, on the load's core.

    python -m benchmarks.group_scrapes 127.0.0.1:7071

It ends with its standard input, and says then what it has seen.
"""

import http.client
import json
import os
import select
import statistics
import subprocess
import sys
import time
from dataclasses import dataclass
from types import TracebackType
from typing import Final, Self

from benchmarks.group_core import LOAD_CORE
from coordinator.protocol.text.addresses import parse_address

INTERVAL_S: Final = 1.0
_PATIENCE_S: Final = 30.0
_PIECE: Final = 1 << 18


@dataclass(frozen=True, slots=True)
class Scrapes:
    """The scrapes of one node: how many, their times in milliseconds, and the size of the largest page in bytes."""

    count: int
    median_ms: float
    most_ms: float
    most_bytes: int

    def __str__(self) -> str:
        return (
            f"{self.count} scrapes of at most {self.most_bytes / 1024:.0f} KiB took {self.median_ms:.0f} ms in the "
            f"median, {self.most_ms:.0f} at most"
        )


class Scraper:
    """Scrapes a node for as long as the block of `with`; a scrape that fails is an error at its end."""

    def __init__(self, address: str) -> None:
        self._address = address
        self.seen: Scrapes | None = None
        """The scrapes, once the block is over."""

    def __enter__(self) -> Self:
        """Begin."""
        command = [sys.executable, "-m", "benchmarks.group_scrapes", self._address]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """End it; raises RuntimeError when a scrape failed and nothing else did."""
        said, _ = self._process.communicate(timeout=2 * _PATIENCE_S)
        if self._process.returncode == 0:
            self.seen = Scrapes(**json.loads(said))
        elif error is None:
            raise RuntimeError(f"a scrape of {self._address} failed: {said.strip() or 'it said nothing'}")


def scrape(connection: http.client.HTTPConnection) -> int:
    """Read the page once and return its bytes; raises OSError, also for an answer that is no page."""
    connection.request("GET", "/metrics")
    answer = connection.getresponse()
    size = 0
    while piece := answer.read(_PIECE):
        size += len(piece)
    if answer.status != http.HTTPStatus.OK:
        raise OSError(f"HTTP status {answer.status}")
    return size


def main() -> int:
    """Scrape until standard input ends."""
    os.sched_setaffinity(0, {LOAD_CORE})
    host, port = parse_address(sys.argv[1])
    times_ms: list[float] = []
    most_bytes = 0
    connection = http.client.HTTPConnection(host, port, timeout=_PATIENCE_S)
    due_s = time.monotonic()
    while not select.select([sys.stdin], (), (), max(0.0, due_s - time.monotonic()))[0]:
        due_s = max(due_s + INTERVAL_S, time.monotonic())
        began_s = time.monotonic()
        try:
            most_bytes = max(most_bytes, scrape(connection))
        except (OSError, http.client.HTTPException) as error:
            sys.stdout.write(f"{error}\n")
            return 1
        times_ms.append((time.monotonic() - began_s) * 1000)
    seen = {"median_ms": statistics.median(times_ms or [0.0]), "most_ms": max(times_ms, default=0.0)}
    sys.stdout.write(json.dumps({"count": len(times_ms), "most_bytes": most_bytes, **seen}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
