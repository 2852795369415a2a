"""Addresses as people type them: `HOST:PORT`, the same for a node, its tools, members and jobs.

An IPv6 host stands in brackets, because `::1:9000` may end with a port or not. Nothing here asks a name server.
"""

from typing import Final, TypeAlias

Address: TypeAlias = tuple[str, int]
"""Host and port; an IPv6 host is without its brackets."""

MAX_PORT: Final = 65_535


def parse_address(text: str, *, lowest_port: int = 1) -> Address:
    """Read `HOST:PORT`, with an IPv6 host in brackets; raises ValueError with the reason.

    A server takes port 0 for any that is free, and gives 0 as `lowest_port`.
    """
    host, colon, port = text.rpartition(":")
    if not text.isprintable() or any(letter in "/, " for letter in text):
        raise ValueError(f"{text!r} is not HOST:PORT")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        raise ValueError(f"{text!r} is ambiguous: write an IPv6 address in brackets, as [::1]:9000")
    if not colon or not host or "[" in host or "]" in host:
        raise ValueError(f"{text!r} is not HOST:PORT")
    if not (port.isascii() and port.isdigit() and lowest_port <= int(port[:6]) <= MAX_PORT):
        raise ValueError(f"{text!r} is not HOST:PORT: a port is a number from {lowest_port} to {MAX_PORT}")
    return host, int(port)


def parse_addresses(text: str) -> tuple[Address, ...]:
    """Read `HOST:PORT[,HOST:PORT...]`, each address once; raises ValueError with the reason."""
    parts = [part.strip() for part in text.split(",") if part.strip()] or [text]
    return tuple(dict.fromkeys(parse_address(part) for part in parts))


def format_address(address: Address) -> str:
    """Write an address as `HOST:PORT`, with brackets around an IPv6 host."""
    host, port = address
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
