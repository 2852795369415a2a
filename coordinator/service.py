"""A node as a process: start (lock, load, listen), run, stop (drain, close), and a clear sentence when it cannot.

Everything that is acknowledged is on disk, so a crash at any moment costs nothing but the time to load. Kafka need not
be there at the start. The line `kcoord: listening on HOST:PORT` on standard output says that members are served.
"""

import asyncio
import gc
import socket
import sys
import time
import uuid
from functools import partial
from pathlib import Path

from structlog.typing import FilteringBoundLogger

from coordinator.config import Settings
from coordinator.core.groups.hard.records import UnreadableRecordError
from coordinator.core.log.entry import StorageError
from coordinator.core.log.storage import LogSink, RecoveredShard
from coordinator.core.node import Node
from coordinator.protocol.parts import NodeAddress
from coordinator.protocol.text.addresses import format_address, parse_address
from coordinator.runtime import clock_watch
from coordinator.runtime.assignors import AssignorError, load_assignors
from coordinator.runtime.clock import SystemClock
from coordinator.runtime.clock_watch import why_far_from_log
from coordinator.runtime.disk import Disk, most_open_files
from coordinator.runtime.driver import TICK_MS, Driver, Stopped
from coordinator.runtime.kafka.port import KafkaPort
from coordinator.runtime.loading import LoadEnded, Progress
from coordinator.runtime.process.collector import Rounds
from coordinator.runtime.process.logs import Journal
from coordinator.runtime.process.loop import LoopError, loop_factory
from coordinator.runtime.process.signals import Signals
from coordinator.runtime.server.port import ListenError, Server

READY_LINE = "kcoord: listening on "
_SWITCH_INTERVAL_S = 0.0005
"""The time that the event loop's thread keeps the interpreter while the log's writer waits, and the other way."""
_EVERY_ADDRESS = frozenset({"0.0.0.0", "::", ""})  # noqa: S104 - refused without an advertised one


class StartError(Exception):
    """The node cannot start; the text says what, why and what to do."""


def run(settings: Settings) -> int:
    """Run a node until it is told to stop or must; return the exit code. Raises StartError."""
    try:
        name, new_loop = loop_factory(settings.node.event_loop)
    except LoopError as error:
        raise StartError(str(error)) from error
    journal = Journal(settings.log.format, settings.log.level, settings.log.most_per_minute)
    log = journal.log
    sys.setswitchinterval(_SWITCH_INTERVAL_S)
    signals = Signals(log)
    try:
        log.info("starting", event_loop=name)
        with signals.handled(), asyncio.Runner(loop_factory=new_loop) as runner:
            stopped = runner.run(_serve(settings, journal, signals))
        (log.error if stopped.is_failure else log.info)("stopped", why=stopped.why)
    finally:
        journal.close()
    return 1 if stopped.is_failure else 0


async def _serve(settings: Settings, journal: Journal, signals: Signals) -> Stopped:
    log = journal.log
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _, context: _journal_loop_error(log, context))
    driver = Driver(
        SystemClock(_longest_gap_ms(settings)),
        log,
        loop,
        each_tick=journal.tell_left_out,
        max_pending_bytes=settings.disk.max_pending_bytes,
    )
    open_logs = most_open_files(settings.node.shards)
    server = Server(settings.server, driver, driver.clock, log, open_logs=open_logs)
    disk = _open_disk(settings, driver)
    try:
        for notice in disk.notices:
            log.warning("disk", why=notice)
        if disk.is_new:
            log.warning("new-data-directory", why=_why_look(settings.node.data_dir))
        address = await _bind(settings, server)
        assignors = load_assignors(log)
        node = Node(settings.limits, settings.node.shards, address, settings.kafka.bootstrap_servers, assignors)
        if not _load(node, disk, settings.node.shards, log, signals):
            return await _stop_starting(disk, signals, log)
        why_far = why_far_from_log(node.written_at_ms, driver.clock.wall_ms())
        if why_far is not None:
            log.warning(clock_watch.KIND, why=why_far)
        kafka = KafkaPort(settings.kafka, driver.post, log)
        driver.connect(node, disk=disk, kafka=kafka, sender=server)
        told = signals.told(loop, lambda: _state_of(node, settings.node.shards, server, disk))
        return await _run(driver, server, disk, kafka, told, log)
    except (StorageError, AssignorError) as error:
        raise StartError(str(error)) from error
    finally:
        await server.close("the coordinator has stopped", timeout_ms=0)


def _longest_gap_ms(settings: Settings) -> int:
    """Return how long a standstill counts: for less than half of the smallest session, but more than two ticks."""
    return max(2 * TICK_MS + 1, settings.limits.session_timeout_min_ms // 2 - 1)


async def _run(
    driver: Driver,
    server: Server,
    disk: Disk,
    kafka: KafkaPort,
    told: "asyncio.Future[str]",
    log: FilteringBoundLogger,
) -> Stopped:
    driver.start()
    kafka.start()
    try:
        address = format_address(await server.accept())
        log.info("listening", address=address)
        sys.stdout.write(f"{READY_LINE}{address}\n")
        sys.stdout.flush()
        failing = asyncio.ensure_future(driver.run())
        await asyncio.wait([failing, told], return_when=asyncio.FIRST_COMPLETED)  # type: ignore[type-var]
        if failing.done():
            return failing.result()
        log.info("stopping", why=told.result())
        server.stop_accepting()
        driver.drain()
        await _drain(disk, log)
        driver.take_reports()
        driver.stop(told.result())
        await server.close("the coordinator is shutting down")
        return await failing
    finally:
        await asyncio.to_thread(kafka.close)


async def _stop_starting(disk: Disk, signals: Signals, log: FilteringBoundLogger) -> Stopped:
    """End a start that was told to stop: nothing was served, and what a start writes is whole at any moment."""
    assert signals.asked is not None, "a start ends early only when it is told to"
    why = f"{signals.asked.name} came while the log was loaded"
    log.info("stopping", why=why)
    await _drain(disk, log)
    return Stopped(why, is_failure=False)


def _state_of(node: Node, shards: int, server: Server, disk: Disk) -> dict[str, object]:
    return {
        "connections": server.connections,
        "groups": sum(len(node.hard_state(shard).groups) for shard in range(shards)),
        "unwritten_bytes": disk.pending_bytes,
    }


async def _drain(disk: Disk, log: FilteringBoundLogger) -> None:
    """Write what waits and close the log; what rests on it is answered while it is written and after it."""
    try:
        await asyncio.to_thread(disk.close)
    except StorageError as error:
        log.error(  # noqa: TRY400 - the world's fault, no traceback
            "drain-failed", why=f"not everything that waited was written, and none of it acknowledged: {error}"
        )


def _why_look(data_dir: Path) -> str:
    return (
        f"{data_dir.absolute()} was empty: no group is known, and members begin where their checkpoints and options "
        "say. If there ought to be groups, stop this node and start it with their directory (--data, node.data_dir)"
    )


def _open_disk(settings: Settings, driver: Driver) -> Disk:
    try:
        return Disk.open(
            settings.node.data_dir,
            settings.node.shards,
            new_directory_id=uuid.uuid4().hex,
            on_durable=driver.became_durable,
            on_snapshot=driver.snapshot_written,
            on_failure=driver.disk_failed,
            segment_bytes=settings.disk.segment_bytes,
            max_pending_bytes=settings.disk.max_pending_bytes,
            wait_s=settings.disk.close_timeout_ms / 1000,
        )
    except StorageError as error:
        raise StartError(f"the data directory {settings.node.data_dir} cannot be used: {error}") from error


async def _bind(settings: Settings, server: Server) -> NodeAddress:
    host, port = parse_address(settings.node.listen, lowest_port=0)
    if host in _EVERY_ADDRESS and not settings.node.advertised:
        raise StartError(
            f"node.listen is {settings.node.listen}, which is every address of this machine: set node.advertised to "
            f"the one that members are to use, such as {socket.gethostname()}:{port}"
        )
    try:
        bound_host, bound_port = await server.bind(host, port)
    except ListenError as error:
        raise StartError(str(error)) from error
    told_host, told_port = (
        parse_address(settings.node.advertised, lowest_port=0) if settings.node.advertised else (bound_host, bound_port)
    )
    return NodeAddress(settings.node.id, told_host, told_port or bound_port)


def _load(node: Node, disk: Disk, shards: int, log: FilteringBoundLogger, signals: Signals) -> bool:
    """Replay every shard, then leave what was loaded out of the garbage collector's rounds.

    Return False as soon as a signal has told the node to stop.
    """
    started_s = time.monotonic()
    progress = Progress(shards, log, lambda: signals.asked is not None)
    gc.disable()  # what is loaded stays, and looking at all of it again and again takes as long as the load
    try:
        for shard in range(shards):
            recovered = node.load(shard, partial(_read, disk, progress, shard))
            for notice in recovered.notices:
                log.warning("recovered", why=notice, shard=shard)
    except LoadEnded:
        return False
    except UnreadableRecordError as error:
        raise StartError(f"the data directory cannot be used: {error}") from error
    finally:
        gc.enable()
    Rounds(asyncio.get_running_loop()).begin()
    groups = sum(len(node.hard_state(shard).groups) for shard in range(shards))
    log.info(
        "loaded",
        shards=shards,
        groups=groups,
        records=progress.records,
        duration_ms=round((time.monotonic() - started_s) * 1000),
    )
    return True


def _read(disk: Disk, progress: Progress, shard: int, sink: LogSink) -> RecoveredShard:
    return disk.recover(shard, progress.of(shard, sink))


def _journal_loop_error(log: FilteringBoundLogger, context: dict[str, object]) -> None:
    """Log what asyncio caught: the world's faults as a line, ours with the traceback."""
    error = context.get("exception")
    is_ours = not isinstance(error, OSError)
    log.error("loop-error", why=f"{context.get('message')}: {error!r}", exc_info=error if is_ours else None)
