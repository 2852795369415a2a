"""The address under which a peer is counted, whoever it says it is."""

import ipaddress


def address_of(host: str) -> str:
    """Return what a host is counted under: itself, or the network of 64 bits of an address of IPv6."""
    if ":" not in host:
        return host
    try:
        address = ipaddress.IPv6Address(host.partition("%")[0])
    except ValueError:
        return host
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(ipaddress.IPv6Network((int(address) >> 64 << 64, 64)))
