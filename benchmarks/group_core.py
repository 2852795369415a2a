"""The cores of a benchmark, one for its servers and the rest for the load, and other work on the servers' core.

A figure from a machine that is busy with other things is too slow by an unknown amount, so it is said how busy it was.
Linux only: it reads /proc.
"""

import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

SERVER_CORE, LOAD_CORE = 0, 1
_TICKS_A_SECOND: Final = os.sysconf("SC_CLK_TCK")


class CoreWatch:
    """The part of a core that other work has used since the watch was made."""

    def __init__(self, core: int) -> None:
        self._core = core
        self._started_s = time.perf_counter()
        self._used_s = core_used_s(core)

    def share_of_others(self, own_s: float) -> str:
        """Say how much of the core was used beside the CPU time that the measured processes used."""
        others_s = max(0.0, core_used_s(self._core) - self._used_s - own_s)
        share = others_s / (time.perf_counter() - self._started_s)
        return f"other work used {share:.0%} of the core that was measured"


def core_used_s(core: int) -> float:
    """Return for how long a core has worked for any process, or for another machine, since it was started."""
    (line,) = (line for line in Path("/proc/stat").read_text().splitlines() if line.startswith(f"cpu{core} "))
    user, nice, system, _idle, _iowait, _irq, _softirq, steal = map(int, line.split()[1:9])
    return (user + nice + system + steal) / _TICKS_A_SECOND


def pids_of(process_group_id: int) -> list[int]:
    """Return the processes of a group."""
    pids = (int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit())
    return [pid for pid in pids if _stat(pid)[2] == str(process_group_id)]


def cpu_s(pids: Sequence[int]) -> float:
    """Return the CPU time that processes have used."""
    return sum(int(ticks) for pid in pids for ticks in _stat(pid)[11:13]) / _TICKS_A_SECOND


def _stat(pid: int) -> list[str]:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return ["0"] * 13
