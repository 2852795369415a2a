"""A node process with a large group: it is described whole and soon, and others are served meanwhile."""

import json
import subprocess
import sys
import threading
import time
from pathlib import Path

from coordinator.protocol.ids import MAX_NAMED
from coordinator.protocol.messages import CommitOffsets, FindCoordinator
from coordinator.protocol.parts import TopicOffsets
from tests.helpers.raw_member import RawMember
from tests.integration.test_node_stop import a_node

PARTITIONS = 100_000
DESCRIBED_WITHIN_S = 20
"""Four times and more of what it takes on a quiet machine, most of which is the start of the tool."""
STARTS = 10
"""On a machine that is slow now it may take as long as the tool takes to start so often."""
SLOWEST_MS = 250


class GoodClient(threading.Thread):
    """Asks small things all the time and notes how long each answer took."""

    def __init__(self, address: str) -> None:
        super().__init__(daemon=True)
        self.is_over = threading.Event()
        self.waits_ms: list[float] = []
        self._tool = RawMember(address, "small")

    def run(self) -> None:
        with self._tool as tool:
            while not self.is_over.wait(0.002):
                began = time.perf_counter()
                tool.ask(FindCoordinator("small"))
                self.waits_ms.append((time.perf_counter() - began) * 1000)


def kcoord(*words: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "coordinator", *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=240, check=True)


def start_s() -> float:
    """Return how long the tool takes to start on this machine now."""
    began = time.perf_counter()
    kcoord("version")
    return time.perf_counter() - began


def test_a_group_of_100_000_offsets_is_described_while_others_are_served(tmp_path: Path) -> None:
    with a_node(tmp_path / "data", subprocess.DEVNULL) as (_, address):
        with RawMember(address, "g") as tool:
            for begin in range(0, PARTITIONS, MAX_NAMED):
                numbers = tuple(range(begin, begin + MAX_NAMED))
                response = tool.ask(CommitOffsets("g", (TopicOffsets("gone", numbers, numbers),)))
                assert response.accepted == MAX_NAMED
        client = GoodClient(address)
        client.start()
        began = time.perf_counter()
        done = kcoord("group", "describe", "g", "-o", "json", "--coordinator", address)
        took_s = time.perf_counter() - began
        client.is_over.set()
        client.join(60)
    described = json.loads(done.stdout)["partitions"]
    assert [row["current_offset"] for row in described] == list(range(PARTITIONS))
    assert took_s < DESCRIBED_WITHIN_S or took_s < STARTS * start_s(), f"{took_s} s"
    waits = sorted(client.waits_ms)
    assert waits[int(len(waits) * 0.99)] < SLOWEST_MS, waits[-10:]
