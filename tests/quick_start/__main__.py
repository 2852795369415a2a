"""Run a command whose Pythons and Sparks start quickly; what has Spark do so is made beside it if it is not there yet.

python -m tests.quick_start COMMAND...
"""

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import pyspark

from coordinator.local.java.jars import cache_directory
from coordinator.local.java.runtime import Java, find_java
from tests.helpers.python_path import python_path
from tests.helpers.small_spark import JAVA_OPTIONS

_HERE = Path(__file__).parent
_HOME = _HERE.parents[1] / ".pytest_cache" / "java"
_SPARK = Path(pyspark.__file__).parent
_ARCHIVE = "spark.jsa"
_MAKE = '"$@" && mv new.jsa ../spark.jsa; rm -rf "$PWD"'
"""An application that failed has loaded little until its end, and what is kept is kept for long."""
_MAKING = "making-"
_LONGEST_S = 3600


def main(command: list[str]) -> None:
    """Become the command, with the environment that makes the difference."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    if environment.get("JAVA_HOME") != str(_HOME):  # else this is a run within a run
        java = find_java()
        home = home_of(_SPARK / "jars", java)
        _write_java(java, home)
        environment["JAVA_HOME"] = str(_HOME)
        environment["PYTHONPATH"] = python_path(_HERE / "python")
        if not (home / _ARCHIVE).exists():
            _start_archive(environment, home)
    os.execvpe(command[0], command, environment)


def home_of(jars: Path, java: Java) -> Path:
    """Return the directory for the archive of these jars, with the jars under `jars`.

    An archive holds for one path, and is made in as much time as four applications take. So the directory is in the
    user's cache, for all clones, and has links to the jars of the first; where these are on another disk, it is this
    clone's own. Jars of one version, names and sizes are the same: each install has times of its own.
    """
    facts = [(jar.name, jar.stat().st_size) for jar in sorted(jars.glob("*.jar"))]
    digest = hashlib.sha256(repr([java.version, *facts]).encode()).hexdigest()[:12]
    name = f"spark-{pyspark.__version__}-{digest}"
    home = cache_directory() / "classes" / name
    try:
        home.mkdir(parents=True, exist_ok=True)
        if not (home / "jars").exists():
            _link([jars / name for name, _ in facts], home / "jars")
    except OSError:
        if not (home / "jars").exists():  # else another process was quicker
            home = _HOME / name
            home.mkdir(parents=True, exist_ok=True)
            if not (home / "jars").exists():
                (home / "jars").symlink_to(jars)
    return home


def _link(jars: Sequence[Path], folder: Path) -> None:
    with tempfile.TemporaryDirectory(dir=folder.parent) as scratch_name:
        scratch = Path(scratch_name) / folder.name
        scratch.mkdir()
        for jar in jars:
            (scratch / jar.name).hardlink_to(jar)
        scratch.replace(folder)


def _write_java(java: Java, home: Path) -> None:
    real = java.executable
    text = (_HERE / "java.sh").read_text(encoding="utf-8")
    values = {"@JAVA@": real, "@JARS@": _SPARK / "jars", "@LINKED@": home / "jars", "@ARCHIVE@": home / _ARCHIVE}
    for word, value in values.items():
        text = text.replace(word, f"'{value}'")
    programs = _HOME / "bin"
    shutil.rmtree(programs, ignore_errors=True)
    programs.mkdir(parents=True)
    for tool in real.resolve().parent.iterdir():
        (programs / tool.name).symlink_to(tool)
    (programs / "java").unlink(missing_ok=True)
    (programs / "java").write_text(text, encoding="utf-8")
    (programs / "java").chmod(0o755)


def _start_archive(environment: dict[str, str], home: Path) -> None:
    for left in home.glob(f"{_MAKING}*"):  # by a machine that was switched off
        if time.time() - left.stat().st_mtime > _LONGEST_S:
            shutil.rmtree(left, ignore_errors=True)
    work = Path(tempfile.mkdtemp(prefix=_MAKING, dir=home))
    options = f"{JAVA_OPTIONS} -XX:ArchiveClassesAtExit={work / 'new.jsa'} -Xlog:cds*=off"
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
