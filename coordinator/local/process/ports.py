"""Picks loopback ports for servers that are told their port before they bind it.

The ports lie below the range that the kernel gives to outgoing connections. A port from that range could be
taken by a client while its server restarts, or even be connected to itself by a client that keeps trying.
"""

import random
import socket
from pathlib import Path

from coordinator.local.errors import LocalServiceError

LOOPBACK = "127.0.0.1"
_LOWEST_PORT = 15_000
_USUAL_OUTGOING_START = 32_768
_TRIES = 1_000


def is_port_free(port: int) -> bool:
    """Say whether a server could listen on this loopback port now."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError:
            return False
        return True


def free_ports(count: int) -> tuple[int, ...]:
    """Return `count` different ports that nobody listens on now; each may be taken before it is used."""
    outgoing = Path("/proc/sys/net/ipv4/ip_local_port_range")
    above = int(outgoing.read_text().split()[0]) if outgoing.exists() else _USUAL_OUTGOING_START
    if above <= _LOWEST_PORT:
        above = _USUAL_OUTGOING_START
    ports: set[int] = set()
    for _ in range(_TRIES):
        if len(ports) == count:
            return tuple(sorted(ports))
        port = random.randrange(_LOWEST_PORT, above)  # noqa: S311 - not a secret, only spread out
        if is_port_free(port):
            ports.add(port)
    raise LocalServiceError(f"No {count} free ports between {_LOWEST_PORT} and {above}: stop what is listening there.")
