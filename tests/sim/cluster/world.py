"""A simulated cluster: nodes, their disks and connections, ZooKeeper, clients; faults for a while, then none.

When everything is whole again the cluster has to come to rest within a bound: one leader a shard, full in-sync sets,
one controller, everything committed, and every client acknowledged again.
"""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from random import Random

import google_crc32c

from coordinator.core.cluster.observer import READ_ALL_MS
from coordinator.core.cluster.znodes import Cluster
from tests.sim.cluster.checker import ClusterChecker, ViolationError, is_at_rest
from tests.sim.cluster.clients import Client, Clients, Reader
from tests.sim.cluster.faults import FAULT_OF, put_cluster_right, undrain
from tests.sim.cluster.mix import ClusterMix
from tests.sim.cluster.peers import PeerNetwork
from tests.sim.cluster.process import ClusterProcess
from tests.sim.schedule import Schedule
from tests.sim.zookeeper_servers import Servers

LOOK_MS = 100
MARGIN_MS = 20_000
"""Beside session time-outs: members' waits, a controller that lets others stand first, and reach."""


class ClusterWorld:
    """One run."""

    reader_paces_ms: tuple[int, ...] = (20, 100)

    def __init__(self, seed: int, mix: ClusterMix, dice: Random) -> None:
        self.seed = seed
        self.mix = mix
        self.dice = dice
        self.schedule = Schedule()
        self.checker = ClusterChecker(mix.cluster, self.schedule)
        self.servers = Servers(self.schedule, dice, on_commit=self.checker.written)
        self.peers = PeerNetwork(dice, self.schedule, mix.peer_delays_ms)
        self.processes = [
            ClusterProcess(number, dice, self.schedule, mix, self.servers, self.peers, self.checker)
            for number in range(1, mix.nodes + 1)
        ]
        self.checker.processes, self.checker.shard_of = self.processes, self._shard_of
        self.clients = Clients(dice, self.schedule, self.checker, self.processes, self._shard_of)
        for process in self.processes:
            process.clients = self.clients
        self.has_lost_watches = mix.loses_watches > 0
        self.faults = 0
        self.is_healed = False
        self.has_lost_something = False
        """Some node has lost what it had acknowledged: no other may in this run."""
        self.copies: dict[int, tuple[int, Mapping[Path, bytes]]] = {}
        """By node: a copy of its disk from before, and how often that had been started."""
        self.no_bug_before_ms = 0
        self.cluster_as_made: bytes | None = None
        """The right value of `/cluster`, while somebody has written another one there."""

    @property
    def cluster(self) -> Cluster:
        """Return what all nodes agree on."""
        return self.mix.cluster

    def _shard_of(self, group_id: str) -> int:
        return int(google_crc32c.value(group_id.encode())) % self.cluster.shards

    def run(self) -> None:
        """Run to the end, or to the first broken invariant."""
        schedule = self.schedule
        self._begin()
        schedule.run_until(3_000)
        schedule.after(0, self._break_something)
        schedule.run_until(3_000 + self.mix.faulty_ms)
        self._heal()
        self._come_to_rest()

    def _begin(self) -> None:
        dice, schedule = self.dice, self.schedule
        for process in self.processes:
            schedule.after(dice.choice((0, 0, 50, 1_500)), process.start)
        for number in range(self.mix.clients):
            group_id = f"g{dice.randrange(max(1, self.mix.clients - 1))}"
            client = Client(self.clients, f"c{number}", group_id, self.mix.paces_ms)
            schedule.after(dice.choice((0, 500)), client.begin)
            schedule.after(1_000, Reader(self.clients, f"r{number}", group_id, self.reader_paces_ms).begin)

    def _break_something(self) -> None:
        if self.is_healed:
            return
        self.schedule.after(self.dice.randint(1, 2 * self.mix.fault_every_ms), self._break_something)
        names = sorted(self.mix.faults)
        weights = [self.mix.faults[name] for name in names]
        if not any(weights):
            return
        (name,) = self.dice.choices(names, weights)
        if FAULT_OF[name](self):
            self.faults += 1
            self.schedule.tell("fault", name)
            self.checker.coverage[name] += 1

    def _begin_at_rest(self, after_ms: int) -> None:
        """Begin, and have nothing be wrong and all be served from then on."""
        self._begin()
        self.schedule.run_until(after_ms)
        self._heal()
        self._come_to_rest()

    def _heal(self) -> None:
        self.is_healed = True
        self.schedule.tell("world", "is healed")
        self.peers.heal()
        self.servers.come_back()
        put_cluster_right(self)
        self.mix = replace(self.mix, loses_watches=0.0)
        undrain(self)
        for process in self.processes:
            process.extra_sync_ms, process.mix = 0, self.mix
            process.disk.heal()
            process.resume()
            if process.is_up:
                process.manners.loses_watches = 0.0
                process.zookeeper.refuse(is_refusing=False)
                process.zookeeper.let_go()
            else:
                process.power_on()

    def _come_to_rest(self) -> None:
        schedule, healed_ms = self.schedule, self.schedule.now_ms
        end_ms = healed_ms + 4 * self.mix.settings.zookeeper_session_timeout_ms + MARGIN_MS
        end_ms += READ_ALL_MS if self.has_lost_watches else 0
        why = "nothing was looked at"
        while schedule.now_ms < end_ms:
            schedule.run_until(schedule.now_ms + LOOK_MS)
            why = is_at_rest(self.checker.image, self.cluster, self.processes)
            late = [client.name for client in self.clients.all if client.last_ack_ms <= healed_ms and client.owned]
            strangers = [client.name for client in self.clients.all if not client.is_member]
            why = why or (f"{late} have had no commit acknowledged" if late else "")
            why = why or (f"{strangers} are no members" if strangers else "")
            why = why or ("" if self.clients.acked else "no commit was ever acknowledged")
            if not why:
                return
        raise ViolationError("Liveness", f"{end_ms - healed_ms} ms after everything was whole: {why}")

    @property
    def is_void(self) -> bool:
        """Return whether nothing was acknowledged, or nothing read."""
        return not self.clients.acked or not self.clients.reads
