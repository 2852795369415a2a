import asyncio
import platform
from collections import deque
from pathlib import Path
from resource import getpagesize

import pytest

from coordinator.runtime.process.spare_memory import SpareMemory, allocator_here
from tests.helpers.event_loops import run

MIB = 1 << 20


class Scripted:
    """An allocator that keeps so much each time that it is asked; it can give all but 3 MiB back."""

    def __init__(self, *spare_mib: int) -> None:
        self._spare = deque(spare_mib)
        self.given_back_at: list[int] = []
        self._asked = 0

    def spare_bytes(self) -> int:
        self._asked += 1
        return self._spare.popleft() * MIB

    def give_back(self) -> None:
        self.given_back_at.append(self._asked)


async def looks(allocator: Scripted, count: int) -> None:
    spare = SpareMemory(asyncio.get_running_loop(), allocator)
    spare.begin()
    for _ in range(count):
        spare.look()


@pytest.mark.parametrize(
    ("spare_mib", "given_back_at"),
    [
        ((2, 9, 9, 9), []),
        ((2, 10, 10, 10), [3]),
        ((2, 10, 2, 10), []),
        ((20, 4, 10, 11, 13), []),
        ((20, 4, 12, 30, 3), [4]),
    ],
    ids=["too little", "twice", "comes and goes", "less than it was", "more than it was when it was least"],
)
def test_memory_is_given_back_when_much_more_was_spare_twice(
    spare_mib: tuple[int, ...], given_back_at: list[int]
) -> None:
    allocator = Scripted(*spare_mib, 3)
    run(looks(allocator, len(spare_mib) - 1 - len(given_back_at)))
    assert allocator.given_back_at == given_back_at


def test_memory_that_cannot_be_given_back_is_not_tried_again() -> None:
    allocator = Scripted(0, 50, 50, 50, 50, 50, 50)
    run(looks(allocator, 5))
    assert allocator.given_back_at == [3]


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * getpagesize()


def test_system_gets_back_what_was_freed_between_pieces_in_use() -> None:
    """Sixty megabytes in pieces that Python's allocator leaves to the C library, of which one in 500 stays."""
    allocator = allocator_here()
    assert (allocator is not None) == (platform.libc_ver()[0] == "glibc")
    if allocator is None:
        return
    pieces = [bytes(2_000) for _ in range(30_000)]
    kept = pieces[::500]
    spare = allocator.spare_bytes()
    del pieces
    assert allocator.spare_bytes() - spare > 50 * MIB
    before = resident_bytes()
    allocator.give_back()
    assert before - resident_bytes() > 40 * MIB
    assert len(kept) == 60
