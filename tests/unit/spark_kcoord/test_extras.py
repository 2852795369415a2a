"""What is missing of Spark's libraries is told with the name of the extra, to whoever imports what needs them."""

import subprocess
import sys
from pathlib import Path

import pytest

from spark_kcoord.extras import naming_the_extra

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize(
    ("missing", "program"),
    [
        ("pyspark", "import spark_kcoord; spark_kcoord.batch"),
        ("pyspark", "from spark_kcoord import attach"),
        ("pyspark", "from spark_kcoord import LagListener"),
        ("pyspark", "import runpy; runpy.run_module('spark_kcoord.jobs.ingest_stream')"),
        ("pyarrow", "from spark_kcoord import batch"),
    ],
)
def test_what_needs_spark_names_the_extra(missing: str, program: str) -> None:
    run = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.modules[{missing!r}] = None; {program}"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 1
    last = run.stderr.strip().splitlines()[-1]
    assert last.startswith("ModuleNotFoundError: ")
    assert f"needs {missing}, which is not installed" in last
    assert last.endswith("Run: pip install 'kcoord[spark]'")
    assert run.stderr.count("Traceback") == 1, "the reason alone"


@pytest.mark.parametrize("program", ["from kcoord import Consumer", "from spark_kcoord.consumer import Consumer"])
def test_a_consumer_names_its_own_extra(program: str) -> None:
    run = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.modules['pyarrow'] = None; {program}"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    last = run.stderr.strip().splitlines()[-1]
    assert "A consumer needs pyarrow, which is not installed" in last
    assert last.endswith("Run: pip install 'kcoord[consumer]'")


@pytest.mark.parametrize(("settings", "is_made"), [("", True), ("otel=True, ", False)])
def test_opentelemetry_is_asked_for_by_its_setting_alone(settings: str, is_made: bool) -> None:
    program = f"from kcoord import Consumer; Consumer({settings}bootstrap_servers='127.0.0.1:1').close(); print('made')"
    run = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.modules['opentelemetry'] = None; {program}"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.stdout == ("made\n" if is_made else "")
    if not is_made:
        last = run.stderr.strip().splitlines()[-1]
        assert "A consumer with 'otel' needs opentelemetry, which is not installed" in last
        assert last.endswith("Run: pip install 'kcoord[otel]'")
        assert run.stderr.count("Traceback") == 1, "the reason alone"


def test_another_missing_module_is_told_as_it_is() -> None:
    with pytest.raises(ModuleNotFoundError, match="No module named 'of_somebody_else'"), naming_the_extra("A read"):
        import of_somebody_else  # type: ignore[import-not-found]  # noqa: F401
