"""Many runs end with one line of figures, which is the same however they are run; each mistake fits the code."""

import inspect
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.sim.__main__ import main
from tests.sim.cluster import program
from tests.sim.cluster.mutants import MUTANTS
from tests.sim.test_mutants_fit import why_unfit

ROOT = Path(__file__).parents[3]
FIGURES = ("nodes=3", "violations=0", "leader_changes=", "shrinks=", "expands=", "cuts=", "installs=", "trace=")


def test_a_seed_gives_one_history_whatever_the_hash_seed() -> None:
    def said(hash_seed: str) -> tuple[str, ...]:
        done = subprocess.run(
            [sys.executable, "-m", "tests.sim", "run", "--nodes", "3", "--seed", "7", "--runs", "1", "--jobs", "1"],
            env=os.environ | {"PYTHONHASHSEED": hash_seed},
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=True,
        )
        return tuple(word for word in done.stdout.splitlines()[-1].split() if "per_s" not in word)

    first, other = [said(hash_seed) for hash_seed in ("0", "1")]
    assert first == other
    assert first[:2] == ("sim:", "OK")
    for figure in FIGURES:
        assert any(word.startswith(figure) for word in first), figure


def test_how_runs_are_shared_out_changes_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    def said(jobs: int) -> list[str]:
        assert main(["run", "--nodes", "3", "--seed", "0", "--runs", "2", "--jobs", str(jobs)]) == 0
        *_, counts, last = capsys.readouterr().out.splitlines()
        return [counts, *(word for word in last.split() if "per_s" not in word)]

    assert said(1) == said(2)


def test_what_never_happened_fails_many_runs(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(program, "ENOUGH_RUNS", 1)
    assert main(["run", "--nodes", "3", "--seed", "0", "--runs", "1"]) == 1
    *_, never, last = capsys.readouterr().out.splitlines()
    assert never.startswith("never exercised in 1 runs: ")
    assert last.startswith("sim: FAILED nodes=3 runs=1 ")


@pytest.mark.parametrize("name", MUTANTS)
def test_planted_mistake_takes_what_it_is_given(name: str) -> None:
    for owner, attribute, after in MUTANTS[name].plant():
        before = inspect.getattr_static(owner, attribute)
        assert not why_unfit(before, after), f"{owner.__name__}.{attribute}: {why_unfit(before, after)}"
