"""A proxy on loopback that passes bytes on as they come, and cuts, holds or refuses connections where a test wants it.

It knows no protocol; who does may cut what a server says into pieces, and have connections end behind one. What is held
in one direction is passed on when that direction is let go, or is lost with the connection when it is cut.
"""

import socket
import struct
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from types import TracebackType
from typing import Final, Self, TypeAlias

CHUNK_BYTES: Final = 65_536
WITH_RESET: Final = struct.pack("ii", 1, 0)
"""For SO_LINGER: closing sends a reset."""

Cutter: TypeAlias = Callable[[bytes], Iterable[tuple[bytes, bool]]]
"""Cuts what comes from a server on one connection into pieces, each with whether all connections end behind it."""


class LoopbackProxy:
    """A context manager in front of one port of loopback; None resets connections as soon as they are made.

    `cutter` makes what cuts the words of one connection's server, on a thread of the proxy's; else all is passed on.
    `cuts` counts how often all connections were reset.
    """

    def __init__(
        self, target_port: int | None = None, cutter: Callable[[], Cutter] = lambda: lambda data: [(data, False)]
    ) -> None:
        self.cuts = 0
        self._target_port = target_port
        self._cutter = cutter
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._changed = threading.Condition()
        self._sockets: set[socket.socket] = set()
        self._threads: list[threading.Thread] = []
        self._is_held = {"to_server": False, "to_client": False}
        self._holding = 0
        self._is_refusing = False
        self._is_closed = False

    @property
    def address(self) -> str:
        """Return HOST:PORT."""
        host, port = self._listener.getsockname()
        return f"{host}:{port}"

    def __enter__(self) -> Self:
        self._spawn(self._accept)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.cut()
        for thread in self._threads:
            thread.join(30)

    def cut(self) -> None:
        """Reset all connections, and lose what was held of them."""
        with self._changed:
            sockets, self._sockets = self._sockets, set()
            self._changed.notify_all()
        for each in sockets:
            _reset(each)
        self.cuts += 1

    def lead_to(self, port: int | None) -> None:
        """Lead connections that are made from now on to a port of loopback, or to none."""
        self._target_port = port

    def refuse(self, *, is_refusing: bool) -> None:
        """Reset each new connection from now on, or accept again."""
        self._is_refusing = is_refusing

    def hold(self, *, to_server: bool = True, to_client: bool = True) -> None:
        """Keep what is said in these directions, and nothing in the others; `hold` of neither lets go."""
        with self._changed:
            self._is_held = {"to_server": to_server, "to_client": to_client}
            self._changed.notify_all()

    def let_go(self) -> None:
        """Pass on what was held, and all that comes."""
        self.hold(to_server=False, to_client=False)

    def has_held(self) -> bool:
        """Say whether something is held now."""
        return self._holding > 0

    def _spawn(self, work: Callable[..., None], *arguments: object) -> None:
        thread = threading.Thread(target=work, args=arguments, daemon=True, name="loopback proxy")
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:  # closed by __exit__
                return
            port = self._target_port
            try:
                if self._is_refusing or port is None:
                    raise ConnectionRefusedError
                server = socket.create_connection(("127.0.0.1", port), timeout=30)
            except OSError:
                _reset(client)
                continue
            server.settimeout(None)
            with self._changed:
                self._sockets |= {client, server}
            self._spawn(self._pass_on, client, server, "to_server")
            self._spawn(self._pass_on, server, client, "to_client")

    def _pass_on(self, source: socket.socket, sink: socket.socket, direction: str) -> None:
        cut: Cutter = self._cutter() if direction == "to_client" else lambda data: [(data, False)]
        with suppress(OSError):
            while data := source.recv(CHUNK_BYTES):
                with self._changed:
                    self._holding += 1
                    self._changed.wait_for(
                        lambda: not self._is_held[direction] or self._is_closed or sink not in self._sockets
                    )
                    self._holding -= 1
                    if sink not in self._sockets:
                        return
                for piece, is_last in cut(data):
                    sink.sendall(piece)
                    if is_last:
                        self.cut()
                        return
        with self._changed:
            self._sockets -= {source, sink}
        for each in (source, sink):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()


def _reset(connection: socket.socket) -> None:
    with suppress(OSError):
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, WITH_RESET)
        connection.shutdown(socket.SHUT_RD)  # wakes the thread that waits for it
    connection.close()
