"""Processor time of this process and everything it started, which other work on the machine does not lengthen.

Linux only, from /proc: the time of each live descendant and of the children it has waited for.
"""

import os
from pathlib import Path

_PROC = Path("/proc")
_TICKS = os.sysconf("SC_CLK_TCK")
# Fields of /proc/PID/stat after the name: state, parent, ..., then four kinds of time.
_PARENT, _TIMES = 1, slice(11, 15)


def processor_seconds() -> float:
    """Return the seconds used so far by this process and its descendants; 0 where there is no /proc."""
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
    total, todo = 0.0, [os.getpid()]
    while todo:
        pid = todo.pop()
        total += times.get(pid, 0.0)
        todo += children.get(pid, [])
    return total
