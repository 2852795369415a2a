"""Machines that are too small: few descriptors, little address space, small files, a full disk."""

import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from coordinator.local.process.ports import LOOPBACK
from coordinator.protocol.columns import OffsetToCommit, in_columns
from coordinator.protocol.messages import CommitOffsets
from tests.helpers.processes import eventually
from tests.helpers.raw_member import RawMember
from tests.standing.case import Case, must
from tests.standing.load import wait
from tests.standing.trial import Trial

MIB = 1 << 20
DESCRIPTORS = 300
ROOM = 3 * MIB
"""Fewer bytes than a shard's log takes before a snapshot of little state ends it."""
FILE_SYSTEM_MIB = 48
MOST_COMMITS = 200


def few_descriptors(trial: Trial) -> None:
    """Open more connections than a node of 300 descriptors can have, and keep them."""
    before = ("prlimit", f"--nofile={DESCRIPTORS}:{DESCRIPTORS}")
    node = trial.start(before=before)
    trial.beside()
    with ExitStack() as opened:
        for _ in range(2 * DESCRIPTORS):
            with suppress(OSError):
                opened.enter_context(socket.create_connection((LOOPBACK, trial.port), 5))
        wait(3)
        node.wait_until_it_says("too-many-connections")
    wait(1)
    with RawMember(trial.address, "after"):
        pass


def commit_until_it_ends(trial: Trial, seconds: float) -> int:
    """Commit 500 KB again and again until the node is gone; return how much was acknowledged."""
    metadata = "m" * 4_000
    count = 0
    with suppress(EOFError, OSError), RawMember(trial.address, "filling") as tool:
        while trial.node.is_running:
            must(count < MOST_COMMITS, f"{count} commits of 500 KB found room in {ROOM} bytes")
            offsets = [OffsetToCommit("t", partition, count, metadata=metadata) for partition in range(120)]
            must(tool.ask(CommitOffsets("filling", in_columns(offsets))).accepted == 120, "a commit is refused")
            count += 1
    must(eventually(lambda: not trial.node.is_running, seconds), "the disk is full and the node goes on")
    return count


def file_size_limit(trial: Trial) -> None:
    """Fill a segment of the log up to the largest file that the system allows this node."""
    trial.start(before=("prlimit", f"--fsize={ROOM}:{ROOM}"))
    trial.beside()
    commit_until_it_ends(trial, 10)
    trial.must_end(1, "Make room on this file system (or raise the quota or size limit) and start the node again")
    trial.start()


def full_partition(trial: Trial) -> None:
    """Give a node a file system of its own, fill it, make room and start it again."""
    mounted = trial.folder / "mounted"
    mounted.mkdir(parents=True)
    with small_file_system(mounted, FILE_SYSTEM_MIB) as inside:
        filler = Path(f"/proc/{inside}/root{mounted}/filler")
        within = ("nsenter", f"--target={inside}", "--user", "--mount", "--preserve-credentials")
        trial.start(before=within, data_dir=mounted / "data")
        trial.beside()
        filler.write_bytes(bytes(shutil.disk_usage(filler.parent).free - ROOM))
        commit_until_it_ends(trial, 10)
        trial.must_end(1, "Make room on this file system")
        filler.unlink()
        trial.start()
        wait(1)
        trial.stop()
        # What is written in a name space of its own is gone with it.
        shutil.copytree(f"/proc/{inside}/root{mounted}/data", trial.folder / "kept")
    trial.start(before=(), data_dir=trial.folder / "kept")


@contextmanager
def small_file_system(at: Path, mib: int) -> Iterator[int]:
    """Mount so many MiB in a name space of a process, for as long as the block; yield its id."""
    script = f'mount -t tmpfs -o size={mib}m none "{at}" && echo mounted && exec sleep 600'
    keeping = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", script]
    with subprocess.Popen(keeping, stdout=subprocess.PIPE, text=True) as keeper:
        try:
            assert keeper.stdout is not None
            must(keeper.stdout.readline() == "mounted\n", "this case needs a machine on which unshare may mount")
            yield keeper.pid
        finally:
            keeper.kill()


CASES = [
    Case("few-descriptors", "a node with few descriptors turns newcomers away and serves the others", few_descriptors),
    Case("file-size-limit", "a log that may not grow ends a node with what to do, and loses nothing", file_size_limit),
    Case("full-partition", "a full log partition ends a node with what to do, and loses nothing", full_partition),
]
