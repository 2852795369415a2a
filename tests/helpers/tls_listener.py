"""A listener that shakes hands in TLS with whoever connects, and says nothing more."""

import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from tests.helpers.certificates import Pair


@dataclass
class TlsListener:
    """Its address, and how many have shaken hands with it."""

    address: str
    handshakes: int = 0


@contextmanager
def tls_listener(pair: Pair) -> Iterator[TlsListener]:
    """Yield one that shows this certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pair.certificate, pair.key)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listener = TlsListener(f"127.0.0.1:{listening.getsockname()[1]}")
        held: list[socket.socket] = []

        def accept() -> None:
            with suppress(OSError):
                while True:
                    connection = listening.accept()[0]
                    secured = context.wrap_socket(connection, server_side=True, do_handshake_on_connect=False)
                    held.append(secured)
                    # One whose client goes in the middle of it is no reason to end.
                    with suppress(OSError):
                        secured.do_handshake()
                        listener.handshakes += 1

        thread = threading.Thread(target=accept, daemon=True)
        thread.start()
        try:
            yield listener
        finally:
            listening.shutdown(socket.SHUT_RDWR)
            for each in held:
                with suppress(OSError):
                    socket.socket.shutdown(each, socket.SHUT_RDWR)
            thread.join()
            for each in held:
                each.close()
