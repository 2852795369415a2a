"""A run that is interrupted leaves no process behind, wherever its children have hidden."""

import os
import signal
import subprocess
import sys
from pathlib import Path
from uuid import uuid4

import pytest

from tests.helpers.leaving_no_process import marked
from tests.helpers.processes import eventually

ROOT = Path(__file__).parents[2]
TEST_MARK = "KCOORD_TEST_OF_RUNS"
GRANDCHILD = "import os, signal, time; os.setpgid(0, 0); signal.signal(15, signal.SIG_IGN); time.sleep(600)"
CHILD = f"""
import signal, subprocess, sys, time
signal.signal(15, signal.SIG_IGN)
subprocess.Popen([sys.executable, "-c", {GRANDCHILD!r}])
time.sleep(600)
"""
RUN = f"""
import subprocess, sys, time
from tests.helpers.leaving_no_process import leaving_no_process
with leaving_no_process():
    try:
        subprocess.Popen([sys.executable, "-c", {CHILD!r}], start_new_session=True)
        print("started", flush=True)
        END
    finally:
        print("in order", flush=True)
        AFTER
"""


def start(mark: str, end: str = "time.sleep(600)", after: str = "pass") -> "subprocess.Popen[str]":
    """Start a run with a child in a session, and a grandchild in a group, of their own."""
    run = subprocess.Popen(
        [sys.executable, "-c", RUN.replace("END", end).replace("AFTER", after)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        cwd=ROOT,
        env=os.environ | {TEST_MARK: mark},
    )
    assert run.stdout is not None
    assert run.stdout.readline() == "started\n"
    assert eventually(lambda: len(marked(mark, TEST_MARK)) == 3)
    return run


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_signal_ends_the_run_in_order_and_everything_that_it_has_started(number: int) -> None:
    mark = uuid4().hex
    with start(mark) as run:
        run.send_signal(number)
        assert run.communicate(timeout=20) == ("in order\n", None)
        assert run.returncode == 128 + number
    assert marked(mark, TEST_MARK) == []


def test_second_signal_does_not_wait_for_the_order() -> None:
    mark = uuid4().hex
    with start(mark, after="time.sleep(600)") as run:
        assert run.stdout is not None
        run.terminate()
        assert run.stdout.readline() == "in order\n"
        run.terminate()
        assert run.wait(20) == 128 + signal.SIGTERM
    assert marked(mark, TEST_MARK) == []


@pytest.mark.parametrize(("end", "code"), [("pass", 0), ("raise OSError", 1)])
def test_run_that_ends_by_itself_leaves_nothing_either(end: str, code: int) -> None:
    mark = uuid4().hex
    with start(mark, end=f"sys.stdin.read(); {end}") as run:
        run.communicate(timeout=20)
        assert run.returncode == code
    assert marked(mark, TEST_MARK) == []
