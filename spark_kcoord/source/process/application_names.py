"""The name of a member's Spark application, by which operators tell members apart that all read with Spark.

Spark tells the process of a streaming source neither the application's name nor the query's. The command line of the
JVM above it has the former, or at least the script that runs; it is read as spark-submit reads it. A better name is
given as ``kcoord.client.id``. Asks the operating system alone.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from spark_kcoord.source.process.application import PS_TIMEOUT_S, jvm_above
from spark_kcoord.source.process.jvm_errors import JVM_ERRORS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["name_above", "name_of", "name_on"]

MOST_CHARACTERS: Final = 200
_SUBMIT: Final = "org.apache.spark.deploy.SparkSubmit"
_WITHOUT_VALUE: Final = frozenset({"--help", "-h", "--verbose", "-v", "--version", "--supervise", "--usage-error"})
_SHELLS: Final = frozenset({"pyspark-shell", "pyspark-shell-main", "spark-shell"})
_SCRIPT_OPTION: Final = "--primary-py-file"
"""The variables that YARN gives the driver that runs in its container."""


def name_above() -> str | None:
    """Return the name of the application that this process works for; None where nothing tells it."""
    jvm = jvm_above()
    if jvm is None:
        return None
    pid, parent = jvm
    return name_on(_command_line(pid)) or _script_of(_command_line(parent))


def name_of(spark: SparkSession) -> str | None:
    """Return the name of a session's application; None where it has none that can be shown."""
    try:
        return _shown(str(spark.conf.get("spark.app.name", "") or ""))
    except JVM_ERRORS:
        return None


def name_on(line: Sequence[str]) -> str | None:
    """Return the application's name on the command line of a JVM, or the script that it runs."""
    if _SCRIPT_OPTION in line[:-1]:
        return _shown(Path(line[line.index(_SCRIPT_OPTION) + 1]).name)
    if _SUBMIT not in line:
        return None
    name, script = None, ""
    words = iter(line[line.index(_SUBMIT) + 1 :])
    for option, value in _options(words):
        if option == "--name":
            name = value
        elif option in ("--conf", "-c") and value.startswith("spark.app.name="):
            name = value.partition("=")[2]
        elif option == "":
            script = "" if value in _SHELLS else Path(value).name
    return _shown(name or script)


def _options(words: Iterator[str]) -> Iterator[tuple[str, str]]:
    """Yield each option with its value up to the application itself, which has no option."""
    for word in words:
        if not word.startswith("-"):
            yield "", word
            return
        if "=" in word and word.startswith("--"):
            option, _, value = word.partition("=")
            yield option, value
        elif word not in _WITHOUT_VALUE:
            yield word, next(words, "")


def _script_of(line: Sequence[str]) -> str | None:
    """Return the script, or the module, that a Python program runs: the one that has started the JVM."""
    if not line or not Path(line[0]).name.startswith("python"):
        return None
    words = iter(line[1:])
    for word in words:
        if word == "-m":
            return _shown(next(words, ""))
        if word in ("-W", "-X"):
            next(words, "")
        elif word == "-c":
            return None
        elif not word.startswith("-"):
            return _shown(Path(word).name)
    return None


def _shown(name: str) -> str | None:
    """Return a name that a member may show; None when nothing is left of it."""
    return "".join(each if each.isprintable() else " " for each in name).strip()[:MOST_CHARACTERS] or None


def _command_line(pid: int) -> Sequence[str]:
    """Return the words of a command line, empty where it is not told; `ps` tells them without their limits."""
    try:
        if Path("/proc/self/cmdline").exists():
            raw = Path(f"/proc/{pid}/cmdline").read_bytes()
            return raw.decode("utf-8", errors="replace").split("\0")[:-1]
        command = ["ps", "-ww", "-o", "args=", "-p", str(pid)]
        found = subprocess.run(
            command,
            env=os.environ | {"LC_ALL": "C"},
            capture_output=True,
            text=True,
            timeout=PS_TIMEOUT_S,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return []
    return found.stdout.split()
