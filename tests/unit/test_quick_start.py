"""The quick starts of `make test`: Java with Spark's settings behind its jars, PySpark imported as it is installed."""

import errno
import itertools
import os
import re
import shutil
import stat
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pyspark
import pytest

from coordinator.local.java.runtime import Java
from tests.quick_start.__main__ import home_of

QUICK_START = Path(__file__).parents[1] / "quick_start"
SCRIPT = QUICK_START / "java.sh"
PAGE = Path(__file__).parents[2] / "docs" / "SPARK.md"
JARS = "/spark/jars/*"
LINKED = "/cache/spark jars/*"
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
        text.replace("@JAVA@", str(told))
        .replace("@JARS@", f"'{JARS[:-2]}'")
        .replace("@LINKED@", f"'{LINKED[:-2]}'")
        .replace("@ARCHIVE@", str(archive))
    )
    for program in (told, script):
        program.chmod(program.stat().st_mode | stat.S_IXUSR)
    return script


def arguments(java: Path, *given: str) -> list[str]:
    return subprocess.run([java, *given], stdout=subprocess.PIPE, text=True, check=True).stdout.splitlines()


def test_settings_are_behind_the_jars_and_the_archive_is_used_once_it_is_there(java: Path, archive: Path) -> None:
    spark = ["-cp", f"{LINKED[:-1]}slf4j.jar:{LINKED}:/some conf/", "-Xmx1g", "SparkSubmit", "-cp", "left"]
    given = ["-cp", f"/some conf/:{ONE}:{JARS}", *spark[2:]]
    assert arguments(java, *given) == spark
    archive.touch()
    assert arguments(java, *given) == [
        f"-XX:SharedArchiveFile={archive}",
        "-Xlog:cds*=off",
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


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the user's cache, which is not there yet."""
    monkeypatch.setenv("KCOORD_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


JAVA = Java(Path("/java"), 17, "17.0.1")
_times = itertools.count(1_000)


def clone(folder: Path, first: bytes = b"one") -> Path:
    """Return the jars of a clone, of a time of their own: each install writes them anew."""
    folder.mkdir()
    for name, content in {"a.jar": first, "b.jar": b"two", "a.txt": b""}.items():
        (folder / name).write_bytes(content)
        os.utime(folder / name, (next(_times), 1_000))
    return folder


def test_clones_with_the_same_jars_share_links_to_them_which_outlive_a_clone(tmp_path: Path, cache: Path) -> None:
    first, second = clone(tmp_path / "first"), clone(tmp_path / "second")
    home = home_of(first, JAVA)
    assert home.is_relative_to(cache)
    shutil.rmtree(first)
    assert home_of(second, JAVA) == home
    assert {jar.name: jar.read_bytes() for jar in (home / "jars").iterdir()} == {"a.jar": b"one", "b.jar": b"two"}
    assert [path.name for path in home.iterdir()] == ["jars"], "what was made beside them is left"
    assert home_of(second, replace(JAVA, version="17.0.2")) != home
    assert home_of(clone(tmp_path / "third", b"another"), JAVA) != home


def test_a_clone_on_another_disk_has_the_archive_to_itself(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(self: Path, target: Path) -> None:
        raise OSError(errno.EXDEV, "Invalid cross-device link")

    monkeypatch.setattr(Path, "hardlink_to", refuse)
    monkeypatch.setattr("tests.quick_start.__main__._HOME", tmp_path / "own")
    jars = clone(tmp_path / "first")
    for _ in range(2):
        home = home_of(jars, JAVA)
        assert home.is_relative_to(tmp_path / "own")
        assert (home / "jars").resolve() == jars


def of_the_page() -> str:
    """Return what the page about Spark has users put into their `sitecustomize.py`."""
    page = PAGE.read_text(encoding="utf-8")
    (block,) = [block for block in re.findall(r"```python\n(.*?)```", page, re.DOTALL) if "pyspark.zip" in block]
    return str(block)


@pytest.mark.parametrize(
    "text",
    [(QUICK_START / "python" / "sitecustomize.py").read_text(encoding="utf-8"), of_the_page()],
    ids=["ours", "page"],
)
def test_pyspark_is_imported_as_it_is_installed_and_not_from_the_zip_file_that_spark_puts_before_it(
    tmp_path: Path, text: str
) -> None:
    (tmp_path / "sitecustomize.py").write_text(text, encoding="utf-8")
    zip_file = Path(pyspark.__file__).parent / "python" / "lib" / "pyspark.zip"
    imported = []
    for path in ([zip_file], [zip_file, tmp_path]):
        python = subprocess.run(
            [sys.executable, "-c", "import pyspark; print(pyspark.__file__)"],
            env=os.environ | {"PYTHONPATH": os.pathsep.join(map(str, path))},
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
        imported.append(python.stdout.strip())
    assert imported == [str(zip_file / "pyspark" / "__init__.py"), pyspark.__file__]
