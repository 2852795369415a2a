"""The machine of a node is as ill as it is said to be while the node runs, and well again behind that."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.chaos_cluster.machines import Disk, Machine

ASKED = """
import errno, os, sys, time
descriptor = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)
slept = []
time.sleep = slept.append
for line in sys.stdin:
    try:
        match line.strip():
            case "ahead":
                end_s = time.monotonic() + float(sys.argv[2])
                wanted = int(next(sys.stdin))
                is_there = False
                while not is_there and time.monotonic() < end_s:
                    is_there = abs(time.time_ns() / 1e9 - time.time() - wanted) <= 1
                said = wanted if is_there else "never"
            case "write":
                said = os.pwrite(descriptor, b"abcd", 0)
            case "write 1":
                said = os.pwrite(descriptor, b"a", 0)
            case "write synced":
                slept.clear()
                said = os.pwritev(descriptor, [b"abcd"], 0, os.RWF_DSYNC)
                said = f"{said} slow" if slept else said
            case "sync":
                slept.clear()
                os.fdatasync(descriptor)
                said = "slow" if slept else "done"
    except OSError as error:
        said = errno.errorcode[error.errno]
    print(said, flush=True)
"""
PATIENCE_S = 30

Ask = Callable[[str], str]


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path / "machine")


@pytest.fixture
def ask(machine: Machine, tmp_path: Path) -> Iterator[Ask]:
    """Return how a process on the machine is asked to do something."""
    command = [sys.executable, "-c", ASKED, str(tmp_path / "file"), str(PATIENCE_S)]
    environment = os.environ | machine.environment
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
    ) as process:

        def asked(what: str) -> str:
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write(f"{what}\n")
            process.stdin.flush()
            return process.stdout.readline().strip()

        yield asked


def test_a_disk_is_full_fails_and_is_well_again(machine: Machine, ask: Ask) -> None:
    calls = ("write", "write synced", "sync")
    assert [*map(ask, calls)] == ["4", "4", "done"]
    machine.spoil_disk(Disk.FULL)
    assert [*map(ask, calls), ask("write 1")] == ["2", "2", "done", "ENOSPC"]
    machine.spoil_disk(Disk.FAILING)
    assert [*map(ask, calls)] == ["4", "EIO", "EIO"]
    machine.spoil_disk(Disk.SLOW)
    assert [*map(ask, calls)] == ["4", "4 slow", "slow"]
    machine.mend_disk()
    assert [ask("write"), ask("write 1")] == ["4", "1"]


def test_a_clock_jumps_forth_and_back(machine: Machine, ask: Ask) -> None:
    for ahead_s in (0, 3600, -3600):
        machine.set_clock(ahead_s)
        assert ask(f"ahead\n{ahead_s}") == str(ahead_s)
