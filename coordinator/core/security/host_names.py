"""The judgement whether a certificate is for a host, by the names in it.

The rules are those of RFC 6125 as TLS libraries follow them, for the end that was connected to: a library checks names
only for the end that connects. A subject's common name is not looked at.
"""

import ipaddress
from typing import Final, TypeAlias

DNS: Final = "DNS"
IP_ADDRESS: Final = "IP Address"

CertificateName: TypeAlias = tuple[str, str]
"""The kind of a name, as Python's ssl calls it, and the name."""


def is_for_host(names: tuple[CertificateName, ...], host: str) -> bool:
    """Say whether one of these names is that of the host; a star stands for the first label of one with three or more.

    An IP address is only ever named as one.
    """
    address = _address_of(host)
    if address is not None:
        return any(kind == IP_ADDRESS and _address_of(name.strip()) == address for kind, name in names)
    wanted = _labels(host)
    return any(kind == DNS and _is_named(_labels(name), wanted) for kind, name in names)


def say_names(names: tuple[CertificateName, ...]) -> str:
    """Return the names of hosts for people."""
    said = [name for kind, name in names if kind in (DNS, IP_ADDRESS)]
    return ", ".join(said) if said else "no host"


def _is_named(name: list[str], host: list[str]) -> bool:
    if not all(host) or len(name) != len(host):
        return False
    if name[0] == "*" and len(name) > 2:
        return name[1:] == host[1:]
    return name == host


def _labels(name: str) -> list[str]:
    return name.lower().removesuffix(".").split(".")


def _address_of(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(text)
    except ValueError:
        return None
