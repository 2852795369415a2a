"""A machine with a wrong clock or a bad disk, for a node of the chaos: Python imports this before the node's own code.

Two small files in the folder that `KCOORD_CHAOS_MACHINE` names say how ill the machine is, and are looked at again and
again: `clock` has the seconds that the wall clock is ahead, `disk` one of `full`, `failing` and `slow`. A full disk
takes a part of what is written, as real ones do, before it refuses. Monotonic time stays right.
"""

import errno
import os
import time
from pathlib import Path

SLOW_S = 0.8
LOOK_EVERY_NS = 50_000_000

_folder = Path(os.environ["KCOORD_CHAOS_MACHINE"])
_true_time_ns, _true_pwrite, _true_fdatasync, _true_fsync = time.time_ns, os.pwrite, os.fdatasync, os.fsync
_true_pwritev = os.pwritev


def _said(name: str) -> str:
    try:
        return (_folder / name).read_text()
    except FileNotFoundError:
        return ""


class _Clock:
    """The wall clock; how wrong it is, is looked at now and then."""

    def __init__(self) -> None:
        self._looked_ns = -LOOK_EVERY_NS
        self._ahead_ns = 0

    def time_ns(self) -> int:
        now_ns = time.monotonic_ns()
        if now_ns - self._looked_ns >= LOOK_EVERY_NS:
            self._looked_ns = now_ns
            self._ahead_ns = int(_said("clock") or "0") * 1_000_000_000
        return _true_time_ns() + self._ahead_ns


def _pwrite(descriptor: int, data: bytes | memoryview, position: int) -> int:
    return _true_pwrite(descriptor, _taken(data), position)


def _pwritev(descriptor: int, buffers: list[memoryview], position: int, flags: int = 0) -> int:
    data = _taken(b"".join(buffers))
    if flags & os.RWF_DSYNC:
        _check_disk()
    return _true_pwritev(descriptor, [data], position, flags)


def _taken(data: bytes | memoryview) -> bytes | memoryview:
    if _said("disk") != "full":
        return data
    if len(data) < 2:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    return data[: len(data) // 2]


def _check_disk() -> None:
    match _said("disk"):
        case "failing":
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        case "slow":
            time.sleep(SLOW_S)


def _fdatasync(descriptor: int) -> None:
    _check_disk()
    _true_fdatasync(descriptor)


def _fsync(descriptor: int) -> None:
    _check_disk()
    _true_fsync(descriptor)


time.time_ns = _Clock().time_ns
os.pwrite, os.pwritev, os.fdatasync, os.fsync = _pwrite, _pwritev, _fdatasync, _fsync
