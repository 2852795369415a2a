"""Disks that are wrong: damaged, read-only, not there, or somebody else's."""

import shutil
import subprocess
from pathlib import Path

from tests.helpers.node_process import NodeProcess
from tests.standing.case import Case, must
from tests.standing.cases.machine import commit_until_it_ends, small_file_system
from tests.standing.load import wait
from tests.standing.trial import Trial


def refused(trial: Trial, data_dir: Path, *words: str) -> None:
    """Start a node over a directory; it must say all the words and end with 1."""
    second = NodeProcess(trial.folder / "second", data_dir=data_dir)
    try:
        must(second.process.wait(20) == 1, f"it did not end with 1: {second.said}")
        for word in words:
            must(word in second.said, f"{word!r} is not said: {second.said}")
        must("Traceback" not in second.said, f"a traceback: {second.said}")
    finally:
        second.kill()


def damaged(trial: Trial) -> None:
    """Start nodes over copies of a directory of which something is missing, damaged, or of another."""
    node = trial.start()
    trial.beside()
    wait(1)
    trial.stop()
    original = trial.folder / "original"
    shutil.copytree(node.data_dir, original)
    trial.start()

    def a_copy(name: str) -> Path:
        return shutil.copytree(original, trial.folder / name)

    (missing := a_copy("meta") / "meta.json").unlink()
    refused(trial, missing.parent, "meta.json is missing")
    shutil.rmtree((gone := a_copy("shard")) / "shard-00003")
    refused(trial, gone, "shard-00003")
    (of_text := a_copy("text") / "meta.json").write_text("not a meta file")
    refused(trial, of_text.parent, str(of_text))
    longest = max(original.glob("shard-*/*.log"), key=lambda path: path.read_bytes().count(b"good-"))
    damaged_log = a_copy("damaged") / longest.relative_to(original)
    content = bytearray(damaged_log.read_bytes())
    content[content.index(b"good-")] ^= 0xFF
    damaged_log.write_bytes(content)
    refused(trial, damaged_log.parents[1], str(damaged_log))
    (as_file := trial.folder / "file").write_text("x")
    refused(trial, as_file, "error: ", str(as_file))


def read_only(trial: Trial) -> None:
    """Mount a node's file system read-only while it runs, as the kernel does after errors of a disk."""
    mounted = trial.folder / "mounted"
    mounted.mkdir(parents=True)
    with small_file_system(mounted, 200) as inside:
        within = ("nsenter", f"--target={inside}", "--user", "--mount", "--preserve-credentials")
        trial.start("disk.segment_bytes=1048576", before=within, data_dir=mounted / "data")
        trial.beside()
        wait(0.5)
        remount = ["mount", "-o", "bind,remount,ro", str(mounted)]
        bound = subprocess.run([*within, "mount", "--bind", str(mounted), str(mounted)], check=False)
        must(bound.returncode == 0, "the file system cannot be bound")
        must(subprocess.run([*within, *remount], check=False).returncode == 0, "it cannot be made read-only")
        commit_until_it_ends(trial, 20)
        trial.must_end(1, "look at the kernel's log, mend the disk, mount it for writing")
        subprocess.run([*within, "umount", str(mounted)], check=True)
        trial.start()
        wait(0.5)
        trial.stop()
        shutil.copytree(f"/proc/{inside}/root{mounted}/data", trial.folder / "kept")
    trial.start(before=(), data_dir=trial.folder / "kept")


CASES = [
    Case("wrong-disk", "a directory that is damaged or not one is refused with its place, and left as it is", damaged),
    Case("read-only-disk", "a disk that turns read-only ends a node with what to do, and loses nothing", read_only),
]
