"""The faults of the chaos: drawn by chance, done to real processes, one after the other and some at one time.

Each leaves the cluster as ill as it made it, but for what it lifts itself; `calm` in `__main__` heals everything.
"""

import random
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from tests.chaos_cluster.clients import Committer
from tests.chaos_cluster.cluster import MEMBERS_OF, NODES, ZOOKEEPER_MS, ZOOKEEPER_OF, ChaosCluster
from tests.chaos_cluster.frame_proxy import ANYBODY, Rules, is_zookeeper_write
from tests.chaos_cluster.machines import Disk

SESSION_S = ZOOKEEPER_MS / 1000
COUNTED = ("kills", "pauses", "cuts", "zookeeper", "disks", "clocks", "operators")
HOUR_S = 3_600
DISK_S = 4.0
"""The longest that a bad disk is left to a node; it may have nothing to write."""


@dataclass
class Counts:
    """What was done, by kind and by name."""

    faults: int = 0
    kinds: Counter[str] = field(default_factory=Counter)
    names: Counter[str] = field(default_factory=Counter)


class Faults:
    """Draws faults and does them."""

    def __init__(self, cluster: ChaosCluster, members: list[Committer], seed: int, say: Callable[[str], None]) -> None:
        self.counts = Counts()
        self._cluster = cluster
        self._members = members
        self._dice = random.Random(seed)
        self._say = say
        self._weighted: dict[Callable[[], None], int] = {
            self.kill_the_leader: 5,
            self.kill_the_controller: 4,
            self.kill_both: 2,
            self.kill_anybody: 3,
            self.pause_a_node: 6,
            self.restart_all: 1,
            self.replace_a_disk: 2,
            self.spoil_a_disk: 4,
            self.put_clocks_wrong: 2,
            self.drain_a_node: 3,
            self.reassign_shards: 4,
            self.elect_leaders: 1,
            self.lose_a_write_with_its_writer: 4,
            self.lose_the_word_of_a_write: 3,
            self.pause_zookeeper: 2,
            self.restart_zookeeper: 1,
            self.cut_off_from_zookeeper: 4,
            self.cut_a_link: 4,
            self.hold_a_link: 5,
            self.delay_everything: 2,
            self.isolate_a_node: 4,
            self.cut_behind_requests: 4,
            self.cut_members: 2,
            self.replace_a_member: 3,
        }

    def one(self) -> None:
        """Do one."""
        fault = self._dice.choices(list(self._weighted), list(self._weighted.values()))[0]
        self.counts.faults += 1
        self.counts.names[fault.__name__] += 1
        self._say(fault.__name__.replace("_", " "))
        fault()

    # ---- processes --------------------------------------------------------------------------------------------------

    def kill_the_leader(self) -> None:
        """Kill the node that leads most shards."""
        self._kill(self._leader())

    def kill_the_controller(self) -> None:
        """Kill the controller."""
        self._kill(self._controller())

    def kill_both(self) -> None:
        """Kill both at once, or two nodes if they are one."""
        leader, controller = self._leader(), self._controller()
        others = [number for number in NODES if number != leader]
        self._kill(leader, controller if controller != leader else self._dice.choice(others))

    def kill_anybody(self) -> None:
        """Kill a node, and start it again only after a while."""
        self._kill(self._dice.choice(NODES), away_s=self._dice.uniform(0, 3))

    def _kill(self, *numbers: int, away_s: float = 0.0) -> None:
        for number in numbers:
            self._cluster.kill(number)
            self._count("kills")
        self._wait(away_s or self._dice.choice((0.0, 0.3, 1.0)))
        for number in numbers:
            self._cluster.begin(number)

    def pause_a_node(self) -> None:
        """Have the leader, the controller or anybody stand still for half a session, one or three."""
        number = self._dice.choice((self._leader(), self._controller(), self._dice.choice(NODES)))
        self._cluster.pause(number)
        self._count("pauses")
        self._wait(SESSION_S * self._dice.choice((0.5, 1.0, 3.0)))
        self._cluster.resume(number)

    def restart_all(self) -> None:
        """Restart the nodes one after the other."""
        for number in NODES:
            self._cluster.stop(number)
            self._cluster.begin(number)
            self._cluster.await_answers(number)

    def replace_a_disk(self) -> None:
        """Kill a node and give it an empty disk, when the others have everything; wait until it has, too."""
        self._cluster.heal()
        self._cluster.await_whole()
        number = self._dice.choice(NODES)
        self._cluster.kill(number)
        self._cluster.replace_disk(number)
        self._cluster.begin(number)
        self._count("kills")
        self._count("disks")
        self._cluster.await_whole()

    def spoil_a_disk(self) -> None:
        """Have the disk of a node be full, fail or be slow; a node that ends has to say why, and starts again."""
        number, how = self._dice.choice((self._leader(), self._dice.choice(NODES))), self._dice.choice(list(Disk))
        self._cluster.spoil_disk(number, how)
        self._count("disks")
        self._cluster.await_ended(number, DISK_S)
        self._cluster.mend_disk(number)

    def put_clocks_wrong(self) -> None:
        """Have the wall clock of each node jump: right, an hour ahead or an hour behind."""
        for machine in self._cluster.machines.values():
            machine.set_clock(self._dice.choice((0, HOUR_S, -HOUR_S)))
        self._count("clocks")

    # ---- ZooKeeper --------------------------------------------------------------------------------------------------

    def pause_zookeeper(self) -> None:
        """Have ZooKeeper stand still for a while: half a session, or two."""
        self._cluster.zookeeper.pause()
        self._count("zookeeper")
        self._wait(SESSION_S * self._dice.choice((0.5, 2.0)))
        self._cluster.zookeeper.resume()

    def restart_zookeeper(self) -> None:
        """Kill ZooKeeper and start it again over what it has written."""
        self._cluster.zookeeper.kill()
        self._count("zookeeper")
        self._wait(self._dice.uniform(0, 3))
        self._cluster.zookeeper.start()

    def cut_off_from_zookeeper(self) -> None:
        """Hold what one node says to ZooKeeper or hears from it, or both; less than a session, or more."""
        number = self._dice.choice((self._leader(), self._controller(), self._dice.choice(NODES)))
        is_held = Rules(is_held=True)
        said, heard = self._dice.choice(((is_held, is_held), (is_held, None), (None, is_held)))
        self._cluster.proxies.change(ANYBODY, ZOOKEEPER_OF + number, said=said, heard=heard)
        self._count("cuts")
        self._wait(SESSION_S * self._dice.choice((0.4, 2.0)))
        self._cluster.proxies.cut(ANYBODY, ZOOKEEPER_OF + number)
        self._cluster.proxies.heal()

    def lose_a_write_with_its_writer(self) -> None:
        """Kill a node between what it writes to ZooKeeper and the word that this is written, with nobody told of it."""
        writer, other = self._await_a_write()
        self._cluster.kill(writer)
        self._count("kills")
        self._heal()
        self._wait(self._dice.choice((0.0, 1.0)))
        self._cluster.begin(writer)
        self._cluster.begin(other)

    def lose_the_word_of_a_write(self) -> None:
        """Cut the connection between a write and the word that it is done, or let that come late."""
        writer, other = self._await_a_write()
        self._wait(SESSION_S * self._dice.choice((0.0, 0.4, 2.0)))
        if self._dice.random() < 0.5:
            self._cluster.proxies.cut(ANYBODY, ZOOKEEPER_OF + writer)
        self._count("cuts")
        self._heal()
        self._cluster.begin(other)

    def _await_a_write(self) -> tuple[int, int]:
        """Kill a node, for which others write, and wait until one has written; return who wrote, and who was killed."""
        writer = self._dice.choice((self._controller(), self._leader()))
        other = self._dice.choice([number for number in NODES if number != writer])
        link = ANYBODY, ZOOKEEPER_OF + writer
        self._cluster.proxies.change(*link, said=Rules(is_last=is_zookeeper_write))
        self._cluster.kill(other)
        self._count("kills")
        end_s = time.monotonic() + SESSION_S
        while not self._cluster.proxies.has_come_to_its_last(*link) and time.monotonic() < end_s:
            self._wait(0.002)
        return writer, other

    # ---- operators --------------------------------------------------------------------------------------------------

    def drain_a_node(self) -> None:
        """Drain a node, or take that back."""
        self._cluster.operators.drain()
        self._count("operators")

    def reassign_shards(self) -> None:
        """Take replicas of shards away from nodes or give them back, and change who is to lead."""
        self._cluster.operators.reassign()
        self._count("operators")

    def elect_leaders(self) -> None:
        """Have all shards be led by their first replicas."""
        self._cluster.operators.elect()
        self._count("operators")

    # ---- links ------------------------------------------------------------------------------------------------------

    def cut_a_link(self) -> None:
        """Reset the connections of a pair of nodes, some times."""
        one, other = self._dice.sample(NODES, 2)
        for _ in range(self._dice.choice((1, 3))):
            self._cluster.proxies.cut(one, other)
            self._cluster.proxies.cut(other, one)
            self._count("cuts")
            self._wait(0.1)

    def hold_a_link(self) -> None:
        """Hold or drop what one node says to another, and nothing else."""
        one, other = self._dice.sample(NODES, 2)
        ill = self._dice.choice((Rules(is_held=True), Rules(is_dropped=True)))
        self._cluster.proxies.change(one, other, said=ill)
        self._cluster.proxies.change(other, one, heard=ill)
        self._count("cuts")
        self._wait(self._dice.choice((0.5, 2.0, 4.0)))
        self._heal()

    def isolate_a_node(self) -> None:
        """Cut one node off the others both ways, while ZooKeeper and members reach it."""
        number = self._dice.choice((self._leader(), self._controller(), self._dice.choice(NODES)))
        ill = Rules(is_held=True)
        for other in NODES:
            if other != number:
                self._cluster.proxies.change(number, other, said=ill, heard=ill)
                self._cluster.proxies.change(other, number, said=ill, heard=ill)
        self._count("cuts")
        self._wait(self._dice.choice((1.0, 3.0)))
        self._heal()

    def delay_everything(self) -> None:
        """Delay each frame between nodes, by up to 50 or 500 ms."""
        slow = Rules(delay_s=self._dice.choice((0.05, 0.5)))
        for one in NODES:
            for other in NODES:
                if one != other:
                    self._cluster.proxies.change(one, other, said=slow, heard=slow)
        self._count("cuts")
        self._wait(2.0)
        self._heal()

    def cut_behind_requests(self) -> None:
        """Pass members' requests to a node on, and cut the connection in the place of the answer."""
        number = self._dice.choice((self._leader(), self._dice.choice(NODES)))
        ill = Rules(is_cut=True)
        self._cluster.proxies.change(ANYBODY, MEMBERS_OF + number, said=ill, heard=Rules(is_held=True))
        self._count("cuts")
        self._wait(self._dice.choice((0.1, 0.5)))
        self._heal()

    def cut_members(self) -> None:
        """Hold what members say to a node, or what it says to them, for longer than they wait."""
        number = self._dice.choice((self._leader(), self._dice.choice(NODES)))
        ill = Rules(is_held=True)
        said, heard = self._dice.choice(((ill, None), (None, ill)))
        self._cluster.proxies.change(ANYBODY, MEMBERS_OF + number, said=said, heard=heard)
        self._count("cuts")
        self._wait(3.0)
        self._heal()

    def replace_a_member(self) -> None:
        """Have a member vanish, and another one begin."""
        self._dice.choice(self._members).replace()

    # ---- helpers ----------------------------------------------------------------------------------------------------

    def _heal(self) -> None:
        self._cluster.proxies.heal()

    def _leader(self) -> int:
        return self._cluster.watch.seen.leader() or self._dice.choice(NODES)

    def _controller(self) -> int:
        return self._cluster.watch.seen.controller or self._dice.choice(NODES)

    def _count(self, kind: str) -> None:
        self.counts.kinds[kind] += 1

    @staticmethod
    def _wait(seconds: float) -> None:
        time.sleep(seconds)
