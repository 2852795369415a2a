"""Operators at a simulated cluster: what they do is said, and a rolling restart has every shard led all the while."""

from dataclasses import replace
from functools import partial
from random import Random

import msgspec.structs
import pytest

from coordinator.protocol.messages import ReassignShards
from coordinator.protocol.parts import ShardReplicas
from tests.sim.cluster.machines import MachineWorld
from tests.sim.cluster.mix import draw_cluster_mix
from tests.sim.cluster.process import ClusterProcess
from tests.sim.cluster.world import ClusterWorld

SETTLED_MS = 5_000


def quiet(seed: int, kind: type[ClusterWorld] = ClusterWorld) -> ClusterWorld:
    """Return a world in which nothing fails by itself, settled."""
    dice = Random(seed)
    world = kind(seed, replace(draw_cluster_mix(dice, 3), faults={}, faulty_ms=0), dice)
    world.run()
    return world


def run_on(world: ClusterWorld, ms: int = SETTLED_MS) -> None:
    world.schedule.run_until(world.schedule.now_ms + ms)


def leads(process: ClusterProcess) -> frozenset[int]:
    return frozenset() if process.node.replication is None else process.node.replication.led


@pytest.mark.parametrize("seed", range(3))
def test_a_rolling_restart_leaves_no_shard_without_a_leader_and_no_member_without_what_it_has(seed: int) -> None:
    world = quiet(seed, MachineWorld)
    assert isinstance(world, MachineWorld)
    begun = {member.name: len(member.seen) for member in world.members}
    for process in world.processes:
        process.stop()
        run_on(world)
        world._come_to_rest()
    assert world.checker.coverage["notice registered"] == 6, "each has come back"
    assert not world.checker.coverage["stopped while it led"]
    assert not world.checker.leaderless, "each shard had a leader in ZooKeeper all the while"
    assert {member.name: len(member.seen) for member in world.members} == begun


def test_the_last_node_that_could_lead_stops_all_the_same() -> None:
    world = quiet(0)
    for process in world.processes:
        process.stop()
    run_on(world, 2_000)
    assert world.checker.coverage["stopped while it led"] > 0
    run_on(world)
    world._come_to_rest()


def test_a_copy_of_a_directory_that_is_put_back_is_said() -> None:
    world = quiet(1)
    process = world.processes[0]
    copy = process.disk.copied()
    process.end(loses_power=False, why="is killed")
    process.start()
    run_on(world)
    process.put_back(copy)
    process.power_on()
    run_on(world)
    world._come_to_rest()
    assert world.checker.coverage["notice older-data-directory"] == 1


@pytest.mark.parametrize("seed", range(4))
def test_nobody_is_sent_away_for_a_node_that_lost_its_disk_a_moment_ago(seed: int) -> None:
    mix = replace(draw_cluster_mix(Random(seed), 3), faults={}, faulty_ms=0)
    cluster = msgspec.structs.replace(mix.cluster, replication_factor=3, min_insync_replicas=1)
    world = ClusterWorld(seed, replace(mix, cluster=cluster), Random(seed))
    world.run()
    controller = next(each for each in world.processes if each.node.has_office)
    leader = next(each for each in world.processes if 0 in leads(each))
    gone = next(each for each in world.processes if each not in (controller, leader))
    for busy in (controller, leader):
        busy.pause()  # nobody takes the lost one out of the set in sync
    gone.lose_disk()
    asked = ReassignShards((ShardReplicas(0, (gone.number,)),), who="ann", is_dry_run=False)
    controller.do(partial(controller.request, 0, 0, asked))
    run_on(world, 1_000)
    controller.resume()
    run_on(world, 300)
    leader.resume()
    gone.power_on()
    run_on(world)
    world._come_to_rest()
    moved = world.checker.image.shard(0)
    assert moved is not None
    assert moved.replicas == (gone.number,), "in the end it is as wanted"
