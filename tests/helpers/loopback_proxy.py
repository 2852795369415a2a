"""A proxy on loopback in front of a coordinator, which resets connections where a test wants it.

It cuts what the coordinator says into frames and shows each to the test; what members say it passes on as it comes.
A node behind it has to advertise the proxy's address, or members go to the node itself.
"""

import socket
import struct
import threading
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import Final, Self

from coordinator.protocol.codec import decode_answer
from coordinator.protocol.framing import FrameReader, decode_envelope
from coordinator.protocol.messages import Push, Response

CHUNK_BYTES: Final = 65_536
FRAME_LIMIT_BYTES: Final = 64 * 1024 * 1024
WITH_RESET: Final = struct.pack("ii", 1, 0)
"""For SO_LINGER: closing sends a reset."""


class LoopbackProxy:
    """A context manager; `cuts_after` says of each answer and push whether all connections are reset behind it.

    `cuts_before` says whether they are reset in its place, so that it is lost. Both are called on the proxy's threads.
    Without a target connections are reset as soon as they are made.
    """

    def __init__(
        self,
        cuts_after: Callable[[Response | Push], bool] = lambda _: False,
        *,
        cuts_before: Callable[[Response | Push], bool] = lambda _: False,
    ) -> None:
        self.resets = 0
        self._cuts_after = cuts_after
        self._cuts_before = cuts_before
        self._target: tuple[str, int] | None = None
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._lock = threading.Lock()
        self._sockets: set[socket.socket] = set()
        self._threads: list[threading.Thread] = []

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
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.close_to_all()
        for thread in self._threads:
            thread.join(5)

    def lead_to(self, port: int) -> None:
        """Lead connections that are made from now on to a port of loopback."""
        self._target = ("127.0.0.1", port)

    def close_to_all(self) -> None:
        """Reset all connections, and each new one."""
        self._target = None
        self.reset()

    def reset(self) -> None:
        """Reset all connections."""
        with self._lock:
            sockets, self._sockets = self._sockets, set()
        for each in sockets:
            _reset(each)
        self.resets += 1

    def _spawn(self, work: Callable[..., None], *arguments: object) -> None:
        thread = threading.Thread(target=work, args=arguments, daemon=True, name="loopback proxy")
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while True:
            try:
                member, _ = self._listener.accept()
            except OSError:  # closed by __exit__
                return
            target = self._target
            try:
                if target is None:
                    raise ConnectionRefusedError
                node = socket.create_connection(target, timeout=5)
            except OSError:
                _reset(member)
                continue
            node.settimeout(None)
            with self._lock:
                self._sockets |= {member, node}
            self._spawn(self._pass_on, member, node)
            self._spawn(self._pass_frames, node, member)

    def _pass_on(self, member: socket.socket, node: socket.socket) -> None:
        with suppress(OSError):
            while data := member.recv(CHUNK_BYTES):
                node.sendall(data)
        self._end(member, node)

    def _pass_frames(self, node: socket.socket, member: socket.socket) -> None:
        frames = FrameReader(FRAME_LIMIT_BYTES)
        has_greeted = False
        with suppress(OSError):
            while data := node.recv(CHUNK_BYTES):
                frames.append(data)
                while (body := frames.next_frame()) is not None:
                    answer = decode_answer(decode_envelope(memoryview(body))[1]) if has_greeted else None
                    is_lost = answer is not None and self._cuts_before(answer)
                    if not is_lost:
                        member.sendall(struct.pack(">I", len(body)) + body)
                    if is_lost or (answer is not None and self._cuts_after(answer)):
                        self.reset()
                        return
                    has_greeted = True
        self._end(member, node)

    def _end(self, *sockets: socket.socket) -> None:
        with self._lock:
            self._sockets.difference_update(sockets)
        for each in sockets:
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()


def _reset(connection: socket.socket) -> None:
    with suppress(OSError):
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, WITH_RESET)
        # Wakes the thread that waits for it; a plain close would leave it waiting.
        connection.shutdown(socket.SHUT_RD)
    connection.close()
