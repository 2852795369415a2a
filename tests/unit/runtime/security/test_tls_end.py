"""An end of TLS in memory: what it keeps of a connection, and of what was said on it."""

import asyncio
import gc
import ssl
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from coordinator.runtime.security.tls_end import Shown, TlsEnd
from tests.helpers.certificates import Authority

LARGE = bytes(range(256)) * 16 * 1024
"""4 MiB: many times what a loop reads at once."""
MOST_HELD = 64 * 1024


class Wire(asyncio.Transport):
    """A transport that keeps what is written to it, until the other end takes it."""

    def __init__(self) -> None:
        super().__init__()
        self.written: list[bytes] = []
        self.is_closed = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.written.append(bytes(data))

    def close(self) -> None:
        self.is_closed = True

    def is_closing(self) -> bool:
        return self.is_closed


class Served(asyncio.Protocol):
    """A protocol behind an end, which has its transport as every one has."""

    def __init__(self) -> None:
        self.transport: asyncio.Transport | None = None
        self.heard: list[bytes] = []
        self.told: list[str] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)

    def tls_done(self, _shown: Shown) -> None:
        self.told.append("done")

    def tls_failed(self, _why: str) -> None:
        self.told.append("failed")

    def data_received(self, data: bytes) -> None:
        self.heard.append(data)

    def eof_received(self) -> None:
        self.told.append("eof")

    def connection_lost(self, _error: Exception | None) -> None:
        self.told.append("lost")


class Watched:
    """A context of TLS that notes how much its buffers have ever held, and the TLS that is made of it."""

    def __init__(self, context: ssl.SSLContext) -> None:
        self._context = context
        self._tls: Any = None
        self.most_held = 0

    def wrap_bio(self, incoming: ssl.MemoryBIO, outgoing: ssl.MemoryBIO, **more: Any) -> "Watched":
        self._incoming, self._outgoing = incoming, outgoing
        self._tls = self._context.wrap_bio(incoming, outgoing, **more)
        return self

    def write(self, data: memoryview) -> int:
        return int(self._looked_at(lambda: self._tls.write(data)))

    def read(self, count: int) -> bytes:
        return bytes(self._looked_at(lambda: self._tls.read(count)))

    def _looked_at(self, act: Callable[[], Any]) -> Any:
        self.most_held = max(self.most_held, self._incoming.pending)
        done = act()
        self.most_held = max(self.most_held, self._outgoing.pending)
        return done

    def __getattr__(self, name: str) -> Any:
        return getattr(self._tls, name)


class Pair:
    """Two ends that are connected: the one that was called, and its caller."""

    def __init__(self, called: Any, calling: Any) -> None:
        self.served = [Served(), Served()]
        self.wires = [Wire(), Wire()]
        self.ends = [TlsEnd(called, self.served[0]), TlsEnd(calling, self.served[1], host="localhost")]
        for end, wire in zip(self.ends, self.wires, strict=True):
            end.connection_made(wire)

    def carry(self) -> None:
        """Bring across what was written, until nobody says anything more."""
        while any(wire.written for wire in self.wires):
            for wire, end in zip(self.wires, reversed(self.ends), strict=True):
                written, wire.written[:] = b"".join(wire.written), []
                if written:
                    end.data_received(written)

    def say(self, by: int, data: bytes) -> None:
        transport = self.served[by].transport
        assert transport is not None
        transport.write(data)


@pytest.fixture
def contexts(tmp_path: Path) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    return Authority(tmp_path).contexts()


@pytest.fixture
def without_collector() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def is_closed(pair: Pair) -> None:
    pair.carry()
    pair.say(0, b"hello")
    pair.carry()
    for end in pair.ends:
        end.close()
    pair.carry()


def is_lost_in_a_handshake(pair: Pair) -> None:
    del pair


def is_no_tls(pair: Pair) -> None:
    pair.ends[0].data_received(b"GET / HTTP/1.1\r\n\r\n")


@pytest.mark.usefixtures("without_collector")
@pytest.mark.parametrize("ending", [is_closed, is_lost_in_a_handshake, is_no_tls])
def test_a_connection_that_is_gone_is_freed_without_the_collector(
    contexts: tuple[ssl.SSLContext, ssl.SSLContext], ending: Callable[[Pair], None]
) -> None:
    pair = Pair(*contexts)
    ending(pair)
    for end in pair.ends:
        end.connection_lost(None)
    assert [served.told[-1] for served in pair.served] == ["lost", "lost"]
    kept = [weakref.ref(one) for one in (*pair.served, *pair.ends)]
    del pair, end
    assert [ref() for ref in kept] == [None] * 4


def test_an_end_whose_connection_is_gone_tells_its_protocol_nothing_more(
    contexts: tuple[ssl.SSLContext, ssl.SSLContext],
) -> None:
    pair = Pair(*contexts)
    pair.carry()
    end, served, wire = pair.ends[0], pair.served[0], pair.wires[0]
    pair.say(1, b"too late")
    end.connection_lost(None)
    pair.say(0, b"to nobody")
    pair.carry()
    end.pause_writing()
    end.resume_writing()
    end.eof_received()
    end.close()
    assert (served.told, served.heard, wire.written) == (["done", "lost"], [], [])


def test_the_buffers_of_tls_never_hold_much_of_what_is_said(contexts: tuple[ssl.SSLContext, ssl.SSLContext]) -> None:
    watched = [Watched(context) for context in contexts]
    pair = Pair(*watched)
    pair.say(1, LARGE)  # waits for the handshake
    pair.carry()
    pair.say(0, LARGE)
    assert len(pair.wires[0].written) == 1, "one write, so that a peer which does not read is told of once"
    pair.carry()
    assert [served.heard for served in pair.served] == [[LARGE], [LARGE]]
    for each in watched:
        assert 0 < each.most_held <= MOST_HELD


def test_what_comes_behind_a_close_in_one_read_is_not_heard(contexts: tuple[ssl.SSLContext, ssl.SSLContext]) -> None:
    pair = Pair(*contexts)
    pair.carry()
    pair.say(1, LARGE)
    pair.ends[1].close()
    pair.wires[1].written.append(b"x" * 200_000)
    pair.carry()
    assert (pair.served[0].heard, pair.served[0].told) == ([LARGE], ["done", "eof"])
    assert pair.wires[0].is_closed
