"""Pages and API of the console beside 10,000 groups and one group of 50,000 partitions, and the node it asks.

    make bench-console      or: uv run python -m benchmarks.console [--groups 10000] [--partitions 50000] [--rounds 40]

A real node whose Kafka is away, since none is needed for what was committed, and a real console, which has described
every group once before anything is measured and goes on asking meanwhile. Each round asks for the list sorted by lag,
the page of the large group and the same by the API; the time is from the request to the last byte, and `first_byte` to
the first. Beside it a connection asks the node for the smallest thing there is every few milliseconds: the longest it
waited is `loop_max_ms`, which is the longest hold of the node's event loop at most. `first_page_kib` is the list with
all of its files.
"""

import argparse
import http.client
import json
import re
import statistics
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from coordinator.client.connection import Connection
from coordinator.local.console import LocalConsole
from coordinator.local.node import LocalCoordinator
from coordinator.protocol.messages import CommitOffsets, CommitOffsetsResponse, FindCoordinator
from coordinator.protocol.parts import TopicOffsets

AT_MOST: Final = {
    "groups_p99_ms": 300.0,
    "group_p99_ms": 300.0,
    "api_p99_ms": 200.0,
    "loop_max_ms": 20.0,
    "first_page_kib": 300.0,
}
LARGE: Final = "large"
_AT_ONCE: Final = 2_000
_PING_S: Final = 0.004
_LIMIT_S: Final = 300.0
_ALL_OF_ONE: Final = {"group.principal_max_groups": 1_000_000}
"""All groups are made by one client, which has room for fewer by default."""


def main(groups: int, partitions: int, rounds: int) -> int:
    """Measure, print a line a kind of request and the line of the result; return the exit code."""
    with (
        tempfile.TemporaryDirectory(prefix="kcoord-bench-console-") as room,
        LocalCoordinator("127.0.0.1:1", Path(room) / "node", settings=_ALL_OF_ONE) as node,
    ):
        _fill(node.port, groups, partitions)
        with LocalConsole(node.address, Path(room) / "console") as console:
            began_s = time.monotonic()
            _wait_for(console, groups + 1)
            print(f"described: groups={groups + 1} seconds={time.monotonic() - began_s:.1f}")
            measured = _measure(console, node.port, rounds)
    wrong = [name for name, most in AT_MOST.items() if measured[name] > most]
    said = " ".join(f"{name}={measured[name]:.0f}" for name in AT_MOST)
    print(f"bench-console: {'FAILED' if wrong else 'OK'} {said}")
    return 1 if wrong else 0


def _fill(port: int, groups: int, partitions: int) -> None:
    with Connection(("127.0.0.1", port), 10) as connection:

        def commit(group: str, numbers: Sequence[int]) -> None:
            named = TopicOffsets("t", tuple(numbers), tuple(range(len(numbers))))
            answer = connection.ask(CommitOffsets(group, (named,)), 30)
            if not isinstance(answer, CommitOffsetsResponse) or answer.error or answer.refused:
                raise SystemExit(f"an offset of {group} is not committed: {answer}")

        for number in range(groups):
            commit(f"group-{number:05}", (0,))
        for begin in range(0, partitions, _AT_ONCE):
            commit(LARGE, range(begin, min(partitions, begin + _AT_ONCE)))


def _wait_for(console: LocalConsole, groups: int) -> None:
    deadline_s = time.monotonic() + _LIMIT_S
    while (json.loads(_get(console, "/api/v1/overview")[2])["described"] or 0) < groups:
        if time.monotonic() > deadline_s:
            raise SystemExit(f"the console has not described {groups} groups within {_LIMIT_S:.0f} s")
        time.sleep(0.5)


def _measure(console: LocalConsole, port: int, rounds: int) -> dict[str, float]:
    kinds = {
        "groups": "/groups?sort=lag&order=desc",
        "group": f"/groups/{LARGE}?sort=committed&order=desc",
        "api": f"/api/v1/groups/{LARGE}/partitions?sort=committed&order=desc&search=t",
        "api_groups": "/api/v1/groups?sort=group&search=99",
    }
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in kinds}
    stopping, waits = threading.Event(), list[float]()
    pinging = threading.Thread(target=_ping, args=(port, stopping, waits))
    pinging.start()
    try:
        for _ in range(rounds):
            for name, path in kinds.items():
                times[name].append(_get(console, path)[:2])
    finally:
        stopping.set()
        pinging.join()
    measured: dict[str, float] = {"loop_max_ms": max(waits) * 1000}
    for name, mine in times.items():
        first, whole = ([at[place] * 1000 for at in mine] for place in (0, 1))
        measured[f"{name}_p99_ms"] = _p99(whole)
        print(
            f"{name}: first_byte_p50_ms={statistics.median(first):.1f} first_byte_p99_ms={_p99(first):.1f} "
            f"p50_ms={statistics.median(whole):.1f} p99_ms={_p99(whole):.1f}"
        )
    measured["api_p99_ms"] = max(measured["api_p99_ms"], measured["api_groups_p99_ms"])
    page = _get(console, kinds["groups"])[2]
    files = set(re.findall(rb'(?:src|href)="(/assets/[^"]+)"', page))
    measured["first_page_kib"] = (len(page) + sum(len(_get(console, file.decode())[2]) for file in files)) / 1024
    print(f"node: asked={len(waits)} p50_ms={statistics.median(waits) * 1000:.2f} max_ms={max(waits) * 1000:.2f}")
    return measured


def _get(console: LocalConsole, path: str) -> tuple[float, float, bytes]:
    """Return the seconds to the first byte and to the last, and the body."""
    connection = http.client.HTTPConnection("127.0.0.1", console.port, timeout=30)
    try:
        began_s = time.perf_counter()
        connection.request("GET", path)
        answer = connection.getresponse()
        first_s = time.perf_counter() - began_s
        body = answer.read()
        if answer.status != 200:
            raise SystemExit(f"{path} is answered with {answer.status}: {body[:300]!r}")
        return first_s, time.perf_counter() - began_s, body
    finally:
        connection.close()


def _ping(port: int, stopping: threading.Event, waits: list[float]) -> None:
    with Connection(("127.0.0.1", port), 10) as connection:
        while not stopping.wait(_PING_S):
            began_s = time.perf_counter()
            connection.ask(FindCoordinator(LARGE), 10)
            waits.append(time.perf_counter() - began_s)


def _p99(values: Sequence[float]) -> float:
    return sorted(values)[min(len(values) - 1, int(len(values) * 0.99))]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--groups", type=int, default=10_000)
    parser.add_argument("--partitions", type=int, default=50_000)
    parser.add_argument("--rounds", type=int, default=40)
    given = parser.parse_args()
    raise SystemExit(main(given.groups, given.partitions, given.rounds))
