"""One coordinator node for `make bench-cluster`, of a cluster or standalone, over topics that are only said to exist.

    python -m benchmarks.cluster_server --topic wide=50000 --set node.mode=cluster --set node.id=1 ...

As `group_server.py` it is the node that `kcoord serve` runs, with two things exchanged: Kafka's answers come from a
table, and what the event loop calls is timed. It shares the cores of the machine with all others. A line on standard
input is answered with the figures since the last one, as JSON; the end of standard input ends the process.
"""

import argparse
import asyncio
import sys
import threading
from functools import partial
from typing import Any
from unittest.mock import patch

from benchmarks.group_server import Probe, TableClient, beating_driver, watched_node
from coordinator import service
from coordinator.config import load_settings
from coordinator.core.cluster_node.effects import Effect
from coordinator.core.cluster_node.events import Event
from coordinator.core.cluster_node.node import ClusterNode
from coordinator.runtime.cluster.driver import ClusterDriver
from coordinator.runtime.kafka.port import KafkaPort
from coordinator.runtime.peers.connection import PeerConnection
from coordinator.service import cluster, standalone


def watched_cluster_node(probe: Probe) -> type[ClusterNode]:
    """Return the class of a node of a cluster, whose steps say what they are about."""

    class WatchedNode(ClusterNode):
        def step(self, event: Event, now_ms: int) -> list[Effect]:
            probe.event = event
            return super().step(event, now_ms)

    return WatchedNode


def beating_cluster_driver(probe: Probe) -> type[ClusterDriver]:
    """Return the class of a cluster's driver, whose loop's beats are timed."""

    class BeatingDriver(ClusterDriver):
        def start(self) -> None:
            super().start()
            probe.time_beats(asyncio.get_running_loop())

    return BeatingDriver


def main() -> int:
    """Run the node until standard input ends."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--topic", action="append", required=True, metavar="NAME=PARTITIONS")
    parser.add_argument("--set", action="append", default=[], metavar="SECTION.KEY=VALUE")
    arguments = parser.parse_args()
    topics = {name: int(count) for name, _, count in (text.partition("=") for text in arguments.topic)}
    flags: dict[str, object] = {key: value for key, _, value in (text.partition("=") for text in arguments.set)}

    probe = Probe()
    probe.time_collections()
    probe.count_log()
    probe.time_entries(
        (PeerConnection, ("connection_made", "data_received", "connection_lost"), False),
        (ClusterDriver, ("_end_turn",), True),
    )
    threading.Thread(target=probe.answer, daemon=True).start()
    kafka: dict[str, Any] = {"KafkaPort": partial(KafkaPort, connect=partial(TableClient, topics))}
    with (
        patch.multiple(standalone, **kafka, Driver=beating_driver(probe), Node=watched_node(probe)),
        patch.multiple(
            cluster, **kafka, ClusterDriver=beating_cluster_driver(probe), ClusterNode=watched_cluster_node(probe)
        ),
    ):
        return service.run(load_settings(None, flags))


if __name__ == "__main__":
    sys.exit(main())
