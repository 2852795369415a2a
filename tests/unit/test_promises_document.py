"""docs/PROMISES.md names what holds each promise; everything it names has to exist."""

import re
from pathlib import Path

from tests.promises.__main__ import all_schedules
from tests.sim.mutants import ALL

ROOT = Path(__file__).resolve().parents[2]
ROWS = [line.split("|") for line in (ROOT / "docs" / "PROMISES.md").read_text().splitlines() if line.startswith("| ")]
HELD_BY = [row[2] for row in ROWS if row[1].strip() != "promise" and not row[1].strip().startswith("**")]


def named(kind: str) -> set[str]:
    """Return what is listed after the word `kind`, up to the next word that is no name."""
    lists = re.findall(rf"\b{kind}s? ((?:`[^`]+`(?:, )?)+)", " ; ".join(HELD_BY))
    return {name for names in lists for name in re.findall(r"`([^`]+)`", names)}


def test_every_promise_is_held_by_something() -> None:
    assert len(HELD_BY) > 10
    assert [held for held in HELD_BY if "`" not in held] == []


def test_tests_that_are_named_exist() -> None:
    tests = {name for held in HELD_BY for name in re.findall(r"`(test_\w+)`", held)}
    written = {
        name for path in (ROOT / "tests").rglob("test_*.py") for name in re.findall(r"def (test_\w+)", path.read_text())
    }
    assert tests - written == set()


def test_schedules_mutants_and_targets_that_are_named_exist() -> None:
    targets = {name for held in HELD_BY for name in re.findall(r"`make ([\w-]+)`", held)}
    assert named("schedule") - {schedule.name for schedule in all_schedules()} == set()
    assert named("mutant") - set(ALL) == set()
    assert targets - set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)) == set()


def test_every_schedule_holds_a_promise_that_is_written_down() -> None:
    assert {schedule.name for schedule in all_schedules()} - named("schedule") == set()
