"""Local commands: Ctrl-C, wherever it comes, and the nodes of a cluster that are started again."""

import signal
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from coordinator.cli import app
from coordinator.cli.verbs.dev import ending_when_asked, keep_running
from coordinator.local.errors import LocalServiceError


class Finalizer:
    """An object in whose finalizer a signal comes: Python raises nothing out of one."""

    def __del__(self) -> None:
        signal.raise_signal(signal.SIGINT)


@pytest.mark.timeout(60)
def test_a_signal_that_comes_within_a_finalizer_ends_the_block_all_the_same() -> None:
    has_ended_itself = False
    with ending_when_asked():
        Finalizer()
        threading.Event().wait(20)
        has_ended_itself = True
    assert not has_ended_itself


@pytest.mark.timeout(60)
def test_a_signal_that_was_to_come_again_does_not_come_after_the_block_has_ended() -> None:
    has_come = threading.Event()
    before = signal.signal(signal.SIGTERM, lambda *_: has_come.set())
    try:
        with ending_when_asked():
            Finalizer()
        assert not has_come.wait(1)
    finally:
        signal.signal(signal.SIGTERM, before)


@dataclass
class Service:
    """A service that is ready when it runs and `needs` says so."""

    name: str
    needs: Callable[[], bool] = lambda: True
    is_running: bool = True
    begun: list[str] = field(default_factory=list)
    log_path: Path = Path("its.log")

    @property
    def is_ready(self) -> bool:
        return self.is_running and self.needs()

    def stop(self) -> None:
        self.is_running = False

    def begin(self) -> None:
        self.is_running = True
        self.begun.append(self.name)

    def log_tail(self, lines: int = 40) -> str:
        return f"the end of {self.name}"


@pytest.mark.timeout(60)
def test_nodes_that_have_all_ended_at_once_are_started_again_together(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    broker, looks = Service("Kafka"), 0
    nodes = [Service(f"Node {number}", lambda: sum(node.is_running for node in nodes) > 1) for number in (1, 2, 3)]

    def look(_: float) -> None:
        nonlocal looks
        looks += 1
        if looks == 1:
            for node in nodes:
                node.is_running = False
        broker.is_running = looks < 5

    monkeypatch.setattr("coordinator.cli.verbs.dev.time.sleep", look)
    kept: Any = [broker]
    services: Any = nodes
    with pytest.raises(LocalServiceError, match="Kafka ended by itself"):
        keep_running(kept, services)
    assert [node.begun for node in nodes] == [["Node 1"], ["Node 2"], ["Node 3"]]
    said = capsys.readouterr().err
    assert [f"Node {number} serves again." in said for number in (1, 2, 3)] == [True] * 3


@pytest.mark.timeout(60)
def test_a_node_that_ends_as_it_is_started_again_ends_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    node = Service("Node 1", is_running=False)
    services: Any = [node]
    monkeypatch.setattr("coordinator.cli.verbs.dev.time.sleep", lambda _: node.stop())
    with pytest.raises(LocalServiceError, match="Node 1 ended by itself"):
        keep_running([], services)


@pytest.mark.parametrize("verb", ["topic", "produce"])
@pytest.mark.parametrize("kafka", ["", "host", "host:abc", ":::"])
def test_an_address_that_is_none_is_told_without_a_traceback(verb: str, kafka: str) -> None:
    told = CliRunner().invoke(app, ["dev", verb, "t", "--kafka", kafka])
    assert told.exit_code == 2
    assert "is not HOST:PORT" in told.output or "is ambiguous" in told.output
