"""Worlds of a cluster in which one thing happens that no random world has: it ends with nodes that must not go on."""

from tests.sim.cluster.checker import ViolationError
from tests.sim.cluster.world import ClusterWorld

SETTLED_MS = 5_000
HALTED_MS = 20_000


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
