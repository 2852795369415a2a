"""The base line: a process that only echoes, as `python -m tests.standing.echo`.

It is asked beside the node by the same client. What an answer takes it, the machine took and not the node.
"""

import asyncio
import sys


class Echo(asyncio.Protocol):
    """Sends back what comes."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep where to answer."""
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        """Answer."""
        self.transport.write(data)


async def main() -> None:
    """Serve on a free port of loopback, which is printed, for ever."""
    server = await asyncio.get_running_loop().create_server(Echo, "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()
    print(f"{host}:{port}", flush=True)
    await asyncio.get_running_loop().create_future()


if __name__ == "__main__":
    try:
        asyncio.run(main())
    except KeyboardInterrupt:
        sys.exit(0)
