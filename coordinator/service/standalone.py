"""A standalone node: start (lock, load, listen), run, stop (drain, close).

Everything that is acknowledged is on disk, so a crash at any moment costs nothing but the time to load.
"""

import asyncio
import gc
import time
import uuid
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from structlog.typing import FilteringBoundLogger

from coordinator.config import Settings
from coordinator.core.groups.hard.records import UnreadableRecordError
from coordinator.core.log.entry import StorageError
from coordinator.core.log.storage import LogSink, RecoveredShard
from coordinator.core.mirror.mirrored import Mirrored
from coordinator.core.node import Node
from coordinator.core.security.authorizer import Authorizer
from coordinator.protocol.parts import NodeAddress
from coordinator.runtime import clock_watch
from coordinator.runtime.assignors import AssignorError, load_assignors
from coordinator.runtime.clock import SystemClock
from coordinator.runtime.clock_watch import why_far_from_log
from coordinator.runtime.disk.disk import Disk
from coordinator.runtime.disk.log_files import most_open_files
from coordinator.runtime.driver import Driver, Stopped
from coordinator.runtime.figures.node import NodeFigures
from coordinator.runtime.kafka.access import kafka_access_of
from coordinator.runtime.kafka.port import KafkaPort
from coordinator.runtime.loading import LoadEnded, Progress
from coordinator.runtime.process.collector import Rounds
from coordinator.runtime.process.logs import Journal
from coordinator.runtime.process.signals import Signals
from coordinator.runtime.process.spare_memory import SpareMemory, allocator_here
from coordinator.runtime.security.log_ins import log_in_files, log_ins_of
from coordinator.runtime.security.rules import rules_of
from coordinator.runtime.security.tls import tls_of_members
from coordinator.runtime.server.port import ListenError, Server
from coordinator.service.lifecycle import (
    StartError,
    admin_of,
    bind,
    drain,
    files_watched,
    journal_loop_error,
    let_members_in,
    longest_gap_ms,
    say_disk,
    why_ended_early,
)
from coordinator.service.limits_seen import limits_seen
from coordinator.service.machine import machine_of, mirrored_of, what_lacks

if TYPE_CHECKING:
    from coordinator.admin.node import Admin


async def serve(settings: Settings, journal: Journal, signals: Signals) -> Stopped:
    """Run a standalone node until it is told to stop or must; raises StartError."""
    with admin_of(settings, journal.log) as admin:
        return await _serve(settings, journal, signals, admin)


async def _serve(settings: Settings, journal: Journal, signals: Signals, admin: "Admin | None") -> Stopped:
    log = journal.log
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _, context: journal_loop_error(log, context))
    figures = NodeFigures(journal.figures)
    driver = Driver(
        SystemClock(longest_gap_ms(settings)),
        log,
        loop,
        each_tick=journal.tell_left_out,
        max_pending_bytes=settings.disk.max_pending_bytes,
        figures=figures,
    )
    open_logs = most_open_files(settings.node.shards)
    tls = tls_of_members(settings.tls, log)
    log_ins = log_ins_of(settings, log)
    server = Server(
        settings.server,
        driver,
        driver.clock,
        log,
        open_logs=open_logs,
        tls=tls,
        subject_rules=settings.authentication.subject_rules,
        log_ins=log_ins,
    )
    rules = rules_of(settings.authorization, log, driver.post)
    authorizer = None if rules is None else Authorizer(rules.value)
    disk = _open_disk(settings, driver, figures)
    try:
        say_disk(disk, log)
        if disk.is_new:
            log.warning("new-data-directory", why=_why_look(settings.node.data_dir))
        own = settings.node
        address = NodeAddress(own.id, *await bind("node", own.listen, own.advertised, "members", server.bind))
        assignors = load_assignors(log)
        node = Node(
            settings.limits,
            settings.node.shards,
            address,
            settings.kafka.bootstrap_servers,
            assignors,
            authorizer,
        )
        mirrored = mirrored_of(settings, lambda: node, figures)
        figures.limits = partial(limits_seen, server, node)
        if admin is not None:
            admin.is_not_ready("it loads its log")
        if not _load(node, disk, settings.node.shards, log, signals):
            return await _stop_starting(disk, signals, log)
        why_far = why_far_from_log(node.written_at_ms, driver.clock.wall_ms())
        if why_far is not None:
            log.warning(clock_watch.KIND, why=why_far)
        kafka_access = kafka_access_of(settings.kafka, log)
        kafka = KafkaPort(settings.kafka, driver.post, log, access=kafka_access)
        told = signals.told(loop, lambda: _state_of(node, settings.node.shards, server, disk))
        with machine_of(settings, node, mirrored, driver.post, log, kafka_access) as (machine, more):
            driver.connect(machine, disk=disk, kafka=kafka, sender=server, more=more)
            async with files_watched(settings, signals, log, tls, *log_in_files(log_ins), rules, kafka_access):
                return await _run(driver, node, mirrored, server, disk, kafka, told, log, admin, figures)
    except (StorageError, AssignorError, ListenError) as error:
        raise StartError(str(error)) from error
    finally:
        await server.close("the coordinator has stopped", timeout_ms=0)


async def _run(
    driver: Driver,
    node: Node,
    mirrored: Mirrored | None,
    server: Server,
    disk: Disk,
    kafka: KafkaPort,
    told: "asyncio.Future[str]",
    log: FilteringBoundLogger,
    admin: "Admin | None",
    figures: NodeFigures,
) -> Stopped:
    driver.start()
    kafka.start()
    try:
        await let_members_in(server, log)
        if admin is not None:
            admin.begin(
                asyncio.get_running_loop(),
                lambda: "",
                node.survey_alone,
                lambda: {
                    "kcoord_connections": server.connections,
                    "kcoord_unwritten_bytes": disk.pending_bytes,
                    "kcoord_kafka_reachable": int(not kafka.why_away),
                },
                lambda: what_lacks(kafka.why_away, mirrored),
                figures,
            )
        failing = asyncio.ensure_future(driver.run())
        await asyncio.wait([failing, told], return_when=asyncio.FIRST_COMPLETED)  # type: ignore[type-var]
        if failing.done():
            return failing.result()
        log.info("stopping", why=told.result())
        if admin is not None:
            admin.is_not_ready("it is stopping")
        server.stop_accepting()
        driver.drain()
        await drain(disk, log)
        driver.take_reports()
        driver.stop(told.result())
        await server.close("the coordinator is shutting down")
        return await failing
    finally:
        await asyncio.to_thread(kafka.close)


async def _stop_starting(disk: Disk, signals: Signals, log: FilteringBoundLogger) -> Stopped:
    """End a start that was told to stop: nothing was served, and what a start writes is whole at any moment."""
    why = why_ended_early(signals)
    log.info("stopping", why=why)
    await drain(disk, log)
    return Stopped(why, is_failure=False)


def _state_of(node: Node, shards: int, server: Server, disk: Disk) -> dict[str, object]:
    return {
        "connections": server.connections,
        "groups": sum(len(node.hard_state(shard).groups) for shard in range(shards)),
        "unwritten_bytes": disk.pending_bytes,
    }


def _why_look(data_dir: Path) -> str:
    return (
        f"{data_dir.absolute()} was empty: no group is known, and members begin where their checkpoints and options "
        "say. If there ought to be groups, stop this node and start it with their directory (--data, node.data_dir)"
    )


def _open_disk(settings: Settings, driver: Driver, figures: NodeFigures) -> Disk:
    try:
        return Disk.open(
            settings.node.data_dir,
            settings.node.shards,
            new_directory_id=uuid.uuid4().hex,
            on_durable=driver.became_durable,
            on_snapshot=driver.snapshot_written,
            on_failure=driver.disk_failed,
            took_to_sync=figures.syncs.observe,
            segment_bytes=settings.disk.segment_bytes,
            max_pending_bytes=settings.disk.max_pending_bytes,
            wait_s=settings.disk.close_timeout_ms / 1000,
        )
    except StorageError as error:
        raise StartError(f"the data directory {settings.node.data_dir} cannot be used: {error}") from error


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
    SpareMemory(asyncio.get_running_loop(), allocator_here()).begin()
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
