"""Connecting to another node: its addresses one after another, and whether nobody listens at any of them.

A refused connection says that the process is gone, which silence and a name that is not found do not say; so they are
told apart.
"""

import asyncio
import socket
from collections.abc import Callable, Sequence

from coordinator.protocol.text.addresses import Address, format_address


class NotReachedError(Exception):
    """None of the addresses could be connected to; with `is_refused` nobody listens at any of them."""

    def __init__(self, why: str, *, is_refused: bool) -> None:
        super().__init__(why)
        self.is_refused = is_refused


async def dial(addresses: Sequence[Address], protocol: Callable[[str], asyncio.Protocol], timeout_ms: int) -> None:
    """Connect a protocol to the first address that accepts, each within the time-out; raises NotReachedError.

    The protocol is made for the host that the address names. One whose connection is given up with the dialing is told
    that it is lost, perhaps twice.
    """
    whys: list[str] = []
    refusals: list[bool] = []
    for address in addresses:
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                for host, port in await _resolved(address):
                    try:
                        await _connect(protocol(address[0]), (host, port))
                    except OSError as error:
                        refusals.append(isinstance(error, ConnectionRefusedError))
                        whys.append(f"{format_address((host, port))}: {error.strerror or error}")
                    else:
                        return
        except TimeoutError:
            refusals.append(False)
            whys.append(f"{format_address(address)}: no answer within {timeout_ms} ms")
        except (OSError, UnicodeError) as error:
            refusals.append(False)
            whys.append(f"{format_address(address)}: {getattr(error, 'strerror', None) or error}")
    raise NotReachedError("; ".join(whys) or "it names no address", is_refused=bool(refusals) and all(refusals))


async def _connect(protocol: asyncio.Protocol, address: Address) -> None:
    """Connect a protocol, and tell it if its connection is given up with this.

    uvloop, cancelled just after it has told a protocol of its connection, closes that without another word. The
    connection would count as one that lives, until a write to it fails or its silence is noticed.
    """
    try:
        await asyncio.get_running_loop().create_connection(lambda: protocol, *address)
    except BaseException:
        protocol.connection_lost(None)
        raise


async def _resolved(address: Address) -> list[Address]:
    found = await asyncio.get_running_loop().getaddrinfo(*address, type=socket.SOCK_STREAM)
    return list(dict.fromkeys((str(each[4][0]), int(each[4][1])) for each in found))
