"""No round of the collector goes over what a process imports."""

import gc
import subprocess
import sys

import pytest

from coordinator.runtime.process.starting import without_rounds

WORDS = """
import gc
gc.disable()
FULL = 2
rounds = []
gc.callbacks.append(lambda phase, said: rounds.append(said["generation"]) if phase == "start" else None)

def begun(*words):
    print(gc.isenabled(), gc.get_freeze_count() > 10_000, rounds)
    rounds.clear()

def loaded(settings):
    from coordinator.service import standalone
    print(gc.isenabled(), FULL in rounds)
    return 0

import sys
from coordinator.__main__ import main
from coordinator import cli, service
{patches}
sys.argv = ["kcoord", {words}]
main()
"""


def test_rounds_are_as_before_behind_a_block_without_them() -> None:
    assert gc.isenabled()
    with without_rounds():
        assert not gc.isenabled()
        with without_rounds():
            pass
        assert not gc.isenabled()
    assert gc.isenabled()


def test_rounds_are_as_before_where_a_block_without_them_fails() -> None:
    with pytest.raises(ValueError, match="no such setting"), without_rounds():
        raise ValueError("no such setting")
    assert gc.isenabled()


def said_by(patches: str, words: str) -> str:
    program = WORDS.format(patches=patches, words=words)
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=True)
    return ended.stdout


def test_a_verb_begins_with_rounds_that_leave_out_the_command_line() -> None:
    assert said_by("cli.app = begun", "") == "True True []\n"


def test_a_node_has_no_full_round_while_it_imports_what_it_is_made_of() -> None:
    assert said_by("service.run = loaded", '"serve", "--set", "kafka.bootstrap_servers=127.0.0.1:1"') == "False False\n"
