"""How a node process ends: in order while members are at work, and also when nobody reads what it says."""

import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.messages import FetchOffsets, FindCoordinator, Ping, StartFetcher
from tests.helpers.committer import IN_FLIGHT, Committer
from tests.helpers.processes import eventually
from tests.helpers.raw_member import RawMember

if TYPE_CHECKING:
    from coordinator.local.node import LocalCoordinator

NO_KAFKA = "127.0.0.1:1"
CONNECTIONS = 8
STRANGERS = 1_000
"""Each is a line of more than 100 bytes, and a pipe holds 64 KiB."""


@contextmanager
def a_node(data_dir: Path, stderr: int, **environment: str) -> Iterator[tuple["subprocess.Popen[str]", str]]:
    """Yield a node's process and its address."""
    command = [sys.executable, "-m", "coordinator", "serve", "--standalone", "--kafka", NO_KAFKA]
    with subprocess.Popen(
        [*command, "--data", str(data_dir), "--listen", "127.0.0.1:0", "--set", f"server.failures_burst={STRANGERS}"],
        stdout=subprocess.PIPE,
        stderr=stderr,
        text=True,
        env=os.environ | environment,
    ) as node:
        assert node.stdout is not None
        try:
            yield node, node.stdout.readline().split()[-1]
        finally:
            node.kill()


@pytest.mark.parametrize("attempt", range(3))
def test_a_node_that_is_told_to_stop_while_members_commit_drains_and_ends_well(attempt: int, tmp_path: Path) -> None:
    said = tmp_path / "node.log"
    with said.open("w") as log, a_node(tmp_path / "data", log.fileno()) as (node, address):
        committers = [Committer(address, f"g{number}") for number in range(CONNECTIONS)]
        for committer in committers:
            committer.start()
        assert eventually(lambda: all(committer.acknowledged > 200 for committer in committers))
        node.terminate()
        assert node.wait(60) == 0, said.read_text()
        for committer in committers:
            committer.join(20)
    assert '"stopped"' in said.read_text()
    assert "disk failed" not in said.read_text()
    with a_node(tmp_path / "data", subprocess.DEVNULL) as (_, address):
        for committer in committers:
            with RawMember(address, committer.group) as tool:
                (committed,) = tool.ask(FetchOffsets(committer.group)).offsets
                assert committed.offset >= committer.acknowledged - IN_FLIGHT


def test_a_node_whose_standard_error_nobody_reads_goes_on_and_ends_well(tmp_path: Path) -> None:
    with a_node(tmp_path / "data", subprocess.PIPE) as (node, address):
        host, _, port = address.rpartition(":")
        for _ in range(STRANGERS):
            with socket.create_connection((host, int(port)), 20) as stranger:
                stranger.sendall(b"GET / HTTP/1.1\r\n\r\n")
                while stranger.recv(4096):
                    pass
        with RawMember(address, "g") as tool:
            assert tool.ask(FindCoordinator("g")).coordinator.port == int(port)
        node.send_signal(signal.SIGTERM)
        assert node.wait(60) == 0


@pytest.mark.kafka
def test_a_standstill_of_the_node_expires_no_member_of_the_smallest_session(
    own_coordinator: "LocalCoordinator", topic: Callable[..., str]
) -> None:
    with RawMember(own_coordinator.address, "g", topic(1)) as one:
        one.session_timeout_ms = 1_000
        epoch = one.register().member_epoch

        def is_assigned() -> bool:
            """Ping, as its short session asks for, however long Kafka takes to tell of the topic."""
            assert one.ask(Ping(epoch)).error is ErrorCode.NONE
            return any(isinstance(push, StartFetcher) and push.is_complete for push in one.pushes)

        assert eventually(is_assigned)
        for _ in range(3):
            assert one.ask(Ping(epoch)).error is ErrorCode.NONE
            os.killpg(own_coordinator.process_group_id, signal.SIGSTOP)
            threading.Event().wait(1.5)
            os.killpg(own_coordinator.process_group_id, signal.SIGCONT)
            assert one.ask(Ping(epoch)).error is ErrorCode.NONE
        # Its tick says so, and the answer to a ping may come before the tick does.
        assert eventually(lambda: "stalled" in own_coordinator.log_path.read_text())
        assert "member-expired" not in own_coordinator.log_path.read_text()
