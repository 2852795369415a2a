"""Tasks that go wrong when a test says so, after they have read their rows; runs in the Python workers of executors.

A test asks for a mishap by a file in a folder that all processes see. One task takes it, by renaming it, and each task
notes which offsets it has read in a file of its own, whatever becomes of it then.
"""

import json
import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa

FAIL, DIE, STALL = "fail", "die", "stall"
"""An error in the task, SIGKILL to its executor, and no end until the task is killed."""

STALL_S = 120.0


def mishaps(folder: Path) -> "Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]":
    """Return a function for mapInArrow that passes rows on and then has the mishaps asked for in the folder."""

    def run(batches: "Iterator[pa.RecordBatch]") -> "Iterator[pa.RecordBatch]":
        read: list[tuple[int, int]] = []
        for batch in batches:
            read += zip(*(batch.column(name).to_pylist() for name in ("partition", "offset")), strict=True)
            yield batch
        _note(folder, read)
        if _take(folder / FAIL):
            raise RuntimeError("the mishap that was asked for")
        if _take(folder / DIE):
            os.kill(_executor(), signal.SIGKILL)
        if _take(folder / STALL):
            time.sleep(STALL_S)

    return run


def attempts(folder: Path, mishap: str) -> list[list[list[int]]]:
    """Return the partitions and offsets that each attempt of the task with the mishap has read, in its order."""
    taken = (folder / f"{mishap}-taken").read_text()
    return [json.loads(path.read_text()) for path in sorted(folder.glob(f"{taken}-attempt-*.json"))]


def _task() -> tuple[str, int]:
    from pyspark import TaskContext

    context = TaskContext.get()
    assert context is not None
    return f"stage-{context.stageId()}-task-{context.partitionId()}", context.attemptNumber()


def _note(folder: Path, read: list[tuple[int, int]]) -> None:
    task, attempt = _task()
    target = folder / f"{task}-attempt-{attempt}.json"
    target.with_suffix(".part").write_text(json.dumps(read))
    target.with_suffix(".part").rename(target)


def _take(asked: Path) -> bool:
    taken = asked.with_name(f"{asked.name}-taken")
    try:
        asked.rename(taken)
    except FileNotFoundError:
        return False
    taken.write_text(_task()[0])
    return True


def _executor() -> int:
    """Return the Java process above the daemon that has made this worker."""
    stat = Path(f"/proc/{os.getppid()}/stat").read_text()
    return int(stat.rpartition(")")[2].split()[1])
