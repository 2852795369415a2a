"""The beginning of accepting on an address that was bound before, where nobody could connect until then.

Two processes may bind the same address while neither accepts on it. The first that does has it; the other one has to be
told, which uvloop does not do: it closes the socket, says nothing and serves nobody.

A crowd is to be taken in as it comes: whoever is not accepted hears no hello, and takes the node for dead after 3 s.
asyncio accepts as many in one turn of its loop as the backlog is long. uvloop accepts one, and serves everybody else
between two of them: with turns of a millisecond that is less than a thousand a second. So there the same socket is
listened on several times, and each accepts one a turn.
"""

import asyncio
import contextlib
import errno
import os
import socket
from collections.abc import Callable
from typing import Final

ACCEPTED_AT_ONCE: Final = 32
"""Connections that asyncio accepts before others are served again."""
ACCEPTING: Final = 16
"""Listeners of one socket on a loop that has each accept one connection a turn.

All of them look whenever somebody comes, which takes 80 microseconds of a connection that comes alone.
"""


async def begin_accepting(server: asyncio.Server) -> None:
    """Accept connections from now on; raises OSError when another process has taken the address meanwhile.

    Accepted connections have the options of the socket that they were accepted on.
    """
    for listening in server.sockets:
        with contextlib.closing(listening.dup()) as sock:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    await server.start_serving()
    if any(listening.fileno() < 0 for listening in server.sockets):
        raise OSError(errno.EADDRINUSE, os.strerror(errno.EADDRINUSE))


async def accept_beside(
    server: asyncio.Server, protocol: Callable[[], asyncio.Protocol], backlog: int
) -> list[asyncio.Server]:
    """Have a server that accepts take in a crowd, of which `backlog` may wait; return what to close with it."""
    loop = asyncio.get_running_loop()
    for listening in server.sockets:
        with contextlib.closing(listening.dup()) as sock:
            sock.listen(backlog)  # the kernel's may be longer than what asyncio accepts at once
    if isinstance(loop, asyncio.BaseEventLoop):
        return []
    beside: list[asyncio.Server] = []
    for listening in server.sockets * (ACCEPTING - 1):
        try:
            sock = listening.dup()
        except OSError:
            break  # files are scarce: fewer take in a crowd more slowly
        beside.append(await loop.create_server(protocol, sock=sock, backlog=backlog))
    return beside
