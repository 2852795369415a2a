"""The process of a console: its socket, its event loop, the survey beside it, and an orderly end."""

import asyncio
import contextlib
import logging
import signal
import socket
import time
from collections.abc import Callable, Iterator
from typing import Any, Final

import uvicorn
from structlog.typing import FilteringBoundLogger
from uvicorn.protocols.http.h11_impl import H11Protocol

from coordinator.client.refusals import refusal_of, show_refusal
from coordinator.client.request import LogInFailedError, RequestError, ask
from coordinator.config import ConfigError
from coordinator.console.known.picture import Picture
from coordinator.console.people.looking import Looker
from coordinator.console.people.people import People
from coordinator.console.port.connection import LARGEST_HEAD, MOST_CONNECTIONS, Connections
from coordinator.console.port.hosts import Hosts
from coordinator.console.port.tls import LOOK_MS, ConsoleTls, tls_of_console
from coordinator.console.settings import ConsoleSettings, why_not
from coordinator.console.survey import Survey
from coordinator.console.web.app import Front, make_app
from coordinator.console.web.changes import Changes
from coordinator.console.web.reading import Reader
from coordinator.protocol.messages import DescribeCluster
from coordinator.protocol.text.addresses import format_address
from coordinator.runtime.process.logs import Journal
from coordinator.runtime.process.starting import leave_out_of_rounds
from coordinator.runtime.security.reread import Reread, Watch

_LONGEST_END_S: Final = 2
_LINES_A_MINUTE: Final = 60
"""The lines of one kind that the log has each minute."""
_FIRST_LOOK_S: Final = 3.0


class ConsoleError(Exception):
    """A console that cannot start; the text says why and what to do."""


def run(settings: ConsoleSettings, say_ready: Callable[[str], None]) -> None:
    """Serve until SIGTERM or Ctrl-C; `say_ready` hears the address when the console answers. Raises ConsoleError."""
    why = why_not(settings)
    if why is not None:
        raise ConsoleError(why)
    leave_out_of_rounds()
    journal = Journal("auto", "info", _LINES_A_MINUTE)
    try:
        tls = None if settings.tls is None else tls_of_console(settings.tls, journal.log)
        if settings.is_log_in:
            _must_be_let_in(settings)
        listener = _listener(settings)
        host, port = listener.getsockname()[:2]
        shown = format_address((settings.hosts[0] if settings.hosts else host, port))
        ready = f"{'http' if tls is None else 'https'}://{shown}/"
        _hear_uvicorn(journal.log)
        asyncio.run(_serve(settings, listener, tls, journal, lambda: say_ready(ready)))
    except ConfigError as error:
        raise ConsoleError("; ".join(error.lines)) from None
    finally:
        journal.close()


async def _serve(
    settings: ConsoleSettings,
    listener: socket.socket,
    tls: Reread[ConsoleTls] | None,
    journal: Journal,
    say_ready: Callable[[], None],
) -> None:
    picture = Picture(time.time_ns() // 1_000_000)  # which no console gets to by a change a millisecond
    changes = Changes(picture)
    people = People(Looker(settings, picture).look, journal.log) if settings.is_log_in else None
    connections = Connections(
        journal.log, None if tls is None else lambda: tls.value.context, are_people_known=people is not None
    )
    hosts = Hosts(frozenset(settings.hosts), tuple if tls is None else lambda: tls.value.names)
    front = Front(hosts, tls is not None, people, connections.came_in)
    config = uvicorn.Config(
        make_app(Reader(settings, picture), changes, front),
        http=_protocol_of(connections),
        ws="none",
        log_config=None,
        access_log=False,
        server_header=False,
        date_header=True,
        proxy_headers=False,
        lifespan="off",
        limit_concurrency=MOST_CONNECTIONS + 1,
        h11_max_incomplete_event_size=LARGEST_HEAD,
        timeout_graceful_shutdown=_LONGEST_END_S,
    )
    rereads: list[Any] = [] if tls is None else [tls]
    watch = Watch(rereads, LOOK_MS, journal.log)
    survey = Survey(settings, picture)

    def end() -> None:
        changes.close()
        connections.close()

    survey.start()
    watch.start()
    telling = asyncio.get_running_loop().create_task(_tell_left_out(journal))
    try:
        await _Server(config, end, watch, say_ready).serve(sockets=[listener])
    finally:
        telling.cancel()
        await watch.stop()
        survey.stop()
        if people is not None:
            people.close()


async def _tell_left_out(journal: Journal) -> None:
    while True:
        await asyncio.sleep(60)
        journal.tell_left_out()


def _protocol_of(connections: Connections) -> Any:
    """Return what uvicorn takes for the class of its connections: its own, behind ours."""

    def protocol(**given: Any) -> asyncio.BaseProtocol:
        return connections.protocol(H11Protocol(**given))

    return protocol


def _must_be_let_in(settings: ConsoleSettings) -> None:
    """Look whether the console itself is let in by the coordinators, if one answers; raises ConsoleError."""
    try:
        said = ask(settings.coordinators, DescribeCluster(), min(settings.timeout_s, _FIRST_LOOK_S))
    except LogInFailedError as error:
        raise ConsoleError(
            "people log in to this console as they do to the coordinators, and these do not let the console itself in: "
            f"{error}"
        ) from None
    except RequestError:
        return  # nobody is let in until one answers
    refusal = refusal_of(said)
    if refusal is not None:
        raise ConsoleError(
            "the console shows people those groups that it sees itself, and may not ask for the cluster: "
            f"{show_refusal(refusal)}; allow its user to describe the cluster and groups"
        )


def _hear_uvicorn(log: FilteringBoundLogger) -> None:
    """Have what uvicorn says be lines of our log, which has few of a kind."""
    logger = logging.getLogger("uvicorn.error")
    logger.propagate = False
    logger.handlers = [_ToLog(log)]


class _ToLog(logging.Handler):
    """Writes warnings and errors of a library to the log."""

    def __init__(self, log: FilteringBoundLogger) -> None:
        super().__init__(logging.WARNING)
        self._log = log

    def emit(self, record: logging.LogRecord) -> None:
        """Write one."""
        if record.levelno >= logging.ERROR:
            self._log.error("bug", why=record.getMessage().strip(), exc_info=record.exc_info)
        else:
            self._log.warning("stranger", why=record.getMessage().strip())


class _Server(uvicorn.Server):
    """A server that says when it answers, and ends its streams before it waits for what is open."""

    def __init__(
        self, config: uvicorn.Config, end: Callable[[], None], watch: Watch, say_ready: Callable[[], None]
    ) -> None:
        super().__init__(config)
        self._end = end
        self._watch = watch
        self._say_ready = say_ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to listen."""
        await super().startup(sockets)
        self._say_ready()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """End on signals, with success, and not by the signal once more as uvicorn would; SIGHUP reads files anew."""
        loop = asyncio.get_running_loop()

        def end() -> None:
            self._end()
            self.should_exit = True

        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, end)
        loop.add_signal_handler(signal.SIGHUP, self._watch.look_now if self._watch.is_any else end)
        yield


def _listener(settings: ConsoleSettings) -> socket.socket:
    host, port = settings.listen
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        return socket.create_server((host, port), family=family)
    except OSError as error:
        raise ConsoleError(
            f"the console cannot listen at {format_address(settings.listen)}: {error.strerror or error}; name another "
            "address with --listen, with port 0 for any that is free"
        ) from error
