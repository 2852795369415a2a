"""Signals to a node process, in every phase of its life."""

import json
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from coordinator.protocol.messages import DescribeGroup, FindCoordinator
from coordinator.runtime.process.signals import IGNORED
from tests.helpers.node_process import NO_KAFKA, NodeProcess, running_node
from tests.helpers.processes import eventually
from tests.helpers.python_path import python_path
from tests.helpers.raw_member import RawMember

PASSED_OVER = (*IGNORED, signal.SIGUSR1, signal.SIGQUIT)
IN_LOAD = """
import pathlib, time
from coordinator.core import node
load = node.Node.load
def slowly(self, shard, *rest):
    if shard == 1:
        pathlib.Path({mark!r}).touch()
        until = time.monotonic() + 60
        while not pathlib.Path({loads!r}).exists() and time.monotonic() < until:
            time.sleep(0.01)
    return load(self, shard, *rest)
node.Node.load = slowly
"""
IN_IMPORT = """
import os, signal, sys
class Teller:
    def find_spec(self, name, path=None, target=None):
        if name == "coordinator.service":
            for name in {names!r}:
                os.kill(os.getpid(), signal.Signals[name])
sys.meta_path.insert(0, Teller())
"""
NEVER_DRAINED = """
import time
from coordinator.runtime.disk import disk
disk.Disk.close = lambda self: time.sleep(60)
"""


@pytest.fixture
def beginning_with(tmp_path: Path) -> Callable[..., dict[str, str]]:
    """Return a maker of the environment of a Python that runs some code before anything else."""

    def make(code: str, **words: object) -> dict[str, str]:
        folder = tmp_path / "begins-with"
        folder.mkdir()
        (folder / "sitecustomize.py").write_text(code.format(**words) if words else code)
        return {"PYTHONPATH": python_path(folder)}

    return make


def lines_of(node: NodeProcess, kind: str) -> list[dict[str, object]]:
    """Return what a node has said of a kind."""
    lines = [json.loads(line) for line in node.said.splitlines() if line.startswith("{") and line.endswith("}")]
    return [line for line in lines if line["event"] == kind]


def test_no_signal_but_those_that_stop_ends_a_node_that_serves(tmp_path: Path) -> None:
    with running_node(tmp_path) as node, RawMember(node.wait_until_it_serves(), "g") as tool:
        for number in PASSED_OVER:
            node.send(number)
            assert tool.ask(FindCoordinator("g")).coordinator is not None
        for number in IGNORED:
            node.wait_until_it_says(f"{number.name} came and does nothing")
        assert node.stop() == 0
        assert "Traceback" not in node.said


def test_sigusr1_shows_the_state_of_a_node(tmp_path: Path) -> None:
    with running_node(tmp_path) as node, RawMember(node.wait_until_it_serves(), "g") as tool:
        tool.ask(FindCoordinator("g"))
        node.send(signal.SIGUSR1)
        assert eventually(lambda: len(lines_of(node, "state")) == 1)
        (state,) = lines_of(node, "state")
        assert (state["phase"], state["connections"], state["groups"]) == ("serving", 1, 0)
        assert state.keys() >= {"unwritten_bytes", "seconds", "peak_memory_kib", "threads"}


def test_sigquit_shows_where_each_thread_stands_and_the_node_goes_on(tmp_path: Path) -> None:
    with running_node(tmp_path) as node, RawMember(node.wait_until_it_serves(), "g") as tool:
        node.send(signal.SIGQUIT)

        def stacks_said() -> dict[object, str]:
            return {line["thread"]: str(line["calls"]) for line in lines_of(node, "stack")}

        threads = {"MainThread", "kcoord-log-writer", "kcoord-log-lines", "kcoord-kafka"}
        assert eventually(lambda: stacks_said().keys() >= threads), stacks_said()
        stacks = stacks_said()
        assert "_write_until_closed (" in stacks["kcoord-log-writer"]
        assert "coordinator/service/" in stacks["MainThread"]
        assert tool.ask(FindCoordinator("g")).coordinator is not None


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_node_that_is_told_to_stop_while_it_loads_ends_well_and_soon(
    number: signal.Signals, tmp_path: Path, beginning_with: Callable[..., dict[str, str]]
) -> None:
    mark, loads = tmp_path / "loading", tmp_path / "loads"
    node = NodeProcess(tmp_path, environment=beginning_with(IN_LOAD, mark=str(mark), loads=str(loads)))
    try:
        assert eventually(mark.exists)
        node.send(number)
        loads.touch()  # its handler is called before the next step of Python
        assert node.process.wait(60) == 0, node.said
        assert f"{number.name} came while the log was loaded" in node.said
        assert "listening" not in node.said
    finally:
        node.kill()
    with running_node(tmp_path) as again:
        assert again.stop() == 0


def test_no_other_signal_ends_a_node_that_loads(tmp_path: Path, beginning_with: Callable[..., dict[str, str]]) -> None:
    mark, loads = tmp_path / "loading", tmp_path / "loads"
    node = NodeProcess(tmp_path, environment=beginning_with(IN_LOAD, mark=str(mark), loads=str(loads)))
    try:
        assert eventually(mark.exists)
        for number in PASSED_OVER:
            node.send(number)
        # Its lines are written by a thread of their own, which may come after the line that says that it serves.
        assert eventually(lambda: len(lines_of(node, "signal-ignored")) == len(IGNORED))
        assert eventually(lambda: [line["phase"] for line in lines_of(node, "state")] == ["starting"])
        assert eventually(lambda: any("slowly (" in str(line["calls"]) for line in lines_of(node, "stack")))
        loads.touch()
        node.wait_until_it_serves()
    finally:
        node.kill()


def test_sigterm_before_the_node_is_there_ends_it_well(
    tmp_path: Path, beginning_with: Callable[..., dict[str, str]]
) -> None:
    node = NodeProcess(tmp_path, environment=beginning_with(IN_IMPORT, names=["SIGTERM"]))
    try:
        assert node.process.wait(60) == 0
        assert node.said == "kcoord: SIGTERM came while no node ran: nothing is open, nothing to stop\n"
    finally:
        node.kill()


def test_no_other_signal_before_the_node_is_there_ends_it(
    tmp_path: Path, beginning_with: Callable[..., dict[str, str]]
) -> None:
    # Had one of them ended it, its exit code would name it.
    names = [number.name for number in PASSED_OVER]
    node = NodeProcess(tmp_path, environment=beginning_with(IN_IMPORT, names=names))
    try:
        node.wait_until_it_serves()
    finally:
        node.kill()


def test_a_second_sigterm_ends_a_node_that_does_not_come_to_its_end(
    tmp_path: Path, beginning_with: Callable[..., dict[str, str]]
) -> None:
    with running_node(tmp_path, environment=beginning_with(NEVER_DRAINED)) as node:
        node.send(signal.SIGTERM)
        node.wait_until_it_says('"stopping"')
        node.send(signal.SIGUSR1)
        assert eventually(lambda: [line["phase"] for line in lines_of(node, "state")] == ["stopping"])
        node.send(signal.SIGTERM)
        assert node.process.wait(60) == -signal.SIGTERM
        assert "SIGTERM came again while the node was stopping: ended at once" in node.said


def test_signals_that_are_said_wait_for_no_reader(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "coordinator", "serve", "--standalone", "--kafka", NO_KAFKA]
    with subprocess.Popen(
        [*command, "--data", str(tmp_path), "--listen", "127.0.0.1:0", "--set", "server.failures_burst=1000"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as node:
        try:
            assert node.stdout is not None
            host, _, port = node.stdout.readline().decode().split()[-1].rpartition(":")
            for _ in range(700):  # each is a line of more than 100 bytes, and a pipe holds 64 KiB
                with socket.create_connection((host, int(port)), 20) as stranger:
                    stranger.sendall(b"GET / HTTP/1.1\r\n\r\n")
                    while stranger.recv(4096):
                        pass
            with RawMember(f"{host}:{port}", "g") as tool:
                for number in (*PASSED_OVER, *[signal.SIGQUIT] * 20):
                    node.send_signal(number)
                    assert tool.ask(DescribeGroup("g")) is not None
            node.terminate()
            assert node.wait(60) == 0
        finally:
            node.kill()
