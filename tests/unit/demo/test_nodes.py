"""The coordinator of a demo as its nodes: which is killed on purpose, and which has ended by itself."""

import pytest

from coordinator.demo.errors import DemoError
from coordinator.demo.nodes import CoordinatorNodes


class Process:
    """A node's process as far as the demo sees it."""

    def __init__(self, said: str) -> None:
        self.is_running = True
        self._said = said

    def log_tail(self) -> str:
        return self._said

    def kill(self) -> None:
        self.is_running = False


@pytest.fixture
def processes() -> dict[str, Process]:
    return {f"127.0.0.1:{port}": Process(f"said by {port}") for port in (1, 2, 3)}


def test_it_runs_while_every_node_does_that_was_not_killed_on_purpose(processes: dict[str, Process]) -> None:
    nodes = CoordinatorNodes(processes)
    assert (nodes.addresses, nodes.count, nodes.is_running) == ("127.0.0.1:1,127.0.0.1:2,127.0.0.1:3", 3, True)

    nodes.kill("127.0.0.1:2")
    assert not processes["127.0.0.1:2"].is_running
    assert (nodes.count, nodes.is_running, nodes.log_tail()) == (3, True, "")

    processes["127.0.0.1:3"].is_running = False
    assert (nodes.is_running, nodes.log_tail()) == (False, "said by 3")


def test_a_node_that_is_none_of_its_own_is_not_killed(processes: dict[str, Process]) -> None:
    with pytest.raises(DemoError, match=r"127\.0\.0\.1:9"):
        CoordinatorNodes(processes).kill("127.0.0.1:9")
