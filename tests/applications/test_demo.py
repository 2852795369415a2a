"""The demo as people run it: a small one to its end, one that cannot start, one that is interrupted."""

import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.helpers.processes import eventually

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.timeout(290)]

OK = re.compile(
    r"demo: OK flights=20000 missing=0 duplicates=\d+ lag=0 moved=4 taken_over=4 handover_ms=(?P<handover_ms>\d+)"
)


@contextmanager
def a_demo(directory: Path, *arguments: str) -> Iterator["subprocess.Popen[str]"]:
    """Run `kcoord demo` with its data and its Spark scratch in the directory."""
    process = subprocess.Popen(
        [sys.executable, "-m", "coordinator", "demo", *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, "TMPDIR": str(directory)},
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()


def leaves_nothing(directory: Path) -> bool:
    """Say whether no process knows the directory any more and it is empty."""
    return not any(directory.iterdir()) and not any(
        str(directory).encode() in command for command in commands_of_all_processes()
    )


def commands_of_all_processes() -> Iterator[bytes]:
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            yield path.read_bytes()
        except (FileNotFoundError, ProcessLookupError):
            continue


def test_a_small_demo_loses_no_flight_when_an_application_is_killed(tmp_path: Path) -> None:
    with a_demo(tmp_path, "--flights", "20000", "--over", "8s") as process:
        output, _ = process.communicate(timeout=270)
    last_line = output.splitlines()[-1]
    assert OK.fullmatch(last_line), output
    assert process.returncode == 0
    assert "its connection closed" in output, "the reason of the take-over is told"
    assert leaves_nothing(tmp_path)


def test_a_demo_that_cannot_start_says_why_and_leaves_nothing(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with a_demo(tmp_path, "--kafka-port", str(port)) as process:
            output, _ = process.communicate(timeout=150)
    assert process.returncode == 1
    assert output.splitlines()[-1].startswith("demo: FAILED ")
    assert str(port) in output.splitlines()[-1]
    assert leaves_nothing(tmp_path)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_demo_that_is_interrupted_ends_what_it_started(tmp_path: Path, number: signal.Signals) -> None:
    with a_demo(tmp_path) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if "starts with spark-submit" in line:
                break
        process.send_signal(number)
        output, _ = process.communicate(timeout=150)
    assert output.splitlines()[-1] == "demo: FAILED it was stopped before its end"
    assert process.returncode == 130
    assert leaves_nothing(tmp_path)


def test_a_demo_that_is_killed_takes_its_processes_with_it(tmp_path: Path) -> None:
    with a_demo(tmp_path) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if "starts with spark-submit" in line:
                break
        process.kill()
    assert eventually(lambda: not any(str(tmp_path).encode() in command for command in commands_of_all_processes()))
