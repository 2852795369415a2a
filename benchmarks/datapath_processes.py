"""Processor time of this process and everything it started, which other work on the machine does not lengthen.

Linux only, from /proc. What a process used that ended between two looks is not seen; Spark keeps its own alive.
"""

import os
from collections.abc import Mapping
from pathlib import Path

_PROC = Path("/proc")
_TICKS = os.sysconf("SC_CLK_TCK")
# Fields of /proc/PID/stat after the name: state, parent, ..., then user and system time.
_PARENT, _TIMES = 1, slice(11, 13)


def processor_times() -> dict[int, float]:
    """Return the seconds used so far by this process and each live descendant, by process id."""
    times: dict[int, float] = {}
    children: dict[int, list[int]] = {}
    for path in _PROC.glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:
            continue  # it has ended
        pid = int(path.parent.name)
        times[pid] = sum(map(int, fields[_TIMES])) / _TICKS
        children.setdefault(int(fields[_PARENT]), []).append(pid)
    found: dict[int, float] = {}
    todo = [os.getpid()]
    while todo:
        pid = todo.pop()
        found[pid] = times.get(pid, 0.0)
        todo += children.get(pid, [])
    return found


def used_since(before: Mapping[int, float]) -> float:
    """Return the seconds that the live processes have used since an earlier look."""
    return sum(max(0.0, now - before.get(pid, 0.0)) for pid, now in processor_times().items())
