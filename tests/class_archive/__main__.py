"""Make the Java with the archive, and print its home; the archive follows beside what runs, if it is not there yet.

JAVA_HOME=$(python -m tests.class_archive)
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pyspark

from coordinator.local.java.runtime import find_java
from tests.helpers.small_spark import JAVA_OPTIONS

_ROOT = Path(__file__).parents[2]
_HERE = Path(__file__).parent
_MAKE = 'nice -n 5 "$@"; mv ../new.jsa ../spark.jsa; rm -rf "$PWD"'
"""Whatever the application came to: what Java had loaded until its end is in the archive."""


def main() -> None:
    """Write `bin/java` into a folder that belongs to this clone, and start what makes the archive."""
    home = _ROOT / ".pytest_cache" / "java"
    print(home)
    if os.environ.get("JAVA_HOME") == str(home):
        return  # a run within a run
    spark = Path(pyspark.__file__).parent
    archive = home / "spark.jsa"
    real = find_java().executable
    text = (_HERE / "java.sh").read_text(encoding="utf-8")
    words = {"@JAVA@": str(real), "@JARS@": f"{spark}/jars/*", "@ARCHIVE@": str(archive)}
    for word, value in words.items():
        text = text.replace(word, f"'{value}'")
    (home / "bin").mkdir(parents=True, exist_ok=True)
    program = home / "bin" / "java"
    program.write_text(text, encoding="utf-8")
    program.chmod(0o755)
    if not archive.exists() or archive.stat().st_mtime < (spark / "jars").stat().st_mtime:
        _start_archive(home, spark)


def _start_archive(home: Path, spark: Path) -> None:
    work = home / "work"
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir()
    options = f"{JAVA_OPTIONS} -XX:ArchiveClassesAtExit={home / 'new.jsa'} -Xlog:cds=off -Xlog:cds+dynamic=off"
    settings = {"spark.ui.enabled": "false", "spark.driver.host": "127.0.0.1", "spark.driver.extraJavaOptions": options}
    submit = [str(spark / "bin" / "spark-submit"), "--master", "local[2]"]
    submit += [word for key, value in settings.items() for word in ("--conf", f"{key}={value}")]
    with (home / "made.log").open("w") as log:
        subprocess.Popen(
            ["bash", "-c", _MAKE, "bash", *submit, str(_HERE / "warm_up.py")],
            cwd=work,
            env=os.environ
            | {"JAVA_HOME": str(home), "SPARK_HOME": str(spark)}
            | {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )


if __name__ == "__main__":
    main()
