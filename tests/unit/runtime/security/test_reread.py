"""Files that are read anew: whatever is in the place of one, the value stays and the next change is seen."""

import asyncio
import os
from collections.abc import Callable
from pathlib import Path

import pytest
import structlog
from structlog.testing import capture_logs

from coordinator.runtime.security.reread import FileError, Reread, Watch, read_file

LOG = structlog.get_logger()


def test_a_pipe_that_nobody_writes_to_is_refused_and_not_waited_for(tmp_path: Path) -> None:
    pipe = tmp_path / "rules"
    os.mkfifo(pipe)
    with pytest.raises(FileError, match=r"rules cannot be read: it is not a regular file$"):
        read_file(pipe, 10)


@pytest.mark.parametrize("path", ["/dev/zero", "/"])
def test_a_device_and_a_directory_are_refused(path: str) -> None:
    with pytest.raises(FileError, match="cannot be read: "):
        read_file(Path(path), 10)


def test_no_more_is_read_than_was_asked_for(tmp_path: Path) -> None:
    file = tmp_path / "rules"
    file.write_bytes(b"0123456789")
    assert read_file(file, 4) == b"0123"
    assert read_file(file, 40) == b"0123456789"


def test_a_bug_in_reading_is_said_and_files_are_looked_at_on() -> None:
    came: list[str] = []

    def load() -> str:
        came.append("read")
        if len(came) == 2:
            raise RuntimeError("a mistake of ours")
        return f"value {len(came)}"

    async def look() -> object:
        reread = Reread[object]("rules", [], load, LOG)
        watch = Watch([reread], 10_000_000, LOG)
        watch.start()
        try:
            for reads in (2, 3):
                watch.look_now()
                while len(came) < reads:
                    await asyncio.sleep(0.001)
            while reread.value != "value 3":
                await asyncio.sleep(0.001)
        finally:
            await watch.stop()
        return reread.value

    with capture_logs() as said:
        assert asyncio.run(asyncio.wait_for(look(), 60)) == "value 3"
    assert [line["event"] for line in said] == ["bug", "file-read"]


def reread_of(file: Path, pause: Callable[[float], None] = lambda _: None) -> Reread[str]:
    def load() -> str:
        text = read_file(file, 100).decode()
        if "mistake" in text:
            raise FileError(f"{file}: line 1: is a mistake")
        return text

    return Reread("rules", [file], load, LOG, pause)


def test_a_file_that_is_being_written_is_read_once_it_is_whole(tmp_path: Path) -> None:
    file = tmp_path / "rules"
    file.write_text("deny bob; allow all")
    writes = ["allow all; ", "allow all; deny bob"]
    rules = reread_of(file, lambda _: file.write_text(writes.pop(0)) and None)
    file.write_text("al")
    assert [rules.look() for _ in range(2)] == [False, False]
    assert rules.value == "deny bob; allow all"
    rules = reread_of(file)
    file.write_text("deny everybody")
    assert rules.look()
    assert rules.value == "deny everybody"


@pytest.mark.parametrize("in_any_case", [False, True])
def test_a_file_that_was_emptied_leaves_the_old_value_until_something_is_in_it(
    tmp_path: Path,
    in_any_case: bool,
) -> None:
    file = tmp_path / "rules"
    file.write_text("allow all")
    rules = reread_of(file)
    file.write_text("")  # a full disk leaves this of a copy
    with capture_logs() as said:
        assert not rules.look(in_any_case=in_any_case)
    assert "rules is empty" in said[0]["why"]
    assert rules.value == "allow all"
    file.write_text("# nobody\n")
    assert rules.look()
    assert rules.value == "# nobody\n"


def test_a_file_that_was_refused_is_tried_again_and_said_once(tmp_path: Path) -> None:
    file = tmp_path / "rules"
    file.write_text("first")
    may_read = True

    def load() -> str:
        if not may_read:
            raise FileError(f"{file} cannot be read: Permission denied")
        return read_file(file, 100).decode()

    rules = Reread("rules", [file], load, LOG, lambda _: None)
    file.write_text("second")
    may_read = False
    with capture_logs() as said:
        assert [rules.look() for _ in range(3)] == [False] * 3
        may_read = True  # its owner was changed, which changes neither its time nor its size
        assert rules.look()
        assert not rules.look()
    assert rules.value == "second"
    assert [line["event"] for line in said] == ["file-refused", "file-read"]
