"""A run that kills Spark applications is itself interrupted, with all of its applications at work."""

import os
import signal
import subprocess
import sys
from pathlib import Path
from uuid import uuid4

import pytest

from tests.chaos.victims import EXECUTOR, READER
from tests.helpers.leaving_no_process import kill_marked, marked
from tests.helpers.processes import eventually

ROOT = Path(__file__).parents[2]
MARK = "KCOORD_TEST_OF_RUNS"


def commands(mark: str) -> str:
    """Return the command lines of the living processes of a run."""
    found = []
    for pid in marked(mark, MARK):
        try:
            found.append(Path(f"/proc/{pid}/cmdline").read_text(errors="replace"))
        except OSError:
            continue
    return "\n".join(found)


@pytest.mark.spark
@pytest.mark.kafka
@pytest.mark.timeout(290)
def test_interrupted_chaos_leaves_no_process_behind(tmp_path: Path) -> None:
    mark = uuid4().hex
    with (tmp_path / "said").open("wb") as said:
        run = subprocess.Popen(
            [sys.executable, "-m", "tests.chaos", "--kills", "1000"],
            stdout=said,
            stderr=said,
            cwd=ROOT,
            env=os.environ | {MARK: mark, "TMPDIR": str(tmp_path)},
        )
    try:
        assert eventually(lambda: all(word in commands(mark) for word in (EXECUTOR, READER, "kafka.Kafka")), 120), (
            tmp_path / "said"
        ).read_text()
        run.send_signal(signal.SIGTERM)
        assert run.wait(120) == 128 + signal.SIGTERM, (tmp_path / "said").read_text()
        assert commands(mark) == ""
        assert list(tmp_path.glob("kcoord-chaos-*")) == []
    finally:
        run.kill()
        run.wait()
        kill_marked(mark, MARK)
