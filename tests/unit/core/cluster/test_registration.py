"""Who may join a cluster, under which node epoch, and what is left before anybody can be elected for it."""

from dataclasses import replace
from random import Random

import msgspec.structs
import pytest

from coordinator.core.cluster.effects import JoinedCluster, LifeBegan, MayNotJoin, RememberSeen, Stuck
from coordinator.core.cluster.events import Obeyed, RegistrationEvent, Remembered, StateWanted, Ticked
from coordinator.core.cluster.identity import Identity, ZkSeen, contradiction
from coordinator.core.cluster.image import Image, read_node
from coordinator.core.cluster.registration import (
    MARGIN_MS,
    REMEMBER_EVERY_MS,
    Registration,
    begin,
    is_of_our_time,
    step,
    waits_for,
)
from coordinator.core.cluster.transactions import BucketChange, change_shards
from coordinator.core.cluster.znodes import (
    FOLDERS,
    Bucket,
    Cluster,
    ControllerEpoch,
    KnownNode,
    LiveNode,
    NodeState,
    ShardEntry,
    encode,
    encode_bucket,
)
from coordinator.core.cluster.zookeeper import (
    ZkApplied,
    ZkAspect,
    ZkChanged,
    ZkCreate,
    ZkDelete,
    ZkMulti,
    ZkMultiDone,
    ZkNode,
    ZkOperation,
    ZkRead,
    ZkReadDone,
    ZkRefusal,
    ZkRefused,
    ZkSession,
    ZkSet,
    ZkState,
    ZkUnknown,
    ZkUnread,
    ZkValues,
)
from tests.sim.schedule import Schedule
from tests.sim.zookeeper import Manners, SimulatedZooKeeper
from tests.sim.zookeeper_servers import Servers

CLUSTER = Cluster(cluster_id="c1", shards=2, buckets=1, replication_factor=2, min_insync_replicas=2)
TIMEOUT_MS = 2_000


class World:
    def __init__(self, seed: int = 0) -> None:
        self.schedule = Schedule()
        self.dice = Random(seed)
        self.servers = Servers(self.schedule, self.dice)

    def run(self, ms: int = 1_000) -> None:
        self.schedule.run_until(self.schedule.now_ms + ms)

    def write(self, *operations: ZkOperation, owner: int = 0) -> None:
        assert isinstance(self.servers.multi(self.servers.servers[0], owner, operations), ZkApplied)

    def image(self) -> Image:
        image = Image()
        for path, node in self.servers.tree.items():
            image = read_node(image, path, node)
        return image

    def make_shards(self, *entries: ShardEntry) -> None:
        bucket = Bucket(shards=dict(enumerate(entries)))
        self.write(*next(change_shards(0, [BucketChange(0, bucket, None)])))

    def isrs(self) -> list[tuple[int, ...]]:
        return [entry.isr for _, entry in self.image().shards()]


class Newcomer:
    """A process of a node that registers; its directory is a value."""

    def __init__(self, world: World, identity: Identity, loses_watches: float = 0.0) -> None:
        self.world = world
        self.machine: Registration = begin(identity, TIMEOUT_MS)
        self.said: list[JoinedCluster | LifeBegan | MayNotJoin | Stuck] = []
        self.remembered = identity.seen
        self.lacks = identity.lacks
        self.wrote: list[RememberSeen] = []
        self.is_up = True
        self.port = SimulatedZooKeeper(
            world.servers,
            world.schedule,
            world.dice,
            self.take,
            session_timeout_ms=TIMEOUT_MS,
            manners=Manners(loses_watches=loses_watches),
        )
        self.port.start()
        self._tick()

    def kill(self) -> None:
        self.is_up = False
        self.port.die()

    def _tick(self) -> None:
        if self.is_up:
            self.take(Ticked())
            self.world.schedule.after(100, self._tick)

    def take(self, event: RegistrationEvent) -> None:
        self.machine, effects = step(self.machine, event, self.world.schedule.now_ms)
        for effect in effects:
            match effect:
                case ZkRead():
                    self.port.read(effect)
                case ZkMulti():
                    self.port.commit(effect)
                case RememberSeen():
                    assert self.is_up
                    self.remembered, self.lacks = ZkSeen(effect.node_epoch, effect.buckets), effect.lacks
                    self.wrote.append(effect)
                case JoinedCluster():
                    self.said.append(effect)
                    self.world.schedule.after(5, self.take, Remembered())
                case _:
                    self.said.append(effect)


class Hurried(Newcomer):
    """One that reads a bucket which others write all the time: never twice the same."""

    def take(self, event: RegistrationEvent) -> None:
        if isinstance(event, ZkReadDone):
            changed(self.world)
        super().take(event)


def identity(node_id: int, *, directory: str = "", starts: int = 1, cluster: str = "", place: str = "") -> Identity:
    return Identity(
        node_id=node_id,
        directory_id=directory or f"d{node_id}",
        starts=starts,
        forms=CLUSTER,
        addresses={"peers": f"n{node_id}:9293"},
        rack="r",
        release="1",
        cluster_id=cluster,
        place=place,
    )


def two_nodes(place: str = "") -> tuple[World, Newcomer, Newcomer]:
    """Return a cluster of two nodes that both are in sync with two shards, of which each leads one."""
    world = World()
    one, two = Newcomer(world, identity(1, place=place)), Newcomer(world, identity(2))
    world.run()
    world.make_shards(
        ShardEntry(leader=1, leader_node_epoch=0, leader_epoch=1, isr=(1, 2), replicas=(1, 2)),
        ShardEntry(leader=2, leader_node_epoch=0, leader_epoch=1, isr=(2, 1), replicas=(2, 1)),
    )
    return world, one, two


def test_the_first_nodes_form_one_cluster_and_each_begins_its_first_life() -> None:
    for seed in range(10):
        world = World(seed)
        nodes = [Newcomer(world, identity(number)) for number in (1, 2, 3)]
        world.run()
        assert [node.said for node in nodes] == [[JoinedCluster("c1", 2), LifeBegan(0)]] * 3
        image = world.image()
        assert sorted(image.live) == [1, 2, 3]
        assert image.live[1].value.addresses == {"peers": "n1:9293"}


def test_a_node_that_restarts_does_not_wait_for_its_former_life_to_expire() -> None:
    world, one, _ = two_nodes()
    one.kill()
    again = Newcomer(world, identity(1, starts=2, cluster="c1"))
    world.run(200)
    assert again.said == [LifeBegan(1)]
    assert world.image().live[1].value.node_epoch == 1
    assert world.isrs() == [(1, 2), (2, 1)], "its disk has all that it had"


def test_a_session_that_ends_is_followed_by_another_life_which_leaves_nothing() -> None:
    world, one, _ = two_nodes()
    world.servers.expire(one.port.owner)
    world.run()
    assert one.said == [JoinedCluster("c1", 2), LifeBegan(0), LifeBegan(1)]
    assert world.isrs() == [(1, 2), (2, 1)]


@pytest.mark.parametrize("is_connected", [True, False])
def test_a_node_that_is_to_be_emptied_says_so_until_it_is_to_be_filled_again(is_connected: bool) -> None:
    world, one, two = two_nodes()
    if not is_connected:
        one.port.cut()
    one.take(StateWanted(NodeState.DRAINING))
    world.run()
    states = {node: live.value.state for node, live in world.image().live.items()}
    assert states == {1: NodeState.DRAINING, 2: NodeState.READY}
    one.take(StateWanted(NodeState.READY))
    world.run()
    assert world.image().live[1].value.state is NodeState.READY
    assert [each.said for each in (one, two)] == [[JoinedCluster("c1", 2), LifeBegan(0)]] * 2


def test_a_node_that_was_told_to_stop_is_filled_again_by_nobody() -> None:
    world, one, _ = two_nodes()
    one.take(StateWanted(NodeState.DRAINING, is_last=True))
    one.take(StateWanted(NodeState.READY))
    world.run()
    assert world.image().live[1].value.state is NodeState.DRAINING


def test_a_node_that_is_being_emptied_is_so_in_its_next_life_too() -> None:
    world, one, _ = two_nodes()
    one.take(StateWanted(NodeState.DRAINING))
    world.servers.expire(one.port.owner)
    world.run()
    live = world.image().live[1].value
    assert (live.node_epoch, live.state) == (1, NodeState.DRAINING)


def test_a_node_whose_registration_was_removed_registers_anew_and_leaves_nothing() -> None:
    world, one, two = two_nodes()
    _remove(world, "/nodes/live/1")
    world.run()
    assert one.said == [JoinedCluster("c1", 2), LifeBegan(0), LifeBegan(1)]
    assert world.image().live[1].owner == one.port.owner
    assert world.isrs() == [(1, 2), (2, 1)]
    assert two.said == [JoinedCluster("c1", 2), LifeBegan(0)]


def test_a_copy_of_a_directory_is_refused_while_its_node_runs_which_notices_nothing() -> None:
    world, one, _ = two_nodes("here")
    copy = Newcomer(world, identity(1, starts=2, cluster="c1", place="there"))
    world.run(TIMEOUT_MS + MARGIN_MS + 1_000)
    assert copy.said == [
        MayNotJoin(
            "node 1 runs (peers n1:9293), with directory d1, and so has this process in another place: this is a copy, "
            "or that is. Leave alone which of them was there first, and never start the other one; a new node gets an "
            "id of its own and an empty directory"
        )
    ]
    assert one.said == [JoinedCluster("c1", 2), LifeBegan(0)]
    assert world.isrs() == [(1, 2), (2, 1)]


@pytest.mark.parametrize(("place", "within_ms"), [("here", 200), ("there", TIMEOUT_MS + MARGIN_MS)])
def test_a_node_that_restarts_elsewhere_waits_for_the_session_of_its_former_life(place: str, within_ms: int) -> None:
    world, one, _ = two_nodes("here")
    one.kill()
    again = Newcomer(world, identity(1, starts=2, cluster="c1", place=place))
    world.run(200)
    assert (again.said == [LifeBegan(1)]) is (place == "here")
    world.run(within_ms)
    assert again.said == [LifeBegan(1)]
    assert world.image().live[1].value.place == place
    assert world.isrs() == [(1, 2), (2, 1)]


def test_a_process_in_whose_place_another_registers_with_a_copy_of_its_directory_stops() -> None:
    world, one, _ = two_nodes()
    copy = Newcomer(world, identity(1, starts=2, cluster="c1"))
    world.run()
    assert copy.said == [LifeBegan(1)]
    assert one.said[2:] == [
        MayNotJoin(
            "another process has registered as node 1 (peers n1:9293), with directory d1, while this one has d1: one "
            "of them runs on a copy, and is to be stopped"
        )
    ]


@pytest.mark.parametrize(
    "back",
    [identity(1, directory="new"), identity(1, starts=1, cluster="c1")],
    ids=["a new directory", "a copy that was started as often"],
)
def test_a_disk_that_lacks_what_was_acknowledged_is_in_no_in_sync_set_when_it_is_registered(back: Identity) -> None:
    world, one, _ = two_nodes()
    one.kill()
    world.run(4_000)
    again = Newcomer(world, back)
    world.run()
    assert again.said[-1] == LifeBegan(1)
    entries = [entry for _, entry in world.image().shards()]
    assert [(entry.leader, entry.isr, entry.leader_epoch) for entry in entries] == [(None, (2,), 1), (2, (2,), 1)]
    # It has come back into one of them properly: the end of a session is no reason to leave that.
    bucket = world.image().buckets[0]
    joined = Bucket(shards={**bucket.value.shards, 1: two_nodes()[0].image().buckets[0].value.shards[1]})
    world.write(*next(change_shards(0, [BucketChange(0, joined, bucket.version)])))
    world.servers.expire(again.port.owner)
    world.run()
    assert again.said[-1] == LifeBegan(2)
    assert world.isrs() == [(2,), (2, 1)]


def test_a_damaged_shard_is_left_alone() -> None:
    world, one, _ = two_nodes()
    one.kill()
    again = Newcomer(world, replace(identity(1, starts=2, cluster="c1"), damaged=frozenset({1})))
    world.run()
    assert again.said == [LifeBegan(1)]
    assert world.isrs() == [(1, 2), (2,)]


NEW = identity(1, directory="new")
OLDER = identity(1, starts=1, cluster="c1")
DAMAGED = replace(identity(1, starts=2, cluster="c1"), damaged=frozenset({0, 1}))
GARBAGE = b"garbage"


@pytest.mark.parametrize("is_restarted", [False, True])
@pytest.mark.parametrize("back", [NEW, OLDER, DAMAGED], ids=["new", "older", "damaged"])
def test_in_sync_sets_that_cannot_be_read_are_left_as_soon_as_they_can(back: Identity, is_restarted: bool) -> None:
    world, one, _ = two_nodes()
    one.kill()
    world.run(4_000)
    right = world.servers.tree["/shards/0"].data
    _set(world, "/shards/0", GARBAGE)
    again = Newcomer(world, back)
    world.run()
    assert again.said[-1] == LifeBegan(1)
    assert world.image().live[1].value.lacks == (0, 1), "nobody may elect it"
    assert again.lacks == {0, 1}
    if is_restarted:
        again.kill()
        again = Newcomer(
            world,
            replace(back, starts=3, cluster_id="c1", damaged=frozenset(), seen=again.remembered, lacks=again.lacks),
        )
    else:
        world.servers.expire(again.port.owner)
    world.run()
    assert again.said[-1] == LifeBegan(2)
    assert world.image().live[1].value.lacks == (0, 1)
    _set(world, "/shards/0", right)
    world.run()
    entries = [entry for _, entry in world.image().shards()]
    assert [(entry.leader, entry.isr, entry.leader_epoch) for entry in entries] == [(None, (2,), 1), (2, (2,), 1)]
    assert world.image().live[1].value.lacks == ()
    assert again.lacks == frozenset()


def test_a_node_leaves_once_what_it_could_not_read_and_stays_in_what_it_has_come_back_into() -> None:
    world, one, _ = two_nodes()
    one.kill()
    world.run(4_000)
    right = world.servers.tree["/shards/0"].data
    _set(world, "/shards/0", right.replace(b'"replicas":[2,1]', b'"replicas":[]'))
    again = Newcomer(world, NEW)
    world.run()
    assert (world.isrs(), world.image().live[1].value.lacks) == ([(2,)], (1,)), "an entry speaks for itself alone"
    _set(world, "/shards/0", right)
    world.run()
    assert world.isrs() == [(1, 2), (2,)], "shard 0 was left before, and somebody has taken it back"
    _set(world, "/shards/0", right)
    world.run()
    assert world.isrs() == [(1, 2), (2, 1)]
    assert again.said == [JoinedCluster("c1", 2), LifeBegan(1)]


def test_a_bucket_that_is_missing_lacks_nothing_where_none_was_ever_made() -> None:
    world = World()
    one = Newcomer(world, identity(1))
    world.run()
    one.kill()
    world.run(4_000)
    again = Newcomer(world, NEW)
    world.run()
    assert again.said[-1] == LifeBegan(1)
    assert world.image().live[1].value.lacks == ()


def test_a_bucket_that_is_missing_beside_others_is_left_when_it_is_put_back() -> None:
    world, one, _ = two_nodes()
    _set(world, "/cluster", encode(replace_buckets(CLUSTER)))
    bucket = world.image().buckets[0].value
    world.write(ZkSet("/shards/0", encode_bucket(Bucket(shards={0: bucket.shards[0]})), 0))
    one.kill()
    world.run(4_000)
    again = Newcomer(world, NEW)
    world.run()
    assert (again.said[-1], world.image().live[1].value.lacks) == (LifeBegan(1), (1,))
    world.write(*next(change_shards(0, [BucketChange(1, Bucket(shards={1: bucket.shards[1]}), None)])))
    world.run()
    assert world.isrs() == [(2,), (2,)]


def replace_buckets(cluster: Cluster) -> Cluster:
    return msgspec.structs.replace(cluster, buckets=2)


def test_a_node_id_that_is_in_use_is_refused_with_whom_it_belongs_to() -> None:
    world, _, _ = two_nodes()
    twin = Newcomer(world, identity(1, directory="other"))
    world.run(TIMEOUT_MS)
    assert twin.said == [JoinedCluster("c1", 2)]
    world.run(MARGIN_MS + 1_000)
    (said,) = twin.said[1:]
    assert said == MayNotJoin(
        "node id 1 is in use by the node with directory d1 (peers n1:9293): give each node an id of its own. If that "
        "one is gone for good, its session with ZooKeeper lasts longer than this node waits for: start again in a "
        "moment"
    )
    assert world.image().live[1].value.directory_id == "d1"


def test_a_node_id_is_waited_for_as_long_as_the_session_of_who_has_it_may_last() -> None:
    world, one, _ = two_nodes()
    one.kill()
    world.run(4_000)
    long_ms = 4 * TIMEOUT_MS
    former = LiveNode(node_epoch=0, directory_id="d1", addresses={}, rack="r", release="1", session_timeout_ms=long_ms)
    somebody = world.servers.begin_session(long_ms, lambda: None)
    world.write(ZkCreate("/nodes/live/1", encode(former), is_ephemeral=True), owner=somebody)
    world.servers.not_heard(somebody)
    anew = Newcomer(world, identity(1, directory="another"))
    world.run(TIMEOUT_MS + MARGIN_MS + 500)
    assert not any(isinstance(said, MayNotJoin | LifeBegan) for said in anew.said)
    world.run(long_ms)
    assert any(isinstance(said, LifeBegan) for said in anew.said)


def test_a_node_that_is_not_registered_says_what_it_waits_for() -> None:
    world, one, _ = two_nodes()
    assert waits_for(one.machine) == ""
    twin = Newcomer(world, identity(1, directory="other"))
    assert waits_for(twin.machine) == "no server of ZooKeeper answers"
    world.run(TIMEOUT_MS)
    assert waits_for(twin.machine) == (
        "another directory is registered as node 1, and this node stops if that does not end"
    )
    stuck = replace(twin.machine, other_since_ms=None, stuck=("it may not", "nor that"))
    assert waits_for(stuck) == "it may not; nor that"


def test_a_node_that_may_not_read_says_so_for_as_long_as_that_lasts() -> None:
    world = World()
    node = Newcomer(world, identity(1))
    port_read = node.port.read

    def refuse(read: ZkRead) -> None:
        done = ZkReadDone(read.session, read.request_id, ZkUnread("/controller/epoch: NoAuthError"))
        world.schedule.after(1, node.take, done)

    node.port.read = refuse  # type: ignore[method-assign]
    world.run(3_000)
    assert waits_for(node.machine) == "ZooKeeper has not answered all that was asked: /controller/epoch: NoAuthError"
    node.port.read = port_read  # type: ignore[method-assign]
    world.run(3_000)
    assert waits_for(node.machine) == ""


def test_a_node_whose_disk_was_replaced_waits_for_the_end_of_its_former_life() -> None:
    world, one, _ = two_nodes()
    one.kill()
    again = Newcomer(world, identity(1, directory="new"))
    world.run(TIMEOUT_MS + MARGIN_MS + 1_000)
    assert again.said == [JoinedCluster("c1", 2), LifeBegan(1)]
    assert world.isrs() == [(2,), (2,)]


def test_a_former_life_that_could_not_end_while_zookeeper_did_not_run_is_waited_for_anew() -> None:
    world, one, _ = two_nodes()
    again = Newcomer(world, identity(1, directory="new"))
    world.run()
    one.kill()
    world.servers.go_away()
    world.run(TIMEOUT_MS + MARGIN_MS)
    world.servers.come_back()
    world.run(TIMEOUT_MS + MARGIN_MS + 1_000)
    assert again.said == [JoinedCluster("c1", 2), LifeBegan(1)]


def test_a_former_life_whose_end_no_watch_has_told_of_is_looked_for_before_a_node_stops() -> None:
    world, one, _ = two_nodes()
    again = Newcomer(world, identity(1, directory="new"), loses_watches=1.0)
    world.run()
    one.kill()
    world.run(TIMEOUT_MS + MARGIN_MS)
    assert again.said == [JoinedCluster("c1", 2), LifeBegan(1)]


def _set(world: World, path: str, data: bytes) -> None:
    world.write(ZkSet(path, data, world.servers.tree[path].version))


@pytest.mark.parametrize(
    ("which", "said"),
    [
        (identity(3, cluster="c2"), "belongs to cluster c2, and ZooKeeper has cluster c1"),
        (replace(identity(3, cluster="c1"), controller_epoch=7), "has controller epoch 0, and this node has obeyed 7"),
    ],
)
def test_a_directory_of_another_cluster_or_time_is_refused(which: Identity, said: str) -> None:
    world, _, _ = two_nodes()
    node = Newcomer(world, which)
    world.run()
    (refused,) = node.said
    assert isinstance(refused, MayNotJoin)
    assert said in refused.why
    assert 3 not in world.image().known


OLDER_VERSION = (
    "ZooKeeper has version 1 of /shards/0, and this node has seen 2: its data is from an earlier time, in which others "
    "led and were in sync; put its newest data back"
)
OLDER_LIFE = (
    "ZooKeeper has node epoch 0 of this node, which has been registered under 1: its data is from an earlier time, and "
    "it would give the same epochs again; put its newest data back"
)
MISSING = (
    "ZooKeeper has no /shards/7, and this node has seen version 0 of it: its data is from an earlier time, or a part "
    "of it was removed, and leader epochs would be given again; put its newest data back"
)


def changed(world: World) -> None:
    """Have somebody change the one bucket there is."""
    bucket = world.image().buckets[0]
    world.write(*next(change_shards(0, [BucketChange(0, bucket.value, bucket.version)])))


def test_a_node_remembers_how_far_zookeeper_is_before_it_lives_and_when_that_changes() -> None:
    world, one, _ = two_nodes()
    world.run(REMEMBER_EVERY_MS + 1_000)
    assert one.remembered == ZkSeen(0, {0: 0})
    changed(world)
    world.run(REMEMBER_EVERY_MS + 1_000)
    assert one.remembered == ZkSeen(0, {0: 1})
    world.servers.expire(one.port.owner)
    world.run()
    assert one.remembered == ZkSeen(1, {0: 1})


@pytest.mark.parametrize(
    ("seen", "said"),
    [
        (ZkSeen(0, {0: 1}), None),
        (ZkSeen(0, {0: 2}), OLDER_VERSION),
        (ZkSeen(1, {0: 1}), OLDER_LIFE),
        (ZkSeen(0, {0: 1, 7: 0}), MISSING),
    ],
    ids=["as it was", "older bucket", "older life", "no bucket"],
)
def test_a_node_does_not_register_where_less_is_than_it_has_seen(seen: ZkSeen, said: str | None) -> None:
    world, one, _ = two_nodes()
    one.kill()
    changed(world)
    again = Newcomer(world, replace(identity(1, starts=2, cluster="c1"), seen=seen))
    world.run(TIMEOUT_MS + MARGIN_MS)
    assert again.said == [LifeBegan(1) if said is None else MayNotJoin(said)]


def test_a_node_whose_session_is_in_the_copy_stops_as_soon_as_it_is_connected_to_it() -> None:
    world, one, two = two_nodes()
    changed(world)
    tree = world.servers.copy()
    changed(world)
    world.run()
    world.servers.put_back(tree, keeps_sessions=True)
    world.run()
    for node in (one, two):
        assert node.said[-1] == MayNotJoin(OLDER_VERSION)
        assert not is_of_our_time(node.machine)


def test_a_node_stops_at_an_older_zookeeper_though_others_write_there_all_the_time() -> None:
    world, one, _ = two_nodes()
    one.kill()
    again = Hurried(world, replace(identity(1, starts=2, cluster="c1"), seen=ZkSeen(0, {0: 10_000})))
    world.run(2_000)
    (said,) = again.said
    assert isinstance(said, MayNotJoin)
    assert "and this node has seen 10000" in said.why


def test_a_bucket_that_somebody_removes_and_puts_back_stops_nobody_who_saw_it() -> None:
    world, one, _ = two_nodes()
    changed(world)
    world.run()
    bucket = world.servers.tree["/shards/0"]
    world.write(ZkDelete("/shards/0", bucket.version))
    world.run(REMEMBER_EVERY_MS)
    world.write(ZkCreate("/shards/0", bucket.data))
    one.port.cut()
    world.run(REMEMBER_EVERY_MS)
    assert one.said[-1] == LifeBegan(0)
    assert one.remembered == ZkSeen(0, {0: 0})


def test_a_zookeeper_that_lost_its_data_is_not_made_a_new_cluster() -> None:
    world = World()
    node = Newcomer(world, identity(1, cluster="c1"))
    world.run()
    (refused,) = node.said
    assert isinstance(refused, MayNotJoin)
    assert "belongs to cluster c1, and ZooKeeper has no cluster" in refused.why
    assert list(world.servers.tree) == ["/"]


def test_a_node_that_lives_when_zookeeper_is_wiped_stops_and_forms_nothing() -> None:
    world, one, _ = two_nodes()
    world.servers.wipe()
    world.run()
    assert isinstance(one.said[-1], MayNotJoin)
    assert list(world.servers.tree) == ["/"]


def test_a_node_that_lives_when_zookeeper_is_put_back_stops_where_epochs_would_be_given_again() -> None:
    world, one, two = two_nodes()
    tree = world.servers.copy()
    world.servers.expire(one.port.owner)
    world.run()
    one_lived, _ = one.said[-1], one.said.clear()
    assert one_lived == LifeBegan(1)
    two.take(Obeyed(7))
    two.said.clear()
    world.servers.put_back(tree)
    world.run()
    for node, said in (
        (one, "has node epoch 0 of this node, which has been registered under 1"),
        (two, "has controller epoch 0, and this node has obeyed 7"),
    ):
        (refused,) = node.said
        assert isinstance(refused, MayNotJoin)
        assert said in refused.why
        assert "earlier time" in refused.why


OLD = identity(1, starts=2, cluster="c1")
MADE_WITH = replace(OLD, shards=2)
FRESH = identity(3)
OTHER_NUMBER = (
    "/cluster in ZooKeeper says {} shards, and the data directory is of a cluster that was made with 2, which decides "
    "where each group is kept and never changes: put its value right"
)
OTHER_PLACE = "/cluster in ZooKeeper says {} shards in {} buckets, and shard {} {}: put right which of them is wrong"


@pytest.mark.parametrize(
    ("who", "numbers", "why"),
    [
        (MADE_WITH, {"shards": 1}, OTHER_NUMBER.format(1)),
        (MADE_WITH, {"shards": 4}, OTHER_NUMBER.format(4)),
        (MADE_WITH, {"buckets": 2}, OTHER_PLACE.format(2, 2, 1, "is in /shards/0")),
        (FRESH, {"shards": 1}, OTHER_PLACE.format(1, 1, 1, "is in /shards/0")),
        (FRESH, {"shards": 4}, OTHER_PLACE.format(4, 1, 2, "is not in /shards/0")),
        (FRESH, {"buckets": 2}, OTHER_PLACE.format(2, 2, 1, "is in /shards/0")),
        (MADE_WITH, {}, ""),
        (OLD, {}, ""),
        (FRESH, {}, ""),
    ],
)
def test_a_node_does_not_join_by_another_number_than_the_cluster_was_made_with(
    who: Identity, numbers: dict[str, int], why: str
) -> None:
    world, one, _ = two_nodes()
    one.kill()
    _set(world, "/cluster", encode(msgspec.structs.replace(CLUSTER, **numbers)))
    node = Newcomer(world, who)
    world.run()
    ends = [said.why for said in node.said if isinstance(said, MayNotJoin)]
    assert ends == ([why] if why else [])
    assert any(isinstance(said, LifeBegan) for said in node.said) == (not why)


def test_an_entry_too_many_costs_no_node_its_start_and_neither_does_garbage() -> None:
    world, one, _ = two_nodes()
    one.kill()
    entry = world.image().buckets[0].value.shards[0]
    cluster = msgspec.structs.replace(CLUSTER, buckets=2)
    _set(world, "/cluster", encode(cluster))
    _set(world, "/shards/0", encode_bucket(Bucket(shards={0: entry, 1: entry, 7: entry})))
    world.write(ZkCreate("/shards/1", encode_bucket(Bucket(shards={}, unread={"1": "garbage"}))))
    node = Newcomer(world, MADE_WITH)
    world.run()
    assert node.said == [LifeBegan(1)]


def test_a_node_that_runs_goes_on_when_somebody_changes_the_number_of_shards_and_when_it_is_put_right() -> None:
    world, one, _ = two_nodes()
    for shards in (1, 2):
        _set(world, "/cluster", encode(msgspec.structs.replace(CLUSTER, shards=shards)))
        world.run()
        assert one.said[2:] == []
        assert (one.machine.observer.image.cluster is None) == (shards == 1)


@pytest.mark.parametrize(
    ("said", "why"),
    [
        (b"garbage", "JSON is malformed: invalid character (byte 0)"),
        (
            encode(msgspec.structs.replace(CLUSTER, shards=1)),
            "it says 1 shards, and the cluster was made with 2, which never changes",
        ),
    ],
    ids=["garbage", "another number"],
)
def test_a_node_whose_session_ends_while_cluster_cannot_be_read_waits_until_it_is_put_right(
    said: bytes, why: str
) -> None:
    world, one, _ = two_nodes()
    _set(world, "/cluster", said)
    world.run()
    world.servers.expire(one.port.owner)
    world.run()
    assert one.said[2:] == [Stuck((f"/cluster in ZooKeeper cannot be read: {why}; put its value right",))]
    _set(world, "/cluster", encode(CLUSTER))
    world.run()
    assert one.said[3:] == [Stuck(()), LifeBegan(1)]
    assert world.isrs() == [(1, 2), (2, 1)]


@pytest.mark.parametrize(
    ("path", "who", "what_to_do"),
    [
        ("/cluster", identity(3), "put its value right, or remove it if there has never been a cluster"),
        ("/cluster", identity(1, cluster="c"), "put its value right"),
        (
            "/controller/epoch",
            replace(identity(1, cluster="c"), controller_epoch=7),
            "put its value right, with an epoch that there has not been: 7 has been obeyed here",
        ),
        ("/nodes/known/2", identity(2, cluster="c"), "put its value right"),
        ("/nodes/live/2", identity(2, cluster="c"), "remove it"),
    ],
)
def test_garbage_in_its_way_is_named_with_what_to_do(path: str, who: Identity, what_to_do: str) -> None:
    image = Image(unreadable={path: "JSON is malformed"})
    assert contradiction(image, who) == f"{path} in ZooKeeper cannot be read: JSON is malformed; {what_to_do}"


def _remove(world: World, path: str) -> None:
    """Delete a node with all that is in it, as a person does by mistake."""
    for each in sorted((each for each in world.servers.tree if f"{each}/".startswith(f"{path}/")), reverse=True):
        world.write(ZkDelete(each, world.servers.tree[each].version))


def test_a_node_whose_lives_are_not_counted_any_more_lives_on_and_stops_before_it_is_given_an_epoch_again() -> None:
    world, one, _ = two_nodes()
    _remove(world, "/nodes/known/1")
    world.run()
    assert one.said[2:] == []
    world.servers.expire(one.port.owner)
    world.run()
    assert one.said[2:] == [MayNotJoin(f"{MISSING}, and this node has registered under node epoch 0: {AGAIN}")]


MISSING = "ZooKeeper has no /nodes/known/1"
AGAIN = (
    "a part of its data was removed, and node epochs would be given again; put the data back, or give this node "
    "another id and an empty directory"
)


@pytest.mark.parametrize(
    ("path", "who"),
    [
        ("/nodes/known/1", identity(1, starts=2, cluster="c1")),
        ("/nodes/known", identity(1, starts=2, cluster="c1")),
        ("/nodes/known/1", identity(1, directory="new")),
    ],
)
def test_a_replica_whose_lives_are_not_counted_any_more_does_not_begin_at_the_first(path: str, who: Identity) -> None:
    world, one, two = two_nodes()
    one.kill()
    two.kill()
    world.run(4_000)
    _remove(world, path)
    again = Newcomer(world, who)
    world.run()
    assert again.said[-1] == MayNotJoin(f"{MISSING}, and shard 0 has this node as a replica: {AGAIN}")
    assert world.isrs() == [(1, 2), (2, 1)]


def test_a_live_node_that_was_never_counted_is_named_and_not_taken_for_somebody() -> None:
    world, one, _ = two_nodes()
    _remove(world, "/shards/0")
    one.kill()
    world.run(4_000)
    _remove(world, "/nodes/known/1")
    other = LiveNode(node_epoch=4, directory_id="other", addresses={}, rack="r", release="1")
    somebody = world.servers.begin_session(60_000, lambda: None)
    world.write(ZkCreate("/nodes/live/1", encode(other), is_ephemeral=True), owner=somebody)
    again = Newcomer(world, identity(1, starts=2, cluster="c1"))
    world.run()
    assert again.said == [MayNotJoin(f"{MISSING}, and /nodes/live/1 has node epoch 4: {AGAIN}")]


def test_a_live_node_of_no_session_is_named_for_it_would_never_end() -> None:
    world, one, _ = two_nodes()
    one.kill()
    world.run(4_000)
    other = LiveNode(node_epoch=0, directory_id="other", addresses={}, rack="r", release="1")
    world.write(ZkCreate("/nodes/live/1", encode(other)))
    again = Newcomer(world, identity(1, starts=2, cluster="c1"))
    world.run()
    assert again.said == [MayNotJoin("/nodes/live/1 in ZooKeeper is of no session and never ends by itself: remove it")]


@pytest.mark.parametrize("path", ["/nodes/known", "/nodes/live"])
def test_a_folder_that_was_removed_is_named_by_who_has_to_write_there(path: str) -> None:
    world = World()
    one = Newcomer(world, identity(1))
    world.run()
    one.kill()
    world.run(4_000)
    _remove(world, path)
    before = world.servers.committed
    newcomer = Newcomer(world, identity(2))
    world.run()
    assert newcomer.said == [
        JoinedCluster("c1", 2),
        MayNotJoin(f"ZooKeeper has a cluster and no {path}: a part of its data was removed; put it back"),
    ]
    assert world.servers.committed == before


def test_a_cluster_without_controller_epochs_is_joined_by_nobody() -> None:
    world, _, _ = two_nodes()
    _remove(world, "/controller/epoch")
    newcomer = Newcomer(world, identity(3))
    world.run()
    why = "ZooKeeper has a cluster and no /controller/epoch: a part of its data was removed; put it back"
    assert newcomer.said == [MayNotJoin(why)]


def test_a_node_that_may_not_write_says_so_once_and_tries_again_now_and_then() -> None:
    world = World()
    node = Newcomer(world, identity(1))
    commit, asked = node.port.commit, list[ZkMulti]()

    def refuse(multi: ZkMulti) -> None:
        asked.append(multi)
        refused = ZkRefused(0, ZkRefusal.NO_AUTH, "ZkCreate /cluster: NoAuthError")
        world.schedule.after(1, node.take, ZkMultiDone(multi.session, multi.request_id, refused))

    node.port.commit = refuse  # type: ignore[method-assign]
    world.run(10_000)
    assert node.said == [Stuck(("ZkCreate /cluster: NoAuthError",))]
    assert 5 <= len(asked) <= 10
    node.port.commit = commit  # type: ignore[method-assign]
    world.run(3_000)
    assert node.said[1:] == [Stuck(()), JoinedCluster("c1", 2), LifeBegan(0)]


@pytest.mark.parametrize("seed", range(30))
def test_two_that_begin_as_one_node_are_told_apart_and_nothing_is_taken_for_removed(seed: int) -> None:
    world = World(seed)
    twins = [Newcomer(world, identity(1, directory=name)) for name in ("a", "b")]
    world.run(TIMEOUT_MS + MARGIN_MS + 1_000)
    ends = sorted(twin.said[-1] for twin in twins if isinstance(twin.said[-1], MayNotJoin))
    assert [end.why[:20] for end in ends] == ["node id 1 is in use "]
    assert [twin.said[-1] for twin in twins if not isinstance(twin.said[-1], MayNotJoin)] == [LifeBegan(0)]


@pytest.mark.parametrize("seed", range(30))
def test_a_connection_that_breaks_on_the_way_is_no_reason_to_register_twice(seed: int) -> None:
    world = World(seed)
    node = Newcomer(world, identity(1))
    for _ in range(6):
        world.run(world.dice.randint(1, 8))
        node.port.cut()
    world.run(3_000)
    assert node.said[-1] == LifeBegan(0)
    assert world.image().known[1].version == 0


def test_epochs_are_of_this_zookeeper() -> None:
    world, _, _ = two_nodes()
    _set(world, "/controller/epoch", encode(ControllerEpoch(epoch=7)))
    node = Newcomer(world, replace(identity(3, cluster="c1"), controller_epoch=7))
    world.run()
    assert node.said == [LifeBegan(0)]


@pytest.mark.parametrize("path", FOLDERS)
def test_a_cluster_that_cannot_be_made_where_a_part_of_one_is_left_is_not_asked_for_without_end(path: str) -> None:
    world = World()
    for above in ("/nodes", path) if path.startswith("/nodes/") else (path,):
        world.write(ZkCreate(above, b""))
    newcomer = Newcomer(world, identity(1))
    before = newcomer.machine.request_id
    world.run(3_500)
    assert newcomer.machine.request_id - before <= 4, "once a second"
    (said,) = newcomer.said
    assert isinstance(said, Stuck)
    first = "/nodes" if path.startswith("/nodes/") else path
    assert f"has no /cluster, and has {first}: a part" in said.whys[0]
    assert "zookeeper.path" in waits_for(newcomer.machine)
    _remove(world, first)
    world.run(2_000)
    assert newcomer.said[1:] == [Stuck(()), JoinedCluster("c1", 2), LifeBegan(0)]


def test_a_life_begins_under_the_node_epoch_that_its_registration_says_whatever_was_read_beside_it() -> None:
    owner = 7
    tree = {
        "/cluster": ZkNode(encode(CLUSTER), 0),
        "/controller/epoch": ZkNode(encode(ControllerEpoch(epoch=1)), 1),
        "/nodes/known/1": ZkNode(encode(KnownNode(directory_id="d1", starts=1)), 4),
    }
    machine = begin(identity(1, starts=2, cluster="c1"), TIMEOUT_MS)
    said: list[object] = []

    def take(event: RegistrationEvent) -> list[ZkMulti]:
        """Take an event, and whatever is read because of it from the tree."""
        nonlocal machine
        machine, effects = step(machine, event, 1)
        said.extend(effect for effect in effects if isinstance(effect, LifeBegan | MayNotJoin))
        multis = [effect for effect in effects if isinstance(effect, ZkMulti)]
        for read in (effect for effect in effects if isinstance(effect, ZkRead)):
            found = ZkValues(tuple(map(tree.get, read.nodes)), tuple(() for _ in read.children))
            multis += take(ZkReadDone(1, read.request_id, found))
        return multis

    (multi,) = take(ZkSession(1, ZkState.CONNECTED, owner))
    created = next(each for each in multi.operations if isinstance(each, ZkCreate))
    # The write arrives between the reads of the two nodes, and the word that the first has changed comes later.
    tree[created.path] = ZkNode(created.data, 0, owner)
    assert take(ZkMultiDone(1, multi.request_id, ZkUnknown("the connection broke"))) == []
    tree["/nodes/known/1"] = ZkNode(encode(KnownNode(directory_id="d1", starts=2)), 5)
    assert take(ZkChanged(1, "/nodes/known/1", ZkAspect.NODE)) == []
    assert said == [LifeBegan(5)]
