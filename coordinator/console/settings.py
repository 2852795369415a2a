"""The settings of one console: whom it asks, where it listens, and whether it may change anything.

It has no authentication, so it listens on loopback alone: whoever can reach it sees all, and with changes allowed may
do what an operator may.
"""

import ipaddress
from dataclasses import dataclass

from coordinator.client.security import Coordinators
from coordinator.protocol.text.addresses import Address, format_address


@dataclass(frozen=True, slots=True)
class ConsoleSettings:
    """The settings of a console; `who` is the name under which it changes something."""

    coordinators: Coordinators
    listen: Address
    allow_changes: bool = False
    refresh_s: float = 2.0
    timeout_s: float = 10.0
    who: str = "console"


def why_not_listen(listen: Address) -> str | None:
    """Say why a console may not listen at an address, or return None."""
    host = listen[0]
    try:
        is_loopback = ipaddress.ip_address(host).is_loopback
    except ValueError:
        is_loopback = host == "localhost"
    if is_loopback:
        return None
    return (
        f"{format_address(listen)} can be reached from other machines, and the console has no authentication yet: "
        "listen at 127.0.0.1, and reach it from elsewhere by a tunnel, as `ssh -L 7480:127.0.0.1:7480 HOST` makes one"
    )
