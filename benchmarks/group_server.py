"""The coordinator itself, over topics that are only said to exist, with a probe of how long its loop is held.

    python -m benchmarks.group_server --data DIR --core 0 --topic wide=50000

Everything is the node that `kcoord serve` runs (`coordinator.service`), with two things exchanged before it is put
together: the Kafka port gets a client that answers from a table instead of one that is connected to brokers, and
the driver's node and the loop's callbacks are timed. A line on standard input is answered on standard output with the
figures since the last one, as JSON; the end of standard input ends the process.
"""

import argparse
import asyncio
import gc
import json
import os
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

from coordinator import service
from coordinator.config import load_settings
from coordinator.core.effects import Effect, OffsetToResolve
from coordinator.core.events import Event, RequestArrived, ResolvedOffset, TopicMetadata
from coordinator.core.node import Node
from coordinator.runtime.driver import Driver
from coordinator.runtime.kafka import KafkaPort
from coordinator.runtime.kafka_client import ClusterView, KafkaClient

BROKER = 1


class TableClient(KafkaClient):
    """A client that knows topics by name and number of partitions and asks nobody; all of them are empty."""

    def __init__(self, partitions: Mapping[str, int]) -> None:
        self._topics = {
            name: TopicMetadata(name, f"id-of-{name}", (BROKER,) * count) for name, count in partitions.items()
        }

    def read_topics(self, names: Iterable[str]) -> ClusterView:
        """Answer from the table."""
        asked = frozenset(names)
        found = {name: topic for name, topic in self._topics.items() if name in asked}
        return ClusterView(found, asked - found.keys(), {}, {BROKER: ("127.0.0.1", 9092)}, "table")

    def read_all_topics(self, names: Iterable[str]) -> ClusterView:
        """Answer with the whole table."""
        return self.read_topics({*self._topics, *names})

    def list_offsets(
        self, offsets: Sequence[OffsetToResolve], leaders: Mapping[tuple[str, int], int]
    ) -> list[ResolvedOffset]:
        """Answer 0 for every partition: an empty one begins and ends there."""
        del leaders
        return [ResolvedOffset(asked.topic, asked.partition, 0) for asked in offsets]

    def interrupt(self) -> None:
        """Do nothing: no call takes long."""

    def close(self) -> None:
        """Do nothing: there is no connection."""


class Probe:
    """The longest times since the last report, in milliseconds, and what held the loop then."""

    def __init__(self) -> None:
        self._gc_started_s = 0.0
        self.round_cpu_s = 0.0
        self.step_name = ""
        self.reset()

    def reset(self) -> None:
        """Forget."""
        self.held_ms = 0.0
        self.held_cpu_ms = 0.0
        self.held_by = ""
        self.step_ms = 0.0
        self.round_ms = 0.0
        self.gc_ms = 0.0
        self.started_s = time.perf_counter()
        self.cpu_s = time.process_time()

    def report(self) -> dict[str, Any]:
        """Return the figures and begin anew."""
        seconds, cpu_s = time.perf_counter() - self.started_s, time.process_time() - self.cpu_s
        figures = {
            "held_ms": self.held_ms,
            "held_cpu_ms": self.held_cpu_ms,
            "held_by": self.held_by,
            "round_ms": self.round_ms,
            "gc_ms": self.gc_ms,
            "rss_kib": resident_kib(),
            "cpu_s": cpu_s,
            "seconds": seconds,
        }
        self.reset()
        return figures

    def time_callbacks(self) -> None:
        """Time every callback of every asyncio loop of this process."""
        run: Callable[[Any], None] = vars(asyncio.Handle)["_run"]
        probe, now_s, cpu_s = self, time.perf_counter, time.thread_time

        def timed(handle: Any) -> None:
            probe.step_ms = 0.0
            started_s = now_s()
            run(handle)
            held_ms = (now_s() - started_s) * 1000
            if held_ms > probe.held_ms:
                # The processor's clock is dear, so it is read once a round: what came before in the round counts too.
                probe.held_ms = held_ms
                probe.held_cpu_ms = min(held_ms, (cpu_s() - probe.round_cpu_s) * 1000)
                name = getattr(handle._callback, "__qualname__", type(handle._callback).__name__)
                probe.held_by = f"{name}: {probe.step_name} {probe.step_ms:.1f} ms" if probe.step_ms else name

        patch.object(asyncio.Handle, "_run", timed).start()

    def time_rounds(self, loop: asyncio.AbstractEventLoop) -> None:
        """Time how long the loop is busy between two looks at its sockets."""
        selector = loop._selector  # type: ignore[attr-defined]
        select, probe, now_s = selector.select, self, time.perf_counter
        looked_s = now_s()

        def timed(timeout: float | None = None) -> Any:
            nonlocal looked_s
            probe.round_ms = max(probe.round_ms, (now_s() - looked_s) * 1000)
            found = select(timeout)
            looked_s, probe.round_cpu_s = now_s(), time.thread_time()
            return found

        selector.select = timed

    def time_collections(self) -> None:
        """Time the rounds of the garbage collector."""

        def timed(phase: str, _: Mapping[str, int]) -> None:
            if phase == "start":
                self._gc_started_s = time.perf_counter()
            else:
                self.gc_ms = max(self.gc_ms, (time.perf_counter() - self._gc_started_s) * 1000)

        gc.callbacks.append(timed)

    def answer(self) -> None:
        """Report whenever a line comes; end the process when no more can come."""
        for _ in sys.stdin:
            sys.stdout.write(json.dumps(self.report()) + "\n")
            sys.stdout.flush()
        os._exit(0)


def resident_kib() -> int:
    """Return the memory of this process that is in use, in KiB."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") // 1024


def timed_node(probe: Probe) -> type[Node]:
    """Return the node's class with every step timed."""

    class TimedNode(Node):
        def step(self, event: Event) -> list[Effect]:
            started_s = time.perf_counter()
            effects = super().step(event)
            took_ms = (time.perf_counter() - started_s) * 1000
            if took_ms > probe.step_ms:
                probe.step_ms = took_ms
                said = event.request if isinstance(event, RequestArrived) else event
                probe.step_name = type(said).__name__
            return effects

    return TimedNode


def timed_driver(probe: Probe) -> type[Driver]:
    """Return the driver's class, which makes its loop's rounds timed."""

    class TimedDriver(Driver):
        def __init__(self, clock: Any, log: Any, loop: asyncio.AbstractEventLoop) -> None:
            super().__init__(clock, log, loop)
            probe.time_rounds(loop)

    return TimedDriver


def main() -> int:
    """Run the node until standard input ends."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--core", type=int, required=True, help="the only core that this process uses")
    parser.add_argument("--topic", action="append", required=True, metavar="NAME=PARTITIONS")
    parser.add_argument("--set", action="append", default=[], metavar="SECTION.KEY=VALUE")
    arguments = parser.parse_args()
    os.sched_setaffinity(0, {arguments.core})
    topics = {name: int(count) for name, _, count in (text.partition("=") for text in arguments.topic)}
    flags: dict[str, object] = {"node.data_dir": arguments.data, "node.listen": "127.0.0.1:0"}
    flags |= {key: value for key, _, value in (text.partition("=") for text in arguments.set)}

    probe = Probe()
    probe.time_callbacks()
    probe.time_collections()
    exchanged: dict[str, Any] = {
        "KafkaPort": partial(KafkaPort, connect=partial(TableClient, topics)),
        "Node": timed_node(probe),
        "Driver": timed_driver(probe),
    }
    threading.Thread(target=probe.answer, daemon=True).start()
    with patch.multiple(service, **exchanged):
        return service.run(load_settings(None, flags))


if __name__ == "__main__":
    sys.exit(main())
