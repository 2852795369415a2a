"""A missing, broken or old Java gives one sentence that says what to install."""

from pathlib import Path

import pytest

from coordinator.local.errors import LocalServiceError
from coordinator.local.java.runtime import HOW_TO_INSTALL, find_java


def fake_java(directory: Path, says: str, exit_code: int = 0) -> Path:
    executable = directory / "java"
    directory.mkdir(parents=True, exist_ok=True)
    executable.write_text(f"#!/bin/sh\necho '{says}' >&2\nexit {exit_code}\n")
    executable.chmod(0o755)
    return executable


@pytest.fixture(autouse=True)
def empty_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))


@pytest.mark.parametrize(
    ("says", "major", "version"),
    [
        ('openjdk version "17.0.15" 2025-04-15', 17, "17.0.15"),
        ('openjdk version "25" 2025-09-16', 25, "25"),
        ('openjdk version "26-ea" 2026-03-17', 26, "26-ea"),
        ('Picked up JAVA_TOOL_OPTIONS: -Xmx1g\njava version "21.0.2" 2024-01-16 LTS', 21, "21.0.2"),
    ],
)
def test_a_recent_java_on_path_is_found(tmp_path: Path, says: str, major: int, version: str) -> None:
    executable = fake_java(tmp_path / "bin", says)
    java = find_java()
    assert (java.executable, java.major, java.version) == (executable, major, version)


def test_java_home_goes_before_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_java(tmp_path / "bin", 'openjdk version "21.0.1"')
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "home"))
    fake_java(tmp_path / "home" / "bin", 'openjdk version "17.0.1"')
    assert find_java().major == 17


@pytest.mark.parametrize("says", ['java version "1.8.0_392"', 'openjdk version "11.0.22" 2024-01-16'])
def test_an_old_java_is_refused_with_its_version(tmp_path: Path, says: str) -> None:
    executable = fake_java(tmp_path / "bin", says)
    version = says.split('"')[1]
    with pytest.raises(LocalServiceError) as error:
        find_java()
    assert str(error.value) == f"{executable} is Java {version}, which is too old: {HOW_TO_INSTALL}."


def test_no_java_says_what_to_install() -> None:
    with pytest.raises(LocalServiceError) as error:
        find_java()
    assert str(error.value) == f"Java was not found (no JAVA_HOME, no `java` on PATH): {HOW_TO_INSTALL}."


def test_a_java_that_does_not_work_is_refused(tmp_path: Path) -> None:
    executable = fake_java(tmp_path / "bin", "Unable to locate a Java Runtime.", exit_code=1)
    with pytest.raises(LocalServiceError, match=f"{executable} is not a working Java"):
        find_java()


def test_a_wrong_java_home_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_java(tmp_path / "bin", 'openjdk version "21.0.1"')
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "nothing"))
    with pytest.raises(LocalServiceError, match=r"JAVA_HOME is .*nothing, which has no bin/java"):
        find_java()
