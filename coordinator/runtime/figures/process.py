"""The process and the disk that it writes to, as the system counts them; not for the thread of the event loop.

Names and meanings of `process_*` are those of Prometheus' own clients. What a system does not tell is absent.
"""

import contextlib
import os
import resource
import time
from pathlib import Path
from typing import Final

from coordinator.runtime.figures.family import Family, gauge

_STATM: Final = Path("/proc/self/statm")
_FILES: Final = Path("/proc/self/fd")
_STARTED_S: Final = time.time()


def process_families(data_dir: Path) -> tuple[Family, ...]:
    """Return memory, processor time and open files of this process, and the room on the disk of a directory."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    size: int | None = None
    free: int | None = None
    with contextlib.suppress(OSError):
        disk = os.statvfs(data_dir)
        size, free = disk.f_blocks * disk.f_frsize, disk.f_bavail * disk.f_frsize
    cpu = Family(
        "process_cpu_seconds_total",
        "counter",
        "Processor time of the process.",
        (("", (), used.ru_utime + used.ru_stime),),
    )
    return (
        cpu,
        gauge("process_resident_memory_bytes", "Resident memory of the process.", _resident_bytes()),
        gauge("process_open_fds", "Open files of the process.", _open_files()),
        gauge("process_max_fds", "Open files that the process may have.", _most_files()),
        gauge("process_start_time_seconds", "The time at which the process began.", _STARTED_S),
        gauge("kcoord_data_disk_size_bytes", "Size of the file system of the data directory.", size),
        gauge("kcoord_data_disk_free_bytes", "Bytes that are free there for the node.", free),
    )


def _resident_bytes() -> int | None:
    with contextlib.suppress(OSError, ValueError, IndexError):
        return int(_STATM.read_text().split()[1]) * resource.getpagesize()
    return None


def _open_files() -> int | None:
    with contextlib.suppress(OSError):
        return sum(1 for _ in _FILES.iterdir())
    return None


def _most_files() -> int | None:
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return None if soft == resource.RLIM_INFINITY else soft
