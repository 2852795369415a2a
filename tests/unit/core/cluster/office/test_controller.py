"""Controllers on the model of ZooKeeper: one at a time, every shard led, and nothing told that is not published."""

from dataclasses import replace
from random import Random

import msgspec.structs
import pytest

from coordinator.core.cluster.effects import ControllerEffect, LeftOffice, Published, Stuck, TookOffice
from coordinator.core.cluster.events import ControllerEvent, NodeRefused, Registered, StepDown, StepDownReason, Ticked
from coordinator.core.cluster.image import Image, read_node
from coordinator.core.cluster.office.controller import Controller, step
from coordinator.core.cluster.office.due import ControllerSettings
from coordinator.core.cluster.transactions import BucketChange, change_isr, change_state, form_cluster, register
from coordinator.core.cluster.znodes import ActiveController, Cluster, LiveNode, LogEnd, NodeState, ShardEntry, encode
from coordinator.core.cluster.zookeeper import (
    ZkApplied,
    ZkCreate,
    ZkDelete,
    ZkEvent,
    ZkMulti,
    ZkOperation,
    ZkRead,
    ZkSession,
    ZkSet,
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

    def __init__(self, seed: int, manners: Manners | None = None) -> None:
        self.dice = Random(seed)
        self.schedule = Schedule()
        self.manners = manners or Manners()
        self.servers = Servers(self.schedule, self.dice, on_commit=self._check)
        self.entries: dict[int, ShardEntry] = {}
        self.published: set[tuple[int, ShardEntry]] = set()
        self.history: list[tuple[int, int | None]] = []
        self.write(0, form_cluster(CLUSTER))
        self.nodes = {number: Node(self, number) for number in (1, 2, 3)}

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
        return is_led and office is not None and office.told == entries

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

    def _check_entry(self, shard: int, before: ShardEntry | None, after: ShardEntry) -> None:
        if before is None or before == after:
            return
        assert after.leader_epoch in (before.leader_epoch, before.leader_epoch + 1), (before, after)
        if after.leader_epoch == before.leader_epoch:
            assert (after.leader, after.leader_node_epoch) == (before.leader, before.leader_node_epoch)
            return
        assert after.leader is None or after.leader in before.isr, (before, after)
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
        self.start()
        self._tick()

    def start(self) -> None:
        self.lives += 1
        self.machine = Controller(self.number, SETTINGS)
        self.said: list[ControllerEffect] = []
        self.registered = 0
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
        node_epoch = 0 if known is None else known.version + 1
        self.take(Registered(node_epoch))

    def _tick(self) -> None:
        if self.is_up:
            self.take(Ticked())
        self.world.schedule.after(100, self._tick)

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
                case LeftOffice() | Stuck():
                    self.said.append(effect)

    def _check_what_is_known(self, took: TookOffice) -> None:
        """Who takes office tells everybody everything, and what it leaves out would be taken for deleted."""
        image, office = self.world.image(), self.machine.office
        assert office is not None
        assert office.told is not None
        if image.epoch is not None and image.epoch.value.epoch == took.controller_epoch:
            epochs = {shard: entry.leader_epoch for shard, entry in office.told.items()}
            assert epochs == {shard: entry.leader_epoch for shard, entry in image.shards()}


def _key(entry: ShardEntry) -> ShardEntry:
    return msgspec.structs.replace(entry, unknown=())  # type: ignore[arg-type] # a dict has no hash


def at_rest(seed: int = 0) -> World:
    world = World(seed)
    world.run(6_000)
    assert world.is_at_rest()
    return world


def test_a_new_cluster_gets_one_controller_and_all_its_shards() -> None:
    world = at_rest()
    assert sorted(world.shard(shard).leader or 0 for shard in range(SHARDS)) == [1, 1, 2, 2, 3, 3]
    assert {len(world.shard(shard).isr) for shard in range(SHARDS)} == {3}
    (controller,) = world.controllers()
    said = world.nodes[controller].said
    assert said[0] == TookOffice(1)
    assert isinstance(said[1], Published)
    assert len(said[1].shards) == SHARDS


def test_shards_wait_for_nodes_enough() -> None:
    world = World(0)
    world.nodes[3].kill()
    world.run(6_000)
    assert not dict(world.image().shards())
    world.nodes[3].start()
    world.run(2_000)
    assert world.is_at_rest()


def test_the_shards_of_a_dead_node_are_led_by_others_and_those_it_followed_are_let_be() -> None:
    world = at_rest()
    (controller,) = world.controllers()
    dead = next(number for number in world.nodes if number != controller)
    before = {shard: world.shard(shard) for shard in range(SHARDS)}
    world.nodes[dead].kill()
    world.run(4_000)
    assert world.is_at_rest()
    for shard, entry in before.items():
        if entry.leader == dead:
            assert world.shard(shard).leader_epoch == entry.leader_epoch + 1
            assert dead not in world.shard(shard).isr
        else:
            assert world.shard(shard) == entry


def test_a_refused_connection_is_death_enough() -> None:
    world = at_rest()
    (controller,) = world.controllers()
    dead = next(number for number in world.nodes if number != controller)
    node_epoch = world.image().live[dead].value.node_epoch
    world.nodes[dead].kill()
    world.nodes[controller].take(NodeRefused(dead, node_epoch))
    world.run(200)
    assert dead in world.image().live, "ZooKeeper does not know yet"
    assert {world.shard(shard).leader for shard in range(SHARDS)} == set(world.nodes) - {dead}


def test_when_the_controller_dies_another_takes_the_next_epoch() -> None:
    world = at_rest()
    (dead,) = world.controllers()
    others = [node for node in world.nodes.values() if node.number != dead]
    world.nodes[dead].kill()
    for node in others:
        node.take(NodeRefused(dead, world.image().live[dead].value.node_epoch))
    world.run(500)
    (controller,) = world.controllers()
    assert controller != dead
    assert world.nodes[controller].said[0] == TookOffice(2)
    assert dead not in {world.shard(shard).leader for shard in range(SHARDS)}
    world.run(4_000)
    assert world.is_at_rest()


def test_a_restarted_leader_does_not_lead_what_its_former_life_led() -> None:
    world = at_rest()
    (controller,) = world.controllers()
    restarted = next(number for number in world.nodes if number != controller)
    world.nodes[restarted].kill()
    world.nodes[restarted].start()
    world.run(500)
    for shard in range(SHARDS):
        entry = world.shard(shard)
        if entry.leader == restarted:
            assert entry.leader_node_epoch == 1
    assert any(node == restarted for node in (world.shard(shard).replicas[0] for shard in range(SHARDS)))
    assert world.is_at_rest()


def test_leaderships_go_back_to_preferred_replicas_after_a_while() -> None:
    world = at_rest()
    (controller,) = world.controllers()
    dead = next(number for number in world.nodes if number != controller)
    world.nodes[dead].kill()
    world.run(4_000)
    world.nodes[dead].start()
    world.run(1_000)
    for shard in range(SHARDS):
        world.change_isr(shard, (*(node for node in world.shard(shard).isr if node != dead), dead))
    world.run(1_000)
    assert dead not in {world.shard(shard).leader for shard in range(SHARDS)}
    world.run(8_000)
    assert [world.shard(shard).leader for shard in range(SHARDS)] == [
        world.shard(shard).replicas[0] for shard in range(SHARDS)
    ]


def test_a_draining_node_is_relieved_and_stays_in_sync() -> None:
    world = at_rest()
    (controller,) = world.controllers()
    drained = next(number for number in world.nodes if number != controller)
    world.nodes[drained].draining()
    world.run(1_000)
    for shard in range(SHARDS):
        assert world.shard(shard).leader != drained
        assert drained in world.shard(shard).isr


@pytest.mark.parametrize("reason", StepDownReason)
def test_a_leader_that_steps_down_is_followed_by_another(reason: StepDownReason) -> None:
    world = at_rest()
    (controller,) = world.controllers()
    entry = world.shard(0)
    leader = entry.leader
    assert leader is not None
    old = StepDown(0, entry.leader_epoch - 1, reason)
    world.nodes[controller].take(old)
    world.run(500)
    assert world.shard(0) == entry, "of another epoch"
    world.nodes[controller].take(replace(old, leader_epoch=entry.leader_epoch))
    world.run(500)
    after = world.shard(0)
    assert after.leader not in (leader, None)
    assert after.leader_epoch == entry.leader_epoch + 1
    assert (leader in after.isr) == (reason is not StepDownReason.LACKS_RECORDS)
    world.run(10_000)
    is_back = world.shard(0).leader == leader
    assert is_back == (reason is StepDownReason.STALLED), "who cannot load it is not asked again in this life"


def test_after_a_start_of_the_whole_cluster_the_longest_log_leads() -> None:
    world = at_rest()
    for node in world.nodes.values():
        node.kill()
    world.run(4_000)
    assert not world.image().live
    for number, node in world.nodes.items():
        node.log_ends = {shard: LogEnd(leader_epoch=1, end=100 + (number == 3)) for shard in range(SHARDS)}
    for number in (1, 2, 3):
        world.nodes[number].start()
        world.run(600)
    world.run(500)
    assert {world.shard(shard).leader for shard in range(SHARDS)} == {3}
    assert {frozenset(world.shard(shard).isr) for shard in range(SHARDS)} == {frozenset((1, 2, 3))}


def test_a_bucket_that_cannot_be_read_is_left_alone() -> None:
    world = at_rest()
    (controller,) = world.controllers()
    dead = next(number for number in world.nodes if number != controller)
    check, world.servers.on_commit = world.servers.on_commit, lambda _change: None
    assert world.write(0, (ZkSet("/shards/0", b"garbage", world.servers.tree["/shards/0"].version),))
    world.servers.on_commit = check
    world.nodes[dead].kill()
    world.run(5_000)
    assert world.servers.tree["/shards/0"].data == b"garbage"
    led = {shard: entry.leader for shard, entry in world.image().shards()}
    assert sorted(led) == [1, 2, 4, 5]
    assert dead not in led.values()


def test_a_deposed_controller_leaves_and_writes_nothing() -> None:
    world = at_rest()
    (old,) = world.controllers()
    world.nodes[old].port.hold()
    world.run(6_000)
    assert len(world.controllers()) == 2, "the old one does not know"
    world.nodes[old].port.let_go()
    world.run(1_000)
    assert any(isinstance(said, LeftOffice) for said in world.nodes[old].said)
    assert old not in world.controllers()
    world.run(3_000)
    assert world.is_at_rest()


def test_a_controller_that_was_taken_for_dead_leaves_the_office_to_its_successor() -> None:
    world = at_rest()
    (old,) = world.controllers()
    other = next(node for node in world.nodes.values() if node.number != old)
    other.take(NodeRefused(old, world.image().live[old].value.node_epoch))
    world.run(500)
    assert world.controllers() == [other.number]
    assert world.nodes[old].said[-1] == LeftOffice("another node has become controller")


def test_a_controller_that_was_deposed_lets_others_stand_first() -> None:
    """Two nodes that take each other for dead would depose each other without end."""
    world = at_rest()
    (old,) = world.controllers()
    other = next(node for node in world.nodes.values() if node.number != old)
    for node, dead in ((other, old), (world.nodes[old], other.number)):
        node.take(NodeRefused(dead, world.image().live[dead].value.node_epoch))
    world.run(9_500)
    assert world.controllers() == [other.number]
    assert world.epoch() == 2
    world.run(1_000)
    assert world.controllers() == [old]
    assert world.epoch() == 3


def test_a_controller_that_was_deposed_stands_again_when_nobody_else_is_there() -> None:
    world = at_rest()
    (old,) = world.controllers()
    other = next(node for node in world.nodes.values() if node.number != old)
    other.take(NodeRefused(old, world.image().live[old].value.node_epoch))
    world.run(500)
    assert world.controllers() == [other.number]
    for node in world.nodes.values():
        if node.number != old:
            node.kill()
    world.run(9_000)
    assert world.controllers() == []
    world.run(1_500)
    assert world.controllers() == [old]


def test_a_node_whose_lives_are_not_counted_is_named_and_given_nothing_to_lead() -> None:
    world = at_rest()
    (controller,) = world.controllers()
    other = next(number for number in world.nodes if number != controller)
    known = world.servers.tree[f"/nodes/known/{other}"]
    assert world.write(0, (ZkDelete(f"/nodes/known/{other}", known.version),))
    world.run(1_000)
    why = (
        f"/nodes/live/{other} has node epoch 0, and there is no /nodes/known/{other}: it can be taken into no in-sync "
        "set and is given nothing to lead; put ZooKeeper's data back, or stop that node"
    )
    assert world.nodes[controller].said[-1] == Stuck((why,)) or Stuck((why,)) in world.nodes[controller].said
    assert other not in {world.shard(shard).leader for shard in range(SHARDS)}
    assert all(other in world.shard(shard).isr for shard in range(SHARDS))
    assert world.write(0, (ZkCreate(f"/nodes/known/{other}", known.data),))
    world.run(6_000)
    assert [said for said in world.nodes[controller].said if isinstance(said, Stuck)] == [Stuck((why,)), Stuck(())]
    assert world.shard(world.led_first_by(other)).leader == other


def test_when_no_life_is_counted_every_leader_goes_on() -> None:
    world = at_rest()
    before = dict(world.image().shards())
    removed = [f"/nodes/known/{number}" for number in world.nodes]
    assert world.write(0, tuple(ZkDelete(path, world.servers.tree[path].version) for path in removed))
    world.run(5_000)
    assert dict(world.image().shards()) == before


def test_a_live_node_of_no_session_is_named_and_counts_as_dead() -> None:
    world = at_rest()
    (controller,) = world.controllers()
    dead = next(number for number in world.nodes if number != controller)
    world.nodes[dead].kill()
    world.run(4_000)
    known = world.servers.tree[f"/nodes/known/{dead}"]
    live = LiveNode(node_epoch=known.version, directory_id="d", addresses={}, rack="r", release="1")
    assert world.write(0, (ZkCreate(f"/nodes/live/{dead}", encode(live)),))
    for shard in range(SHARDS):
        world.change_isr(shard, (*(node for node in world.shard(shard).isr if node != dead), dead))
    world.run(15_000)
    assert dead not in {world.shard(shard).leader for shard in range(SHARDS)}
    why = f"/nodes/live/{dead} is of no session and never ends by itself, so it counts as not there: remove it"
    assert world.nodes[controller].said[-1] == Stuck((why,)) or Stuck((why,)) in world.nodes[controller].said


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (
            encode(ActiveController(node_id=9, node_epoch=0, controller_epoch=7)),
            "/controller/active is of no session and never ends by itself, so nobody can become controller: remove it",
        ),
        (b"garbage", "/controller/active cannot be read, so nobody can become controller: JSON is malformed"),
    ],
)
def test_garbage_in_the_way_of_every_candidate_is_named_by_each(data: bytes, why: str) -> None:
    world = World(0)
    check, world.servers.on_commit = world.servers.on_commit, lambda _change: None
    assert world.write(0, (ZkCreate("/controller/active", data),))
    world.run(4_000)
    for node in world.nodes.values():
        (said,) = node.said
        assert isinstance(said, Stuck)
        assert len(said.whys) == 1
        assert said.whys[0].startswith(why)
    world.servers.on_commit = check
    assert world.write(0, (ZkDelete("/controller/active", 0),))
    world.run(4_000)
    assert world.is_at_rest()
    assert all(Stuck(()) in node.said for node in world.nodes.values())


def test_a_folder_that_was_removed_is_named_and_not_asked_for_without_end() -> None:
    world = World(0)
    assert world.write(0, (ZkDelete("/shards", 0),))
    world.run(10_000)
    (controller,) = world.controllers()
    assert world.nodes[controller].machine.request_id <= 12
    why = "ZooKeeper has a cluster and no /shards: a part of its data was removed; put it back"
    assert world.nodes[controller].said == [TookOffice(1), Stuck((why,))]
    assert world.write(0, (ZkCreate("/shards", b""),))
    world.run(2_000)
    assert world.is_at_rest()


@pytest.mark.parametrize("is_controller_new", [False, True])
def test_shards_that_were_removed_are_named_and_not_made_anew_from_the_first_epoch(is_controller_new: bool) -> None:
    world = at_rest()
    (controller,) = world.controllers()
    bucket = world.servers.tree["/shards/1"]
    trace = "shard 1 was found in it, in leader epoch 1"
    if is_controller_new:
        world.nodes[1].log_ends = {4: LogEnd(leader_epoch=1, end=7)}
        for node in world.nodes.values():
            node.kill()
        trace = "node 1 has a log of shard 4"
    assert world.write(0, (ZkDelete("/shards/1", bucket.version),))
    if is_controller_new:
        world.run(4_000)
        for node in world.nodes.values():
            node.start()
    world.run(5_000)
    (controller,) = world.controllers()
    why = (
        f"ZooKeeper has no /shards/1, and {trace}: a part of its data was removed, and leader epochs would be given "
        "again; put it back"
    )
    assert Stuck((why,)) in world.nodes[controller].said
    assert sorted(shard for shard, _ in world.image().shards()) == [0, 2, 3, 5]
    check, world.servers.on_commit = world.servers.on_commit, lambda _change: None
    assert world.write(0, (ZkCreate("/shards/1", bucket.data),))
    world.servers.on_commit = check
    world.run(2_000)
    assert world.nodes[controller].machine.stuck == ()


def test_nothing_is_asked_again_at_rest() -> None:
    world = at_rest()
    world.run(10_000)
    before = dict(world.servers.tree)
    committed = world.servers.committed
    world.run(60_000)
    assert (world.servers.tree, world.servers.committed) == (before, committed)


@pytest.mark.parametrize("seed", range(20))
def test_whatever_fails_every_shard_is_led_in_the_end(seed: int) -> None:
    manners = Manners(delays_ms=(0, 1, 15), thread_delays_ms=(0, 3, 20), loses_watches=0.02, doubles_watches=0.1)
    world = World(seed, manners)
    dice = Random(f"faults {seed}")
    for _ in range(80):
        node = world.nodes[dice.randint(1, 3)]
        match dice.randrange(9):
            case 0 if node.is_up:
                node.kill()
            case 1 | 2 if not node.is_up:
                node.start()
            case 3:
                node.port.cut()
            case 4:
                node.port.hold()
            case 5 | 6:
                node.port.let_go()
            case 7:
                world.servers.expire(node.port.owner)
            case 8 if shards := dict(world.image().shards()):
                shard = dice.choice(sorted(shards))
                entry = shards[shard]
                if entry.leader is not None:
                    followers = [each for each in entry.replicas if each != entry.leader]
                    size = dice.randint(CLUSTER.min_insync_replicas - 1, len(followers))
                    isr = {entry.leader, *dice.sample(followers, size)}
                    world.change_isr(shard, tuple(each for each in entry.replicas if each in isr))
            case _:
                pass
        world.run(dice.choice((1, 20, 200, 3_000)))
    for node in world.nodes.values():
        node.port.let_go()
        if not node.is_up:
            node.start()
    world.run(45_000)
    assert world.is_at_rest(), (world.controllers(), dict(world.image().shards()), world.image().live)
    assert world.history, "leaders have changed on the way"
