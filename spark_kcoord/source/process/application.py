"""The Spark application of a member: the JVM of its driver, named so that no other program has the name.

Spark starts a Python process for each source of a query, so that none of them can see the others; what they share is
the JVM above them. A process id alone is used again some day and exists on every machine and in every container; so the
name has four parts: the machine since its start, the namespace of process ids, the id and the time of its start. Where
one of them cannot be known there is no name, and nobody is refused by it. Asks the operating system alone.
"""

from __future__ import annotations

import os
import socket
import subprocess
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from spark_kcoord.source.process.jvm_errors import JVM_ERRORS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["application_above", "application_of", "jvm_above"]

JVM: Final = "java"
MOST_ABOVE: Final = 16
"""The number of processes above ours that are looked at: a shell that sets an environment, a launcher, the JVM."""
PS_TIMEOUT_S: Final = 5.0


@dataclass(frozen=True, slots=True)
class _Process:
    """A process as the operating system tells of it; `started` is text of its own."""

    parent: int
    command: str
    started: str


def application_above(pid: int | None = None) -> str | None:
    """Return the name of the JVM that started this process, be it through a shell; without one of its parent.

    `pid` stands for this process. None when the parent is gone, or cannot be known.
    """
    look = _looker()
    me = look(os.getpid() if pid is None else pid)
    if me is None:
        return None
    jvm = _jvm_above(me, look)
    if jvm is not None:
        return _name(*jvm)
    # Process 1 adopts those whose parent has died: it says nothing of who that was.
    first = look(me.parent) if me.parent > 1 else None
    return None if first is None else _name(me.parent, first)


def jvm_above() -> tuple[int, int] | None:
    """Return the process ids of the JVM that started this process, and of what started that; None without a JVM."""
    look = _looker()
    me = look(os.getpid())
    jvm = None if me is None else _jvm_above(me, look)
    return None if jvm is None else (jvm[0], jvm[1].parent)


def _jvm_above(me: _Process, look: Callable[[int], _Process | None]) -> tuple[int, _Process] | None:
    above, parent = me.parent, look(me.parent)
    for _ in range(MOST_ABOVE):
        if parent is None:
            break
        if parent.command == JVM:
            return above, parent
        above, parent = parent.parent, look(parent.parent)
    return None


def application_of(spark: SparkSession) -> str | None:
    """Return the name of the JVM of a session; None with Spark Connect, whose JVM is a server's."""
    jvm = getattr(spark, "_jvm", None)
    if jvm is None:
        return None
    try:
        pid = int(jvm.java.lang.ProcessHandle.current().pid())
    except JVM_ERRORS:
        return None
    found = _looker()(pid)
    return None if found is None else _name(pid, found)


def _name(pid: int, process: _Process) -> str:
    machine, namespace = socket.gethostname(), "0"
    with suppress(OSError):
        machine = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        namespace = str(Path("/proc/self/ns/pid").stat().st_ino)
    return f"{machine}.{namespace}.{pid}.{process.started}"


def _looker() -> Callable[[int], _Process | None]:
    return _from_proc if Path("/proc/self/stat").exists() else _from_ps


def _from_proc(pid: int) -> _Process | None:
    """Read /proc/PID/stat: the command is in parentheses, and may hold any character itself."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    head, _, tail = text.rpartition(")")
    fields = tail.split()
    return _Process(int(fields[1]), head.partition("(")[2], fields[19]) if len(fields) > 19 else None


def _from_ps(pid: int) -> _Process | None:
    """Ask ps, where there is no /proc: the time of a start is to the second then."""
    command = ["ps", "-o", "ppid=,lstart=,comm=", "-p", str(pid)]
    try:
        found = subprocess.run(
            command, env=os.environ | {"LC_ALL": "C"}, capture_output=True, text=True, timeout=PS_TIMEOUT_S, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return None
    words = found.stdout.split(maxsplit=6)
    return _Process(int(words[0]), Path(words[6].strip()).name, "-".join(words[1:6])) if len(words) == 7 else None
