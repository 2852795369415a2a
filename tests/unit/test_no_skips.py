"""A run in which a test is skipped, or expected to fail, fails, however many processes share it."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

CONFTEST = Path(__file__).parents[1] / "conftest.py"


def run_pytest(directory: Path, source: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    shutil.copy(CONFTEST, directory / "conftest.py")
    (directory / "test_planted.py").write_text(f"import pytest\n{source}")
    (directory / "test_other.py").write_text("def test_other(): pass")
    return subprocess.run(
        [
            *[sys.executable, "-m", "pytest", "-q", "--rootdir", directory, "-p", "no:cacheprovider"],
            *[*arguments, directory],
        ],
        cwd=CONFTEST.parents[1],
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize(
    ("kind", "source"),
    [
        ("skipped", "def test_it(): pytest.skip('later')"),
        ("skipped", "@pytest.mark.skipif(True, reason='never')\ndef test_it(): pass"),
        ("skipped", "pytest.skip('all of it', allow_module_level=True)"),
        ("xfailed", "@pytest.mark.xfail\ndef test_it(): assert False"),
        ("xpassed", "@pytest.mark.xfail\ndef test_it(): pass"),
    ],
)
def test_a_test_that_did_not_run_fails_the_run_and_is_named(tmp_path: Path, kind: str, source: str) -> None:
    run = run_pytest(tmp_path, source)
    assert run.returncode == pytest.ExitCode.TESTS_FAILED, run.stdout
    assert f"this one was {kind}" in run.stdout
    assert "test_planted.py" in run.stdout


def test_a_run_in_which_all_pass_passes(tmp_path: Path) -> None:
    assert run_pytest(tmp_path, "def test_it(): pass").returncode == 0


PARALLEL = ("-p", "tests.parallel", "--numprocesses", "2", "--max-worker-restart", "0")


@pytest.mark.parametrize(
    "source", ["def test_it(): pytest.skip('later')", "pytest.skip('all', allow_module_level=True)"]
)
def test_a_test_that_did_not_run_in_a_parallel_process_fails_the_run_and_is_named(tmp_path: Path, source: str) -> None:
    run = run_pytest(tmp_path, source, *PARALLEL)
    assert run.returncode == pytest.ExitCode.TESTS_FAILED, run.stdout
    assert "this one was skipped" in run.stdout
    assert "test_planted.py" in run.stdout


def test_a_process_that_dies_fails_the_run_and_its_test_is_named(tmp_path: Path) -> None:
    run = run_pytest(tmp_path, "import os\ndef test_it(): os._exit(0)", *PARALLEL)
    assert run.returncode == pytest.ExitCode.TESTS_FAILED, run.stdout
    assert "crashed while running" in run.stdout
    assert "test_planted.py::test_it" in run.stdout
