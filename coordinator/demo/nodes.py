"""The coordinator of a demo, of one node or several: whether all of it runs, and the end of the node that leads."""

from collections.abc import Mapping
from typing import Protocol

from coordinator.demo.errors import DemoError


class Node(Protocol):
    """The calls that the demo needs of a node's process."""

    @property
    def is_running(self) -> bool:
        """Say whether its process lives."""
        ...

    def log_tail(self) -> str:
        """Return the last lines of its log."""
        ...

    def kill(self) -> None:
        """End it with SIGKILL."""
        ...


class CoordinatorNodes:
    """Nodes by their addresses. It runs while each of them does that was not killed here."""

    def __init__(self, nodes: Mapping[str, Node]) -> None:
        self._nodes = dict(nodes)
        self.addresses = ",".join(self._nodes)
        """HOST:PORT of each, with commas between, for members."""

    @property
    def count(self) -> int:
        """Return how many nodes were started."""
        return self.addresses.count(",") + 1

    @property
    def is_running(self) -> bool:
        """Say whether every node lives that is to."""
        return all(node.is_running for node in self._nodes.values())

    def log_tail(self) -> str:
        """Return the last lines of the log of each node that has ended by itself."""
        return "\n\n".join(node.log_tail() for node in self._nodes.values() if not node.is_running)

    def kill(self, address: str) -> None:
        """End a node with SIGKILL, as a lost machine would; raises DemoError for an address that none here has."""
        node = self._nodes.pop(address, None)
        if node is None:
            raise DemoError(f"the group is said to be at {address}, and the demo's nodes are {self.addresses}")
        node.kill()
