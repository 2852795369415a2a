"""`kcoord doctor` about Spark: its version by what kcoord needs of it, and the Python that it would start."""

import os
import sys
from importlib import metadata
from pathlib import Path

import pytest

from coordinator.cli.diagnosis import doctor_spark
from coordinator.cli.diagnosis.doctor_check import Check
from coordinator.cli.diagnosis.doctor_spark import home_version, look_at_spark, pyspark_check, python_check

OURS = metadata.version("kcoord")


def script(path: Path, text: str) -> str:
    path.write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
    path.chmod(0o755)
    return str(path)


@pytest.mark.parametrize(
    ("version", "status"),
    [("4.0.5", "fail"), ("4.1.4", "warn"), ("4.2.0", "ok"), ("4.3.1.dev2", "ok"), ("4.4.0", "warn"), ("5.0.0", "warn")],
)
def test_a_version_is_judged_by_what_it_can_do(version, status):
    check = pyspark_check(version, None)
    assert (check.name, check.status, check.value) == ("pyspark", status, version)


def test_an_old_spark_is_told_the_version_that_is_needed():
    assert pyspark_check("4.0.5", None).why == "kcoord needs 4.1 or newer for batch reads and 4.2 or newer for streams"
    assert pyspark_check("4.1.4", None).why == "batch reads only: streams need 4.2 or newer"


def test_the_spark_of_spark_home_goes_before_the_package(tmp_path):
    (tmp_path / "python/pyspark").mkdir(parents=True)
    (tmp_path / "python/pyspark/version.py").write_text('__version__: str = "4.1.4"\n', encoding="utf-8")
    at_home = home_version({"SPARK_HOME": str(tmp_path)})
    assert at_home == "4.1.4"
    check = pyspark_check("4.3.0", at_home)
    assert (check.status, check.value, "4.3.0" in check.why) == ("warn", "4.1.4", True)


@pytest.mark.parametrize("home", ["", "/no/such/spark"])
def test_a_spark_home_without_pyspark_is_none(home):
    assert home_version({"SPARK_HOME": home}) is None


def test_a_client_of_spark_connect_needs_no_python_for_spark():
    check = pyspark_check(None, None, "4.2.0")
    assert (check.status, check.value) == ("skip", "client 4.2.0")


def test_a_machine_without_spark_is_asked_for_no_python(monkeypatch):
    monkeypatch.setattr(doctor_spark, "_installed", lambda package: None)
    spark = look_at_spark({})
    assert [(check.name, check.status) for check in spark.checks] == [("pyspark", "warn"), ("spark-python", "skip")]
    assert (spark.is_here, spark.python) == (False, sys.executable)


def test_the_python_of_a_variable_is_asked():
    check, path = python_check({"PYSPARK_PYTHON": sys.executable})
    version = ".".join(map(str, sys.version_info[:3]))
    value = f"{version} {sys.executable}"
    assert check == Check("spark-python", "ok", value, f"by PYSPARK_PYTHON; it finds kcoord {OURS}")
    assert path == sys.executable


def test_the_variable_for_drivers_goes_before():
    check, path = python_check({"PYSPARK_DRIVER_PYTHON": "/no/such/jupyter", "PYSPARK_PYTHON": sys.executable})
    assert (check.status, check.value, path) == ("fail", "/no/such/jupyter", None)
    assert "by PYSPARK_DRIVER_PYTHON" in check.why


def test_without_a_variable_it_is_python3_of_the_path_and_a_warning(tmp_path):
    check, path = python_check({"PATH": str(tmp_path)})
    assert (check.status, check.value, path) == ("warn", "python3", None)
    script(tmp_path / "python3", f'exec {sys.executable} "$@"')
    check, path = python_check({"PATH": str(tmp_path)})
    assert (check.status, path) == ("ok", str(tmp_path / "python3"))


def test_a_python_that_does_not_find_kcoord_is_told_how_to_name_another(tmp_path):
    alone = script(tmp_path / "alone", f'exec {sys.executable} -I -S "$@"')
    check, path = python_check({"PYSPARK_PYTHON": alone})
    assert (check.status, path) == ("fail", None)
    assert f"does not find kcoord: set PYSPARK_PYTHON={sys.executable} where Spark is started" in check.why


def test_what_is_found_in_the_directory_alone_is_not_installed(tmp_path, monkeypatch):
    for name in ("pyspark_kcoord", "spark_kcoord"):
        (tmp_path / f"{name}.py").touch()
    monkeypatch.chdir(tmp_path)
    alone = script(tmp_path / "alone", f'exec {sys.executable} -S "$@"')
    monkeypatch.delenv("PYTHONPATH", raising=False)
    check, _ = python_check({"PYSPARK_PYTHON": alone})
    assert "does not find kcoord" in check.why


def test_a_program_that_is_no_python_is_told(tmp_path):
    other = script(tmp_path / "jupyter", "echo 'no command -c' >&2; exit 2")
    check, _ = python_check({"PYSPARK_DRIVER_PYTHON": other, "PATH": os.environ["PATH"]})
    assert (check.status, "runs no Python (no command -c)" in check.why) == ("fail", True)
    silent = script(tmp_path / "silent", "echo fine")
    assert "runs no Python" in python_check({"PYSPARK_PYTHON": silent})[0].why


def test_an_older_python_and_a_missing_library_are_told(tmp_path):
    def says(version, lacks, kcoord=OURS):
        told = f'{{"version":{version},"executable":"/old","kcoord":"{kcoord}","lacks":{lacks}}}'
        return python_check({"PYSPARK_PYTHON": script(tmp_path / "python", f"echo '{told}'")})[0]

    assert "is older than 3.11" in says([3, 10, 4], "[]").why
    assert "lacks pyarrow, numpy" in says([3, 12, 1], '["pyarrow","numpy"]').why
    assert (says([3, 12, 1], "[]", "0.0.9").status, says([3, 12, 1], "[]").status) == ("warn", "ok")
