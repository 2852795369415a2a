"""A world in which nobody in sync comes back, and a person has the replica lead that was behind.

One node is away while members commit and get partitions. Then the others are gone, that one comes back, and is elected
uncleanly. What it lacks is lost; no owner epoch that was told before may be granted again, and the others, who come
back with the logs they had or with none, have what the leader has and nothing else.
"""

from dataclasses import replace
from functools import partial
from random import Random

import msgspec

from coordinator.protocol.messages import ElectLeaders
from coordinator.protocol.parts import UncleanLeader
from tests.sim.cluster.checker import ViolationError
from tests.sim.cluster.clients import Client
from tests.sim.cluster.mix import ClusterMix
from tests.sim.cluster.world import LOOK_MS, ClusterWorld

SETTLED_MS = 5_000
AWAY_MS = 4_000
MOST_MS = 60_000


class UncleanWorld(ClusterWorld):
    """Members that know more than the next leader may be gone with the nodes, so that nobody shows it anything."""

    def __init__(self, seed: int, mix: ClusterMix, dice: Random) -> None:
        cluster = msgspec.structs.replace(mix.cluster, replication_factor=3, min_insync_replicas=2)
        super().__init__(seed, replace(mix, cluster=cluster, loses_watches=0.0, paces_ms=(60, 200, 600)), dice)

    def run(self) -> None:
        """Run to the end, or to the first broken invariant."""
        schedule, dice, clients = self.schedule, self.dice, self.clients
        self._begin()
        schedule.run_until(SETTLED_MS)
        behind = dice.choice(self.processes)
        others = [each for each in self.processes if each is not behind]
        behind.end(loses_power=dice.random() < 0.5, why="is away")
        schedule.run_until(schedule.now_ms + AWAY_MS)
        late = [Client(clients, f"l{number}", client.group_id, self.mix.paces_ms) for number, client in self._members()]
        for client in late:
            client.begin()
        schedule.run_until(schedule.now_ms + AWAY_MS)
        for process in others:
            if dice.random() < 0.5:
                process.lose_disk()
            else:
                process.end(loses_power=False, why="is gone")
        self.faults += 1
        if dice.random() < 0.6:
            for _, client in self._members():
                client.vanish()
                Client(clients, f"{client.name}-next", client.group_id, self.mix.paces_ms).begin()
        behind.power_on()
        told = clients.grants_told
        _, before = clients.greatest_owner_epoch()
        self._elect()
        schedule.run_until(schedule.now_ms + dice.choice((0, 100, SETTLED_MS)))
        if dice.random() < 0.3:
            behind.end(loses_power=dice.random() < 0.5, why="is killed as soon as it leads")
            schedule.after(dice.choice((0, 3_000)), behind.power_on)
        for process in others:
            schedule.after(dice.choice((0, 300, SETTLED_MS)), process.power_on)
        schedule.run_until(schedule.now_ms + 3 * SETTLED_MS)
        self._heal()
        self._come_to_rest()
        least, _ = clients.greatest_owner_epoch(told)
        if clients.grants_told > told and least <= before:
            raise ViolationError("OwnerEpochUnique", f"{least} is granted after {before} was told")

    def _members(self) -> list[tuple[int, Client]]:
        return [(number, client) for number, client in enumerate(list(self.clients.all)) if type(client) is Client]

    def _elect(self) -> None:
        """Ask for each shard until it has a leader, as a person would who looks again."""
        schedule, end_ms = self.schedule, self.schedule.now_ms + MOST_MS
        while schedule.now_ms < end_ms:
            schedule.run_until(schedule.now_ms + LOOK_MS)
            entries = dict(self.checker.image.shards())
            if all(entry.leader is not None and entry.unclean_epoch for entry in entries.values()):
                return
            office = next((each for each in self.processes if each.is_up and each.node.has_office), None)
            wanted = tuple(
                UncleanLeader(shard, office.number, entry.leader_epoch)
                for shard, entry in entries.items()
                if office is not None and entry.leader is None and office.number in entry.replicas
            )
            if wanted and office is not None:
                self.clients.forget_lost()
                office.do(partial(office.request, 0, 0, ElectLeaders((), "ann", "they are gone", False, wanted)))
        raise ViolationError("Liveness", f"nobody was elected uncleanly: {dict(self.checker.image.shards())}")
