"""The script behind `make test` runs every check, shows what each said, and ends with how each went."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "scripts" / "check.sh"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Return a project with this script, in which ruff finds nothing and mypy finds something."""
    for name, script in (("ruff", "echo fine"), ("mypy", "echo wrong; exit 2")):
        program = tmp_path / ".venv" / "bin" / name
        program.parent.mkdir(parents=True, exist_ok=True)
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(0o755)
    (tmp_path / "scripts").mkdir()
    shutil.copy(SCRIPT, tmp_path / "scripts")
    return tmp_path


def check(project: Path, *arguments: str) -> tuple[int, list[str]]:
    """Return the exit code and the lines, without the seconds."""
    run = subprocess.run(
        [project / "scripts" / "check.sh", *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    return run.returncode, re.sub(r" seconds=\d+$", "", run.stdout.rstrip()).splitlines()


def test_a_check_that_fails_beside_the_last_one_fails_the_run_and_is_shown(project: Path) -> None:
    said = ["== ruff", "fine", "== types", "wrong", "some: FAILED types=FAILED ruff=ok"]
    assert check(project, "some", "types", "ruff") == (1, said)


def test_a_last_check_that_fails_fails_the_run(project: Path) -> None:
    said = ["== types", "wrong", "== ruff", "fine", "some: FAILED ruff=ok types=FAILED"]
    assert check(project, "some", "ruff", "types") == (1, said)


def test_a_check_that_is_not_known_fails_the_run(project: Path) -> None:
    said = ["== ruff", "fine", "== nothing", "no check is called nothing", "some: FAILED nothing=FAILED ruff=ok"]
    assert check(project, "some", "nothing", "ruff") == (1, said)


def test_checks_that_pass_pass_in_the_order_asked_for(project: Path) -> None:
    said = ["== format", "fine", "== ruff", "fine", "lint: OK ruff=ok format=ok"]
    assert check(project, "lint", "ruff", "format") == (0, said)


def test_the_tests_that_failed_are_named_once_more_at_the_end(project: Path) -> None:
    python = project / ".venv" / "bin" / "python"
    said = "echo .F; echo 'FAILED tests/test_a.py::test_b - assert 1 == 2'; echo 1 failed"
    python.write_text(f"#!/bin/sh\n{said}\nexit 1\n")
    python.chmod(0o755)
    failed = "FAILED tests/test_a.py::test_b - assert 1 == 2"
    lines = ["== pytest", ".F", failed, "1 failed", "== ruff", "fine", failed, "test: FAILED ruff=ok pytest=FAILED"]
    assert check(project, "test", "ruff", "pytest") == (1, lines)
