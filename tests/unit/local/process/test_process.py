"""A child process ends cleanly when asked, at once when killed, and always when its owner is gone."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from coordinator.local.errors import LocalServiceError
from coordinator.local.process.child import ChildProcess
from tests.helpers.processes import eventually, group_lives

ROOT = Path(__file__).parents[4]

# A process that owns a child, started from a thread that is not the main one and has ended since.
# It prints the child's group, then waits for its own end.
OWNER = """
import sys, threading
from pathlib import Path
from coordinator.local.process.child import ChildProcess

child = ChildProcess("toy", ["sh", "-c", sys.argv[2]], log_path=Path(sys.argv[1]), stop_timeout_s=0.5)
thread = threading.Thread(target=child.start)
thread.start()
thread.join()
{extra}
print(child.group_id, flush=True)
threading.Event().wait()
"""
STUBBORN = "trap '' TERM INT HUP; echo ready; while :; do sleep 0.05; done"


def said(log: Path, word: str) -> Callable[[], bool]:
    return lambda: log.exists() and word in log.read_text()


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "logs" / "toy.log"


def toy(log: Path, script: str, stop_timeout_s: float = 10.0) -> ChildProcess:
    return ChildProcess("toy", ["sh", "-c", script], log_path=log, stop_timeout_s=stop_timeout_s)


def test_stop_lets_the_command_end_cleanly(log: Path) -> None:
    child = toy(log, "trap 'echo bye; exit 3' TERM; echo ready; while :; do sleep 0.05; done")
    child.start()
    assert eventually(said(log, "ready"))
    assert child.exit_code() is None
    child.stop()
    assert child.exit_code() == 3
    assert child.log_tail() == "ready\nbye"
    assert eventually(lambda: not group_lives(child.group_id))  # what was killed is gone when it is waited for


def test_stop_kills_a_command_that_does_not_end(log: Path) -> None:
    child = toy(log, STUBBORN, stop_timeout_s=0.2)
    child.start()
    assert eventually(said(log, "ready"))
    child.stop()
    assert child.exit_code() == 128 + signal.SIGKILL
    assert eventually(lambda: not group_lives(child.group_id))


def test_kill_gives_the_command_no_time(log: Path) -> None:
    child = toy(log, "trap 'echo bye; exit 3' TERM; echo ready; while :; do sleep 0.05; done")
    child.start()
    assert eventually(said(log, "ready"))
    child.kill()
    assert child.exit_code() == 128 + signal.SIGKILL
    assert child.log_tail() == "ready"


@pytest.mark.parametrize("end", [ChildProcess.stop, ChildProcess.kill])
def test_a_command_that_stands_still_goes_on_and_can_be_ended(log: Path, end: Callable[[ChildProcess], None]) -> None:
    child = toy(log, "trap 'exit 3' TERM; while :; do echo on; sleep 0.02; done")
    child.start()
    assert eventually(said(log, "on"))
    child.pause()
    sizes: list[int] = []

    def stands_still() -> bool:
        sizes.append(log.stat().st_size)
        return len(sizes) > 20 and len(set(sizes[-20:])) == 1

    assert eventually(stands_still)
    child.resume()
    assert eventually(lambda: log.stat().st_size > sizes[-1])
    child.pause()
    end(child)
    assert child.exit_code() in (3, 128 + signal.SIGKILL)
    assert eventually(lambda: not group_lives(child.group_id))  # what was killed is gone when it is waited for


def test_a_command_that_ends_by_itself_leaves_its_exit_code_and_log(log: Path) -> None:
    child = toy(log, "seq 1 100; exit 7")
    child.start()
    child.wait()
    assert child.exit_code() == 7
    assert child.log_tail(lines=2) == "99\n100"
    child.stop()
    child.kill()


def test_a_command_that_cannot_run_says_so(log: Path) -> None:
    child = ChildProcess("toy", ["/nowhere/toy"], log_path=log)
    child.start()
    child.wait()
    assert child.exit_code() == 127
    assert "cannot run /nowhere/toy" in child.log_tail()
    child.stop()


def test_the_log_is_appended_to_and_the_tail_is_of_this_run(log: Path) -> None:
    for word in ("first", "second"):
        child = toy(log, f"echo {word}")
        child.start()
        child.wait()
        child.stop()
    assert log.read_text() == "first\nsecond\n"
    assert child.log_tail() == "second"


def test_a_process_starts_once(log: Path) -> None:
    child = toy(log, "true")
    with pytest.raises(LocalServiceError, match="has not been started"):
        _ = child.group_id
    child.start()
    with pytest.raises(LocalServiceError, match="has been started before"):
        child.start()
    child.stop()


def start_owner(log: Path, script: str, extra: str = "") -> tuple[subprocess.Popen[str], int]:
    owner = subprocess.Popen(
        [sys.executable, "-c", OWNER.format(extra=extra), str(log), script],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert owner.stdout is not None
    group_id = int(owner.stdout.readline())
    assert eventually(said(log, "ready"))
    return owner, group_id


@pytest.mark.parametrize("signal_number", [signal.SIGKILL, signal.SIGTERM])
@pytest.mark.parametrize("script", ["echo ready; exec sleep 1000", STUBBORN])
def test_the_command_ends_when_its_owner_is_killed(log: Path, script: str, signal_number: int) -> None:
    owner, group_id = start_owner(log, script)
    with owner:
        assert group_lives(group_id)
        owner.send_signal(signal_number)
    assert eventually(lambda: not group_lives(group_id))


def test_the_command_outlives_the_thread_that_started_it(log: Path) -> None:
    child = toy(log, "echo ready; exec sleep 1000")
    thread = threading.Thread(target=child.start)
    thread.start()
    thread.join()
    assert eventually(said(log, "ready"))
    assert child.exit_code() is None
    child.stop()


def test_the_command_ends_although_a_forked_copy_of_its_owner_lives(log: Path) -> None:
    """The copy holds the control pipe open, so only the owner's pid tells."""
    extra = (
        "import os, time\ncopy = os.fork()\n"
        "if copy == 0: time.sleep(1000)\nPath(sys.argv[1] + '.copy').write_text(str(copy))"
    )
    owner, group_id = start_owner(log, "echo ready; exec sleep 1000", extra)
    copy = int(log.with_name("toy.log.copy").read_text())
    try:
        owner.kill()
        assert eventually(lambda: not group_lives(group_id))
        os.kill(copy, 0)
    finally:
        os.kill(copy, signal.SIGKILL)
        with owner:
            owner.wait()


if sys.platform == "linux":

    def test_the_command_ends_when_its_supervisor_is_killed(log: Path) -> None:
        child = toy(log, STUBBORN)
        child.start()
        assert eventually(said(log, "ready"))
        os.kill(child.group_id, signal.SIGKILL)
        assert eventually(lambda: not group_lives(child.group_id))
        child.stop()
