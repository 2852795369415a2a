"""The script behind `make test` runs every check, shows what each said, and ends with how each went."""

import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[2]


def check(*arguments: str) -> tuple[int, list[str]]:
    """Return the exit code and the lines, without the seconds."""
    run = subprocess.run(
        [ROOT / "scripts" / "check.sh", *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    return run.returncode, re.sub(r" seconds=\d+$", "", run.stdout.rstrip()).splitlines()


def test_a_check_that_fails_beside_the_last_one_fails_the_run_and_is_shown() -> None:
    code, lines = check("some", "nothing", "ruff")
    assert code == 1
    assert lines[0] == "== ruff"
    assert lines[-3:] == ["== nothing", "no check is called nothing", "some: FAILED nothing=FAILED ruff=ok"]


def test_a_last_check_that_fails_fails_the_run() -> None:
    code, lines = check("some", "ruff", "nothing")
    assert code == 1
    assert lines[:2] == ["== nothing", "no check is called nothing"]
    assert lines[-1] == "some: FAILED ruff=ok nothing=FAILED"


def test_all_checks_that_pass_pass_in_the_order_asked_for() -> None:
    code, lines = check("lint", "ruff", "format")
    assert code == 0
    assert [line for line in lines if line.startswith("== ")] == ["== format", "== ruff"]
    assert lines[-1] == "lint: OK ruff=ok format=ok"
