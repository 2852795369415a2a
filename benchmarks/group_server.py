"""The coordinator itself, over topics that are only said to exist, with a probe of how long its loop is held.

    python -m benchmarks.group_server --data DIR --core 0 --topic wide=50000

Everything is the node that `kcoord serve` runs (`coordinator.service.standalone`), with two things exchanged before it
is put together: the Kafka port gets a client that answers from a table instead of one that is connected to brokers, and
what the event loop calls is timed. A line on standard input is answered on standard output with the figures since the
last one, as JSON; the end of standard input ends the process.
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
from coordinator.admin.surveying import Surveyor
from coordinator.config import load_settings
from coordinator.core.effects import Effect, OffsetToResolve
from coordinator.core.events import Event, RequestArrived, ResolvedOffset, TopicMetadata
from coordinator.core.log.entry import Batch, encode_batch
from coordinator.core.node import Node
from coordinator.runtime.disk import segment_files
from coordinator.runtime.driver import Driver
from coordinator.runtime.kafka.client import ClusterView, EndsAnswer, KafkaClient
from coordinator.runtime.kafka.port import KafkaPort
from coordinator.runtime.server import port
from coordinator.runtime.server.connection import Connection
from coordinator.service import standalone

BROKER = 1
_BEAT_S = 0.005


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

    def list_ends(self, offsets: Sequence[OffsetToResolve], leaders: Mapping[tuple[str, int], int]) -> EndsAnswer:
        """Answer 0 for every partition, at once."""
        return EndsAnswer(self.list_offsets(offsets, leaders), 0.0)

    def interrupt(self) -> None:
        """Do nothing: no call takes long."""

    def close(self) -> None:
        """Do nothing: there is no connection."""


class Probe:
    """The longest times since the last report, in milliseconds, and what held the loop then."""

    def __init__(self) -> None:
        self._gc_started_s = 0.0
        self._is_inside = False
        self._cpu_read_s = 0.0
        self.event: object = None
        """The event that the node took last."""
        self.reset()

    def reset(self) -> None:
        """Forget."""
        self.held_ms = 0.0
        self.held_cpu_ms = 0.0
        self.held_by = ""
        self.late_ms = 0.0
        self.gc_ms = 0.0
        self.log_bytes = 0
        self.started_s = time.perf_counter()
        self.cpu_s = time.process_time()

    def report(self) -> dict[str, Any]:
        """Return the figures and begin anew."""
        seconds, cpu_s = time.perf_counter() - self.started_s, time.process_time() - self.cpu_s
        figures = {
            "held_ms": self.held_ms,
            "held_cpu_ms": self.held_cpu_ms,
            "held_by": self.held_by,
            "late_ms": self.late_ms,
            "gc_ms": self.gc_ms,
            "rss_kib": resident_kib(),
            "peak_rss_kib": peak_kib(),
            "log_bytes": self.log_bytes,
            "cpu_s": cpu_s,
            "seconds": seconds,
        }
        self.reset()
        return figures

    def time_entries(self, *more: tuple[type, tuple[str, ...], bool]) -> None:
        """Time everything by which an event loop, whichever it is, comes into the node's code.

        Of `more` each is a class, its methods, and whether the processor's clock is read for each of their calls.
        """
        for owner, names, reads_cpu in (
            (Connection, ("connection_made", "data_received", "connection_lost"), False),
            (port.Server, ("_flush_rest",), True),
            (Driver, ("_on_tick", "_on_wake", "_deliver", "_take_durable", "_take_durable_for_a_turn", "_write"), True),
            (Surveyor, ("_begin", "_go_on"), True),
            *more,
        ):
            for name in names:
                patch.object(owner, name, self._timed(getattr(owner, name), reads_cpu=reads_cpu)).start()

    def _timed(self, enter: Callable[..., Any], *, reads_cpu: bool) -> Callable[..., Any]:
        """Return a method that is timed unless it was called by one that is.

        The processor's clock is dear, so it is not read for what comes by the thousand; what came since the last
        reading then counts too.
        """
        probe, now_s, cpu_s, name = self, time.perf_counter, time.thread_time, enter.__qualname__

        def timed(*arguments: Any) -> Any:
            if probe._is_inside:
                return enter(*arguments)
            probe._is_inside = True
            probe.event = None
            if reads_cpu:
                probe._cpu_read_s = cpu_s()
            started_s = now_s()
            try:
                return enter(*arguments)
            finally:
                held_ms = (now_s() - started_s) * 1000
                probe._is_inside = False
                if held_ms > probe.held_ms:
                    probe.held_ms = held_ms
                    probe.held_cpu_ms = min(held_ms, (cpu_s() - probe._cpu_read_s) * 1000)
                    probe.held_by = name if probe.event is None else f"{name}, last of it {name_of(probe.event)}"

        return timed

    def time_beats(self, loop: asyncio.AbstractEventLoop) -> None:
        """Time how late the loop comes to what is due every 5 ms, whatever holds it: also what it does by itself."""
        due_s = loop.time() + _BEAT_S

        def beat() -> None:
            nonlocal due_s
            now_s = loop.time()
            self.late_ms = max(self.late_ms, (now_s - due_s) * 1000)
            due_s = now_s + _BEAT_S
            loop.call_at(due_s, beat)

        loop.call_at(due_s, beat)

    def time_collections(self) -> None:
        """Time the rounds of the garbage collector."""

        def timed(phase: str, _: Mapping[str, int]) -> None:
            if phase == "start":
                self._gc_started_s = time.perf_counter()
            else:
                self.gc_ms = max(self.gc_ms, (time.perf_counter() - self._gc_started_s) * 1000)

        gc.callbacks.append(timed)

    def count_log(self) -> None:
        """Count the bytes of the frames that are laid in the log."""

        def counted(batch: Batch) -> bytes:
            frame = encode_batch(batch)
            self.log_bytes += len(frame)
            return frame

        patch.object(segment_files, "encode_batch", counted).start()

    def answer(self) -> None:
        """Report whenever a line comes; end the process when no more can come."""
        for _ in sys.stdin:
            sys.stdout.write(json.dumps(self.report()) + "\n")
            sys.stdout.flush()
        os._exit(0)


def name_of(event: object) -> str:
    """Return the name of a request or of what else happened."""
    return type(event.request if isinstance(event, RequestArrived) else event).__name__


def resident_kib() -> int:
    """Return the memory of this process that is in use, in KiB."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") // 1024


def peak_kib() -> int:
    """Return the most memory that this process has had in use, in KiB."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:"))


def watched_node(probe: Probe) -> type[Node]:
    """Return the node's class, whose steps say what they are about."""

    class WatchedNode(Node):
        def step(self, event: Event, now_ms: int) -> list[Effect]:
            probe.event = event
            return super().step(event, now_ms)

    return WatchedNode


def beating_driver(probe: Probe) -> type[Driver]:
    """Return the driver's class, whose loop's beats are timed."""

    class BeatingDriver(Driver):
        def start(self) -> None:
            super().start()
            probe.time_beats(self._loop)

    return BeatingDriver


def main() -> int:
    """Run the node until standard input ends."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--core", type=int, required=True, help="the only core that this process uses")
    parser.add_argument("--topic", action="append", required=True, metavar="NAME=PARTITIONS")
    parser.add_argument("--unwatched", action="store_true", help="do not time what holds the loop, which costs a tenth")
    parser.add_argument("--set", action="append", default=[], metavar="SECTION.KEY=VALUE")
    arguments = parser.parse_args()
    os.sched_setaffinity(0, {arguments.core})
    topics = {name: int(count) for name, _, count in (text.partition("=") for text in arguments.topic)}
    flags: dict[str, object] = {"node.data_dir": arguments.data, "node.listen": "127.0.0.1:0"}
    # Members connect long before they join, so that only the joins are measured.
    flags["server.first_request_timeout_ms"] = "600000"
    flags |= {key: value for key, _, value in (text.partition("=") for text in arguments.set)}

    probe = Probe()
    probe.time_collections()
    probe.count_log()
    exchanged: dict[str, Any] = {
        "KafkaPort": partial(KafkaPort, connect=partial(TableClient, topics)),
        "Driver": beating_driver(probe),
    }
    if not arguments.unwatched:
        probe.time_entries()
        exchanged["Node"] = watched_node(probe)
    threading.Thread(target=probe.answer, daemon=True).start()
    with patch.multiple(standalone, **exchanged):
        return service.run(load_settings(None, flags))


if __name__ == "__main__":
    sys.exit(main())
