"""Which application a process belongs to: the JVM above it, by more than an id that is used again."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from spark_kcoord.source.process import application
from spark_kcoord.source.process.application import application_above

TELL = "from spark_kcoord.source.process.application import application_above; print(application_above())"


@contextmanager
def a_jvm(folder: Path, command: str) -> Iterator[subprocess.Popen[str]]:
    """Run something that the operating system knows by the name of a JVM, and let it run a command."""
    java = folder / "java"
    if not java.exists():
        java.symlink_to("/bin/sh")
    with subprocess.Popen([java, "-c", f"{command}; read end"], stdin=-1, stdout=-1, text=True) as process:
        yield process
        assert process.stdin is not None
        process.stdin.close()


def told(process: "subprocess.Popen[str]") -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def test_sources_of_one_jvm_have_its_name_and_those_of_another_have_another(tmp_path: Path) -> None:
    twice = f"{sys.executable} -c '{TELL}'; {sys.executable} -c '{TELL}'"
    with a_jvm(tmp_path, twice) as one, a_jvm(tmp_path, twice) as another:
        names = [told(one), told(one), told(another), told(another)]
    assert names[0] == names[1] != names[2] == names[3]
    assert f".{one.pid}." in names[0]


def test_jvm_is_found_above_a_shell(tmp_path: Path) -> None:
    with a_jvm(tmp_path, f"sh -c \"{sys.executable} -c '{TELL}'; true\"") as jvm:
        assert f".{jvm.pid}." in told(jvm)


def test_without_a_jvm_it_is_the_parent() -> None:
    found = subprocess.run([sys.executable, "-c", TELL], capture_output=True, text=True, check=True).stdout
    assert f".{os.getpid()}." in found


def test_process_that_has_ended_has_no_name() -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        pass
    assert application_above(process.pid) is None


def test_ps_says_the_same_as_proc_of_who_is_above(monkeypatch: pytest.MonkeyPatch) -> None:
    by_proc = application._from_proc(os.getpid())
    by_ps = application._from_ps(os.getpid())
    assert by_proc is not None
    assert by_ps is not None
    assert (by_ps.parent, by_ps.command) == (by_proc.parent, by_proc.command)
    monkeypatch.setattr(application, "_looker", lambda: application._from_ps)
    assert application_above() == application_above()
    monkeypatch.setenv("PATH", "")
    assert application_above() is None
