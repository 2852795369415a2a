"""Loads that cases put on a node: requests of wild size, floods of connections and frames, histories to load."""

import contextlib
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from coordinator.protocol.columns import OffsetToCommit, in_columns
from coordinator.protocol.ids import MAX_NAMED
from coordinator.protocol.messages import CommitOffsets, Request
from tests.helpers.node_process import NodeProcess
from tests.helpers.python_path import python_path
from tests.helpers.raw_member import RawMember
from tests.standing.case import must
from tests.standing.trial import Trial

_ANSWERED_IN_S = 20.0


def says(trial: Trial, request: Request, group: str = "wild", *topics: str) -> str:
    """Ask something on a connection of its own; return the name of the error, or `closed` when it was closed."""
    with RawMember(trial.address, group, *topics) as member:
        try:
            answer = member.ask(request)
        except (EOFError, ConnectionError):
            return "closed"
    return str(getattr(getattr(answer, "error", None), "name", "NONE"))


def ask_each(trial: Trial, group: str, *requests: Request) -> None:
    """Ask one after the other on one connection, until it is closed."""
    with contextlib.suppress(EOFError, OSError), RawMember(trial.address, group) as member:
        for request in requests:
            member.ask(request)


def fill(address: str, group: str, topic: str, count: int, *, metadata: str = "") -> None:
    """Commit so many partitions of a topic, in requests of as many as one may name."""
    with RawMember(address, group) as tool:
        for first in range(0, count, MAX_NAMED):
            partitions = range(first, min(count, first + MAX_NAMED))
            offsets = in_columns(OffsetToCommit(topic, partition, 1, metadata=metadata) for partition in partitions)
            answer = tool.ask(CommitOffsets(group, offsets))
            must(answer.accepted == len(partitions), f"a commit is refused: {answer.message} {answer.refused[:1]}")


@contextmanager
def stopped_for(node: NodeProcess, seconds: float) -> Iterator[None]:
    """Have the node stand still for so long, and do the block meanwhile."""
    until_s = time.monotonic() + seconds
    node.send(signal.SIGSTOP)
    try:
        yield
        threading.Event().wait(max(0.0, until_s - time.monotonic()))
    finally:
        node.send(signal.SIGCONT)


def for_so_long(seconds: float, act: Callable[[], None]) -> int:
    """Do something over and over for so long; return how often."""
    until_s = time.monotonic() + seconds
    count = 0
    while time.monotonic() < until_s:
        act()
        count += 1
    return count


def wait(seconds: float) -> None:
    """Let the good client be at work for so long."""
    threading.Event().wait(seconds)


def say_bytes(address: str, data: bytes, *, is_answer_read: bool = True) -> bytes:
    """Send bytes on a connection of its own and return what came until the node closed it, or for a while."""
    host, _, port = address.rpartition(":")
    said = b""
    with socket.create_connection((host, int(port)), _ANSWERED_IN_S) as stranger:
        stranger.settimeout(1.0)
        with contextlib.suppress(OSError):
            stranger.sendall(data)
            while is_answer_read and (more := stranger.recv(1 << 16)):
                said += more
    return said


def resident_mib(pid: int) -> int:
    """Return how much memory a process has."""
    (line,) = (line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("VmRSS"))
    return int(line.split()[1]) // 1024


def beginning_with(folder: Path, code: str) -> dict[str, str]:
    """Return the environment of a Python that runs some code before anything else."""
    place = folder / "begins-with"
    place.mkdir(parents=True)
    (place / "sitecustomize.py").write_text(code)
    return {"PYTHONPATH": python_path(place)}
