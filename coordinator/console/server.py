"""The process of a console: its socket, its event loop, the survey beside it, and an orderly end."""

import asyncio
import contextlib
import signal
import socket
from collections.abc import Callable, Iterator

import uvicorn

from coordinator.console.known.picture import Picture
from coordinator.console.settings import ConsoleSettings
from coordinator.console.survey import Survey
from coordinator.console.web.app import make_app
from coordinator.console.web.changes import Changes
from coordinator.console.web.reading import Reader
from coordinator.protocol.text.addresses import format_address

_MOST_REQUESTS = 256
_LONGEST_END_S = 2


class ConsoleError(Exception):
    """A console that cannot start; the text says why and what to do."""


def run(settings: ConsoleSettings, say_ready: Callable[[str], None]) -> None:
    """Serve until SIGTERM or Ctrl-C; `say_ready` hears the address when the console answers."""
    listener = _listener(settings)
    host, port = listener.getsockname()[:2]
    asyncio.run(_serve(settings, listener, lambda: say_ready(f"http://{format_address((host, port))}/")))


async def _serve(settings: ConsoleSettings, listener: socket.socket, say_ready: Callable[[], None]) -> None:
    picture = Picture()
    changes = Changes(picture)
    app = make_app(Reader(settings, picture), changes)
    config = uvicorn.Config(
        app,
        log_config=None,
        access_log=False,
        server_header=False,
        date_header=True,
        lifespan="off",
        limit_concurrency=_MOST_REQUESTS,
        timeout_graceful_shutdown=_LONGEST_END_S,
    )
    survey = Survey(settings, picture)
    survey.start()
    try:
        await _Server(config, changes, say_ready).serve(sockets=[listener])
    finally:
        survey.stop()


class _Server(uvicorn.Server):
    """A server that says when it answers, and ends its streams before it waits for what is open."""

    def __init__(self, config: uvicorn.Config, changes: Changes, say_ready: Callable[[], None]) -> None:
        super().__init__(config)
        self._changes = changes
        self._say_ready = say_ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to listen."""
        await super().startup(sockets)
        self._say_ready()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """End on signals, with success, and not by the signal once more as uvicorn would."""
        loop = asyncio.get_running_loop()

        def end() -> None:
            self._changes.close()
            self.should_exit = True

        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            loop.add_signal_handler(number, end)
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
