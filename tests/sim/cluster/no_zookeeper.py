"""A world whose ZooKeeper is gone for longer than its sessions last, and nothing else is wrong.

Nodes serve on and members commit, nothing is elected and no in-sync set changes. Its sessions are waited for when it
is back, so that changes nothing either.
"""

from dataclasses import replace
from random import Random
from typing import Final

from coordinator.core.cluster.znodes import ShardEntry
from tests.sim.cluster.checker import ViolationError
from tests.sim.cluster.mix import ClusterMix
from tests.sim.cluster.world import LOOK_MS, ClusterWorld

SETTLED_MS: Final = 5_000
MOST_MS: Final = 60_000
SERVED_MS: Final = 3_000
"""The time in which every member has a commit acknowledged."""


class NoZooKeeperWorld(ClusterWorld):
    """ZooKeeper does not run for a while, once or twice."""

    reader_paces_ms = (300, 900)

    def __init__(self, seed: int, mix: ClusterMix, dice: Random) -> None:
        controller = replace(mix.settings.controller, balance_delay_ms=2_000)
        settings = replace(mix.settings, controller=controller)
        super().__init__(seed, replace(mix, faults={}, loses_watches=0.0, settings=settings, paces_ms=(300, 900)), dice)

    def run(self) -> None:
        """Run to the end, or to the first broken invariant."""
        schedule, dice = self.schedule, self.dice
        self._begin_at_rest(SETTLED_MS)
        while not self._is_balanced():
            if schedule.now_ms > MOST_MS:
                raise ViolationError("Liveness", f"not balanced: {self._entries()}")
            schedule.run_until(schedule.now_ms + LOOK_MS)
        self._come_to_rest()
        before = self._entries()
        for _ in range(dice.choice((1, 2))):
            self.servers.go_away()
            schedule.tell("zookeeper", "is gone")
            self.faults += 1
            until_ms = schedule.now_ms + dice.choice((2, 5)) * self.mix.settings.zookeeper_session_timeout_ms
            while schedule.now_ms < until_ms:
                self._serve()
            self.servers.come_back()
            schedule.tell("zookeeper", "is back")
            schedule.run_until(schedule.now_ms + dice.choice((100, 2 * SETTLED_MS)))
        schedule.run_until(schedule.now_ms + 2 * SETTLED_MS)
        if self._entries() != before:
            raise ViolationError("NothingIsElected", f"{before} has become {self._entries()}")
        self._come_to_rest()

    def _serve(self) -> None:
        begun_ms = self.schedule.now_ms
        self.schedule.run_until(begun_ms + SERVED_MS)
        late = [client.name for client in self.clients.all if client.owned and client.last_ack_ms <= begun_ms]
        if late:
            raise ViolationError("ServesOn", f"{late} had no commit acknowledged since {begun_ms}, without ZooKeeper")

    def _entries(self) -> dict[int, ShardEntry]:
        return dict(self.checker.image.shards())

    def _is_balanced(self) -> bool:
        return all(entry.leader == entry.replicas[0] for entry in self._entries().values())
