"""The ready line, said by a process of its own to a standard output that takes nothing."""

import os
import subprocess
import sys

import pytest

from coordinator.runtime.process.ready_line import say_ready

SAY = """
import sys
from coordinator.runtime.process.ready_line import say_ready
say_ready("ready")
sys.stderr.write("goes on")
"""


@pytest.mark.parametrize("where", ["full", "closed", "not read"])
def test_a_standard_output_that_takes_nothing_ends_no_process(where: str) -> None:
    command = [sys.executable, "-c", SAY]
    if where == "closed":
        command = ["sh", "-c", 'exec "$@" >&-', "sh", *command]
    if where == "not read":
        reader, stdout = os.pipe()
        os.close(reader)
    else:
        stdout = os.open("/dev/full", os.O_WRONLY)
    try:
        done = subprocess.run(command, stdout=stdout, stderr=subprocess.PIPE, text=True, check=False, timeout=60)
    finally:
        os.close(stdout)
    assert (done.returncode, done.stderr) == (0, "goes on")


def test_the_line_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    say_ready("ready")
    assert capsys.readouterr().out == "ready\n"
