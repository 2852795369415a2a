"""Which directories a node takes for its data: its own and empty ones, and no others."""

from pathlib import Path

import pytest

from coordinator.runtime.disk.disk import Disk
from coordinator.runtime.disk.files import DiskError


def open_and_close(data_dir: Path) -> bool:
    """Open a directory as a node does and say whether it was made new."""
    disk = Disk.open(data_dir, 2, new_directory_id="d", on_durable=lambda *_: None, on_failure=lambda _: None)
    disk.close()
    return disk.is_new


def refusal(data_dir: Path) -> str:
    before = sorted(data_dir.rglob("*"))
    with pytest.raises(DiskError) as refused:
        open_and_close(data_dir)
    assert sorted(data_dir.rglob("*")) == before, "nothing is written into a directory that is refused"
    return str(refused.value)


def test_directory_that_is_not_there_or_empty_is_made_and_known_again(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    for data_dir in (tmp_path / "a" / "b", tmp_path / "empty"):
        assert [open_and_close(data_dir) for _ in range(2)] == [True, False]


def test_parent_of_a_data_directory_is_refused_and_the_right_one_named(tmp_path: Path) -> None:
    open_and_close(tmp_path / "data")
    (tmp_path / "node.log").touch()
    assert refusal(tmp_path) == (
        f"it holds data, node.log, but no meta.json, which every data directory has; {tmp_path / 'data'} does: is it "
        "the one that was meant? A node takes its own data directory, or an empty one for groups that begin anew: look "
        "at --data (node.data_dir). Nothing was changed"
    )


def test_directory_of_somebody_else_is_refused_and_its_content_named(tmp_path: Path) -> None:
    for number in range(8):
        (tmp_path / f"file-{number}").touch()
    assert refusal(tmp_path).startswith(
        "it holds file-0, file-1, file-2, file-3, file-4 and 3 more, but no meta.json, which every data directory has. "
    )


def test_shard_of_a_data_directory_is_refused(tmp_path: Path) -> None:
    open_and_close(tmp_path)
    assert "00000000000000000000.log" in refusal(tmp_path / "shard-00000")


@pytest.mark.parametrize("name", ["lost+found", ".snapshot"])
def test_root_of_an_empty_file_system_is_taken(tmp_path: Path, name: str) -> None:
    (tmp_path / name).mkdir()
    assert open_and_close(tmp_path)


def test_own_directory_is_taken_whatever_else_is_in_it(tmp_path: Path) -> None:
    open_and_close(tmp_path)
    (tmp_path / "notes.txt").touch()
    assert not open_and_close(tmp_path)


def test_directory_that_a_crash_left_half_made_is_made_again(tmp_path: Path) -> None:
    for name in ("lock", "making", "meta.json.tmp"):
        (tmp_path / name).touch()
    (tmp_path / "shard-00000").mkdir()
    assert open_and_close(tmp_path)


def test_file_in_the_place_of_a_directory_is_said(tmp_path: Path) -> None:
    (tmp_path / "data").touch()
    with pytest.raises(DiskError, match=r"This is a file, and a directory is needed: look at --data"):
        open_and_close(tmp_path / "data")


def test_a_file_on_the_way_to_the_directory_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(DiskError, match=r"A part of this path is a file: look at --data \(node\.data_dir\)"):
        open_and_close(tmp_path / "file" / "data")
