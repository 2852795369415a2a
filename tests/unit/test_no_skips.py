"""A run in which a test is skipped, or expected to fail, fails, however many processes share it; which run again."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.helpers.spark_limits import NO_WORKER

CONFTEST = Path(__file__).parents[1] / "conftest.py"

PLUGINS = ("xdist", "rerunfailures")
"""The plug-ins that a run needs; to import all others would take half of its time."""


def run_pytest(directory: Path, source: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    shutil.copy(CONFTEST, directory / "conftest.py")
    (directory / "test_planted.py").write_text(f"import pytest\n{source}")
    (directory / "test_other.py").write_text("def test_other(): pass")
    return subprocess.run(
        [
            *[sys.executable, "-m", "pytest", "-q", "--rootdir", directory, "-p", "no:cacheprovider"],
            *[word for plugin in PLUGINS for word in ("-p", plugin)],
            *[*arguments, directory],
        ],
        cwd=CONFTEST.parents[1],
        env=os.environ | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True,
        text=True,
        check=False,
    )


NOT_RUN = {
    "test_skips.py": ("skipped", "def test_it(): pytest.skip('later')"),
    "test_is_skipped_if.py": ("skipped", "@pytest.mark.skipif(True, reason='never')\ndef test_it(): pass"),
    "test_all_skipped.py": ("skipped", "pytest.skip('all of it', allow_module_level=True)"),
    "test_fails_as_expected.py": ("xfailed", "@pytest.mark.xfail\ndef test_it(): assert False"),
    "test_passes_against_expectation.py": ("xpassed", "@pytest.mark.xfail\ndef test_it(): pass"),
}


def test_each_test_that_did_not_run_is_named(tmp_path: Path) -> None:
    for name, (_, source) in NOT_RUN.items():
        (tmp_path / name).write_text(f"import pytest\n{source}")
    run = run_pytest(tmp_path, "def test_it(): pass")
    assert run.returncode == pytest.ExitCode.TESTS_FAILED, run.stdout
    for name, (kind, _) in NOT_RUN.items():
        assert any(f"this one was {kind}" in line and name in line for line in run.stdout.splitlines()), run.stdout


@pytest.mark.parametrize("source", ["def test_it(): pytest.skip('later')", "@pytest.mark.xfail\ndef test_it(): pass"])
def test_one_test_that_did_not_run_fails_the_run(tmp_path: Path, source: str) -> None:
    run = run_pytest(tmp_path, source)
    assert run.returncode == pytest.ExitCode.TESTS_FAILED, run.stdout


SPARK_GAVE_UP = f"raise RuntimeError('[STREAM_FAILED] {NO_WORKER}.')"


def test_a_test_that_sparks_own_time_out_ended_runs_again_and_no_other(tmp_path: Path) -> None:
    source = f"""
pytestmark = pytest.mark.spark
ran = []

def test_on_a_busy_machine():
    ran.append(1)
    if len(ran) == 1:
        {SPARK_GAVE_UP}

def test_it():
    raise RuntimeError('a row is missing')
"""
    (tmp_path / "test_without_spark.py").write_text(f"def test_it():\n    {SPARK_GAVE_UP}")
    run = run_pytest(tmp_path, source)
    assert "2 failed, 2 passed" in run.stdout, run.stdout
    assert "1 rerun" in run.stdout


def test_a_run_in_which_all_pass_passes(tmp_path: Path) -> None:
    assert run_pytest(tmp_path, "def test_it(): pass").returncode == 0


PARALLEL = ("-p", "tests.parallel", "--numprocesses", "2", "--max-worker-restart", "0")


def test_a_test_that_did_not_run_in_a_parallel_process_fails_the_run_and_is_named(tmp_path: Path) -> None:
    (tmp_path / "test_all_skipped.py").write_text("import pytest\npytest.skip('all', allow_module_level=True)")
    run = run_pytest(tmp_path, "def test_it(): pytest.skip('later')", *PARALLEL)
    assert run.returncode == pytest.ExitCode.TESTS_FAILED, run.stdout
    named = [line for line in run.stdout.splitlines() if "this one was skipped" in line]
    for name in ("test_planted.py", "test_all_skipped.py"):
        assert any(name in line for line in named), run.stdout


def test_a_process_that_dies_fails_the_run_and_its_test_is_named(tmp_path: Path) -> None:
    run = run_pytest(tmp_path, "import os\ndef test_it(): os._exit(0)", *PARALLEL)
    assert run.returncode == pytest.ExitCode.TESTS_FAILED, run.stdout
    assert "crashed while running" in run.stdout
    assert "test_planted.py::test_it" in run.stdout
