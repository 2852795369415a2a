"""Nodes of a cluster as far as their controllers go, on the model of ZooKeeper, and what holds of each change there.

Every entry that is written is checked against the one before it, and nothing is told that is not published.
"""

from collections import Counter
from random import Random

import msgspec.structs

from coordinator.core.cluster.effects import (
    ControllerEffect,
    LeftOffice,
    Published,
    Stuck,
    TellNode,
    TookOffice,
    WishRefused,
)
from coordinator.core.cluster.events import (
    ControllerEvent,
    NodeAnswered,
    PeerLost,
    PeerReached,
    ReassignShard,
    Registered,
    Ticked,
)
from coordinator.core.cluster.image import Image, read_node
from coordinator.core.cluster.office.controller import Controller, step
from coordinator.core.cluster.office.settings import ControllerSettings
from coordinator.core.cluster.transactions import BucketChange, change_isr, change_state, form_cluster, register
from coordinator.core.cluster.znodes import Cluster, LiveNode, LogEnd, NodeState, ShardEntry
from coordinator.core.cluster.zookeeper import (
    ZkApplied,
    ZkEvent,
    ZkMulti,
    ZkOperation,
    ZkRead,
    ZkSession,
    ZkState,
)
from tests.sim.schedule import Schedule
from tests.sim.zookeeper import Manners, SimulatedZooKeeper
from tests.sim.zookeeper_servers import Change, Servers

SHARDS = 6
CLUSTER = Cluster(cluster_id="c1", shards=SHARDS, buckets=3, replication_factor=3, min_insync_replicas=2)
SETTINGS = ControllerSettings(balance_ms=1_000, balance_delay_ms=3_000)


class World:
    """ZooKeeper's servers, three nodes, and what has to hold of every change."""

    def __init__(self, seed: int, manners: Manners | None = None, nodes: int = 3) -> None:
        self.dice = Random(seed)
        self.schedule = Schedule()
        self.manners = manners or Manners()
        self.servers = Servers(self.schedule, self.dice, on_commit=self._check)
        self.entries: dict[int, ShardEntry] = {}
        self.published: set[tuple[int, ShardEntry]] = set()
        self.leaders: set[tuple[int, int | None, int]] = set()
        self.history: list[tuple[int, int | None]] = []
        self.write(0, form_cluster(CLUSTER))
        self.cut: set[frozenset[int]] = set()
        """Pairs of nodes between which no connection is."""
        self.nodes: dict[int, Node] = {}
        for number in range(1, nodes + 1):
            self.nodes[number] = Node(self, number)

    def write(self, owner: int, operations: tuple[ZkOperation, ...]) -> bool:
        """Write as somebody whose connection is of no interest here."""
        return isinstance(self.servers.multi(self.servers.servers[0], owner, operations), ZkApplied)

    def run(self, ms: int) -> None:
        self.schedule.run_until(self.schedule.now_ms + ms)

    def image(self) -> Image:
        image = Image()
        for path, node in self.servers.tree.items():
            image = read_node(image, path, node)
        return image

    def shard(self, shard: int) -> ShardEntry:
        entry = self.image().shard(shard)
        assert entry is not None
        return entry

    def change_isr(self, shard: int, isr: tuple[int, ...]) -> None:
        """Have a shard's leader change its in-sync set."""
        bucket = self.image().buckets[shard % 3]
        entry = msgspec.structs.replace(bucket.value.shards[shard], isr=isr, changed_by="leader")
        value = msgspec.structs.replace(bucket.value, shards={**bucket.value.shards, shard: entry})
        assert self.write(0, change_isr(BucketChange(shard % 3, value, bucket.version)))

    def epoch(self) -> int:
        epoch = self.image().epoch
        assert epoch is not None
        return epoch.value.epoch

    def led_first_by(self, node: int) -> int:
        """Return a shard whose preferred replica this node is."""
        return next(shard for shard in range(SHARDS) if self.shard(shard).replicas[0] == node)

    def reassign(self, shard: int, replicas: tuple[int, ...]) -> None:
        """Ask the controller for other replicas of a shard."""
        (controller,) = self.controllers()
        self.nodes[controller].take(ReassignShard(shard, replicas))

    def controllers(self) -> list[int]:
        return [node.number for node in self.nodes.values() if node.is_up and node.machine.office is not None]

    def is_at_rest(self) -> bool:
        """Every shard has a leader that lives, and the one controller has told of all that there is."""
        image = self.image()
        lives = {number: live.value.node_epoch for number, live in image.live.items()}
        entries = dict(image.shards())
        if len(entries) != SHARDS or len(self.controllers()) != 1:
            return False
        office = self.nodes[self.controllers()[0]].machine.office
        is_led = all(lives.get(entry.leader or 0, -1) == entry.leader_node_epoch for entry in entries.values())
        return is_led and office is not None and office.told == entries and self.is_everybody_told()

    def is_everybody_told(self) -> bool:
        """Every node knows all leaders, and has the replicas that it should have."""
        entries = dict(self.image().shards())
        leaders = {shard: (entry.leader, entry.leader_epoch) for shard, entry in entries.items()}
        return all(
            node.leaders == leaders
            and node.replicas == {shard for shard, entry in entries.items() if node.number in entry.replicas}
            for node in self.nodes.values()
            if node.is_up
        )

    def _check(self, change: Change) -> None:
        for path, node in change.items():
            if path == "/controller/active" and node is not None:
                image = self.image()
                assert image.active is not None
                live = image.live[image.active.value.node_id]
                assert (live.owner, live.value.node_epoch) == (node.owner, image.active.value.node_epoch)
            if path.startswith("/shards/") and node is not None:
                read = read_node(Image(), path, node)
                assert not read.unreadable, read.unreadable
                (bucket,) = read.buckets.values()
                for shard, entry in bucket.value.shards.items():
                    self._check_entry(shard, self.entries.get(shard), entry)
                    self.entries[shard] = entry
                    self.published.add((shard, _key(entry)))
                    self.leaders.add((shard, entry.leader, entry.leader_epoch))

    def _check_entry(self, shard: int, before: ShardEntry | None, after: ShardEntry) -> None:
        if before is None or before == after:
            return
        assert after.leader_epoch in (before.leader_epoch, before.leader_epoch + 1), (before, after)
        if after.leader_epoch == before.leader_epoch:
            assert (after.leader, after.leader_node_epoch) == (before.leader, before.leader_node_epoch)
            return
        assert after.leader is None or after.leader in before.isr, (before, after)
        assert set(after.isr) <= set(before.isr), (before, after)
        assert len(after.isr) >= min(len(before.isr), CLUSTER.min_insync_replicas), (before, after)
        self.history.append((shard, after.leader))


class Node:
    """One node: its connection and its controller."""

    def __init__(self, world: World, number: int) -> None:
        self.world = world
        self.number = number
        self.lives = 0
        self.log_ends: dict[int, LogEnd] = {}
        self.is_up = False
        self.is_deaf = False
        """Connections to it are there, and it takes nothing in."""
        self.controller_epoch = 0
        self.breaks: Counter[int] = Counter()
        """Counts, for each other node, the ends of the connection to it."""
        self.start()
        self._tick()

    def start(self) -> None:
        self.lives += 1
        self.machine = Controller(self.number, SETTINGS)
        self.said: list[ControllerEffect] = []
        self.registered = 0
        self.leaders: dict[int, tuple[int | None, int]] = {}
        self.replicas: set[int] = set()
        self.is_told = False
        self.node_epoch: int | None = None
        self.reached: set[tuple[int, int]] = set()
        life = self.lives
        self.port = SimulatedZooKeeper(
            self.world.servers,
            self.world.schedule,
            self.world.dice,
            lambda event: self._take(life, event),
            session_timeout_ms=2_000,
            manners=self.world.manners,
        )
        self.is_up = True
        self.port.start()

    def kill(self) -> None:
        self.is_up = False
        self.port.die()

    def take(self, event: ControllerEvent) -> None:
        self.machine, effects = step(self.machine, event, self.world.schedule.now_ms)
        self._perform(effects)

    def draining(self) -> None:
        live = self.world.image().live[self.number]
        assert self.world.write(0, change_state(self.number, live, NodeState.DRAINING))

    def _take(self, life: int, event: ZkEvent) -> None:
        if life != self.lives or not self.is_up:
            return
        self.take(event)
        if isinstance(event, ZkSession) and event.state is ZkState.CONNECTED and self.registered != event.session:
            self.registered = event.session
            self.world.schedule.after(self.world.dice.choice((0, 50)), self._register, life, event)

    def _register(self, life: int, event: ZkSession) -> None:
        if life != self.lives or not self.is_up or self.machine.owner != event.owner:
            return
        image = self.world.image()
        known, former = image.known.get(self.number), image.live.get(self.number)
        live = LiveNode(
            node_epoch=0,
            directory_id="d",
            addresses={},
            rack=f"r{self.number}",
            release="1",
            log_ends=self.log_ends,
        )
        starts = self.lives
        former_live = None if former is None else former.version
        (operations,) = register(self.number, known, live, starts=starts, former_live=former_live)
        if self.world.servers.is_over(event.owner) or not self.world.write(event.owner, operations):
            return
        self.node_epoch = 0 if known is None else known.version + 1
        self.take(Registered(self.node_epoch))

    def _tick(self) -> None:
        if self.is_up:
            self._look_for_peers()
            self.take(Ticked())
        self.world.schedule.after(100, self._tick)

    def _look_for_peers(self) -> None:
        there = {
            (node.number, node.node_epoch)
            for node in self.world.nodes.values()
            if node is not self and node.is_up and node.node_epoch is not None
            if frozenset((self.number, node.number)) not in self.world.cut
        }
        for gone in sorted(self.reached - there):
            self.breaks[gone[0]] += 1
            self.take(PeerLost(*gone))
        for come in sorted(there - self.reached):
            self.take(PeerReached(*come))
        self.reached = there

    def _perform(self, effects: tuple[ControllerEffect, ...]) -> None:
        for effect in effects:
            match effect:
                case ZkRead():
                    self.port.read(effect)
                case ZkMulti():
                    self.port.commit(effect)
                case Published(shards):
                    told = {(shard, _key(entry)) for shard, entry in shards.items()}
                    assert told <= self.world.published, "told before it was published"
                    self.said.append(effect)
                case TookOffice():
                    self._check_what_is_known(effect)
                    self.said.append(effect)
                case TellNode():
                    self.world.schedule.after(
                        self.world.dice.choice((1, 1, 30)), self._deliver, effect, self.breaks[effect.node_id]
                    )
                case LeftOffice() | Stuck() | WishRefused():
                    self.said.append(effect)

    def _deliver(self, told: TellNode, breaks: int) -> None:
        """Carry a message to a node, and its answer back, unless the connection has ended meanwhile."""
        other = self.world.nodes[told.node_id]
        if (
            not self.is_up
            or self.breaks[other.number] != breaks
            or not self._is_linked(other)
            or other.node_epoch != told.node_epoch
        ):
            return
        other.obey(told)
        answer = NodeAnswered(told.node_id, told.node_epoch, told.number)
        self.world.schedule.after(self.world.dice.choice((1, 1, 30)), self._hear, other, answer, breaks)

    def _hear(self, other: "Node", answer: NodeAnswered, breaks: int) -> None:
        if self.is_up and self.breaks[other.number] == breaks and self._is_linked(other) and not other.is_deaf:
            self.take(answer)

    def _is_linked(self, other: "Node") -> bool:
        return other.is_up and frozenset((self.number, other.number)) not in self.world.cut

    def obey(self, told: TellNode) -> None:
        """Take what a controller says, as nodes do: no older controller's, and no older leader."""
        if self.is_deaf or told.controller_epoch < self.controller_epoch:
            return
        self.controller_epoch = told.controller_epoch
        assert told.is_init or self.is_told, "a life is told everything first"
        if told.is_init:
            self.is_told = True
            self.replicas &= {state.shard for state in told.states} | set(told.unreadable)
        for each in (*told.states, *told.leaders):
            assert (each.shard, each.leader, each.leader_epoch) in self.world.leaders, "told before it was published"
            if self.leaders.get(each.shard, (None, -1))[1] <= each.leader_epoch:
                self.leaders[each.shard] = (each.leader, each.leader_epoch)
        self.replicas |= {state.shard for state in told.states}
        self.replicas -= {stop.shard for stop in told.stops}

    def _check_what_is_known(self, took: TookOffice) -> None:
        """A new controller tells everybody everything; what it leaves out would be taken for deleted."""
        image, office = self.world.image(), self.machine.office
        assert office is not None
        assert office.told is not None
        if image.epoch is not None and image.epoch.value.epoch == took.controller_epoch:
            epochs = {shard: entry.leader_epoch for shard, entry in office.told.items()}
            assert epochs == {shard: entry.leader_epoch for shard, entry in image.shards()}


def _key(entry: ShardEntry) -> ShardEntry:
    return msgspec.structs.replace(entry, unknown=())  # type: ignore[arg-type] # a dict has no hash


def at_rest(seed: int = 0, nodes: int = 3) -> World:
    world = World(seed, nodes=nodes)
    world.run(6_000)
    assert world.is_at_rest()
    return world
