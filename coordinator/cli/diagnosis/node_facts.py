"""The facts of each node of a cluster that only a connection of its own tells: clock, versions, certificate, Kafka.

A node's clock is compared with that of this machine in the middle between a question and its answer, so half the time
that the answer took is how far off the comparison may be. Nothing is judged here.
"""

import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from coordinator.client.connection import Connection, NodeError
from coordinator.client.every_node import NODES_AT_ONCE
from coordinator.client.refusals import refusal_of, show_refusal
from coordinator.client.security import ClientSecurity
from coordinator.protocol.framing import VersionRange
from coordinator.protocol.messages import DescribeCluster, DescribeClusterResponse
from coordinator.protocol.text.addresses import Address


@dataclass(frozen=True, slots=True)
class NodeFacts:
    """The facts of one node; `ahead_ms` is by how much its clock is ahead of this machine's, give or take `within_ms`.

    None is what it does not tell: a clock of an older release, the end of a certificate without TLS.
    """

    versions: VersionRange
    ahead_ms: int | None = None
    within_ms: int = 0
    certificate_end_s: float | None = None
    kafka_cluster_id: str | None = None
    kafka_failure: str = ""


def look_at_nodes(
    addresses: Mapping[int, Address], timeout_s: float, security: ClientSecurity
) -> tuple[dict[int, NodeFacts], dict[int, str]]:
    """Return the facts of each node, and of one that did not tell them why; a text continues a sentence about it."""
    if not addresses:
        return {}, {}
    with ThreadPoolExecutor(min(NODES_AT_ONCE, len(addresses)), thread_name_prefix="kcoord-look") as pool:
        said = pool.map(lambda address: _look_at(address, timeout_s, security), addresses.values())
    told = dict(zip(addresses, said, strict=True))
    facts = {number: each for number, each in told.items() if isinstance(each, NodeFacts)}
    return facts, {number: each for number, each in told.items() if isinstance(each, str)}


def ahead(asked_ms: float, answered_ms: float, clock_ms: int) -> tuple[int, int]:
    """Return by how many ms a clock is ahead that was read between a question and its answer, and within how many."""
    half = (answered_ms - asked_ms) / 2
    return round(clock_ms - asked_ms - half), round(half + 0.5)


def _look_at(address: Address, timeout_s: float, security: ClientSecurity) -> NodeFacts | str:
    try:
        with Connection(address, timeout_s, security) as connection:
            asked_ms, began_s = time.time() * 1000, time.monotonic()
            answer = connection.ask(DescribeCluster(), timeout_s)
            answered_ms = asked_ms + (time.monotonic() - began_s) * 1000
            certificate_end_s = connection.certificate_end_s()
            versions = connection.peer_versions
    except NodeError as error:
        return str(error)
    if not isinstance(answer, DescribeClusterResponse):
        refusal = refusal_of(answer)
        return "does not describe itself" + ("" if refusal is None else f": {show_refusal(refusal)}")
    ahead_ms, within_ms = (None, 0) if answer.wall_ms is None else ahead(asked_ms, answered_ms, answer.wall_ms)
    return NodeFacts(versions, ahead_ms, within_ms, certificate_end_s, answer.kafka_cluster_id, answer.kafka_failure)
