"""Clients that ask for much and never read the answers, beside little memory."""

import socket
from contextlib import ExitStack, suppress

from coordinator.local.process.ports import LOOPBACK
from coordinator.protocol.columns import OffsetToCommit, in_columns
from coordinator.protocol.messages import CommitOffsets, FetchOffsets
from coordinator.protocol.session import Role, Session
from tests.helpers.raw_member import RawMember
from tests.standing.case import Case, must
from tests.standing.load import resident_mib, wait
from tests.standing.trial import Trial

MIB = 1 << 20
CLIENTS = 60
ASKED_AT_ONCE = 5
PARTITIONS = 1_440
AT_ONCE = 240
METADATA = "m" * 4_000
MOST_GROWTH_MIB = 700


def never_read(trial: Trial, **how: object) -> None:
    """Ask for all offsets of a large group on many connections, as often as each may, and read nothing."""
    node = trial.start(**how)
    trial.beside()
    with RawMember(trial.address, "unread") as tool:
        for first in range(0, PARTITIONS, AT_ONCE):
            partitions = range(first, first + AT_ONCE)
            offsets = in_columns(OffsetToCommit("t", partition, 1, metadata=METADATA) for partition in partitions)
            must(tool.ask(CommitOffsets("unread", offsets)).accepted == AT_ONCE, "a commit is refused")
    before = resident_mib(node.process.pid)
    most = before
    with ExitStack() as opened, trial.set_apart():
        for _ in range(CLIENTS):
            session = Session(Role.MEMBER)
            one = opened.enter_context(socket.create_connection((LOOPBACK, trial.port), 10))
            one.settimeout(20)
            one.sendall(session.send_hello())
            while session.version is None:
                list(session.receive_bytes(one.recv(1 << 12)))
            with suppress(OSError):
                one.sendall(b"".join(session.send_request(FetchOffsets("unread"))[1] for _ in range(ASKED_AT_ONCE)))
        for _ in range(60):
            wait(0.1)
            must(node.is_running, "it ended", kind="stopped")
            most = max(most, resident_mib(node.process.pid))
    must(most - before < MOST_GROWTH_MIB, f"answers that nobody reads took {most - before} MiB")
    wait(1)


def little_memory(trial: Trial) -> None:
    """Do the same to a node that may have 2 GiB of addresses, of which its threads take some."""
    never_read(trial, before=("prlimit", f"--as={2048 * MIB}:{2048 * MIB}"))


CASES = [
    Case("answers-unread", "answers that nobody reads take bounded memory", never_read),
    Case("small-address-space", "a node of little address space stands clients that never read", little_memory),
]
