"""The beginning of accepting on an address that was bound before, where nobody could connect until then.

Two processes may bind the same address while neither accepts on it. The first that does has it; the other one has to be
told, which uvloop does not do: it closes the socket, says nothing and serves nobody.
"""

import asyncio
import errno
import os


async def begin_accepting(server: asyncio.Server) -> None:
    """Accept connections from now on; raises OSError when another process has taken the address meanwhile."""
    await server.start_serving()
    if any(listening.fileno() < 0 for listening in server.sockets):
        raise OSError(errno.EADDRINUSE, os.strerror(errno.EADDRINUSE))
