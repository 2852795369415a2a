"""Looks at processes from outside, and waits for a condition with an end to the patience."""

import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from tests.helpers.waiting import pause_s

PATIENCE_S = 60.0


def eventually(holds: Callable[[], bool], patience_s: float = PATIENCE_S) -> bool:
    """Ask until the condition holds; False when the patience is over."""
    started = time.monotonic()
    while (waited_s := time.monotonic() - started) < patience_s:
        if holds():
            return True
        time.sleep(pause_s(waited_s))
    return False


def group_lives(group_id: int) -> bool:
    """Say whether a process of the group still runs; one that only waits to be reaped does not."""
    return any(group == group_id and not state.startswith("Z") for group, state in _groups_and_states())


def stands_still(group_id: int) -> bool:
    """Say whether a process of the group is stopped, as by SIGSTOP."""
    return any(group == group_id and state.startswith("T") for group, state in _groups_and_states())


def _groups_and_states() -> Iterator[tuple[int, str]]:
    if not Path("/proc/self/stat").exists():
        listing = subprocess.run(["ps", "-eo", "pgid=,stat="], capture_output=True, text=True, check=True).stdout
        for line in listing.splitlines():
            group, state = line.split()
            yield int(group), state
        return
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            after_name = stat.read_text().rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            continue
        yield int(after_name[2]), after_name[0]
