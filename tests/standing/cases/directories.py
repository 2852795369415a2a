"""The data directory: killed over, copied, moved, given to two nodes, put back, taken away."""

import shutil
import time
from contextlib import suppress

from coordinator.protocol.columns import OffsetToCommit, in_columns
from coordinator.protocol.messages import CommitOffsets, FetchOffsets
from tests.helpers.node_process import NodeProcess
from tests.helpers.raw_member import RawMember
from tests.standing.case import Case, must
from tests.standing.load import wait
from tests.standing.trial import Trial

KILLS = 8


def killed(trial: Trial) -> None:
    """Kill the node again and again while the good client commits."""
    trial.start()
    trial.beside()
    for number in range(KILLS):
        wait(0.2 + 0.05 * number)
        trial.kill()
        trial.start()
    wait(0.5)


def given_twice(trial: Trial) -> None:
    """Start a second node over the directory of one that runs."""
    node = trial.start()
    trial.beside()
    second = NodeProcess(trial.folder / "second", data_dir=node.data_dir)
    try:
        must(second.process.wait(60) == 1, "a second node took the directory")
        must(f"is in use by process {node.process.pid}" in second.said, f"it is told otherwise: {second.said}")
    finally:
        second.kill()


def copied(trial: Trial) -> None:
    """Stop the node between commits, copy its directory, and start another node over the copy."""
    node = trial.start()
    trial.beside()
    wait(0.5)
    copy = trial.folder / "copy"
    trial.stop()
    shutil.copytree(node.data_dir, copy)
    trial.start()
    second = NodeProcess(trial.folder / "second", data_dir=copy)
    try:
        address = second.wait_until_it_serves()
        with RawMember(address, trial.group) as tool:
            offsets = tool.ask(FetchOffsets(trial.group)).offsets
        must(len(offsets) > 0, "a copy that was made between commits has none of them")
        must(second.stop() == 0, f"the node over the copy: {second.said}", kind="stopped")
    finally:
        second.kill()


def moved_between(trial: Trial) -> None:
    """Move the directory of a node that was stopped, and start it there."""
    node = trial.start()
    trial.beside()
    wait(0.5)
    trial.stop()
    elsewhere = trial.folder / "elsewhere" / "data"
    elsewhere.parent.mkdir(parents=True)
    node.data_dir.rename(elsewhere)
    trial.start(data_dir=elsewhere)
    wait(0.5)


def lock_deleted(trial: Trial) -> None:
    """Delete the lock file of a node that runs, as one does with stale ones, and start a second node."""
    node = trial.start()
    trial.beside()
    (node.data_dir / "lock").unlink()
    second = NodeProcess(trial.folder / "second", data_dir=node.data_dir)
    try:
        must(second.process.wait(60) == 1, "a second node took the directory")
        must("whose lock file was deleted" in second.said, f"it is told otherwise: {second.said}")
    finally:
        second.kill()


def moved_under_way(trial: Trial) -> None:
    """Move the directory away from a node that runs: it stops, and all it acknowledged is where the directory is."""
    node = trial.start()
    trial.beside()
    wait(1)
    elsewhere = trial.folder / "elsewhere"
    node.data_dir.rename(elsewhere)
    trial.must_end(1, "is no longer the directory that this node has opened")
    trial.start(data_dir=elsewhere)
    wait(0.5)


def deleted_under_way(trial: Trial) -> None:
    """Delete the directory of a node that runs: it acknowledges nothing more, and says why."""
    node = trial.start()
    offsets = in_columns([OffsetToCommit("t", 0, 1)])
    with RawMember(trial.address, "deleted") as tool:
        must(tool.ask(CommitOffsets("deleted", offsets)).accepted == 1, "a commit is refused")
        shutil.rmtree(node.data_dir)
        with suppress(EOFError, OSError):
            must(tool.ask(CommitOffsets("deleted", offsets)).accepted == 0, "it acknowledges what is nowhere")
    trial.must_end(1, "is no longer the directory that this node has opened")
    trial.is_over = True


def killed_as_it_starts(trial: Trial) -> None:
    """Kill the node while it starts, at ever later moments, then let it start."""
    trial.start()
    trial.beside()
    wait(0.3)
    trial.kill()
    with trial.set_apart():
        for number in range(12):
            trial.launch()
            time.sleep(0.08 * number)
            trial.kill()  # where nodes start quickly it serves by now, and the good client is back
        trial.start()


CASES = [
    Case("killed", "a node that is killed again and again loses nothing that it acknowledged", killed),
    Case("killed-starting", "a node that is killed at any moment of a start starts the next time", killed_as_it_starts),
    Case("directory-twice", "a second node is refused the directory of one that runs, which goes on", given_twice),
    Case("directory-copied", "a copy that is made of a stopped node's directory can be started", copied),
    Case("directory-moved", "a directory that was moved while no node ran is as it was", moved_between),
    Case("directory-lock-deleted", "a deleted lock file lets no second node in", lock_deleted),
    Case(
        "directory-moved-running",
        "a node whose directory is moved away stops and loses nothing",
        moved_under_way,
    ),
    Case("directory-deleted-running", "a node whose directory is deleted acknowledges nothing more", deleted_under_way),
]
