"""The Java of `make test` moves Spark's settings behind its jars, and hands everything else on as it is."""

import stat
import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[1] / "quick_start" / "java.sh"
JARS = "/spark/jars/*"
ONE = "/spark/jars/slf4j.jar"


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    """Return the place of the archive, which is not there yet."""
    return tmp_path / "spark.jsa"


@pytest.fixture
def java(tmp_path: Path, archive: Path) -> Path:
    """Return the script around a Java that prints its arguments, one a line."""
    told = tmp_path / "told"
    told.write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
    script = tmp_path / "java"
    text = SCRIPT.read_text(encoding="utf-8")
    script.write_text(
        text.replace("@JAVA@", str(told)).replace("@JARS@", f"'{JARS}'").replace("@ARCHIVE@", str(archive))
    )
    for program in (told, script):
        program.chmod(program.stat().st_mode | stat.S_IXUSR)
    return script


def arguments(java: Path, *given: str) -> list[str]:
    return subprocess.run([java, *given], stdout=subprocess.PIPE, text=True, check=True).stdout.splitlines()


def test_settings_are_behind_the_jars_and_the_archive_is_used_once_it_is_there(java: Path, archive: Path) -> None:
    spark = ["-cp", f"{ONE}:{JARS}:/some conf/", "-Xmx1g", "SparkSubmit", "-cp", "left"]
    given = ["-cp", f"/some conf/:{ONE}:{JARS}", *spark[2:]]
    assert arguments(java, *given) == spark
    archive.touch()
    assert arguments(java, *given) == [
        f"-XX:SharedArchiveFile={archive}",
        "-Xlog:cds=off",
        "-Xlog:cds+dynamic=off",
        *spark,
    ]


@pytest.mark.parametrize(
    "given",
    [
        ["-version"],
        ["-cp", JARS, "Launcher"],
        ["-cp", f"/more.jar:/conf/:{JARS}", "SparkSubmit"],
        ["-cp", "/kafka/one.jar:/kafka/two.jar", "kafka.Kafka"],
        ["-jar", "a.jar", f"/conf:{JARS}"],
    ],
)
def test_anything_else_is_handed_on_as_it_is(java: Path, archive: Path, given: list[str]) -> None:
    archive.touch()
    assert arguments(java, *given) == given
