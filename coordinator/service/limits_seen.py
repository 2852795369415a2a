"""The limits of a node for its page of metrics, those of its server and those of groups.

A limit is named by its setting. What is used of it is there for limits of amounts; how often one was reached, for all.
"""

from collections import Counter

from coordinator.core.node import Node
from coordinator.core.node_wide import LIMITS_OF_GROUPS
from coordinator.runtime.figures.limits import LimitsSeen
from coordinator.runtime.server.port import Server

LIMITS_OF_SERVER = (
    "server.max_connections",
    "server.kept_for_members_percent",
    "server.connections_per_address",
    "server.half_open_max",
    "server.failures_burst",
    "server.hello_timeout_ms",
    "server.first_request_timeout_ms",
    "server.frame_timeout_ms",
    "server.read_timeout_ms",
    "server.requests_in_flight",
    "server.requests_total_bytes",
    "server.input_total_bytes",
    "server.output_buffer_bytes",
    "server.output_total_bytes",
)
"""Limits of the members' port that are told whether they were reached or not."""


def limits_seen(server: Server, node: Node | None) -> LimitsSeen:
    """Return the limits of the server and of groups; no `node` leads a shard before it has joined."""
    used, reached = _used_of_server(server), Counter(server.reached)
    names = list(LIMITS_OF_SERVER)
    if node is not None:
        used |= _used_of_groups(node)
        reached.update(node.node_wide.reached)
        names += LIMITS_OF_GROUPS
    return LimitsSeen(used, {setting: reached[setting] for setting in dict.fromkeys([*names, *reached])})


def _used_of_server(server: Server) -> dict[str, tuple[float, float]]:
    admission, settings = server.admission, server.settings
    return {
        "server.max_connections": (admission.count, admission.limits.connections),
        "server.connections_per_address": (admission.most_of_an_address, admission.limits.connections_of_address),
        "server.half_open_max": (admission.half_open_count, admission.limits.half_open),
        "server.requests_total_bytes": (server.in_flight.bytes, settings.requests_total_bytes),
        "server.input_total_bytes": (server.begun_bytes, settings.input_total_bytes),
        "server.output_total_bytes": (server.unread_bytes, settings.output_total_bytes),
    }


def _used_of_groups(node: Node) -> dict[str, tuple[float, float]]:
    usage, limits = node.usage, node.node_wide.limits
    return {
        "group.principal_max_groups": (usage.most_groups, limits.principal_max_groups),
        "group.principal_max_bytes": (usage.most_bytes, limits.principal_max_bytes),
        "group.node_max_bytes": (usage.bytes, limits.node_max_bytes),
        "group.unknown_topics_max": (node.catalog.unknown_topics, limits.unknown_topics_max),
    }
