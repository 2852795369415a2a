"""Everything that can be made to go wrong in a simulated cluster, by name; each says whether it has done anything."""

from collections.abc import Callable, Mapping
from functools import partial
from random import Random
from typing import TYPE_CHECKING

import msgspec

from coordinator.core.cluster.events import StateWanted
from coordinator.core.cluster.znodes import CLUSTER, Cluster, NodeState, ShardEntry, encode
from coordinator.core.cluster.zookeeper import ZkApplied, ZkSet
from coordinator.protocol.messages import DrainNode, ElectLeaders, ReassignShards
from coordinator.protocol.parts import ShardReplicas
from tests.helpers.planted_bugs import plant
from tests.sim.cluster.disk import FAILING
from tests.sim.zookeeper_servers import Servers

if TYPE_CHECKING:
    from tests.sim.cluster.process import ClusterProcess
    from tests.sim.cluster.world import ClusterWorld

HOUR_MS, DAY_MS = 3_600_000, 86_400_000
AWAY_MS = (0, 100, 900, 4_000)
LEAST_BETWEEN_BUGS_MS = 8_000
HELD_MS = (50, 400, 1_200, 4_000, 9_000)


def _some(world: "ClusterWorld") -> "ClusterProcess | None":
    """Return a node that runs: most often one that leads something, or is controller."""
    running = [process for process in world.processes if process.is_up and not process.is_paused]
    if not running:
        return None
    busy = [process for process in running if process.node.replication is not None and process.node.replication.led]
    busy += [process for process in running if process.node.has_office]
    return world.dice.choice(busy if busy and world.dice.random() < 0.6 else running)


def _kill(world: "ClusterWorld") -> bool:
    process = _some(world)
    if process is None:
        return False
    process.end(loses_power=False, why="is killed")
    world.schedule.after(world.dice.choice(AWAY_MS), process.start)
    return True


def _power_off(world: "ClusterWorld") -> bool:
    process = _some(world)
    if process is None:
        return False
    process.end(loses_power=True, why="loses power")
    world.schedule.after(world.dice.choice((500, 3_000, 6_000)), process.power_on)
    return True


def _loses(world: "ClusterWorld", lose: Callable[["ClusterProcess"], bool]) -> bool:
    """Have a node lose what it had acknowledged, once a run and while all others have everything: else it is lost."""
    entries = dict(world.checker.image.shards())
    is_whole = len(entries) == world.cluster.shards and all(len(e.isr) == len(e.replicas) for e in entries.values())
    process = _some(world)
    if process is None or not is_whole or world.has_lost_something or min(map(_replicas, entries.values())) < 3:
        return False
    world.has_lost_something = lose(process)
    world.schedule.after(world.dice.choice((500, 3_000)), process.power_on)
    return world.has_lost_something


def _replicas(entry: ShardEntry) -> int:
    return 0 if entry.adding or entry.removing else len(entry.replicas)


def _replace_disk(process: "ClusterProcess") -> bool:
    process.lose_disk()
    return True


def _copy_disk(world: "ClusterWorld") -> bool:
    """Copy the disk of a node, for a day on which it is put back."""
    process = world.dice.choice(world.processes)
    if process.is_up:
        world.copies[process.number] = process.starts, process.disk.copied()
    return process.is_up


def _put_back_disk(world: "ClusterWorld") -> bool:
    def put_back(process: "ClusterProcess") -> bool:
        starts, copy = world.copies.get(process.number, (0, None))
        # A copy of the life that ends is like a disk that has lost what it has synced without a word: the others have
        # to find it out, which they can where what is acknowledged is on more disks than this one.
        is_unnoticed = world.checker.image.known[process.number].value.starts <= starts
        if copy is None or (is_unnoticed and world.cluster.min_insync_replicas < 2):
            process.end(loses_power=True, why="loses power")
            return False
        process.put_back(copy, is_unnoticed=is_unnoticed)
        world.checker.coverage["copy of present life"] += is_unnoticed
        failed = world.dice.choice((0, 0, 1, 3))
        process.fail_starts(failed)
        world.checker.coverage["copy started in vain"] += failed > 0
        return True

    return _loses(world, put_back)


def _damage_log(world: "ClusterWorld") -> bool:
    """Have a log be damaged, or be gone with its directory."""
    if world.dice.random() < 0.5:
        return _loses(world, lambda process: process.damage())
    is_lost = _loses(world, lambda process: process.lose_log())
    world.checker.coverage["log lost"] += is_lost
    return is_lost


def _pause(world: "ClusterWorld") -> bool:
    process = _some(world)
    if process is None:
        return False
    process.pause()
    world.schedule.after(world.dice.choice(HELD_MS), process.resume)
    return True


def _plant_bug(world: "ClusterWorld") -> bool:
    """Have a handler of a shard that is served fail soon; not so often that its pauses outlast the run."""
    process = _some(world)
    replication = None if process is None else process.node.replication
    if replication is None:
        return False
    served = [shard for shard in sorted(replication.led) if replication.coordinator.is_loaded(shard)]
    if not served or world.schedule.now_ms < world.no_bug_before_ms:
        return False
    world.no_bug_before_ms = world.schedule.now_ms + LEAST_BETWEEN_BUGS_MS
    plant(replication.coordinator, world.dice.choice(served), world.dice.choice((1, 2, 5)), is_after=True)
    return True


def _refuse_append(world: "ClusterWorld") -> bool:
    """Have a log not take the next records of a leader, which its followers may be given all the same."""
    process = _some(world)
    replication = None if process is None else process.node.replication
    if process is None or replication is None or not replication.led:
        return False
    process.refusing.add(world.dice.choice(sorted(replication.led)))
    return True


def _slow_disk(world: "ClusterWorld") -> bool:
    process = world.dice.choice(world.processes)
    process.extra_sync_ms = world.dice.choice((0, 30, 300, 1_500, 4_000))
    return True


def _fail_disk(world: "ClusterWorld") -> bool:
    """Have a call of a disk fail, at once or when its node starts; the node has to end, and can come back."""
    process, dice = world.dice.choice(world.processes), world.dice
    if process.life == 0:
        return False
    is_at_start = not process.is_up or dice.random() < 0.2
    process.disk.fail(dice.choice(FAILING), dice.choice((0, 0, 1, 5)), at_start=is_at_start)
    return True


def _set_clock(world: "ClusterWorld") -> bool:
    """Have somebody set the clock of a machine, whether its node runs or not; and put it right again some time."""
    process, dice = world.dice.choice(world.processes), world.dice
    was_ms, process.clock_ahead_ms = (
        process.clock_ahead_ms,
        dice.choice((0, -HOUR_MS, HOUR_MS, HOUR_MS, -2_000, DAY_MS)),
    )
    if process.is_up:
        world.checker.coverage["clock set forth"] += process.clock_ahead_ms > was_ms
        world.checker.coverage["clock set back"] += process.clock_ahead_ms < was_ms
    return process.clock_ahead_ms != was_ms


def _cut(world: "ClusterWorld", *, both: bool) -> bool:
    a, b = world.dice.sample([process.number for process in world.processes], 2)
    ms = world.dice.choice(HELD_MS)
    world.peers.cut(a, b, ms)
    if both:
        world.peers.cut(b, a, ms)
    world.checker.coverage["cut off"] += 1
    return True


def _cut_off(world: "ClusterWorld") -> bool:
    """Cut a node off all others, and perhaps off ZooKeeper as well."""
    process = _some(world)
    if process is None:
        return False
    ms = world.dice.choice(HELD_MS)
    for other in world.processes:
        if other is not process:
            world.peers.cut(process.number, other.number, ms)
            world.peers.cut(other.number, process.number, ms)
    if world.dice.random() < 0.7:
        _hold_zookeeper(world, process, ms)
    if world.dice.random() < 0.5:
        world.clients.keep_out(process, ms)
    return True


def _hide_from_controller(world: "ClusterWorld") -> bool:
    """Cut a node that leads something off the controller and ZooKeeper, and not off its followers."""
    leading = [
        process
        for process in world.processes
        if process.is_up and not process.is_paused and process.node.replication is not None
        if process.node.replication.led and not process.node.has_office
    ]
    if not leading:
        return False
    process = world.dice.choice(leading)
    ms = world.dice.choice((4_000, 9_000))
    for other in world.processes:
        if other.is_up and other.node.has_office:
            world.peers.cut(process.number, other.number, ms)
            world.peers.cut(other.number, process.number, ms)
    # Its session lasts long enough for it to take the controller's node out of its in-sync sets.
    world.schedule.after(world.dice.choice((0, 2_500)), _hold_if_up, world, process, process.life, ms)
    if world.dice.random() < 0.7:
        world.clients.keep_out(process, ms)
    return True


def _hold_if_up(world: "ClusterWorld", process: "ClusterProcess", life: int, ms: int) -> None:
    if process.life == life and not process.is_paused and not world.is_healed:
        _hold_zookeeper(world, process, ms)


def _break_contact(world: "ClusterWorld") -> bool:
    pairs = world.peers.pairs()
    if pairs:
        world.peers.break_contact(*world.dice.choice(pairs))
    return bool(pairs)


def _cut_zookeeper(world: "ClusterWorld") -> bool:
    process = _some(world)
    if process is not None:
        process.zookeeper.cut()
    return process is not None


def _hold_zookeeper(world: "ClusterWorld", process: "ClusterProcess", ms: int) -> None:
    to_server, to_client = world.dice.choice(((True, True), (True, False), (False, True)))
    process.zookeeper.hold(to_server=to_server, to_client=to_client)
    life = process.life

    def let_go() -> None:
        if process.life == life and not process.is_paused:
            process.zookeeper.let_go()

    world.schedule.after(ms, let_go)


def _held(world: "ClusterWorld") -> bool:
    process = _some(world)
    if process is not None:
        _hold_zookeeper(world, process, world.dice.choice(HELD_MS))
    return process is not None


def _leave_all_alone(world: "ClusterWorld") -> bool:
    """Have ZooKeeper be away for everybody: it does not run, or no node reaches it and all sessions end by that."""
    if world.servers.is_away:
        return False
    session_ms = world.mix.settings.zookeeper_session_timeout_ms
    ms = world.dice.choice((300, session_ms, 2 * session_ms))
    if world.dice.random() < 0.5:
        world.servers.go_away()
        world.schedule.after(ms, world.servers.come_back)
        world.checker.coverage["no ZooKeeper for a session time-out"] += ms >= session_ms
        return True
    for process in world.processes:
        if process.is_up and not process.is_paused:
            _hold_zookeeper(world, process, ms)
    return True


def other_numbers(cluster: Cluster, dice: Random) -> Cluster:
    """Return other numbers of shards or of buckets, by which an entry has another place or none."""
    if cluster.shards == 1 or dice.random() < 0.6:
        shards = dice.choice([each for each in (1, 2, 3, 4, 8) if each != cluster.shards])
        return msgspec.structs.replace(cluster, shards=shards)
    buckets = [each for each in range(1, cluster.shards + 1) if each != cluster.buckets]
    return msgspec.structs.replace(cluster, buckets=dice.choice(buckets))


def write_by_hand(servers: Servers, values: Mapping[str, bytes]) -> None:
    """Have a person write values in the place of those that are there."""
    owner = servers.begin_session(10**6, lambda: None)
    servers.heard(owner)
    sets = tuple(ZkSet(path, data, servers.tree[path].version) for path, data in values.items())
    assert isinstance(servers.multi(servers.servers[0], owner, sets), ZkApplied)
    servers.expire(owner)


def _change_cluster(world: "ClusterWorld") -> bool:
    """Have somebody write another number of shards or buckets into `/cluster`, and put it right some time."""
    made = len(dict(world.checker.image.shards())) == world.cluster.shards
    if not made or world.cluster_as_made is not None or world.servers.is_away:
        return False
    world.cluster_as_made = world.servers.tree[CLUSTER].data
    for process in world.processes:
        process.may_meet_other_numbers = True
    write_by_hand(world.servers, {CLUSTER: encode(other_numbers(world.cluster, world.dice))})
    world.schedule.after(world.dice.choice((300, 2_000, 6_000)), put_cluster_right, world)
    return True


def put_cluster_right(world: "ClusterWorld") -> None:
    """Have somebody write into `/cluster` what it was made with, if it says anything else; later if that cannot be."""
    if world.cluster_as_made is None:
        return
    if world.servers.is_away:
        world.schedule.after(HELD_MS[0], put_cluster_right, world)
        return
    write_by_hand(world.servers, {CLUSTER: world.cluster_as_made})
    world.cluster_as_made = None


def _expire(world: "ClusterWorld") -> bool:
    process = _some(world)
    if process is not None:
        world.servers.expire(process.zookeeper.owner)
    return process is not None


def _expire_all(world: "ClusterWorld") -> bool:
    """End all sessions at once."""
    running = [process for process in world.processes if process.is_up]
    for process in running:
        world.servers.expire(process.zookeeper.owner)
    return len(running) > 1 and not world.servers.is_away


def _drain(world: "ClusterWorld") -> bool:
    """Have a node be emptied for a while, unless one is already: its leaders and its places in in-sync sets go."""
    live = {node: it for node, it in world.checker.image.live.items() if it.owner}
    if len(live) < world.mix.nodes or any(it.value.state is NodeState.DRAINING for it in live.values()):
        return False
    process = _some(world)
    if process is None:
        return False
    _ask(world, process, DrainNode(process.number, True, "ann", is_dry_run=False))
    life = process.life

    def fill_again() -> None:
        if process.life == life:
            _ask(world, process, DrainNode(process.number, False, "ann", is_dry_run=False))

    world.schedule.after(world.dice.choice((300, 2_000, 6_000)), fill_again)
    return True


def undrain(world: "ClusterWorld") -> None:
    """Have nodes be filled again that were being emptied."""
    for process in world.processes:
        if process.is_up:
            process.post(StateWanted(NodeState.READY))


def _stop(world: "ClusterWorld") -> bool:
    """Have a node hand on what it leads and end, as SIGTERM does, and start again."""
    process = _some(world)
    if process is None or process.is_stopping:
        return False
    process.stop()
    return True


def _reassign(world: "ClusterWorld") -> bool:
    """Have somebody want other replicas for a shard: as many as before, fewer, or the same in another order."""
    process, dice = _some(world), world.dice
    if process is None:
        return False
    process = next((each for each in world.processes if each.is_up and each.node.has_office), process)
    nodes = [each.number for each in world.processes]
    factor, least = world.cluster.replication_factor, world.cluster.min_insync_replicas
    replicas = tuple(dice.sample(nodes, dice.choice((factor, factor, dice.randint(least, len(nodes))))))
    shard = dice.randrange(world.cluster.shards)
    _ask(world, process, ReassignShards((ShardReplicas(shard, replicas),), "ann", is_dry_run=False))
    return True


def _elect(world: "ClusterWorld") -> bool:
    """Have somebody want every shard to be led by its first replica."""
    process = next((each for each in world.processes if each.is_up and each.node.has_office), None)
    if process is not None:
        _ask(world, process, ElectLeaders(tuple(range(world.cluster.shards)), "ann", is_dry_run=False))
    return process is not None


def _ask(world: "ClusterWorld", process: "ClusterProcess", request: ReassignShards | ElectLeaders | DrainNode) -> None:
    """Have a tool ask a node, and not wait for the answer."""
    world.schedule.tell(f"-> {process.name}", request)
    process.do(partial(process.request, 0, 0, request))


def _cut_client(world: "ClusterWorld") -> bool:
    links = [client.link for client in world.clients.all if client.link is not None]
    if links:
        link = world.dice.choice(links)
        world.clients.drop(link, "reset by peer")
        link.client.lost_link(link, "reset by peer")
    return bool(links)


FAULT_OF: dict[str, Callable[["ClusterWorld"], bool]] = {
    "node-killed": _kill,
    "node-power-lost": _power_off,
    "disk-replaced": lambda world: _loses(world, _replace_disk),
    "disk-copied": _copy_disk,
    "disk-put-back": _put_back_disk,
    "log-damaged": _damage_log,
    "node-paused": _pause,
    "handler-bug": _plant_bug,
    "append-refused": _refuse_append,
    "disk-slow": _slow_disk,
    "disk-failed": _fail_disk,
    "clock-set": _set_clock,
    "peers-cut": lambda world: _cut(world, both=True),
    "peers-cut-one-way": lambda world: _cut(world, both=False),
    "node-cut-off": _cut_off,
    "hidden-from-controller": _hide_from_controller,
    "contact-broken": _break_contact,
    "zookeeper-cut": _cut_zookeeper,
    "zookeeper-held": _held,
    "zookeeper-away": _leave_all_alone,
    "cluster-changed": _change_cluster,
    "session-expired": _expire,
    "sessions-expired": _expire_all,
    "node-drained": _drain,
    "node-stopped": _stop,
    "shard-reassigned": _reassign,
    "leaders-elected": _elect,
    "client-cut": _cut_client,
}
"""Every fault by name."""
