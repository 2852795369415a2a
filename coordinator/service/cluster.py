"""A node of a cluster: start (lock, open the logs, listen, register), run, stop.

It registers in ZooKeeper and lets members in once it is registered; until then it goes on trying, and says now and then
what it waits for. What keeps it from joining for good ends it with the reason. When it stops it hands on what it leads
first; what was decided has a moment to be committed and said, and then its session ends.
"""

import asyncio
import socket
import time
import uuid
from dataclasses import dataclass
from importlib import metadata
from typing import TYPE_CHECKING, Final

from structlog.typing import FilteringBoundLogger

from coordinator.config import PeersSettings, Settings
from coordinator.core.cluster.events import StateWanted
from coordinator.core.cluster.identity import Identity, ZkSeen
from coordinator.core.cluster.znodes import Cluster, LogEnd, NodeState, bucket_count
from coordinator.core.cluster_node.node import MEMBERS_ADDRESS, ClusterNode
from coordinator.core.log.entry import CorruptLogError, StorageError
from coordinator.core.log.meta import ClusterDirectory
from coordinator.core.log.storage import OpenedLog
from coordinator.core.mirror.mirrored import Mirrored
from coordinator.core.node import Node
from coordinator.core.peers.control_words import PEERS_ADDRESS
from coordinator.core.peers.hello import Acquaintance
from coordinator.core.security.authorizer import Authorizer
from coordinator.protocol.parts import NodeAddress
from coordinator.protocol.text.addresses import Address, format_address
from coordinator.runtime.assignors import AssignorError, load_assignors
from coordinator.runtime.clock import SystemClock
from coordinator.runtime.cluster.driver import ClusterDriver
from coordinator.runtime.disk.disk import ClusterDisk
from coordinator.runtime.disk.log_disk import Reports
from coordinator.runtime.disk.log_files import most_open_files
from coordinator.runtime.driver import Stopped
from coordinator.runtime.figures.node import NodeFigures
from coordinator.runtime.kafka.access import kafka_access_of
from coordinator.runtime.kafka.port import KafkaPort
from coordinator.runtime.peers.limits import PeerLimits
from coordinator.runtime.peers.port import Peers
from coordinator.runtime.process.collector import Rounds
from coordinator.runtime.process.logs import Journal
from coordinator.runtime.process.signals import Signals
from coordinator.runtime.process.spare_memory import SpareMemory, allocator_here
from coordinator.runtime.security.log_ins import log_in_files, log_ins_of
from coordinator.runtime.security.rules import rules_of
from coordinator.runtime.security.tls import tls_of_members, tls_of_peers
from coordinator.runtime.server.port import ListenError, Server
from coordinator.runtime.zookeeper.port import ZooKeeper
from coordinator.runtime.zookeeper.session import ZooKeeperSettings
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
from coordinator.service.place import place_of

if TYPE_CHECKING:
    from coordinator.admin.node import Admin

_MOST_SHARDS: Final = 1_000
_SAY_WAITING_S: Final = 5.0
_SAY_OPENING_S: Final = 1.0
_LAST_WORDS_S: Final = 1.0
"""Time that what was decided has to be committed by the others when the node stops."""
_LOOK_S: Final = 0.01
_MOST_NAMED: Final = 20


@dataclass(frozen=True, slots=True)
class _Ports:
    """All that a running node of a cluster is connected to."""

    server: Server
    disk: ClusterDisk
    kafka: KafkaPort
    peers: Peers
    zookeeper: ZooKeeper


async def serve(settings: Settings, journal: Journal, signals: Signals) -> Stopped:
    """Run a node of a cluster until it is told to stop or must; raises StartError."""
    with admin_of(settings, journal.log) as admin:
        return await _serve(settings, journal, signals, admin)


async def _serve(settings: Settings, journal: Journal, signals: Signals, admin: "Admin | None") -> Stopped:
    log, own = journal.log, settings.node
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _, context: journal_loop_error(log, context))
    figures = NodeFigures(journal.figures)
    driver = ClusterDriver(
        SystemClock(longest_gap_ms(settings)),
        log,
        loop,
        each_tick=journal.tell_left_out,
        max_pending_bytes=settings.disk.max_pending_bytes,
        figures=figures,
    )
    tls = tls_of_members(settings.tls, log)
    log_ins = log_ins_of(settings, log)
    server = Server(
        settings.server,
        driver,
        driver.clock,
        log,
        open_logs=most_open_files(_MOST_SHARDS),
        tls=tls,
        subject_rules=settings.authentication.subject_rules,
        log_ins=log_ins,
    )
    rules = rules_of(settings.authorization, log, driver.post)
    disk = _open_disk(settings, driver, figures)
    known = Acquaintance(cluster_id_of(disk), own.id, metadata.version("kcoord"))
    peer_tls = tls_of_peers(settings.peer_tls, log)
    peers = Peers(known, driver.peer_event, log, limits_of(settings.peers), peer_tls)
    try:
        say_disk(disk, log)
        if disk.is_new or disk.memory.is_blank:
            found = "was empty" if disk.is_new else "held nothing but who it belongs to"
            why = (
                f"{own.data_dir.absolute()} {found}: this node is in sync with nothing until it has copied from "
                "others what it is to have. If it had a directory, stop it and start it with that (node.data_dir)"
            )
            log.warning("new-data-directory", why=why)
        members_at = await bind("node", own.listen, own.advertised, "members", server.bind)
        at = settings.peers
        peers_at = await bind("peers", at.listen, at.advertised, "other nodes", peers.bind)
        assignors = load_assignors(log)
        if admin is not None:
            admin.is_not_ready("it loads its log")
        opened = open_logs(disk, driver.clock.wall_ms(), signals, log)
        if opened is None:
            why = why_ended_early(signals)
            log.info("stopping", why=why)
            await drain(disk, log)
            return Stopped(why, is_failure=False)
        identity = identity_of(
            settings, disk, opened, members_at, peers_at, new_cluster_id=uuid.uuid4().hex, place=place_of(own.data_dir)
        )
        node = ClusterNode(
            identity,
            settings.of_cluster_node,
            settings.limits,
            NodeAddress(own.id, *members_at),
            settings.kafka.bootstrap_servers,
            opened,
            uuid.uuid4().hex,
            assignors,
            None if rules is None else Authorizer(rules.value),
        )
        kafka_access = kafka_access_of(settings.kafka, log)
        kafka = KafkaPort(settings.kafka, driver.post, log, access=kafka_access)
        zookeeper = ZooKeeper(
            ZooKeeperSettings(
                ",".join(settings.zookeeper.hosts),
                settings.zookeeper.path,
                settings.zookeeper.session_timeout_ms,
                took=figures.joins_cluster().observe,
            ),
            driver.post,
            log,
        )
        ports = _Ports(server, disk, kafka, peers, zookeeper)
        told = signals.told(loop, lambda: _state_of(node, ports))
        Rounds(loop).begin()
        SpareMemory(loop, allocator_here()).begin()

        def leading() -> Node | None:
            return None if node.replication is None else node.replication.coordinator

        mirrored = mirrored_of(settings, leading, figures)
        figures.limits = lambda: limits_seen(server, leading())
        with machine_of(settings, node, mirrored, driver.post, log, kafka_access) as (machine, more):
            driver.connect(machine, disk=disk, kafka=kafka, sender=server, more=more)
            async with files_watched(
                settings, signals, log, tls, *log_in_files(log_ins), rules, kafka_access, peer_tls
            ):
                return await _run(settings, driver, node, mirrored, ports, told, log, admin, figures)
    except (StorageError, AssignorError, ListenError) as error:
        raise StartError(str(error)) from error
    finally:
        await peers.close("the node has stopped")
        await server.close("the coordinator has stopped", timeout_ms=0)


async def _run(
    settings: Settings,
    driver: ClusterDriver,
    node: ClusterNode,
    mirrored: Mirrored | None,
    ports: _Ports,
    told: "asyncio.Future[str]",
    log: FilteringBoundLogger,
    admin: "Admin | None",
    figures: NodeFigures,
) -> Stopped:
    joined = asyncio.Event()

    def on_joined() -> None:
        if ports.disk.damaged:
            ports.disk.damage_was_told()
        assert node.cluster is not None, "a node joins what it has read of"
        log.info("in-cluster", why=f"this node is registered in cluster {node.cluster.cluster_id}")
        for why in why_other_than_set(settings, node.cluster):
            log.warning("setting-not-used", why=why)
        joined.set()

    driver.connect_cluster(
        directory=ports.disk,
        peers=ports.peers,
        peers_clock=SystemClock(longest_gap_ms(settings)),
        zookeeper=ports.zookeeper,
        on_joined=on_joined,
        deleted_keep_ms=settings.cluster.deleted_keep_ms,
    )
    driver.start()
    ports.kafka.start()
    await ports.peers.accept()
    ports.zookeeper.start()
    if admin is not None:
        admin.begin(
            asyncio.get_running_loop(),
            lambda: node.waits_for or ("" if joined.is_set() else "it joins"),
            node.survey,
            lambda: {
                "kcoord_connections": ports.server.connections,
                "kcoord_unwritten_bytes": ports.disk.pending_bytes,
                "kcoord_kafka_reachable": int(not ports.kafka.why_away),
            },
            lambda: what_lacks(ports.kafka.why_away, mirrored),
            figures,
        )
    waiting = asyncio.ensure_future(_say_waiting(settings, node, log))
    joining = asyncio.ensure_future(joined.wait())
    failing = asyncio.ensure_future(driver.run())
    try:
        await asyncio.wait([failing, told, joining], return_when=asyncio.FIRST_COMPLETED)  # type: ignore[type-var]
        if joining.done() and not failing.done():
            await let_members_in(ports.server, log)
            await asyncio.wait([failing, told], return_when=asyncio.FIRST_COMPLETED)  # type: ignore[type-var]
        if failing.done():
            return failing.result()
        log.info("stopping", why=told.result())
        if admin is not None:
            admin.is_not_ready("it is stopping")
        if joining.done():
            await _hand_over(settings, driver, node, failing, log)
            if failing.done():
                return failing.result()
        ports.server.stop_accepting()
        driver.drain()
        await _until_all_is_said(node)
        await ports.peers.close("the node is shutting down")
        await asyncio.gather(drain(ports.disk, log), asyncio.to_thread(ports.zookeeper.close))
        driver.take_reports()
        driver.stop(told.result())
        await ports.server.close("the coordinator is shutting down")
        return await failing
    finally:
        waiting.cancel()
        joining.cancel()
        await asyncio.gather(asyncio.to_thread(ports.kafka.close), asyncio.to_thread(ports.zookeeper.close))


async def _say_waiting(settings: Settings, node: ClusterNode, log: FilteringBoundLogger) -> None:
    """Say now and then why nobody is served, until somebody can be."""
    hosts, path = ", ".join(settings.zookeeper.hosts), settings.zookeeper.path
    why = "it has only begun"
    while why or not node.is_in_cluster:
        await asyncio.sleep(_SAY_WAITING_S)
        why = node.waits_for
        if why and node.is_in_cluster:
            log.warning("no-shards", why=why)
        elif why:
            at = f"zookeeper.hosts is {hosts}, zookeeper.path {path}"
            log.warning("not-in-cluster", why=f"{why}; {at}. This node goes on trying, and lets no member in before")


async def _hand_over(
    settings: Settings,
    driver: ClusterDriver,
    node: ClusterNode,
    failing: "asyncio.Future[Stopped]",
    log: FilteringBoundLogger,
) -> None:
    """Have other nodes lead what this one leads, members being served meanwhile; return when they do, or cannot."""
    began_s, timeout_s = time.monotonic(), settings.cluster.drain_timeout_ms / 1000
    before = node.hands_over
    driver.post(StateWanted(NodeState.DRAINING, is_last=True))
    while not (drain := node.hands_over).is_over and not failing.done():
        if time.monotonic() - began_s >= timeout_s:
            break
        await asyncio.sleep(_LOOK_S)
    if not drain.led:
        ms = round((time.monotonic() - began_s) * 1000)
        log.info("drained", why=f"others lead what this node led: {len(before.led)} shards, in {ms} ms")
        return
    if not drain.hears_zookeeper:
        why = "ZooKeeper does not answer, so no other leader can be elected before it does"
    elif drain.is_over:
        why = "no other node that is in sync with them is there and ready, so they have no leader until one is"
    else:
        why = f"cluster.drain_timeout_ms, {settings.cluster.drain_timeout_ms} ms, is over; others are elected later"
    shards = ", ".join(str(shard) for shard in drain.led[:_MOST_NAMED])
    more = f" and {len(drain.led) - _MOST_NAMED} more" if len(drain.led) > _MOST_NAMED else ""
    log.warning("not-drained", why=f"this node stops while it leads shards {shards}{more}: {why}")


async def _until_all_is_said(node: ClusterNode) -> None:
    """Return when nothing that was decided waits to be committed any more, or has waited for long."""
    until_s = time.monotonic() + _LAST_WORDS_S
    while node.replication is not None and len(node.replication.coordinator.gates) and time.monotonic() < until_s:
        await asyncio.sleep(_LOOK_S)


def _state_of(node: ClusterNode, ports: _Ports) -> dict[str, object]:
    replication = node.replication
    led = () if replication is None else sorted(replication.led)
    return {
        "connections": ports.server.connections,
        "groups": 0 if replication is None else sum(len(replication.coordinator.hard_state(n).groups) for n in led),
        "unwritten_bytes": ports.disk.pending_bytes,
        "shards_led": len(led),
        "is_controller": node.has_office,
        "waits_for": node.waits_for,
    }


# ---- the start -------------------------------------------------------------------------------------------------------


def _open_disk(settings: Settings, driver: ClusterDriver, figures: NodeFigures) -> ClusterDisk:
    reports = Reports(
        driver.became_durable,
        driver.disk_failed,
        driver.snapshot_written,
        driver.log_cut,
        driver.log_installed,
        figures.syncs.observe,
    )
    try:
        return ClusterDisk.open(
            settings.node.data_dir,
            settings.node.id,
            reports,
            new_directory_id=uuid.uuid4().hex,
            segment_bytes=settings.disk.segment_bytes,
            max_pending_bytes=settings.disk.max_pending_bytes,
            wait_s=settings.disk.close_timeout_ms / 1000,
        )
    except StorageError as error:
        raise StartError(f"the data directory {settings.node.data_dir} cannot be used: {error}") from error


def open_logs(
    disk: ClusterDisk, wall_ms: int, signals: Signals, log: FilteringBoundLogger
) -> dict[int, OpenedLog] | None:
    """Open every log there is, and move aside what is damaged; None as soon as a signal has told the node to stop.

    Others have copies of what is moved aside or missing, and this node gets them once it has left the in-sync sets.
    """
    for shard in sorted(disk.missing):
        why = f"the log of shard {shard} is missing: shard-{shard:05d} was in the data directory and is not any more"
        log.error("log-damaged", why=f"{why}. It is copied from another node anew", shard=shard)
    opened: dict[int, OpenedLog] = {}
    shards, said_s = disk.shards(), time.monotonic()
    for shard in shards:
        if signals.asked is not None:
            return None
        if time.monotonic() - said_s > _SAY_OPENING_S:
            said_s = time.monotonic()
            log.info("opening", shards=f"{len(opened)} of {len(shards)}")
        try:
            opened[shard] = disk.open_log(shard, 0)
        except CorruptLogError as error:
            disk.move_damaged_aside(shard, wall_ms)
            why = f"the log of shard {shard} is damaged, and moved aside: {error}. It is copied from another node anew"
            log.error("log-damaged", why=why, shard=shard)  # noqa: TRY400 - the world's fault, no traceback
        else:
            for notice in opened[shard].notices:
                log.warning("recovered", why=notice, shard=shard)
    return opened


def cluster_id_of(directory: ClusterDirectory) -> str:
    """Return the id of the cluster that a data directory is of, empty for none yet."""
    assert directory.meta.membership is not None, "it is the directory of a node of a cluster"
    return directory.meta.membership.cluster_id


def identity_of(
    settings: Settings,
    directory: ClusterDirectory,
    opened: dict[int, OpenedLog],
    members_at: Address,
    peers_at: Address,
    *,
    new_cluster_id: str,
    place: str = "",
) -> Identity:
    """Return what the data directory and the settings say of this node; a cluster that it makes gets the new id."""
    membership = directory.meta.membership
    assert membership is not None, "it is the directory of a node of a cluster"
    cluster = settings.cluster
    return Identity(
        node_id=settings.node.id,
        directory_id=directory.meta.directory_id,
        starts=membership.starts,
        forms=Cluster(
            cluster_id=new_cluster_id,
            shards=cluster.shards,
            buckets=bucket_count(cluster.shards),
            replication_factor=cluster.replication_factor,
            min_insync_replicas=cluster.min_insync_replicas,
        ),
        addresses={MEMBERS_ADDRESS: format_address(members_at), PEERS_ADDRESS: format_address(peers_at)},
        rack=settings.node.rack or socket.gethostname(),
        release=metadata.version("kcoord"),
        cluster_id=membership.cluster_id,
        controller_epoch=directory.memory.controller_epoch,
        seen=ZkSeen(directory.memory.node_epoch, directory.memory.buckets),
        log_ends={
            shard: LogEnd(leader_epoch=log.epochs[-1][0] if log.epochs else 0, end=log.end)
            for shard, log in opened.items()
        },
        damaged=directory.damaged,
        lacks=directory.memory.lacks,
        place=place,
        intended_epoch=directory.memory.intended_epoch,
        has_memory=not directory.memory.is_blank,
        shards=directory.meta.shards,
    )


def why_other_than_set(settings: Settings, cluster: Cluster) -> tuple[str, ...]:
    """Say which settings a cluster was not made with: they count where one is made, and not any more."""
    said = []
    for name in ("shards", "replication_factor", "min_insync_replicas"):
        wished, used = getattr(settings.cluster, name), getattr(cluster, name)
        if wished != used:
            said.append(
                f"cluster.{name} is set to {wished}, but cluster {cluster.cluster_id} was made with {used}, and that "
                "counts"
            )
    return tuple(said)


def limits_of(settings: PeersSettings) -> PeerLimits:
    """Return the limits of connections between nodes."""
    return PeerLimits(
        ping_ms=settings.ping_ms,
        silence_ms=settings.silence_ms,
        hello_ms=settings.hello_timeout_ms,
        frame_ms=settings.frame_timeout_ms,
        close_ms=settings.close_timeout_ms,
        output_bytes=settings.output_buffer_bytes,
        held_bytes=settings.held_bytes,
        strangers=settings.strangers_max,
    )
