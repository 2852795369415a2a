"""The set-up says in one sentence what a machine lacks, and stops."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TOOLS = ("bash", "dirname", "cat", "cksum", "sh", "rm")


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    """Return the only directory on PATH: ordinary tools, neither Python nor Java."""
    bin_dir = tmp_path / "bin"
    bin_dir.mkdir()
    for tool in TOOLS:
        found = shutil.which(tool)
        assert found, tool
        (bin_dir / tool).symlink_to(found)
    return bin_dir


def program(path: Path, script: str) -> None:
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


def run_setup(machine: Path) -> subprocess.CompletedProcess[str]:
    kept = {name: value for name, value in os.environ.items() if name not in ("JAVA_HOME", "PYTHON")}
    return subprocess.run(
        [ROOT / "scripts" / "setup.sh"],
        env=kept | {"PATH": str(machine)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )


PYTHON_SENTENCE = (
    "Python 3.11 or newer was not found: install it, for example with `apt install python3 python3-venv` "
    "or `brew install python`.\n"
)
JAVA_ADVICE = (
    "install Java 17 or newer, for example with `apt install openjdk-17-jre-headless` or `brew install openjdk@17`.\n"
)


def test_no_python(machine: Path) -> None:
    run = run_setup(machine)
    assert (run.returncode, run.stdout, run.stderr) == (1, "", PYTHON_SENTENCE)


def test_only_an_old_python(machine: Path) -> None:
    program(machine / "python3", "exit 1")
    run = run_setup(machine)
    assert (run.returncode, run.stdout, run.stderr) == (1, "", PYTHON_SENTENCE)


def test_no_java(machine: Path) -> None:
    program(machine / "python3", f'exec {sys.executable} "$@"')
    run = run_setup(machine)
    sentence = f"Java was not found (no JAVA_HOME, no `java` on PATH): {JAVA_ADVICE}"
    assert (run.returncode, run.stdout, run.stderr) == (1, "", sentence)


def test_an_old_java_and_a_python_with_a_version_in_its_name(machine: Path) -> None:
    program(machine / "python3", "exit 1")
    program(machine / "python3.12", f'exec {sys.executable} "$@"')
    program(machine / "java", "echo 'openjdk version \"11.0.22\" 2024-01-16' >&2")
    run = run_setup(machine)
    sentence = f"{machine / 'java'} is Java 11.0.22, which is too old: {JAVA_ADVICE}"
    assert (run.returncode, run.stdout, run.stderr) == (1, "", sentence)
