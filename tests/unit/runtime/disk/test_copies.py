"""A copy of a data directory that is of many moments is refused with what it may be; one of a stopped node starts."""

import shutil
from pathlib import Path

import pytest

from coordinator.core.log.entry import CorruptLogError
from coordinator.runtime.disk.disk import Disk

SEGMENT_BYTES = 4_096
RECORD = b"x" * 100


def open_disk(directory: Path) -> Disk:
    return Disk.open(
        directory,
        1,
        new_directory_id="d" * 22,
        on_durable=lambda *_: None,
        on_failure=lambda _: None,
        segment_bytes=SEGMENT_BYTES,
    )


def append(directory: Path, count: int) -> None:
    """Append so many batches of one record and stop."""
    disk = open_disk(directory)
    end = disk.recover(0).log_end_offset
    for offset in range(end, end + count):
        disk.append(0, offset, 1, [RECORD])
    disk.close()


def segments(directory: Path) -> list[Path]:
    return sorted(directory.glob("shard-00000/*.log"))


def recovered(directory: Path) -> int:
    disk = open_disk(directory)
    try:
        return disk.recover(0).log_end_offset
    finally:
        disk.close()


@pytest.fixture
def source(tmp_path: Path) -> Path:
    for _ in range(4):
        append(tmp_path / "data", 40)
    return tmp_path / "data"


def test_a_copy_of_a_stopped_node_has_all_of_it(source: Path, tmp_path: Path) -> None:
    assert len(segments(source)) > 2
    assert recovered(shutil.copytree(source, tmp_path / "copy")) == 160


def test_a_copy_whose_list_of_files_is_older_than_their_content_is_refused(source: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(source, tmp_path / "copy")
    segments(copy)[-1].unlink()  # it was made after the directory was listed, and the one before it read after that
    with pytest.raises(CorruptLogError, match="file by file while its node ran: take one of the stopped node"):
        recovered(copy)


def test_a_copy_that_was_read_while_frames_were_written_is_refused(source: Path, tmp_path: Path) -> None:
    last = segments(source)[-1]
    before = last.read_bytes()
    block = (len(before.rstrip(b"\0")) + 8) // 8 * 8  # what cp had read of it by then
    append(source, 10)
    copy = shutil.copytree(source, tmp_path / "copy")
    of_copy = copy / last.relative_to(source)
    after = last.read_bytes()
    assert before[:block] != after[:block]
    of_copy.write_bytes(before[:block] + after[block:])
    with pytest.raises(CorruptLogError, match="file by file while its node ran: take one of the stopped node"):
        recovered(copy)
