"""The promises of `ZooKeeperPort`, kept by kazoo over a real server and by the model of the simulator."""

import secrets
import threading
import time
from collections.abc import Iterator

import pytest

from coordinator.core.cluster.zookeeper import (
    MOST_BYTES,
    MOST_OPERATIONS,
    ZkApplied,
    ZkAspect,
    ZkCheck,
    ZkCreate,
    ZkDelete,
    ZkMulti,
    ZkNode,
    ZkOperation,
    ZkRefusal,
    ZkRefused,
    ZkSet,
    ZkState,
    ZkUnknown,
    ZkUnread,
    ZkValues,
)
from coordinator.local.zookeeper import LocalZooKeeper
from tests.helpers.zookeeper_nodes import Ensemble, Node, SimulatedEnsemble, real_ensemble

NODE, CHILDREN = ZkAspect.NODE, ZkAspect.CHILDREN
SHORT_SESSION_MS = 2_000


@pytest.fixture(params=["real", *(f"model-{seed}" for seed in range(5))])
def ensemble(request: pytest.FixtureRequest) -> Iterator[Ensemble]:
    if request.param != "real":
        yield SimulatedEnsemble(int(request.param.removeprefix("model-")))
        return
    with real_ensemble(request.getfixturevalue("zookeeper"), f"/kcoord/{secrets.token_hex(4)}") as real:
        yield real


@pytest.fixture
def node(ensemble: Ensemble) -> Iterator[Node]:
    node = ensemble.node()
    yield node
    node.assert_each_answered_once()


@pytest.fixture
def other(ensemble: Ensemble) -> Iterator[Node]:
    other = ensemble.node()
    yield other
    other.assert_each_answered_once()


def applied(*versions: int | None) -> ZkApplied:
    return ZkApplied(versions)


# ---- what is written and read ----------------------------------------------------------------------------------------


def test_a_version_begins_at_0_and_grows_with_each_write(node: Node) -> None:
    assert node.multi(ZkCreate("/a", b"0")) == applied(0)
    assert node.multi(ZkSet("/a", b"1", 0)) == applied(1)
    assert node.multi(ZkCheck("/a", 1), ZkSet("/a", b"2", 1), ZkSet("/a", b"3", 2)) == applied(1, 2, 3)
    assert node.read("/a").nodes == (ZkNode(b"3", 3),)
    assert node.multi(ZkDelete("/a", 3), ZkCreate("/a", b"new")) == applied(None, 0)
    assert node.read("/a", "/b").nodes == (ZkNode(b"new", 0), None)


@pytest.mark.parametrize(
    ("operation", "refusal"),
    [
        (ZkCreate("/a", b""), ZkRefusal.NODE_EXISTS),
        (ZkCreate("/none/below", b""), ZkRefusal.NO_NODE),
        (ZkCreate("/mine/below", b""), ZkRefusal.NO_CHILDREN_FOR_EPHEMERALS),
        (ZkSet("/a", b"", 1), ZkRefusal.BAD_VERSION),
        (ZkSet("/none", b"", 0), ZkRefusal.NO_NODE),
        (ZkCheck("/a", 7), ZkRefusal.BAD_VERSION),
        (ZkCheck("/none", 0), ZkRefusal.NO_NODE),
        (ZkDelete("/a", 0), ZkRefusal.NOT_EMPTY),
        (ZkDelete("/a/b", 7), ZkRefusal.BAD_VERSION),
        (ZkDelete("/none", 0), ZkRefusal.NO_NODE),
    ],
)
def test_a_refused_operation_is_named_and_none_of_the_others_is_done(
    node: Node, operation: ZkOperation, refusal: ZkRefusal
) -> None:
    node.multi(ZkCreate("/a", b""), ZkCreate("/a/b", b""), ZkCreate("/mine", b"", is_ephemeral=True))
    outcome = node.multi(ZkCreate("/c", b""), ZkSet("/a/b", b"new", 0), operation, ZkCreate("/d", b""))
    assert isinstance(outcome, ZkRefused)
    assert (outcome.index, outcome.refusal) == (2, refusal)
    assert operation.path in outcome.why
    assert node.read("/c", "/d", "/a/b").nodes == (None, None, ZkNode(b"", 0))


def test_children_are_named_in_order_and_those_of_no_node_are_none(node: Node) -> None:
    node.multi(*(ZkCreate(path, b"") for path in ("/a", "/a/2", "/a/1", "/a/1/below", "/ab")))
    assert node.read(children=("/a", "/a/2", "/none")).children == (("1", "2"), (), None)


def test_a_read_of_nothing_is_answered(node: Node) -> None:
    assert node.read(synced=False) == ZkValues()


def test_a_session_reads_what_it_has_written_and_in_its_order(node: Node) -> None:
    asked = [node.begin_multi(ZkCreate("/a", b"0"))]
    asked += [node.begin_multi(ZkSet("/a", b"%d" % (number + 1), number)) for number in range(20)]
    read = node.begin_read("/a", synced=False)
    assert [node.outcome(each) for each in asked] == [applied(number) for number in range(21)]
    assert node.found(read) == ZkValues((ZkNode(b"20", 20),))


def test_a_synced_read_sees_what_another_was_told_is_done(node: Node, other: Node) -> None:
    node.multi(ZkCreate("/a", b"0"))
    for number in range(10):
        assert node.multi(ZkSet("/a", b"", number)) == applied(number + 1)
        assert other.read("/a").nodes == (ZkNode(b"", number + 1),)


def test_what_is_too_much_for_one_multi_is_refused_before_it_is_asked(node: Node) -> None:
    for operations in (
        (),
        tuple(ZkCheck("/a", 0) for _ in range(MOST_OPERATIONS + 1)),
        (ZkCreate("/a", b"x" * MOST_BYTES),),
    ):
        with pytest.raises(ValueError, match="split it"):
            node.port.commit(ZkMulti(1, 1, operations))
    most = tuple(ZkCreate(f"/n{number}", b"x" * 1_900) for number in range(MOST_OPERATIONS))
    assert node.multi(*most) == applied(*(0 for _ in most))


# ---- ephemeral nodes and watches -------------------------------------------------------------------------------------


def test_an_ephemeral_node_shows_its_session_and_ends_with_it(ensemble: Ensemble, node: Node) -> None:
    mortal = ensemble.node()
    owner = mortal.until_state(1, ZkState.CONNECTED).owner
    assert owner
    assert mortal.multi(ZkCreate("/live", b"", is_ephemeral=True)) == applied(0)
    assert node.read("/live", watched=True).nodes == (ZkNode(b"", 0, owner),)
    mortal.port.close()
    node.until(lambda: node.changes() == [("/live", NODE)], "word that the node is gone")
    assert node.read("/live").nodes == (None,)


def test_a_change_of_what_is_watched_is_told_of_once_until_it_is_read_again(node: Node, other: Node) -> None:
    other.multi(ZkCreate("/a", b""), ZkCreate("/b", b""))
    node.read("/a", "/b", watched=True)
    node.read("/a", watched=True)  # the same watch
    for version in range(3):
        other.multi(ZkSet("/a", b"", version))
    node.until(lambda: bool(node.changes()), "word of the change")
    assert node.read("/a", synced=False).nodes[0] != ZkNode(b"", 0), "what was told of is seen"
    other.multi(ZkSet("/b", b"", 0))  # told of behind whatever else there is to tell
    node.until(lambda: ("/b", NODE) in node.changes(), "word of the other change")
    assert node.changes() == [("/a", NODE), ("/b", NODE)]
    node.read("/a", watched=True)
    other.multi(ZkDelete("/a", 3))
    node.until(lambda: len(node.changes()) == 3, "word of the end")
    assert node.changes()[2] == ("/a", NODE)


def test_what_does_not_exist_can_be_watched(node: Node, other: Node) -> None:
    assert node.read("/a", watched=True).nodes == (None,)
    other.multi(ZkCreate("/a", b""))
    node.until(lambda: node.changes() == [("/a", NODE)], "word that it exists")


def test_children_that_come_and_go_are_told_of_and_their_values_are_not(node: Node, other: Node) -> None:
    other.multi(ZkCreate("/a", b""), ZkCreate("/a/1", b""))
    assert node.read(children=("/a",), watched=True).children == (("1",),)
    other.multi(ZkSet("/a/1", b"new", 0), ZkSet("/a", b"new", 0))
    other.multi(ZkCreate("/a/2", b""))
    node.until(lambda: node.changes() == [("/a", CHILDREN)], "word of a child")
    assert node.read(children=("/a",), watched=True).children == (("1", "2"),)
    other.multi(ZkDelete("/a/1", 1))
    node.until(lambda: node.changes() == [("/a", CHILDREN)] * 2, "word of a child that is gone")


def test_a_change_between_a_read_and_its_answer_is_told_of(node: Node, other: Node) -> None:
    other.multi(ZkCreate("/a", b""))
    for version in range(20):
        asked = node.begin_read("/a", watched=True, synced=False)
        other.multi(ZkSet("/a", b"", version))
        found = node.found(asked)
        assert isinstance(found, ZkValues)
        assert found.nodes[0] is not None
        if found.nodes[0].version <= version:
            before = version + 1
            node.until(lambda: bool(node.changes()), f"word of version {before}")
        node.read("/a")
        node.events = [event for event in node.events if not hasattr(event, "aspect")]


# ---- a connection that fails -----------------------------------------------------------------------------------------


def test_a_multi_whose_answer_was_lost_is_unknown_and_done(node: Node, other: Node) -> None:
    owner = node.until_state(1, ZkState.CONNECTED).owner
    node.link.hold(to_server=False)
    asked = node.begin_multi(ZkCreate("/a", b""))
    read = node.begin_read("/a")
    other.until(lambda: other.read("/a").nodes != (None,), "the multi to be done")
    node.link.cut()
    node.link.let_go()
    assert isinstance(node.outcome(asked), ZkUnknown)
    assert isinstance(node.found(read), ZkUnread)
    assert node.until_state(1, ZkState.CONNECTED, times=2).owner == owner
    assert node.states() == [(1, ZkState.CONNECTED), (1, ZkState.SUSPENDED), (1, ZkState.CONNECTED)]
    assert node.read("/a").nodes == (ZkNode(b"", 0),)


def test_a_multi_that_was_cut_off_on_its_way_is_unknown(node: Node) -> None:
    node.multi(ZkCreate("/a", b""))
    node.link.hold(to_client=False)
    asked = node.begin_multi(ZkSet("/a", b"", 0))
    node.until(node.link.has_held, "the request to be on its way")
    node.link.cut()
    node.link.let_go()
    assert isinstance(node.outcome(asked), ZkUnknown)
    node.until_state(1, ZkState.CONNECTED, times=2)


def test_what_is_asked_while_no_server_answers_is_done_later_and_waited_for_by_nobody(node: Node) -> None:
    node.link.refuse(is_refusing=True)
    node.link.cut()
    node.until_state(1, ZkState.SUSPENDED)
    begun_s = time.monotonic()
    asked = [node.begin_multi(ZkCreate(f"/a{number}", b"")) for number in range(1_000)]
    assert time.monotonic() - begun_s < 20
    node.link.refuse(is_refusing=False)
    assert {node.outcome(each) for each in asked} == {applied(0)}


def test_a_connection_that_is_back_has_forgotten_its_watches(ensemble: Ensemble, node: Node, other: Node) -> None:
    other.multi(ZkCreate("/a", b""), ZkCreate("/b", b""))
    node.read("/a", children=("/a",), watched=True)
    node.link.cut()
    node.until_state(1, ZkState.CONNECTED, times=2)
    node.read("/b", watched=True)
    other.multi(ZkSet("/a", b"", 0), ZkCreate("/a/1", b""))
    other.multi(ZkSet("/b", b"", 0))
    node.until(lambda: ("/b", NODE) in node.changes(), "word of what was watched since")
    ensemble.rest()
    assert node.changes() == [("/b", NODE)]


def test_many_breaks_leave_one_session_that_works(node: Node) -> None:
    for turn in range(5):
        node.begin_multi(ZkCreate(f"/a{turn}", b""))
        node.link.cut()
        node.until_state(1, ZkState.CONNECTED, times=turn + 2)
    assert node.multi(ZkCreate("/last", b"")) == applied(0)
    assert {session for session, _state in node.states()} == {1}


# ---- a session that ends ---------------------------------------------------------------------------------------------


def test_a_session_that_expired_is_lost_and_another_follows(ensemble: Ensemble, other: Node) -> None:
    node = ensemble.node(SHORT_SESSION_MS)
    owner = node.until_state(1, ZkState.CONNECTED).owner
    node.multi(ZkCreate("/live", b"", is_ephemeral=True))
    other.read("/live", watched=True)
    node.link.hold()
    node.until_state(1, ZkState.SUSPENDED)
    other.until(lambda: other.changes() == [("/live", NODE)], "the end of the ephemeral node")
    late = node.begin_multi(ZkCreate("/late", b""))
    node.link.cut()
    node.link.let_go()
    node.until_state(1, ZkState.LOST)
    assert isinstance(node.outcome(late), ZkUnknown)
    assert node.until_state(2, ZkState.CONNECTED).owner not in (0, owner)
    assert isinstance(node.outcome(node.begin_multi(ZkCreate("/older", b""), session=1)), ZkUnknown)
    assert node.multi(ZkCreate("/live", b"", is_ephemeral=True)) == applied(0)
    assert node.read("/late", "/older").nodes == (None, None)
    assert node.states()[:3] == [(1, ZkState.CONNECTED), (1, ZkState.SUSPENDED), (1, ZkState.LOST)]
    node.assert_each_answered_once()


def test_a_port_that_is_closed_says_nothing_more(node: Node, other: Node) -> None:
    other.multi(ZkCreate("/a", b""))
    node.read("/a", watched=True)
    node.port.close()
    node.port.close()
    told = list(node.events)
    other.multi(ZkSet("/a", b"", 0))
    other.read("/a")
    assert node.events == told


def test_a_port_that_is_closed_while_no_server_answers_leaves_no_thread(zookeeper: LocalZooKeeper) -> None:
    before = set(threading.enumerate())
    with real_ensemble(zookeeper, f"/kcoord/{secrets.token_hex(4)}") as real:
        node = real.node()
        node.link.refuse(is_refusing=True)
        node.link.cut()
        node.until_state(1, ZkState.SUSPENDED)
        for number in range(1_000):  # many more than the socket pair takes through which kazoo is woken
            node.begin_multi(ZkCreate(f"/a{number}", b""))
    node.until(lambda: set(threading.enumerate()) <= before, "the end of the port's threads")


def test_a_port_that_is_closed_when_its_session_is_lost_leaves_no_thread(zookeeper: LocalZooKeeper) -> None:
    before = set(threading.enumerate())
    with real_ensemble(zookeeper, f"/kcoord/{secrets.token_hex(4)}") as real:
        other, node = real.node(), real.node(SHORT_SESSION_MS)
        node.multi(ZkCreate("/live", b"", is_ephemeral=True))
        node.link.hold()
        other.until(lambda: other.read("/live").nodes == (None,), "the end of the session")
        node.link.cut()
        node.link.let_go()
        node.until_state(1, ZkState.LOST)  # and the next session is being begun
    node.until(lambda: set(threading.enumerate()) <= before, "the end of the port's threads")


# ---- ZooKeeper from another time -------------------------------------------------------------------------------------


def test_servers_that_lost_their_data_end_every_session(ensemble: Ensemble) -> None:
    """Of which a client that has seen more than they have would never hear."""
    node = ensemble.node(SHORT_SESSION_MS)
    for version in range(30):
        node.multi(ZkSet("/a", b"", version - 1) if version else ZkCreate("/a", b""))
    ensemble.wipe()
    node.until_state(1, ZkState.LOST)
    node.until_state(2, ZkState.CONNECTED)
    while isinstance(found := node.found(node.begin_read("/a")), ZkUnread):  # the machine stood still for a session
        node.until(lambda: node.states()[-1][1] is ZkState.CONNECTED, "another session")
        node.session = node.states()[-1][0]
    assert found.nodes == (None,)
