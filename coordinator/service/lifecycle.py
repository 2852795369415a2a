"""The part of a node's life as a process that a standalone node and a node of a cluster have in common.

A start that fails is a StartError whose text says what, why and what to do. The line `kcoord: listening on HOST:PORT`
on standard output says that members are served.
"""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import TYPE_CHECKING, Any

from structlog.typing import FilteringBoundLogger

from coordinator.config import Settings
from coordinator.config.section import is_every_address
from coordinator.core.log.entry import StorageError
from coordinator.protocol.text.addresses import Address, format_address, parse_address
from coordinator.runtime.disk.log_disk import LogDisk
from coordinator.runtime.driver import TICK_MS
from coordinator.runtime.process.ready_line import say_ready
from coordinator.runtime.process.signals import Signals
from coordinator.runtime.security.audit_log import AuditLog
from coordinator.runtime.security.reread import Reread, Watch
from coordinator.runtime.server.port import ListenError, Server

if TYPE_CHECKING:
    from coordinator.admin.node import Admin

READY_LINE = "kcoord: listening on "


class StartError(Exception):
    """The node cannot start; the text says what, why and what to do."""


def longest_gap_ms(settings: Settings) -> int:
    """Return how long a standstill counts: for less than half of the smallest session, but more than two ticks."""
    return max(2 * TICK_MS + 1, settings.limits.session_timeout_min_ms // 2 - 1)


async def bind(
    section: str, listen: str, advertised: str, whom: str, take: Callable[[str, int], Awaitable[Address]]
) -> Address:
    """Take the address that a section of the settings says to listen on; return the one that others are told.

    Raises StartError for one that is taken, and for one that nobody could be told.
    """
    host, port = parse_address(listen, lowest_port=0)
    if why := why_untold(section, listen, advertised, whom):
        raise StartError(why)
    try:
        bound_host, bound_port = await take(host, port)
    except ListenError as error:
        raise StartError(str(error)) from error
    told_host, told_port = parse_address(advertised, lowest_port=0) if advertised else (bound_host, bound_port)
    if is_every_address(told_host):  # `listen` is a name, and stands for it
        raise StartError(_is_every_address(f"{section}.listen", listen, section, whom, told_port))
    return told_host, told_port or bound_port


def why_untold(section: str, listen: str, advertised: str, whom: str) -> str:
    """Say why others could not be told the address that a section of the settings has; empty if they can."""
    name, told = ("advertised", advertised) if advertised else ("listen", listen)
    host, port = parse_address(told, lowest_port=0)
    return _is_every_address(f"{section}.{name}", told, section, whom, port) if is_every_address(host) else ""


def _is_every_address(setting: str, value: str, section: str, whom: str, port: int) -> str:
    return (
        f"{setting} is {value}, which is every address of this machine: set {section}.advertised to the one that "
        f"{whom} are to use, such as {socket.gethostname()}:{port}"
    )


@contextlib.contextmanager
def admin_of(settings: Settings, log: FilteringBoundLogger) -> "Iterator[Admin | None]":
    """Show the node by HTTP while it starts, runs and stops, if that is wanted; raises StartError."""
    if not settings.admin.listen:
        yield None
        return
    from coordinator.admin.node import Admin, AdminListenError  # a node without it loads nothing of it

    admin = Admin(settings.admin, settings.node.data_dir, log)
    try:
        admin.open()
    except AdminListenError as error:
        raise StartError(str(error)) from error
    try:
        yield admin
    finally:
        admin.close()


@contextlib.contextmanager
def audit_log_of(
    settings: Settings, post: Callable[[Any], None], log: FilteringBoundLogger
) -> Iterator[AuditLog | None]:
    """Keep an audit log within the block, if that is wanted; raises StorageError."""
    if not settings.audit.file:
        yield None
        return
    audit = AuditLog(settings.audit, settings.node.id, post, log)
    try:
        yield audit
    finally:
        audit.close()


async def let_members_in(server: Server, log: FilteringBoundLogger) -> None:
    """Accept members from now on, and say so; raises ListenError."""
    address = format_address(await server.accept())
    log.info("listening", address=address)
    say_ready(f"{READY_LINE}{address}")


@contextlib.asynccontextmanager
async def files_watched(
    settings: Settings, signals: Signals, log: FilteringBoundLogger, *files: Reread[Any] | None
) -> AsyncIterator[None]:
    """Within the block, read certificates and the like anew when they change, and when SIGHUP comes."""
    watched = [each for each in files if each is not None]
    watch = Watch(watched, settings.tls.look_ms, log)
    watch.start()
    signals.look_at_files(watch.look_now if watched else None)
    try:
        yield
    finally:
        signals.look_at_files(None)
        await watch.stop()


async def drain(disk: LogDisk, log: FilteringBoundLogger) -> None:
    """Write what waits and close the log; what rests on it is answered while it is written and after it."""
    try:
        await asyncio.to_thread(disk.close)
    except StorageError as error:
        log.error(  # noqa: TRY400 - the world's fault, no traceback
            "drain-failed", why=f"not everything that waited was written, and none of it acknowledged: {error}"
        )


def say_disk(disk: LogDisk, log: FilteringBoundLogger) -> None:
    """Say what an operator should know of the machine under the disk."""
    for notice in disk.notices:
        log.warning("disk", why=notice)


def why_ended_early(signals: Signals) -> str:
    """Return why a start ends that was told to stop."""
    assert signals.asked is not None, "a start ends early only when it is told to"
    return f"{signals.asked.name} came while the log was loaded"


def journal_loop_error(log: FilteringBoundLogger, context: dict[str, object]) -> None:
    """Log what asyncio caught: the world's faults as a line, ours with the traceback."""
    error = context.get("exception")
    is_ours = not isinstance(error, OSError)
    log.error("loop-error", why=f"{context.get('message')}: {error!r}", exc_info=error if is_ours else None)
