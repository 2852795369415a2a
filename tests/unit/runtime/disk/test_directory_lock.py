"""One node at a time over a data directory, whatever people do to its lock file, and only where it was opened."""

import shutil
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from coordinator.runtime.disk.disk import Disk
from coordinator.runtime.disk.files import DiskError


@pytest.fixture
def failures() -> list[str]:
    return []


@pytest.fixture
def opened(tmp_path: Path, failures: list[str]) -> Iterator[Callable[[], Disk]]:
    """Return an opener of one directory; each disk is closed at the end."""
    disks: list[Disk] = []

    def open_it() -> Disk:
        disk = Disk.open(
            tmp_path / "data", 1, new_directory_id="d", on_durable=durable, on_failure=lambda why: fail(why)
        )
        disks.append(disk)
        disk.recover(0)
        return disk

    def durable(shard: int, end_offset: int, _log_number: int) -> None:
        done.append(end_offset)
        reported.set()

    def fail(why: str) -> None:
        failures.append(why)
        reported.set()

    done: list[int] = []
    reported = threading.Event()
    open_it.done, open_it.reported = done, reported  # type: ignore[attr-defined]  # what a test looks at
    yield open_it
    for disk in disks:
        disk.close()


def append(disk: Disk, opened: Callable[[], Disk], offset: int) -> None:
    opened.reported.clear()  # type: ignore[attr-defined]  # set by the fixture
    disk.append(0, offset, 0, [b"a"])
    assert opened.reported.wait(20)  # type: ignore[attr-defined]  # set by the fixture


def test_a_deleted_lock_file_lets_no_second_node_in(opened: Callable[[], Disk], tmp_path: Path) -> None:
    opened()
    (tmp_path / "data" / "lock").unlink()
    with pytest.raises(DiskError, match="is in use by another process, whose lock file was deleted"):
        opened()


@pytest.mark.parametrize("how", ["moved", "deleted", "replaced"])
def test_nothing_is_durable_in_a_directory_that_is_not_where_it_was(
    how: str, opened: Callable[[], Disk], tmp_path: Path, failures: list[str]
) -> None:
    disk = opened()
    append(disk, opened, 0)
    (tmp_path / "data").rename(tmp_path / "moved")
    if how == "deleted":
        shutil.rmtree(tmp_path / "moved")
    if how == "replaced":
        shutil.copytree(tmp_path / "moved", tmp_path / "data")
    append(disk, opened, 1)
    assert opened.done == [1]  # type: ignore[attr-defined]  # set by the fixture
    (why,) = failures
    assert f"{tmp_path / 'data'} is no longer the directory that this node has opened" in why
