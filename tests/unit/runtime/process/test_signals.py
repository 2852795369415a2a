import signal
import subprocess
import sys

import pytest

TWICE = """
import os, signal
from coordinator.runtime.process.logs import make_log
from coordinator.runtime.process.signals import Signals

def have_no_effect(pid, number):
    "Do what the system does with a signal that the first process of a container sends itself, and nobody handles."

with Signals(make_log("json", "critical")).handled():
    for _ in range(2):
        signal.raise_signal(signal.SIGTERM)
        os.kill = have_no_effect
    print("it goes on")
"""


@pytest.mark.parametrize(
    ("code", "end"), [(TWICE, 128 + signal.SIGTERM), (TWICE.replace("os.kill =", "_ ="), -signal.SIGTERM)]
)
def test_a_second_signal_ends_a_node_at_once_also_the_first_process_of_a_container(code: str, end: int) -> None:
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stdout) == (end, "")
    assert ended.stderr == "kcoord: SIGTERM came again while the node was stopping: ended at once\n"
