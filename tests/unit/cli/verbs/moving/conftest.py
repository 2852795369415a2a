"""The command line against the real core of a node, whose answers travel over a loopback socket."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from typer.testing import CliRunner

from coordinator.cli import app
from coordinator.protocol.messages import RESPONSE_OF, Request, Response
from tests.helpers.node_world import NodeWorld
from tests.helpers.scripted_coordinator import ScriptedCoordinator


@dataclass(frozen=True)
class Ran:
    """The output of a command, its notes, its exit code and what it asked for."""

    stdout: str
    stderr: str
    exit_code: int
    asked: tuple[Request, ...]

    @property
    def data(self) -> Any:
        return json.loads(self.stdout) if self.stdout else None


Run = Callable[..., Ran]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Run:
    """Return `run(world, *words)`, which runs `kcoord` with words on the node of a world."""
    monkeypatch.setattr("getpass.getuser", lambda: "ann")
    monkeypatch.setattr("socket.gethostname", lambda: "ops")

    def run(world: NodeWorld, *words: str) -> Ran:
        def answer(request: Request) -> Response:
            tool = world.connect()
            asked = tool.send(request)
            response = tool.answer(asked)
            if response is None:  # what is large waits until the node has done something else
                world.settle()
                response = tool.answer(asked)
            assert response is not None, f"{request} was not answered"
            return response

        with ScriptedCoordinator(dict.fromkeys(RESPONSE_OF, answer)) as coordinator:
            host, port = coordinator.address
            monkeypatch.setenv("KCOORD_COORDINATOR", f"{host}:{port}")
            result = CliRunner().invoke(app, list(words))
            assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
            return Ran(result.stdout, result.stderr, result.exit_code, tuple(coordinator.asked))

    return run
