"""Run a command whose Pythons and Sparks start quickly; what has Spark do so is made beside it if it is not there yet.

python -m tests.quick_start COMMAND...
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pyspark

from coordinator.local.java.runtime import find_java
from tests.helpers.python_path import python_path
from tests.helpers.small_spark import JAVA_OPTIONS

_HERE = Path(__file__).parent
_HOME = _HERE.parents[1] / ".pytest_cache" / "java"
_SPARK = Path(pyspark.__file__).parent
_ARCHIVE = _HOME / "spark.jsa"
_MAKE = '"$@"; mv ../new.jsa ../spark.jsa; rm -rf "$PWD"'
"""Whatever the application came to: what Java had loaded until its end is in the archive."""


def main(command: list[str]) -> None:
    """Become the command, with the environment that makes the difference."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    if environment.get("JAVA_HOME") != str(_HOME):  # else this is a run within a run
        _write_java()
        environment["JAVA_HOME"] = str(_HOME)
        environment["PYTHONPATH"] = python_path(_HERE / "python")
        if not _ARCHIVE.exists() or _ARCHIVE.stat().st_mtime < (_SPARK / "jars").stat().st_mtime:
            _start_archive(environment)
    os.execvpe(command[0], command, environment)


def _write_java() -> None:
    real = find_java().executable
    text = (_HERE / "java.sh").read_text(encoding="utf-8")
    for word, value in {"@JAVA@": real, "@JARS@": f"{_SPARK}/jars/*", "@ARCHIVE@": _ARCHIVE}.items():
        text = text.replace(word, f"'{value}'")
    programs = _HOME / "bin"
    shutil.rmtree(programs, ignore_errors=True)
    programs.mkdir(parents=True)
    for tool in real.resolve().parent.iterdir():
        (programs / tool.name).symlink_to(tool)
    (programs / "java").unlink(missing_ok=True)
    (programs / "java").write_text(text, encoding="utf-8")
    (programs / "java").chmod(0o755)


def _start_archive(environment: dict[str, str]) -> None:
    work = _HOME / "work"
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir()
    options = f"{JAVA_OPTIONS} -XX:ArchiveClassesAtExit={_HOME / 'new.jsa'} -Xlog:cds*=off"
    settings = {
        "spark.ui.enabled": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.extraJavaOptions": options,
    }
    submit = [str(_SPARK / "bin" / "spark-submit"), "--master", "local[2]"]
    submit += [word for key, value in settings.items() for word in ("--conf", f"{key}={value}")]
    places = {"SPARK_HOME": str(_SPARK), "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    with (_HOME / "made.log").open("w") as log:
        subprocess.Popen(
            ["bash", "-c", _MAKE, "bash", *submit, str(_HERE / "warm_up.py")],
            cwd=work,
            env=environment | places,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )


if __name__ == "__main__":
    main(sys.argv[1:])
