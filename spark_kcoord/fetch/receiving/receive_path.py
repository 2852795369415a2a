"""The path of bytes from a broker's socket into a response: kafka-python's own, or straight into whole frames.

kafka-python receives 4 KiB at a time, joins the pieces and copies them three times more before a response is read.
The large receive path takes each response into one buffer of its size and reads it there; the records of a fetch stay
in that buffer for as long as somebody holds a view of them. Where there is a compiled module, that takes a large
response in as few steps as it can. Everything else stays the library's: the event loop, TLS,
log-in and log-in again, time-outs and the end of a connection, because it is still its transport that asks for bytes
and its parser that has a response read. Two methods are replaced, on the transport and the parser of one connection
when it is made, and one entry of the parser's list of requests under way when a fetch is sent. Where they are not as
expected, and wherever ``KCOORD_RECEIVE_PATH`` is ``stock``, connections are left as they are.
"""

from __future__ import annotations

import inspect
import logging
import os
import re
import socket
import ssl
import sys
import weakref
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

import kafka.errors as kafka_errors
import pyarrow as pa
from kafka.protocol.consumer import FetchRequest, FetchResponse
from kafka.protocol.frame import KafkaBytes

from spark_kcoord.errors import KcoordError
from spark_kcoord.fetch.receiving.compiled import Receive, receive_compiled

__all__ = ["RECEIVE_PATHS", "path_wished", "read_in_place", "take_path", "waits_for_many"]

_log = logging.getLogger(__name__)

RECEIVE_PATHS: Final = ("auto", "large", "stock")
"""The values of ``KCOORD_RECEIVE_PATH``. ``auto`` is large where the library allows it; ``large`` fails elsewhere."""
_OVERRULE: Final = "KCOORD_RECEIVE_PATH"

_HAS_PATH: Final = "kcoord_has_receive_path"
_RECEIVES_WHOLE: Final = "kcoord_receives_whole"
_LENGTH_BYTES: Final = 4
_LARGE_BYTES: Final = 64 << 10
"""Smaller responses are read from the library's own kind of frame, and smaller fields copied."""
_FEW_PARTITIONS: Final = 32
"""Reading field by field takes ten times as long as the compiled way; for so few, saving a copy gains more."""
_MANY_BYTES: Final = 256 << 10
"""So many bytes cost more to copy than a turn of the library's loop does."""
_WAITING_KERNEL: Final = (5, 12)
"""The first Linux that never waits for more bytes than a socket has memory for (SO_RCVLOWAT)."""
_WOULD_BLOCK: Final = (BlockingIOError, InterruptedError, ssl.SSLWantReadError, ssl.SSLWantWriteError)

_found_wrong: list[str] = []
"""Why the large path is not taken any more in this process."""

_NEEDED: Final = (
    ("transport", "_sock", None),
    ("transport", "_sock_recv", 0),
    ("parser", "receive_bytes", 1),
    ("parser", "_process_response", 1),
    ("parser", "in_flight_requests", None),
    ("connection", "in_flight_requests", None),
    ("connection", "config", None),
)
"""The owner of an attribute that the large path needs and, for a method, how many arguments it takes."""


def path_wished() -> str:
    """Return what ``KCOORD_RECEIVE_PATH`` says, ``auto`` when nothing; raises KcoordError for another word."""
    wish = os.environ.get(_OVERRULE, "") or "auto"
    if wish not in RECEIVE_PATHS:
        raise KcoordError(f"{_OVERRULE} is '{wish}' but must be one of {', '.join(RECEIVE_PATHS)}, or be unset.")
    return wish


def take_path(connection: Any, wish: str) -> None:
    """Make a connection of kafka-python receive by the large path from its first byte on, unless ``wish`` is ``stock``.

    Has an effect only before it is connected, so that no response is half received. Raises KcoordError where ``wish``
    is ``large`` and the library differs from what is needed, now or when it is connected.
    """
    if wish == "stock" or (_found_wrong and wish != "large"):
        _say("stock: " + (_found_wrong[0] if _found_wrong else "it is wished so"), logging.INFO)
        return
    if connection.transport is not None or _HAS_PATH in vars(connection):
        return
    connection_made = getattr(connection, "connection_made", None)
    if connection_made is None:
        _stay(wish, f"there is no {type(connection).__name__}.connection_made")
        return

    def made(transport: Any) -> None:
        connection_made(transport)
        obstacle = _obstacle(connection)
        if obstacle:
            _stay(wish, obstacle)
            return
        parser = connection.parser
        frames = _Frames(transport._sock, parser, connection.config["receive_message_max_bytes"])
        transport._sock_recv = frames.receive
        parser.receive_bytes = frames.responses if wish == "large" else _or_stock(frames.responses)
        setattr(connection, _RECEIVES_WHOLE, True)
        _say("large: responses are received whole", logging.INFO)

    setattr(connection, _HAS_PATH, True)
    connection.connection_made = made


def read_in_place(connection: Any, request: Any) -> None:
    """Leave the records of the answer to a fetch, which was just sent, in the buffer that it will be received into.

    Does nothing where that does not help, and the answer then holds them as ``bytes``: on the stock path, and for a
    request that is no fetch, waits to be sent, or is for many partitions.
    """
    if not isinstance(request, FetchRequest) or _RECEIVES_WHOLE not in vars(connection):
        return
    partitions = sum(len(topic.partitions) for topic in request.topics)
    under_way = connection.parser.in_flight_requests
    if partitions <= _FEW_PARTITIONS and under_way and under_way[-1] is request.header:
        with suppress(AttributeError):  # of another release of the library, where the records are copied then
            kind = request.header.get_response_class()
            under_way[-1] = _FetchHeader(request.header, kind, kind._struct.decode)


def waits_for_many(system: str, release: str) -> bool:
    """Return whether a socket can be made readable only once a number of bytes has come, and is so in the end."""
    numbers = re.match(r"(\d+)\.(\d+)", release)
    return system == "linux" and numbers is not None and tuple(map(int, numbers.groups())) >= _WAITING_KERNEL


@cache
def _waits_here() -> bool:
    return waits_for_many(sys.platform, os.uname().release if sys.platform == "linux" else "")


def _stay(wish: str, obstacle: str) -> None:
    if wish == "large":
        raise KcoordError(
            f"{_OVERRULE} is 'large' but this kafka-python cannot be made to receive so: {obstacle}. Unset the "
            "variable to use the library's own receives."
        )
    _say(f"stock: responses are received in small pieces, because {obstacle}", logging.WARNING)


def _or_stock(responses: Callable[[_Arrived], list[tuple[int, Any]]]) -> Callable[[_Arrived], list[tuple[int, Any]]]:
    """Return ``responses`` that, where the library turns out to be otherwise, end the large path in this process."""

    def guarded(arrived: _Arrived) -> list[tuple[int, Any]]:
        try:
            return responses(arrived)
        except (AttributeError, TypeError) as error:
            _found_wrong.append(f"this kafka-python reads responses otherwise ({error})")
            _say("stock from now on: " + _found_wrong[0], logging.WARNING)
            raise kafka_errors.KafkaProtocolError(_found_wrong[0]) from error

    return guarded


def _obstacle(connection: Any) -> str:
    """Say what the large path needs and the library does not have; nothing when it has all."""
    owners = {"connection": connection, "transport": connection.transport, "parser": connection.parser}
    for owner, name, arguments in _NEEDED:
        found = getattr(owners[owner], name, None)
        where = f"{type(owners[owner]).__name__}.{name}"
        if found is None:
            return f"there is no {where}"
        if arguments is not None and len(inspect.signature(found).parameters) != arguments:
            return f"{where} takes other arguments"
    return ""


@cache
def _say(path: str, level: int) -> None:
    """Log the receive path once a process and reason."""
    _log.log(level, "the receive path is %s", path)


@dataclass(slots=True)
class _Frame:
    """One large response in its buffer, read as the library's own frames are, but without a copy of large fields."""

    data: memoryview
    position: int = 0

    def read(self, size: int | None = None) -> bytes | memoryview:
        """Return the next ``size`` bytes, or all that are left."""
        start = self.position
        end = len(self.data) if size is None else min(start + size, len(self.data))
        self.position = end
        found = self.data[start:end]
        return found if size is None or size >= _LARGE_BYTES else bytes(found)

    def seek(self, position: int) -> None:
        """Go to a position."""
        self.position = position


@dataclass(frozen=True, slots=True)
class _FetchHeader:
    """Stands in for the header of a fetch that is under way, and for the kind of response to it.

    The library's parser asks a header for that kind and has it read the response. The library's own kinds make one view
    of a response and copy what they take from it; this one reads a large response field by field.
    """

    header: Any
    kind: Any
    read: Callable[..., Any]

    @property
    def correlation_id(self) -> int:
        """Return the number of the request."""
        number: int = self.header.correlation_id
        return number

    def get_response_class(self) -> _FetchHeader:
        """Return what reads the response."""
        return self

    def parse_header(self, frame: _Frame | KafkaBytes) -> Any:
        """Read the response's header."""
        return self.kind.parse_header(frame)

    def decode(self, frame: _Frame | KafkaBytes) -> Any:
        """Read the response; the records of a large one are views of its frame."""
        if isinstance(frame, KafkaBytes):
            return self.kind.decode(frame)
        version = self.header.request_api_version
        is_flexible = self.kind.flexible_version_q(version)
        return self.read(frame, version=version, compact=is_flexible, tagged=is_flexible, data_class=FetchResponse)


@dataclass(frozen=True, slots=True)
class _Arrived:
    """The yield of one call: whole responses, and how many bytes in all."""

    frames: list[_Frame | KafkaBytes]
    size: int

    def __len__(self) -> int:
        return self.size


class _Frames:
    """Receives the responses of one connection; ``receive`` and ``responses`` stand in for the library's methods.

    A large response comes in many pieces, and a turn of the library's loop costs more than a piece is worth. So within
    one the socket is not readable before many bytes of it, or its rest, have come; more at a time would be waited for
    while the broker and this process could work side by side. The end of a connection is seen at once all the same.
    """

    def __init__(self, sock: Any, parser: Any, limit: int) -> None:
        self._sock = sock
        self._parser = weakref.proxy(parser)
        self._limit = limit
        self._length = memoryview(bytearray(_LENGTH_BYTES))
        self._frame: _Frame | KafkaBytes | None = None
        self._target = self._length
        self._filled = 0
        # A socket with TLS is readable by other bytes than those that are counted here.
        self._may_wait = not isinstance(sock, ssl.SSLSocket) and _waits_here()
        self._is_waiting = False
        self._compiled: Receive | None = None

    def receive(self) -> tuple[_Arrived, BaseException | None]:
        """Receive until the socket has no more; returns the whole responses, and why the connection must end.

        Ctrl-C ends it too, and with it those requests that wait for an answer: bytes that had come are lost.
        """
        frames: list[_Frame | KafkaBytes] = []
        size = 0
        is_over = False
        while not is_over:
            # The compiled form has waited for more already, and others are waiting for this thread. What is left after
            # it, or has come behind a response, makes the socket readable.
            is_over = self._compiled is not None and isinstance(self._frame, _Frame)
            try:
                count = self._receive_some()
            except _WOULD_BLOCK:
                break
            except OSError as failure:
                return self._hung_up(frames, size, failure)
            except BaseException as interrupt:  # noqa: BLE001 - the library's loop would drop it, and read here no more
                return _Arrived([], size), interrupt
            if not count:
                return self._hung_up(frames, size, "socket disconnected")
            size += count
            self._filled += count
            if self._filled < len(self._target):
                continue
            self._filled = 0
            if self._frame is not None:
                frames.append(self._frame)
                self._frame, self._target = None, self._length
                continue
            length = int.from_bytes(self._length, "big", signed=True)
            if not 0 < length <= self._limit:
                return _Arrived([], size), kafka_errors.InvalidReceiveError(f"Invalid frame length: {length}")
            self._start_frame(length)
        return _Arrived(frames, size), None

    def _receive_some(self) -> int:
        """Receive what is awaited and return how many bytes; raises OSError, BlockingIOError where none are there."""
        rest = self._target[self._filled :]
        is_large = isinstance(self._frame, _Frame)
        if is_large and self._compiled is not None:
            return self._compiled(self._sock.fileno(), rest, _MANY_BYTES if self._may_wait else 0)
        try:
            count: int = self._sock.recv_into(rest)
        except _WOULD_BLOCK:
            self._wait_for(min(len(rest), _MANY_BYTES) if is_large else 1)
            raise
        return count

    def _wait_for(self, count: int) -> None:
        """Have the socket readable only once so many bytes have come."""
        if self._may_wait and (count > 1 or self._is_waiting):
            self._sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, count)
            self._is_waiting = count > 1

    def _hung_up(
        self, frames: list[_Frame | KafkaBytes], size: int, why: OSError | str
    ) -> tuple[_Arrived, kafka_errors.KafkaError | None]:
        """Return the end of the connection, but first what came whole before it, as the end shows at the next call too.

        A broker that refuses a log-in says why and hangs up at once.
        """
        return _Arrived(frames, size), None if frames else kafka_errors.KafkaConnectionError(why)

    def _start_frame(self, length: int) -> None:
        if length < _LARGE_BYTES:
            small = KafkaBytes(length)
            self._frame, self._target = small, memoryview(small)
            return
        self._compiled = None if isinstance(self._sock, ssl.SSLSocket) else receive_compiled()
        # From pyarrow, whose memory is used again without the system having to clear it.
        large = _Frame(memoryview(pa.allocate_buffer(length)).cast("B"))
        self._frame, self._target = large, large.data

    def responses(self, arrived: _Arrived) -> list[tuple[int, Any]]:
        """Return (correlation id, response) of whole responses; raises kafka-python's errors for bad ones."""
        # The library's transport keeps `arrived` until the next bytes come; it is not to keep the memory as well.
        frames = arrived.frames[:]
        arrived.frames.clear()
        return [self._parser._process_response(frame) for frame in frames]
