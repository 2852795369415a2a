"""Files that are read anew: whatever is in the place of one, the value stays and the next change is seen."""

import asyncio
import os
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
