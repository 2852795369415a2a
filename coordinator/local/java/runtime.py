"""Finds the Java runtime for Kafka and Spark, and says in one sentence what to install if there is none.

JAVA_HOME goes before PATH, as it does for Spark, so that everything runs on the same Java. Needs the standard
library only: the set-up runs this file as `python -m coordinator.local.java.runtime` before anything is installed.
"""

import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from coordinator.local.errors import LocalServiceError

MINIMUM_JAVA = 17
HOW_TO_INSTALL = (
    "install Java 17 or newer, for example with `apt install openjdk-17-jre-headless` or `brew install openjdk@17`"
)
_VERSION_TIMEOUT_S = 30.0
_VERSION = re.compile(r'version "(?P<full>(?P<first>\d+)(?:\.(?P<second>\d+))?[^"]*)"')


@dataclass(frozen=True, slots=True)
class Java:
    """A usable Java runtime."""

    executable: Path
    major: int
    version: str


def find_java() -> Java:
    """Return the Java of JAVA_HOME, or else of PATH, once it has shown its version.

    Raises `LocalServiceError` with one sentence if there is none, it does not run, or it is older than 17.
    """
    executable = _locate()
    if executable is None:
        raise LocalServiceError(f"Java was not found (no JAVA_HOME, no `java` on PATH): {HOW_TO_INSTALL}.")
    try:
        answer = subprocess.run(
            [executable, "-version"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=_VERSION_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise LocalServiceError(f"{executable} does not run ({error}): {HOW_TO_INSTALL}.") from error
    found = _VERSION.search(answer.stdout)
    if answer.returncode != 0 or found is None:
        raise LocalServiceError(f"{executable} is not a working Java: {HOW_TO_INSTALL}.")
    major = _major(found)
    if major < MINIMUM_JAVA:
        raise LocalServiceError(f"{executable} is Java {found['full']}, which is too old: {HOW_TO_INSTALL}.")
    return Java(executable, major, found["full"])


def _locate() -> Path | None:
    home = os.environ.get("JAVA_HOME")
    if home:
        executable = Path(home) / "bin" / "java"
        if not executable.is_file():
            raise LocalServiceError(f"JAVA_HOME is {home}, which has no bin/java: correct it, or {HOW_TO_INSTALL}.")
        return executable
    on_path = shutil.which("java")
    return None if on_path is None else Path(on_path)


def _major(found: re.Match[str]) -> int:
    """Read 8 from "1.8.0_392" and 17 from "17.0.15"."""
    first = int(found["first"])
    return int(found["second"] or 0) if first == 1 else first


if __name__ == "__main__":
    try:
        java = find_java()
    except LocalServiceError as error:
        sys.exit(str(error))
    sys.stdout.write(f"Java {java.version} ({java.executable})\n")
