"""One end of a connection that speaks TLS: bytes of the network on one side, a protocol that knows no TLS on the other.

The protocol is told of the connection at once, so that its deadlines and bounds count the handshake too; what it
writes before the handshake is done waits for it. A peer that does not speak TLS is told so in TLS's own words, an
alert, which the framing of our own clients knows; asyncio would close such a connection without a line. A handshake
that fails is told to the protocol, with the reason. TLS itself is OpenSSL's.
"""

import asyncio
import contextlib
import ssl
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, Protocol, cast

from coordinator.client.tls_reasons import why_tls_failed
from coordinator.core.security.host_names import CertificateName

_SLICE_BYTES: Final = 32 * 1024
"""So much goes through OpenSSL's buffers at once: each keeps the size of the most that it has ever held."""
_HANDSHAKE_RECORD: Final = 0x16
ADVICE_FOR_MEMBERS: Final = "its kcoord.security.protocol has to be SSL"
ALERT_NO_SUCH_VERSION: Final = b"\x15\x03\x01\x00\x02\x02\x46"
"""The alert of TLS that tells a peer that it does not speak a version of it."""


@dataclass(frozen=True, slots=True)
class Shown:
    """The peer's certificate: its subject, which may be empty, and its other names."""

    subject: str = ""
    names: tuple[CertificateName, ...] = ()
    is_shown: bool = False
    """The peer has shown a certificate."""


class Served(Protocol):
    """A protocol of asyncio that is told how TLS went."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take note of a connection, on which TLS has not begun."""

    def tls_done(self, shown: "Shown") -> None:
        """Take note that TLS is spoken, and of what the peer's certificate says."""

    def tls_failed(self, why: str) -> None:
        """Take note that the connection ends for a reason of TLS."""

    def data_received(self, data: bytes) -> None:
        """Take what the peer said."""

    def eof_received(self) -> bool | None:
        """Take note that the peer says nothing more, and that the connection is being closed."""

    def pause_writing(self) -> None:
        """Take note that the peer does not keep up."""

    def resume_writing(self) -> None:
        """Take note that it has."""

    def connection_lost(self, exc: Exception | None) -> None:
        """Take note that the connection is gone."""


class TlsEnd(asyncio.Protocol):
    """The end that was connected to, or with a `host` the end that has connected to it; `served` is behind it.

    A peer that speaks no TLS is told so in the words `to_plain`; `advice` says which setting it has to look at.
    """

    def __init__(
        self,
        context: ssl.SSLContext,
        served: Served,
        *,
        host: str | None = None,
        advice: str = ADVICE_FOR_MEMBERS,
        to_plain: bytes = ALERT_NO_SUCH_VERSION,
    ) -> None:
        self.context = context
        self._to_plain = to_plain
        self._served = served
        self._advice = advice
        self._is_caller = host is not None
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(
            self._incoming, self._outgoing, server_side=not self._is_caller, server_hostname=host
        )
        self._transport: asyncio.Transport | None = None
        self._waiting: list[bytes] = []
        self._has_heard = False
        self._is_done = False
        self._is_over = False

    # ---- asyncio ----------------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Tell the protocol of it, and begin the handshake where that is this end's to do."""
        self._transport = cast(asyncio.Transport, transport)
        self._served.connection_made(_TlsTransport(self, self._open_transport))
        if self._is_caller and not self._is_over:
            self._shake_hands()

    def data_received(self, data: bytes) -> None:
        """Decrypt what came and hand it on, as one piece."""
        if self._is_over:
            return
        if not self._has_heard:
            self._has_heard = True
            if not self._is_caller and data[0] != _HANDSHAKE_RECORD:
                self._open_transport.write(self._to_plain)
                self._fail("it does not speak TLS, and only TLS is spoken here; " + self._advice)
                return
        try:
            pieces = self._decrypted(data)
        except ssl.SSLError as error:
            self._flush()
            self._fail(why_tls_failed(error))
            return
        if pieces:
            self._served.data_received(pieces[0] if len(pieces) == 1 else b"".join(pieces))
        self._flush()

    def pause_writing(self) -> None:
        """Tell the protocol."""
        self._served.pause_writing()

    def resume_writing(self) -> None:
        """Tell the protocol."""
        self._served.resume_writing()

    def eof_received(self) -> None:
        """Tell the protocol; the connection is closed."""
        self._served.eof_received()

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell the protocol, and let go of it: it has its transport, and that has this end."""
        self._is_over = True
        self._waiting.clear()
        served, self._served = self._served, _NOBODY
        served.connection_lost(exc)

    # ---- the protocol's side ----------------------------------------------------------------------------------------

    @property
    def waiting_bytes(self) -> int:
        """Return how many bytes wait for the handshake."""
        return sum(map(len, self._waiting))

    def write(self, data: bytes) -> None:
        """Encrypt and write; before the handshake is done it waits."""
        if self._is_over:
            return
        if not self._is_done:
            self._waiting.append(data)
            return
        self._encrypt(data)

    def close(self) -> None:
        """Say in TLS that nothing more comes, and close once that has left."""
        if self._is_done and not self._is_over:
            with contextlib.suppress(ssl.SSLError):  # the peer's own last word is not waited for
                self._tls.unwrap()
            self._flush()
        self._is_over = True
        self._open_transport.close()

    # ---- within -----------------------------------------------------------------------------------------------------

    @property
    def _open_transport(self) -> asyncio.Transport:
        assert self._transport is not None, "the connection was made"
        return self._transport

    def _shake_hands(self) -> bool:
        """Go on with the handshake; return whether it is done."""
        try:
            self._tls.do_handshake()
        except ssl.SSLWantReadError:
            self._flush()
            return False
        self._flush()
        try:
            shown = _shown_in(self._tls.getpeercert())
        except ValueError:  # an authority that is trusted has signed names that are no text
            self._fail("the certificate of the other end cannot be read: a name in it is no text")
            return False
        self._is_done = True
        self._served.tls_done(shown)
        if self._is_over:
            return False
        for data in self._waiting:
            self._encrypt(data)
        self._waiting.clear()
        return True

    def _decrypted(self, data: bytes) -> list[bytes]:
        """Return what the peer said in what came, after the handshake where that is not done."""
        pieces: list[bytes] = []
        for cut in (data,) if len(data) <= _SLICE_BYTES else _slices(data):
            self._incoming.write(cut)
            if (self._is_done or self._shake_hands()) and not self._read_into(pieces):
                break
            if self._is_over:
                break
        return pieces

    def _read_into(self, pieces: list[bytes]) -> bool:
        """Read all there is; return whether the peer may say more."""
        while not self._is_over:
            try:
                piece = self._tls.read(_SLICE_BYTES)
            except ssl.SSLWantReadError:
                break
            except ssl.SSLZeroReturnError:
                piece = b""
            if not piece:
                self._served.eof_received()
                self._open_transport.close()
                return False
            pieces.append(piece)
            if not self._incoming.pending and not self._tls.pending():
                break  # asking once more would only raise that there is no more
        return True

    def _encrypt(self, data: bytes) -> None:
        """Encrypt and write, in one piece, since a peer that does not keep up is told of with each."""
        pieces: list[bytes] = []
        left = memoryview(data)
        while left:
            left = left[self._tls.write(left[:_SLICE_BYTES]) :]
            pieces.append(self._outgoing.read())
        if pieces:
            self._open_transport.write(pieces[0] if len(pieces) == 1 else b"".join(pieces))

    def _flush(self) -> None:
        if self._outgoing.pending:
            self._open_transport.write(self._outgoing.read())

    def _fail(self, why: str) -> None:
        self._is_over = True
        self._served.tls_failed(why)
        self._open_transport.close()


class _Nobody(asyncio.Protocol):
    """The protocol behind an end whose connection is gone; it takes note of nothing."""

    def tls_done(self, shown: Shown) -> None:
        """Take no note of it."""

    def tls_failed(self, why: str) -> None:
        """Take no note of it."""


_NOBODY: Final[Served] = _Nobody()


class _TlsTransport(asyncio.Transport):
    """The transport as the protocol sees it, which it writes plain bytes to."""

    def __init__(self, end: TlsEnd, below: asyncio.Transport) -> None:
        super().__init__()
        self._end = end
        self._below = below

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """Return what the network's transport knows, and by what TLS is spoken, as asyncio's own says it."""
        if name == "sslcontext":
            return self._end.context
        return self._below.get_extra_info(name, default)

    def is_closing(self) -> bool:
        """Say whether it is closed or about to be."""
        return self._below.is_closing()

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Write plain bytes."""
        self._end.write(bytes(data))

    def close(self) -> None:
        """Close after what was written."""
        self._end.close()

    def abort(self) -> None:
        """Close at once."""
        self._below.abort()

    def get_write_buffer_size(self) -> int:
        """Return how many bytes wait to be written."""
        return self._below.get_write_buffer_size() + self._end.waiting_bytes

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Set how many encrypted bytes may wait before the protocol is told that the peer does not keep up."""
        self._below.set_write_buffer_limits(high, low)

    def pause_reading(self) -> None:
        """Read nothing more for now."""
        self._below.pause_reading()

    def resume_reading(self) -> None:
        """Read on."""
        self._below.resume_reading()


def _slices(data: bytes) -> Iterator[memoryview]:
    whole = memoryview(data)
    return (whole[at : at + _SLICE_BYTES] for at in range(0, len(whole), _SLICE_BYTES))


def _shown_in(certificate: Any) -> Shown:
    if not certificate:
        return Shown()
    names = tuple((str(kind), str(name)) for kind, name in certificate.get("subjectAltName", ()))
    return Shown(_subject_of(certificate), names, is_shown=True)


def _subject_of(certificate: Any) -> str:
    """Return the subject as Kafka writes it, the most particular name first: `CN=alice,O=Example`."""
    parts = reversed(certificate.get("subject", ()))
    return ",".join("+".join(f"{_SHORT.get(kind, kind)}={_escaped(value)}" for kind, value in part) for part in parts)


_SHORT: Final = {
    "commonName": "CN",
    "organizationName": "O",
    "organizationalUnitName": "OU",
    "localityName": "L",
    "stateOrProvinceName": "ST",
    "countryName": "C",
    "domainComponent": "DC",
    "userId": "UID",
    "streetAddress": "STREET",
}


def _escaped(value: str) -> str:
    """Return a value with a backslash before what would end it or look like another name, as Java writes it."""
    escaped = "".join("\\" + letter if letter in ',=+"\\<>;#' else letter for letter in value)
    if escaped.startswith(" "):
        escaped = "\\" + escaped
    return escaped[:-1] + "\\ " if escaped.endswith(" ") and len(escaped) > 1 else escaped
