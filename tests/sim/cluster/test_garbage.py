"""A cluster lives on whatever others have put below its path in ZooKeeper, and what is garbage costs only itself."""

import json
from collections.abc import Mapping
from dataclasses import replace
from random import Random

import msgspec
import pytest

from coordinator.core.cluster.znodes import CLUSTER, NODES_LIVE, encode
from coordinator.core.cluster.zookeeper import ZkApplied, ZkCreate
from tests.sim.cluster.faults import write_by_hand
from tests.sim.cluster.mix import draw_cluster_mix
from tests.sim.cluster.process import ClusterProcess
from tests.sim.cluster.put_back import GarbledWorld, OldValueWorld
from tests.sim.cluster.run import run_cluster_seed
from tests.sim.cluster.world import ClusterWorld

SETTLED_MS = 3_000
LET_GO_MS = 20_000
PAUSE_MS = 1_000
LIVE = {
    "node_epoch": 1,
    "directory_id": "x",
    "addresses": {"peers": "h:1", "members": "h:2"},
    "rack": "r",
    "release": "0",
}


class GarbageWorld(ClusterWorld):
    """Somebody's session registers as a node what is none, and stays."""

    def __init__(self, name: str, value: Mapping[str, object]) -> None:
        super().__init__(1, replace(draw_cluster_mix(Random(1), 3), faults={}, faulty_ms=5_000), Random(1))
        self._path, self._data = f"{NODES_LIVE}/{name}", json.dumps(value).encode()

    def _begin(self) -> None:
        super()._begin()
        self.schedule.after(SETTLED_MS, self._register)

    def _register(self) -> None:
        owner = self.servers.begin_session(10**6, lambda: None)
        self.servers.heard(owner)
        done = self.servers.multi(self.servers.servers[0], owner, (ZkCreate(self._path, self._data, True),))
        assert isinstance(done, ZkApplied)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("7", LIVE | {"addresses": {"peers": "nonsense", "members": "a:b:99999"}}),
        ("7", LIVE | {"addresses": {}}),
        ("7", LIVE | {"addresses": {"peers": "h" * 5_000 + ":1"}}),
        ("7", LIVE | {"addresses": {"h" * 5_000: "h:1"}}),
        ("4294967296", LIVE),
        ("7", {}),
        ("x", LIVE),
    ],
    ids=["address", "no-address", "long-address", "long-name", "large-id", "empty", "no-number"],
)
def test_a_registration_that_is_garbage_costs_nobody_else_anything(name: str, value: Mapping[str, object]) -> None:
    GarbageWorld(name, value).run()


def test_an_older_value_that_is_put_in_the_place_of_a_newer_one_is_followed_by_nobody() -> None:
    outcome = run_cluster_seed(2, story_lines=40, kind=OldValueWorld)
    assert not outcome.broken, outcome.shown


def test_shards_of_which_nothing_can_be_read_are_changed_by_nobody_and_go_on_when_that_is_put_right() -> None:
    outcome = run_cluster_seed(7, story_lines=40, kind=GarbledWorld)
    assert not outcome.broken, outcome.shown


def without_its_numbers(shards: int) -> ClusterWorld:
    """Return a world at rest of shards in one bucket, after somebody wrote another number of them by hand."""
    mix = replace(draw_cluster_mix(Random(0), 3), faults={}, faulty_ms=0, loses_watches=0.0)
    numbers = {"shards": shards, "buckets": 1, "replication_factor": 3, "min_insync_replicas": 2}
    cluster = msgspec.structs.replace(mix.cluster, **numbers)
    world = ClusterWorld(0, replace(mix, cluster=cluster), Random(0))
    world.run()
    write_by_hand(world.servers, {CLUSTER: encode(msgspec.structs.replace(cluster, shards=shards + 1))})
    run_on(world, SETTLED_MS)
    return world


def run_on(world: ClusterWorld, ms: int) -> None:
    world.schedule.run_until(world.schedule.now_ms + ms)


def test_leaders_let_go_who_has_died_also_of_shards_in_one_bucket_while_other_numbers_are_said() -> None:
    world = without_its_numbers(shards=4)
    dead = next(process for process in world.processes if not process.node.has_office)
    dead.end(loses_power=False, why="is off")
    run_on(world, LET_GO_MS)
    led = [entry for _, entry in world.checker.image.shards() if entry.leader != dead.number]
    assert len(led) > 1, "what one leader writes into the bucket is news for the others"
    assert [entry for entry in led if dead.number in entry.isr] == []


def test_a_node_that_leads_nothing_is_stopped_when_nobody_misses_it_also_while_other_numbers_are_said() -> None:
    world = without_its_numbers(shards=1)
    leader = next(process for process in world.processes if leads_anything(process))
    stopped = next(process for process in world.processes if not leads_anything(process))
    stopped.halts = []  # it may not join again by that number
    leader.pause()
    stopped.stop()
    run_on(world, PAUSE_MS)
    assert stopped.is_up, "its leader has still to take it out"
    leader.resume()
    while stopped.is_up:
        run_on(world, 1)
    assert [entry.isr for _, entry in world.checker.image.shards() if stopped.number in entry.isr] == []


def leads_anything(process: ClusterProcess) -> bool:
    return process.node.replication is not None and bool(process.node.replication.led)
