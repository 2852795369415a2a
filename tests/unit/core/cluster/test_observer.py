"""An image is what ZooKeeper has, after whatever has happened on the way."""

from random import Random

import pytest

from coordinator.core.cluster.events import ObserverEvent, Ticked
from coordinator.core.cluster.image import Image, read_node
from coordinator.core.cluster.observer import (
    OF_A_CONTROLLER,
    OF_A_NODE,
    READ_ALL_MS,
    RETRY_MS,
    Observer,
    step,
)
from coordinator.core.cluster.transactions import (
    BucketChange,
    become_controller,
    change_shards,
    form_cluster,
    register,
)
from coordinator.core.cluster.znodes import Bucket, Cluster, LiveNode, ShardEntry
from coordinator.core.cluster.zookeeper import (
    ZkApplied,
    ZkAspect,
    ZkChanged,
    ZkCreate,
    ZkDelete,
    ZkEvent,
    ZkMultiDone,
    ZkRead,
    ZkReadDone,
    ZkSession,
    ZkSet,
    ZkState,
    ZkUnread,
    ZkValues,
)
from tests.helpers.zookeeper_nodes import Node, SimulatedEnsemble
from tests.sim.zookeeper import Manners, SimulatedZooKeeper

CLUSTER = Cluster(cluster_id="c1", shards=4, buckets=4, replication_factor=1, min_insync_replicas=1)
CONNECTED = ZkSession(1, ZkState.CONNECTED, 7)


def entry(leader_epoch: int) -> ShardEntry:
    return ShardEntry(leader=1, leader_node_epoch=9, leader_epoch=leader_epoch, isr=(1,), replicas=(1,))


def values_of(read: ZkRead) -> ZkValues:
    """Return the answer of a ZooKeeper that has nothing."""
    return ZkValues(tuple(None for _ in read.nodes), tuple(None for _ in read.children))


def whole(observer: Observer) -> Observer:
    """Return it after everything was read, of a ZooKeeper that has nothing."""
    observer, (read,) = step(observer, CONNECTED, 100)
    observer, asks = step(observer, ZkReadDone(1, read.request_id, values_of(read)), 110)
    assert not asks
    assert observer.is_whole
    return observer


def test_a_connection_reads_and_watches_all_and_then_what_is_in_the_folders() -> None:
    observer, (read,) = step(Observer(OF_A_CONTROLLER), CONNECTED, 100)
    assert read.nodes == ("/cluster", "/controller/active", "/controller/epoch")
    assert read.children == ("/nodes/known", "/nodes/live", "/shards")
    assert read.is_watched
    assert read.is_synced
    names = ZkValues((None, None, None), ((), ("2", "1"), None))
    observer, (second,) = step(observer, ZkReadDone(1, read.request_id, names), 110)
    assert (second.nodes, second.children) == (("/nodes/live/1", "/nodes/live/2"), ())
    assert not observer.is_whole
    observer, asks = step(observer, ZkReadDone(1, second.request_id, values_of(second)), 120)
    assert (asks, observer.is_whole) == ((), True)


def test_a_change_during_a_read_of_the_same_node_is_read_after_it() -> None:
    observer, (read,) = step(Observer(OF_A_NODE), CONNECTED, 100)
    observer, asks = step(observer, ZkChanged(1, "/cluster", ZkAspect.NODE), 105)
    assert asks == ()
    observer, (again,) = step(observer, ZkReadDone(1, read.request_id, values_of(read)), 110)
    assert again.nodes == ("/cluster",)
    assert not observer.is_whole


@pytest.mark.parametrize(
    "event",
    [
        ZkChanged(2, "/cluster", ZkAspect.NODE),
        ZkChanged(1, "/shards/7", ZkAspect.NODE),
        ZkReadDone(1, 99, ZkValues()),
        ZkReadDone(2, 1, ZkValues()),
    ],
    ids=["another session", "not observed", "another question", "another session's answer"],
)
def test_what_is_not_ours_is_let_be(event: ZkChanged | ZkReadDone) -> None:
    observer = whole(Observer(OF_A_NODE))
    assert step(observer, event, 200) == (observer, ())


def test_an_answer_from_before_a_reconnect_is_not_taken() -> None:
    observer, (old,) = step(Observer(OF_A_NODE), CONNECTED, 100)
    observer, asks = step(observer, ZkSession(1, ZkState.SUSPENDED), 120)
    assert asks == ()
    observer, (new,) = step(observer, ZkSession(1, ZkState.CONNECTED, 7), 130)
    assert step(observer, ZkReadDone(1, old.request_id, values_of(old)), 140) == (observer, ())
    observer, _ = step(observer, ZkReadDone(1, new.request_id, values_of(new)), 150)
    assert observer.is_whole


def test_a_read_that_failed_is_begun_again_a_while_later_and_reads_all() -> None:
    observer = whole(Observer(OF_A_NODE))
    observer, (read,) = step(observer, ZkChanged(1, "/cluster", ZkAspect.NODE), 200)
    observer, asks = step(observer, ZkReadDone(1, read.request_id, ZkUnread("no right to")), 210)
    assert (asks, observer.is_whole) == ((), False)
    assert step(observer, Ticked(), 209 + RETRY_MS) == (observer, ())
    observer, (again,) = step(observer, Ticked(), 210 + RETRY_MS)
    assert again.nodes == OF_A_NODE.nodes[:1] + OF_A_NODE.nodes[:0:-1]


def test_word_of_one_change_does_not_make_up_for_a_read_of_all_that_failed() -> None:
    observer, (read,) = step(Observer(OF_A_NODE), CONNECTED, 100)
    observer, _ = step(observer, ZkReadDone(1, read.request_id, ZkUnread("no right to")), 110)
    observer, asks = step(observer, ZkChanged(1, "/controller/active", ZkAspect.NODE), 120)
    assert (asks, observer.is_whole) == ((), False), "nothing else was ever read"
    observer, (again,) = step(observer, Ticked(), 110 + RETRY_MS)
    assert set(again.nodes) == set(OF_A_NODE.nodes)
    observer, _ = step(observer, ZkReadDone(1, again.request_id, values_of(again)), 120 + RETRY_MS)
    assert observer.is_whole


def test_everything_is_read_again_now_and_then_and_once() -> None:
    observer = whole(Observer(OF_A_NODE))
    assert step(observer, Ticked(), 99 + READ_ALL_MS) == (observer, ())
    observer, (read,) = step(observer, Ticked(), 100 + READ_ALL_MS)
    assert len(read.nodes) == 3
    assert observer.is_whole, "what is known stays known"
    assert step(observer, Ticked(), 101 + READ_ALL_MS) == (observer, ())
    observer, _ = step(observer, ZkReadDone(1, read.request_id, values_of(read)), 102 + READ_ALL_MS)
    assert step(observer, Ticked(), 99 + 2 * READ_ALL_MS) == (observer, ())
    assert step(observer, Ticked(), 100 + 2 * READ_ALL_MS)[1]


class Watching:
    """An observer on a node of the model."""

    def __init__(self, ensemble: SimulatedEnsemble, manners: Manners) -> None:
        self.ensemble = ensemble
        self.observer = Observer(OF_A_CONTROLLER)
        self.port = SimulatedZooKeeper(
            ensemble.servers, ensemble.schedule, ensemble.dice, self._take, session_timeout_ms=2_000, manners=manners
        )
        self.port.start()
        self._tick()

    def _tick(self) -> None:
        self._step(Ticked())
        self.ensemble.schedule.after(100, self._tick)

    def _take(self, event: ZkEvent) -> None:
        assert not isinstance(event, ZkMultiDone)
        self._step(event)

    def _step(self, event: ObserverEvent) -> None:
        self.observer, asks = step(self.observer, event, self.ensemble.schedule.now_ms)
        for read in asks:
            self.port.read(read)


def change_something(node: Node, dice: Random, turn: int) -> None:
    """Write as nodes and controllers do, or delete, or leave garbage."""
    tree = node.read("/cluster", children=("/nodes/live", "/shards")).children
    number = dice.randrange(4)
    path = dice.choice(["/nodes/live", "/shards", "/nodes/known"]) + f"/{number}"
    (there,) = node.read(path).nodes
    data = dice.choice([b"\xff", b"{}", b'{"shards":{"%d":{"isr":%d}}}' % (number, turn)])
    assert tree is not None
    if there is None:
        node.multi(ZkCreate(path, data))
    elif dice.random() < 0.3:
        node.multi(ZkDelete(path, there.version))
    else:
        node.multi(ZkSet(path, data, there.version))


@pytest.mark.parametrize("seed", range(12))
def test_whatever_happens_the_image_is_what_there_is_in_the_end(seed: int) -> None:
    ensemble = SimulatedEnsemble(seed)
    dice = Random(f"changes {seed}")
    node = ensemble.node()
    live = LiveNode(node_epoch=0, directory_id="d1", addresses={}, rack="r", release="1")
    assert isinstance(node.multi(*form_cluster(CLUSTER)), ZkApplied)
    assert isinstance(node.multi(*register(1, None, live, starts=1)[0]), ZkApplied)
    epoch = read_node(Image(), "/controller/epoch", ensemble.servers.tree["/controller/epoch"]).epoch
    assert epoch is not None
    assert isinstance(node.multi(*become_controller(epoch, 1, 0)), ZkApplied)
    buckets = [BucketChange(number, Bucket(shards={number: entry(1)}), None) for number in range(4)]
    assert isinstance(node.multi(*next(change_shards(1, buckets))), ZkApplied)

    manners = Manners(delays_ms=(0, 1, 20), thread_delays_ms=(0, 5, 30), loses_watches=0.1, doubles_watches=0.1)
    watching = Watching(ensemble, manners)
    for turn in range(60):
        change_something(node, dice, turn)
        match dice.randrange(12):
            case 0:
                watching.port.cut()
            case 1:
                watching.port.hold()
            case 2:
                watching.port.let_go()
            case 3:
                ensemble.servers.expire(watching.port.owner)
        ensemble.schedule.run_until(ensemble.schedule.now_ms + dice.choice((1, 10, 100, 1_500)))
    watching.port.let_go()
    ensemble.schedule.run_until(ensemble.schedule.now_ms + READ_ALL_MS + 10_000)

    expected = Image()
    for path, found in ensemble.servers.tree.items():
        expected = read_node(expected, path, found)
    assert watching.observer.is_whole
    assert watching.observer.image == expected
    assert watching.observer.session > 1 or seed not in (0, 1, 2), "sessions have ended on the way"


def test_without_lost_words_a_change_is_known_within_moments() -> None:
    ensemble = SimulatedEnsemble(1)
    node = ensemble.node()
    node.multi(*form_cluster(CLUSTER))
    watching = Watching(ensemble, Manners())
    ensemble.schedule.run_until(ensemble.schedule.now_ms + 100)
    assert watching.observer.image.cluster is not None
    for number in range(4):
        node.multi(ZkCreate(f"/shards/{number}", b'{"shards":{}}'))
        ensemble.schedule.run_until(ensemble.schedule.now_ms + 50)
        assert len(watching.observer.image.buckets) == number + 1
