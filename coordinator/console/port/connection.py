"""One connection of a browser or a program, and the bounds of all of them.

HTTP itself is uvicorn's. It waits for as long as it takes, so that what a stranger may hold up is bounded here: a
connection counts from when it is accepted, TLS and a whole request have a deadline, of connections that have asked for
nothing the oldest gives way, and an answer that is not read ends. Who has logged in has places of their own.
"""

import asyncio
import ssl
import time
from collections.abc import Callable
from typing import Final, cast

from structlog.typing import FilteringBoundLogger
from uvicorn.protocols.http.h11_impl import H11Protocol

from coordinator.core.security.admission import Admission, AdmissionLimits, Admitted
from coordinator.core.token_buckets import Rate
from coordinator.runtime.security.tls_end import Shown, TlsEnd

MOST_CONNECTIONS: Final = 256
OF_ADDRESS: Final = 96
_HALF_OPEN: Final = 96
_KEPT: Final = 64
"""The places for addresses from which somebody has logged in."""
_FAILURES: Final = Rate(100, 1)
WHOLE_REQUEST_S: Final = 10.0
"""The time for TLS and the first request, from the connection; for a later request from its first byte."""
READ_S: Final = 30.0
"""The time for which an answer may wait for who has asked for it."""
LARGEST_HEAD: Final = 16 * 1024
_ANSWER: Final = b"This port speaks TLS: ask for https:// instead of http://\n"
SAID_TO_PLAIN: Final = (
    b"HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n"
    b"Content-Length: %d\r\n\r\n%b" % (len(_ANSWER), _ANSWER)
)


class Connections:
    """The connections of a console; with a `context` they speak TLS by what it returns then."""

    def __init__(
        self,
        log: FilteringBoundLogger,
        context: Callable[[], ssl.SSLContext] | None = None,
        *,
        are_people_known: bool = False,
    ) -> None:
        self._log = log
        self._context = context
        kept = _KEPT if are_people_known else 0
        self._admission: Admission[Served] = Admission(
            AdmissionLimits(MOST_CONNECTIONS, OF_ADDRESS, _HALF_OPEN, kept, _FAILURES)
        )
        self._open: set[Served] = set()

    @property
    def is_tls(self) -> bool:
        """Say whether TLS is spoken."""
        return self._context is not None

    @property
    def count(self) -> int:
        """The connections that are open."""
        return len(self._open)

    def protocol(self, http: H11Protocol) -> asyncio.BaseProtocol:
        """Return the protocol of a connection behind which uvicorn speaks HTTP."""
        served = Served(self, http)
        if self._context is None:
            return served
        return TlsEnd(self._context(), served, advice="it has to ask for https://", to_plain=SAID_TO_PLAIN)

    def came_in(self, host: str) -> None:
        """Take note that somebody who is known has come from an address."""
        self._admission.member_came(host, _now_ms())

    def close(self) -> None:
        """End what has asked for nothing; uvicorn ends the others."""
        for served in list(self._open):
            if not served.has_asked:
                served.drop()

    def opened(self, served: "Served", host: str) -> bool:
        """Count a connection; say whether it may go on."""
        outcome = self._admission.admit(served, host, _now_ms())
        if not isinstance(outcome, Admitted):
            self._log.warning("stranger", why=f"a connection is closed: {outcome.why}", address=host)
            return False
        self._open.add(served)
        if outcome.gives_way is not None:
            outcome.gives_way.drop()
        return True

    def asked(self, served: "Served", host: str) -> None:
        """Take note that a connection has asked for something."""
        self._admission.known(served, host)

    def failed(self, why: str, host: str) -> None:
        """Say why a connection ends that has asked for nothing."""
        self._admission.failed(host, _now_ms())
        self._log.warning("stranger", why=why, address=host)

    def gone(self, served: "Served", host: str) -> None:
        """Count a connection no more."""
        if served in self._open:
            self._open.discard(served)
            self._admission.gone(served, host, _now_ms())


class Served(asyncio.Protocol):
    """One connection, in front of uvicorn's protocol, with its deadlines."""

    def __init__(self, connections: Connections, http: H11Protocol) -> None:
        self._connections = connections
        self._http = http
        self._transport: asyncio.Transport
        self._host = ""
        self._has_begun = False
        self._has_spoken = False
        self._deadline: asyncio.TimerHandle | None = None
        self._until_read: asyncio.TimerHandle | None = None
        self.has_asked = False

    # ---- called by the loop, or by TLS ------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Count it, and wait for TLS or for a request."""
        self._transport = cast(asyncio.Transport, transport)
        peer = transport.get_extra_info("peername")
        self._host = str(peer[0]) if peer else ""
        self._transport.set_write_buffer_limits(high=0)  # so that the last bytes of an answer have a deadline too
        if not self._connections.opened(self, self._host):
            self.drop()
            return
        self._wait_for_request()
        if not self._connections.is_tls:
            self._begin()

    def tls_done(self, shown: Shown) -> None:
        """Begin with HTTP; nobody is asked for a certificate."""
        del shown
        self._begin()

    def tls_failed(self, why: str) -> None:
        """Say why nothing comes of it."""
        self._connections.failed(why, self._host)

    def data_received(self, data: bytes) -> None:
        """Hand on what came; a request that is not whole has its deadline."""
        if not self._has_begun:
            return
        self._has_spoken = True
        self._http.data_received(data)
        cycle = self._http.cycle
        if cycle is None or cycle.response_complete or cycle.more_body:
            self._wait_for_request()
            return
        self._stop_waiting()
        if not self.has_asked:
            self.has_asked = True
            self._connections.asked(self, self._host)

    def eof_received(self) -> bool | None:
        """Have the connection closed: who asks for something waits for the answer."""
        return None

    def pause_writing(self) -> None:
        """Wait, but not for ever, until what was written is read."""
        self._until_read = asyncio.get_running_loop().call_later(READ_S, self.drop)
        if self._has_begun:  # else it is TLS that waits
            self._http.pause_writing()

    def resume_writing(self) -> None:
        """Go on."""
        if self._until_read is not None:
            self._until_read.cancel()
            self._until_read = None
        if self._has_begun:
            self._http.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        """Let go of it."""
        self._stop_waiting()
        if self._until_read is not None:
            self._until_read.cancel()
        self._connections.gone(self, self._host)
        if self._has_begun:
            self._http.connection_lost(exc)

    # ---- within -----------------------------------------------------------------------------------------------------

    def drop(self) -> None:
        """End it at once."""
        self._transport.abort()

    def _begin(self) -> None:
        self._has_begun = True
        self._http.connection_made(self._transport)

    def _wait_for_request(self) -> None:
        if self._deadline is None:
            self._deadline = asyncio.get_running_loop().call_later(WHOLE_REQUEST_S, self._overdue)

    def _stop_waiting(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _overdue(self) -> None:
        self._deadline = None
        if not self._has_begun:
            self._connections.failed(f"TLS was not spoken within {WHOLE_REQUEST_S:g} s", self._host)
        elif self._has_spoken:
            self._connections.failed(f"no whole request came within {WHOLE_REQUEST_S:g} s", self._host)
        self.drop()  # browsers open connections that they may not need: that is no failure


def _now_ms() -> int:
    return time.monotonic_ns() // 1_000_000
