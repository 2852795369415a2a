"""Finds the processes of a Spark application by what they are: its driver, its source's process, its Python workers."""

import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

EXECUTOR = "org.apache.spark.executor.CoarseGrainedExecutorBackend"
READER = "pyspark.sql.streaming.python_streaming_source_runner"
WORKERS = ("pyspark.daemon", "pyspark.worker")


@dataclass(frozen=True, slots=True)
class Process:
    """A living process of the application."""

    pid: int
    parent: int
    command: tuple[str, ...]


def descendants(pid: int) -> list[Process]:
    """Return the processes below a process, in no order; those that end meanwhile are left out."""
    children: dict[int, list[Process]] = {}
    for process in _all():
        children.setdefault(process.parent, []).append(process)
    found: list[Process] = []
    waiting = [pid]
    while waiting:
        for child in children.get(waiting.pop(), ()):
            found.append(child)
            waiting.append(child.pid)
    return found


def readers(pid: int) -> list[int]:
    """Return the processes in which the sources of a Spark driver live."""
    return [process.pid for process in descendants(pid) if READER in process.command]


def workers(pid: int) -> list[int]:
    """Return the Python workers that run tasks of a Spark driver; not the daemons that make them."""
    found = [process for process in descendants(pid) if process.command[-2:] == WORKERS]
    daemons = {process.pid for process in found}
    return [process.pid for process in found if process.parent in daemons]


def executors(pid: int) -> list[int]:
    """Return the Java processes of a Spark driver's executors; a local driver has none."""
    return [process.pid for process in descendants(pid) if EXECUTOR in process.command]


def kill(pid: int) -> None:
    """Kill a process, if it is still there."""
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def _all() -> Iterator[Process]:
    for folder in Path("/proc").iterdir():
        if not folder.name.isdecimal():
            continue
        try:
            status = (folder / "stat").read_text()
            command = (folder / "cmdline").read_bytes()
        except OSError:
            continue
        state, parent = status.rpartition(")")[2].split()[:2]
        if state != "Z":
            yield Process(int(folder.name), int(parent), tuple(command.decode(errors="replace").split("\0")[:-1]))
