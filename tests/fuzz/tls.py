"""The target of the first bytes of a connection that speaks TLS, at both ends of it."""

import asyncio
import ssl
import tempfile
from functools import cache
from pathlib import Path

from coordinator.runtime.security.tls_end import Shown, TlsEnd
from tests.fuzz.target import Taken, Target
from tests.helpers.certificates import Authority


class Wire(asyncio.Transport):
    """A transport that keeps what is written to it."""

    def __init__(self) -> None:
        super().__init__()
        self.written = bytearray()
        self.is_closed = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.written += data

    def close(self) -> None:
        self.is_closed = True

    abort = close

    def is_closing(self) -> bool:
        return self.is_closed

    def get_write_buffer_size(self) -> int:
        return 0


class Served(asyncio.Protocol):
    """The protocol behind an end; it says hello as soon as there is a connection."""

    def __init__(self) -> None:
        self.why = ""
        self.heard = bytearray()
        self.is_done = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        transport.write(b"hello")

    def tls_done(self, _shown: Shown) -> None:
        self.is_done = True

    def tls_failed(self, why: str) -> None:
        assert why
        self.why = why

    def data_received(self, data: bytes) -> None:
        assert self.is_done
        self.heard += data


@cache
def contexts() -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """Return the contexts of a node and of its caller."""
    with tempfile.TemporaryDirectory() as folder:
        authority = Authority(Path(folder))
        pair = authority.pair()
        serving = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        serving.load_cert_chain(pair.certificate, pair.key)
        calling = ssl.create_default_context(cafile=str(authority.trusted))
    return serving, calling


def tls(data: bytes) -> None:
    """Two ends of which one hears the other with bytes changed, or anything in its place: it goes on or says why."""
    taken = Taken(data)
    serving, calling = contexts()
    ends, wires, served = [], [Wire(), Wire()], [Served(), Served()]
    for context, host, protocol, wire in zip((serving, calling), (None, "localhost"), served, wires, strict=True):
        end = TlsEnd(context, protocol, host=host)
        end.connection_made(wire)
        ends.append(end)
    while not taken.is_empty:
        to = taken.number() % 2
        sent = bytes(wires[1 - to].written)
        wires[1 - to].written.clear()
        match taken.number() % 4:
            case 0 if sent:
                at = taken.number(2) % len(sent)
                sent = sent[:at] + taken.piece(1) + sent[at + 1 :]
            case 1:
                sent = taken.piece(taken.number(2) % 600)
            case _:
                pass
        if sent and not wires[to].is_closed:
            ends[to].data_received(sent)
    for end, wire, protocol in zip(ends, wires, served, strict=True):
        assert not protocol.why or wire.is_closed
        end.close()
        end.connection_lost(None)


TARGETS = (
    Target(
        "tls",
        tls,
        (),
        lambda: [
            bytes((0, 2, 1, 2)) * 4,
            b"\0\1\0\x20GET / HTTP/1.1\r\n\r\n",
            b"\0\1\0\x40\x16\x03\x01\x02\0\1\0\1\xfc\3\3",
        ],
    ),
)
