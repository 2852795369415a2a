"""Picks loopback ports for servers that are told their port before they bind it.

The ports lie below the range that the kernel gives to outgoing connections. A port from that range could be
taken by a client while its server restarts, or even be connected to itself by a client that keeps trying. A server
that is down keeps its port, and nobody listens there: no port is given twice by one process, and processes that run
side by side, as those of tests do, draw from different parts of the range.
"""

import os
import random
import socket
from pathlib import Path

from coordinator.local.errors import LocalServiceError

LOOPBACK = "127.0.0.1"
_LOWEST_PORT = 15_000
_USUAL_OUTGOING_START = 32_768
_TRIES = 1_000
_LANES = 16
"""The parts of the range; a process draws from the whole range only where its own part has too few."""
_given: set[int] = set()
"""The ports that this process has given."""


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
    width = (above - _LOWEST_PORT) // _LANES or 1
    lowest = _LOWEST_PORT + os.getpid() % _LANES * width
    own, whole = range(lowest, lowest + width), range(_LOWEST_PORT, above)
    ports: set[int] = set()
    for attempt in range(_TRIES):
        if len(ports) == count:
            _given.update(ports)
            return tuple(sorted(ports))
        port = random.choice(own if 2 * attempt < _TRIES else whole)  # noqa: S311 - not a secret, only spread out
        if port not in _given and is_port_free(port):
            ports.add(port)
    raise LocalServiceError(f"No {count} free ports between {_LOWEST_PORT} and {above}: stop what is listening there.")
