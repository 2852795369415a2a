"""Worlds in which a node loses what it had acknowledged, while the only other one that has it is away.

The third node is there and was in no in-sync set, so nothing but the node itself can tell. It has to leave the in-sync
sets of what it lacks, and nobody may lead that before the one that has it is back: not for as long as a log in doubt
waits for others, and longer.
"""

from abc import ABC, abstractmethod
from dataclasses import replace
from random import Random

import msgspec

from tests.sim.cluster.checker import ViolationError
from tests.sim.cluster.directed import SETTLED_MS
from tests.sim.cluster.mix import ClusterMix
from tests.sim.cluster.process import ClusterProcess
from tests.sim.cluster.world import LOOK_MS, ClusterWorld

DOUBT_MS = 30_000


class _LosingWorld(ClusterWorld, ABC):
    """One node is to lose something when it alone has it here."""

    def __init__(self, seed: int, mix: ClusterMix, dice: Random) -> None:
        cluster = msgspec.structs.replace(mix.cluster, min_insync_replicas=2)
        settings = replace(mix.settings, lag_ms=500, closed_grace_ms=50, doubt_ms=DOUBT_MS)
        super().__init__(seed, replace(mix, cluster=cluster, settings=settings, faults={}, loses_watches=0.0), dice)

    def run(self) -> None:
        """Run to the end, or to the first broken invariant."""
        schedule, dice = self.schedule, self.dice
        self._begin()
        schedule.run_until(SETTLED_MS)
        losing, away, other = dice.sample(self.processes, 3)
        while not losing.is_up:
            schedule.run_until(schedule.now_ms + LOOK_MS)
        self._prepare(losing)
        other.end(loses_power=False, why="is off")
        while any(other.number in entry.isr for _, entry in self.checker.image.shards()):
            schedule.run_until(schedule.now_ms + LOOK_MS)
        schedule.run_until(schedule.now_ms + dice.choice((1_000, SETTLED_MS)))
        away.end(loses_power=dice.random() < 0.5, why="is off")
        lost = self._lose(losing)
        self.faults += 1
        self.has_lost_something = True
        schedule.run_until(schedule.now_ms + dice.choice((0, 1_000)))
        for process in dice.sample((losing, other), 2):
            process.power_on()
        schedule.run_until(schedule.now_ms + 2 * DOUBT_MS)
        for shard in lost:
            entry = self.checker.image.shard(shard)
            if entry is None or losing.number in entry.isr or entry.leader is not None:
                raise ViolationError("LeavesWhatItLacks", f"{losing.name} lacks shard {shard}, which is {entry}")
        self._heal()
        self._come_to_rest()

    def _prepare(self, losing: ClusterProcess) -> None:
        """Do what is to be done while all are there."""

    @abstractmethod
    def _lose(self, losing: ClusterProcess) -> tuple[int, ...]:
        """End the process and have it lose something; returns the shards that it lacks now."""


class FailedStartsWorld(_LosingWorld):
    """An older copy of a directory is put back, and its first starts come to no registration.

    Their count is that of the newest directory then, or greater.
    """

    def _prepare(self, losing: ClusterProcess) -> None:
        self._copy = losing.disk.copied()
        for _ in range(self.dice.choice((1, 2))):
            losing.end(loses_power=False, why="is killed")
            self.schedule.run_until(self.schedule.now_ms + 100)
            losing.start()
            self.schedule.run_until(self.schedule.now_ms + 2 * SETTLED_MS)

    def _lose(self, losing: ClusterProcess) -> tuple[int, ...]:
        losing.put_back(self._copy)
        losing.fail_starts(self.dice.choice((0, 1, 2, 5)))
        return tuple(range(self.cluster.shards))


class MissingLogWorld(_LosingWorld):
    """The directory of one log is not there when its node starts, or all but the file with its identity is gone.

    It was moved, left out of a copy, or deleted.
    """

    def _lose(self, losing: ClusterProcess) -> tuple[int, ...]:
        if self.dice.random() < 0.25:
            losing.put_back({path: data for path, data in losing.disk.copied().items() if path.name == "meta.json"})
            return tuple(range(self.cluster.shards))
        if not losing.lose_log():
            raise ViolationError("bug", f"{losing.name} has no log to lose")
        return tuple(losing.lost)
