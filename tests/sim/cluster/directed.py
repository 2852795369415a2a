"""Worlds of a cluster for mistakes that take much to come together: few faults, often, or one of their own."""

from dataclasses import replace
from random import Random
from typing import ClassVar

import msgspec

from coordinator.core.cluster.events import StateWanted
from coordinator.core.cluster.znodes import NodeState
from tests.sim.cluster.checker import ClusterChecker, ViolationError
from tests.sim.cluster.mix import ClusterMix
from tests.sim.cluster.peers import PeerNetwork
from tests.sim.cluster.process import ClusterProcess
from tests.sim.cluster.world import LOOK_MS, ClusterWorld

SETTLED_MS = 5_000
HALTED_MS = 20_000
KILLS = 8


class _Narrow(ClusterWorld):
    """A random world with few kinds of faults, which come often; members are busy."""

    often: ClassVar[frozenset[str]]

    def __init__(self, seed: int, mix: ClusterMix, dice: Random) -> None:
        faults = {name: 4 if name in self.often else 0 for name in mix.faults}
        settings = replace(mix.settings, lag_ms=500, closed_grace_ms=50)
        super().__init__(
            seed,
            replace(
                mix,
                faults=faults,
                fault_every_ms=300,
                settings=settings,
                paces_ms=(10, 60, 200),
                zookeeper_delays_ms=(1, 5, 40),
                report_delays_ms=(0, 1, 60),
                peer_delays_ms=(0, 1),
            ),
            dice,
        )


class InSyncWorld(_Narrow):
    """Leaders change in-sync sets all the time, and often do not hear what became of it."""

    often = frozenset({"zookeeper-cut", "zookeeper-held", "disk-slow", "contact-broken"})


class FailingDiskWorld(_Narrow):
    """Calls of disks fail all the time, and nodes die with and without power."""

    often = frozenset({"disk-failed", "node-killed", "node-power-lost"})


class CopiedNodeWorld(ClusterWorld):
    """The directory of one node is put back from a copy of the life that ends, while all nodes are down.

    No count of starts tells it, and nobody is there who knows better: its node comes first, and is elected. No other
    disk loses anything, so nothing that was acknowledged may be missing. Others that are cut off are waited for without
    an end: one that is silent for longer than `doubt_ms` is what decision 0040 says that it does not find.
    """

    def __init__(self, seed: int, mix: ClusterMix, dice: Random) -> None:
        cluster = msgspec.structs.replace(mix.cluster, min_insync_replicas=2)
        settings = replace(mix.settings, doubt_ms=3_600_000)
        super().__init__(seed, replace(mix, cluster=cluster, settings=settings), dice)

    def run(self) -> None:
        """Run to the end, or to the first broken invariant."""
        schedule, dice = self.schedule, self.dice
        self._begin()
        schedule.run_until(SETTLED_MS)
        old = dice.choice(self.processes)
        while not old.is_up:
            schedule.run_until(schedule.now_ms + LOOK_MS)
        copy = old.disk.copied()
        schedule.run_until(schedule.now_ms + dice.choice((200, 2_000, 6_000)))
        others = dice.sample([each for each in self.processes if each is not old], len(self.processes) - 1)
        if dice.random() < 0.3:
            # Only one of the others is in sync when they end.
            others[0].end(loses_power=False, why="is killed")
            schedule.run_until(schedule.now_ms + SETTLED_MS)
        for process in others:
            process.end(loses_power=dice.random() < 0.5, why="ends")
        old.put_back(copy, is_unnoticed=True)
        self.faults += 1
        self.has_lost_something = True
        wait_ms = 0
        for process in (old, *others):
            schedule.after(wait_ms, process.power_on)
            wait_ms += dice.choice((0, 300, 6_000, 12_000))
        schedule.run_until(schedule.now_ms + wait_ms + dice.choice((0, 3_000)))
        self._heal()
        self._come_to_rest()


class KilledWhileDrainedWorld(ClusterWorld):
    """Nodes are killed while they write that they are to be emptied, and are back before that write arrives."""

    def run(self) -> None:
        """Run to the end, or to the first broken invariant."""
        schedule, dice = self.schedule, self.dice
        self._begin()
        schedule.run_until(SETTLED_MS)
        for _ in range(KILLS):
            process = dice.choice([each for each in self.processes if each.is_up])
            process.post(StateWanted(NodeState.DRAINING))
            schedule.run_until(schedule.now_ms + dice.choice((0, 1, 3)))
            process.end(loses_power=False, why="is killed")
            process.start()
            self.faults += 1
            schedule.run_until(schedule.now_ms + dice.choice((2_000, SETTLED_MS)))
        self._heal()
        self._come_to_rest()


class PutBackWorld(ClusterWorld):
    """ZooKeeper's data is put back from a copy after another controller took office: every node has to halt.

    Each has obeyed a controller epoch that this ZooKeeper would give again.
    """

    def run(self) -> None:
        """Run to the end, or to the first broken invariant."""
        schedule = self.schedule
        self._begin()
        schedule.run_until(SETTLED_MS)
        tree = self.servers.copy()
        for process in self.processes:
            if process.node.has_office:
                process.end(loses_power=False, why="is killed")
                schedule.after(100, process.start)
        schedule.run_until(3 * SETTLED_MS)
        for process in self.processes:
            process.halts = []
        schedule.tell("zookeeper", "is put back")
        self.servers.put_back(tree)
        self.faults += 1
        schedule.run_until(schedule.now_ms + HALTED_MS)
        for process in self.processes:
            if not process.halts or "earlier time" not in process.halts[0]:
                raise ViolationError("OldZooKeeper", f"{process.name} goes on with a ZooKeeper from before")


class TwinWorld(ClusterWorld):
    """A copy of a node's directory is started beside that node, in another place: the copy ends, and nobody notices.

    The node is up and has its session: a copy that finds neither may register (decision 0062), and is not drawn. The
    twin reaches ZooKeeper and no other node.
    """

    def __init__(self, seed: int, mix: ClusterMix, dice: Random) -> None:
        super().__init__(seed, replace(mix, faults={}, loses_watches=0.0), dice)

    def run(self) -> None:
        """Run to the end, or to the first broken invariant."""
        schedule, dice = self.schedule, self.dice
        self._begin()
        schedule.run_until(SETTLED_MS)
        first = dice.choice(self.processes)
        while not first.is_up or first.node.replication is None:
            schedule.run_until(schedule.now_ms + LOOK_MS)
        twin, life = self._twin_of(first), first.life
        schedule.run_until(schedule.now_ms + dice.choice((0, 200, 6_000)))
        twin.start()
        self.faults += 1
        until_ms = schedule.now_ms + 2 * self.mix.settings.zookeeper_session_timeout_ms + HALTED_MS
        while not twin.halts and schedule.now_ms < until_ms:
            schedule.run_until(schedule.now_ms + LOOK_MS)
        if not twin.halts or "this is a copy, or that is" not in twin.halts[0]:
            raise ViolationError("OneOfACopy", f"{twin.name} goes on beside {first.name}, or ended by {twin.halts}")
        if first.life != life:
            raise ViolationError("OneOfACopy", f"{first.name} ended by its copy")
        self._heal()
        self._come_to_rest()

    def _twin_of(self, first: ClusterProcess) -> ClusterProcess:
        """Return a process with a copy of another's disk as it is now, in a place and with peers of its own."""
        checker = ClusterChecker(self.cluster, self.schedule)
        peers = PeerNetwork(self.dice, self.schedule, self.mix.peer_delays_ms)
        twin = ClusterProcess(first.number, self.dice, self.schedule, self.mix, self.servers, peers, checker)
        checker.processes, checker.shard_of = [twin], self._shard_of
        twin.name, twin.clients, twin.halts = f"{first.name}-twin", self.clients, []
        twin.disk.start()
        twin.put_back(first.disk.copied())
        return twin
