"""The model of ZooKeeper is deterministic, and what it is there for happens in it."""

from collections.abc import Callable
from functools import cache

import pytest

from coordinator.core.cluster.zookeeper import ZkApplied, ZkAspect, ZkCreate, ZkNode, ZkSet, ZkState, ZkUnknown
from tests.helpers.zookeeper_nodes import Node, SimulatedEnsemble
from tests.sim.zookeeper import Manners, SimulatedZooKeeper

SEEDS = 60


def two_nodes(seed: int, manners: Manners | None = None) -> tuple[SimulatedEnsemble, Node, Node]:
    """Return two nodes of one ensemble, with `/a` at version 0 everywhere."""
    ensemble = SimulatedEnsemble(seed)
    node, other = ensemble.node(manners=manners), ensemble.node()
    assert node.multi(ZkCreate("/a", b"")) == ZkApplied((0,))
    ensemble.rest()
    return ensemble, node, other


def an_old_read(seed: int) -> bool:
    """Somebody reads, without a sync, what somebody else has changed before."""
    _, node, other = two_nodes(seed)
    assert node.multi(ZkSet("/a", b"", 0)) == ZkApplied((1,))
    return other.read("/a", synced=False).nodes == (ZkNode(b"", 0),)


def _version_after_a_cut(seed: int) -> tuple[int, int]:
    """Return the version that is read right after a reconnect, and the one there is in the end."""
    ensemble, node, other = two_nodes(seed, Manners(delays_ms=(5,)))
    asked = node.begin_multi(ZkSet("/a", b"", 0))
    node.link.cut()
    assert isinstance(node.outcome(asked), ZkUnknown)
    node.until_state(1, ZkState.CONNECTED, times=2)
    (first,) = node.read("/a").nodes
    ensemble.rest()
    (last,) = other.read("/a").nodes
    assert first is not None
    assert last is not None
    return first.version, last.version


def a_request_that_is_lost(seed: int) -> bool:
    """What was under way at a break is never done."""
    return _version_after_a_cut(seed) == (0, 0)


def a_request_that_arrives_after_the_reconnect(seed: int) -> bool:
    """What was under way at a break is done after its sender has read that it was not: why a read settles nothing."""
    return _version_after_a_cut(seed) == (0, 1)


def a_lost_watch(seed: int) -> bool:
    """A change is not told of."""
    return _changes_told(seed, Manners(loses_watches=0.3)) == 0


def a_doubled_watch(seed: int) -> bool:
    """A change is told of twice."""
    return _changes_told(seed, Manners(doubles_watches=0.3)) == 2


def _changes_told(seed: int, manners: Manners) -> int:
    ensemble, node, other = two_nodes(seed, manners)
    node.read("/a", watched=True)
    other.multi(ZkSet("/a", b"", 0))
    ensemble.rest()
    assert set(node.changes()) <= {("/a", ZkAspect.NODE)}
    return len(node.changes())


def a_change_that_overtakes_its_read(seed: int) -> bool:
    """A change is told of before the answer to the read that watched for it."""
    ensemble, node, other = two_nodes(seed, Manners(thread_delays_ms=(0, 20)))
    read = node.begin_read("/a", watched=True)
    other.multi(ZkSet("/a", b"", 0))
    node.found(read)
    ensemble.rest()
    kinds = [type(event).__name__ for event in node.events]
    return "ZkChanged" in kinds and kinds.index("ZkChanged") < kinds.index("ZkReadDone")


@cache
def _expiry_ms(seed: int) -> int:
    """Return how long after its death a node's ephemeral node goes."""
    ensemble, node, other = two_nodes(seed)
    node.multi(ZkCreate("/live", b"", is_ephemeral=True))
    died_ms = ensemble.schedule.now_ms
    assert isinstance(node.port, SimulatedZooKeeper)
    node.port.die()
    other.until(lambda: "/live" not in ensemble.servers.tree, "the end of the dead node's session")
    return ensemble.schedule.now_ms - died_ms


def a_session_that_ends_late(seed: int) -> bool:
    """A session lives longer than its time-out after its client's death."""
    return _expiry_ms(seed) > 4_200


def a_session_that_ends_in_time(seed: int) -> bool:
    """A session lives about as long as its time-out after its client's death."""
    return _expiry_ms(seed) < 4_100


@pytest.mark.parametrize(
    "happens",
    [
        an_old_read,
        a_request_that_is_lost,
        a_request_that_arrives_after_the_reconnect,
        a_lost_watch,
        a_doubled_watch,
        a_change_that_overtakes_its_read,
        a_session_that_ends_late,
        a_session_that_ends_in_time,
    ],
)
def test_it_happens_under_some_seed_and_not_under_every_one(happens: Callable[[int], bool]) -> None:
    outcomes = {happens(seed) for seed in range(SEEDS)}
    assert outcomes == {True, False}, f"{happens.__name__}: {happens.__doc__}"


def test_a_session_may_end_early_and_its_client_learns_of_it() -> None:
    ensemble, node, other = two_nodes(0)
    owner = node.until_state(1, ZkState.CONNECTED).owner
    node.multi(ZkCreate("/live", b"", is_ephemeral=True))
    ensemble.servers.expire(owner)
    assert other.read("/live").nodes == (None,)
    node.until_state(1, ZkState.LOST)
    node.until_state(2, ZkState.CONNECTED)


def test_data_that_is_put_back_is_as_it_was_without_the_sessions_of_then() -> None:
    ensemble, node, other = two_nodes(0)
    node.multi(ZkCreate("/live", b"", is_ephemeral=True))
    copy = ensemble.servers.copy()
    node.multi(ZkSet("/a", b"", 0), ZkCreate("/b", b""))
    ensemble.servers.put_back(copy)
    for each in (node, other):
        each.until_state(1, ZkState.LOST)
        each.until_state(2, ZkState.CONNECTED)
    assert other.read("/a", "/b", "/live").nodes == (ZkNode(b"", 0), None, None)
    assert other.multi(ZkSet("/a", b"", 0)) == ZkApplied((1,)), "a version is given again"


def test_the_same_seed_gives_the_same_events() -> None:
    def events(seed: int) -> list[object]:
        ensemble, node, other = two_nodes(seed, Manners(loses_watches=0.1, doubles_watches=0.1))
        for version in range(20):
            node.begin_read("/a", watched=True, synced=False)
            other.begin_multi(ZkSet("/a", b"", version))
            if version % 7 == 0:
                node.link.cut()
            ensemble.schedule.run_until(ensemble.schedule.now_ms + 3)
        ensemble.rest()
        return [*node.events, *other.events]

    assert events(3) == events(3)
    assert events(3) != events(4)


def test_servers_that_are_away_end_no_session_and_do_what_waits_when_they_are_back() -> None:
    ensemble, node, _ = two_nodes(1)
    ensemble.servers.go_away()
    node.until_state(1, ZkState.SUSPENDED)
    asked = node.begin_multi(ZkSet("/a", b"late", 0))
    ensemble.schedule.run_until(ensemble.schedule.now_ms + 60_000)
    assert ensemble.servers.tree["/a"].data == b""
    ensemble.servers.come_back()
    assert node.outcome(asked) == ZkApplied((1,))
    assert node.states() == [(1, ZkState.CONNECTED), (1, ZkState.SUSPENDED), (1, ZkState.CONNECTED)]
