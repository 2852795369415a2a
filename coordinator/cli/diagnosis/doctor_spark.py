"""The part of `kcoord doctor` about Spark: its version, the Python that it starts, and what that one has.

Spark runs a Python data source, from `load()` on and in its tasks, in the Python that `PYSPARK_DRIVER_PYTHON` names,
else `PYSPARK_PYTHON`, else `python3` on the PATH: mostly not the one that runs `kcoord doctor`. So that one is asked,
from an empty directory, since a package that is only found in the directory it starts in is not installed. Where no
variable names it the rows are warnings at most, because a program may still name one. Knows nothing of how records are
read.
"""

import re
import shutil
import sys
import tempfile
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path
from typing import Final

import msgspec

from coordinator.cli.diagnosis.doctor_check import Check, UnansweredError, said_by
from spark_kcoord.source.process.spark_versions import (
    NEEDED_FOR_BATCHES,
    NEEDED_FOR_STREAMS,
    NEWEST_TRIED,
    parse_version,
)

MINIMUM_PYTHON: Final = (3, 11)
NAMED_BY: Final = ("PYSPARK_DRIVER_PYTHON", "PYSPARK_PYTHON")
"""The settings and variables in which Spark looks for the Python of data sources, first to last."""
UNNAMED: Final = "python3"
CLIENTS: Final = ("pyspark-client", "pyspark-connect")
"""Packages of Spark Connect's client, which has Spark elsewhere."""
OURS: Final = frozenset({"pyspark_kcoord", "spark_kcoord"})
NEEDED: Final = (*sorted(OURS), "kafka", "cramjam", "pyarrow", "numpy")
_VERSION: Final = re.compile(r"""^__version__\b.*?["']([^"']+)["']""", re.MULTILINE)
_LOOK: Final = f"""
import importlib.metadata, importlib.util, json, sys
try:
    kcoord = importlib.metadata.version("kcoord")
except importlib.metadata.PackageNotFoundError:
    kcoord = ""
lacks = [name for name in {NEEDED!r} if importlib.util.find_spec(name) is None]
version = list(sys.version_info[:3])
sys.stdout.write(json.dumps(dict(version=version, executable=sys.executable, kcoord=kcoord, lacks=lacks)))
"""


class SparksPython(msgspec.Struct, frozen=True):
    """The facts that a Python tells of itself."""

    version: tuple[int, int, int]
    executable: str
    kcoord: str
    lacks: tuple[str, ...]


class FoundSpark(msgspec.Struct, frozen=True):
    """The checks about Spark, and the command that runs the Python in which records are decoded."""

    checks: tuple[Check, ...]
    is_here: bool
    python: str


def look_at_spark(environ: Mapping[str, str]) -> FoundSpark:
    """Check the version of Spark and the Python that it would start; without Spark here neither is wanted."""
    version = pyspark_check(
        _installed("pyspark"), home_version(environ), next(filter(None, map(_installed, CLIENTS)), None)
    )
    if version.status == "skip" or version.value == "none":
        why = "no Spark here starts one"
        return FoundSpark((version, Check("spark-python", "skip", "none", why)), is_here=False, python=sys.executable)
    python, found = python_check(environ)
    return FoundSpark((version, python), is_here=True, python=found or sys.executable)


def pyspark_check(installed: str | None, at_home: str | None, client: str | None = None) -> Check:
    """Check the version of Spark: that of SPARK_HOME, which goes before, or of the installed package."""
    version = at_home or installed
    if version is None and client is not None:
        return Check("pyspark", "skip", f"client {client}", "the server of Spark Connect reads: check it there")
    if version is None:
        return Check("pyspark", "warn", "none", "a Spark driver needs kcoord[spark]; a coordinator does not")
    if at_home and installed and at_home != installed:
        why = f"SPARK_HOME has it and is used, while the installed package is {installed}: unset it, or install that"
        return Check("pyspark", "warn", version, why)
    numbers = parse_version(version)
    if numbers < parse_version(NEEDED_FOR_BATCHES):
        why = (
            f"kcoord needs {NEEDED_FOR_BATCHES} or newer for batch reads and {NEEDED_FOR_STREAMS} or newer for streams"
        )
        return Check("pyspark", "fail", version, why)
    if numbers < parse_version(NEEDED_FOR_STREAMS):
        return Check("pyspark", "warn", version, f"batch reads only: streams need {NEEDED_FOR_STREAMS} or newer")
    if numbers > parse_version(NEWEST_TRIED):
        return Check("pyspark", "warn", version, f"newer than {NEWEST_TRIED}, the last that kcoord was tried with")
    return Check("pyspark", "ok", version, "of SPARK_HOME" if at_home else "")


def python_check(environ: Mapping[str, str]) -> tuple[Check, str | None]:
    """Check the Python that Spark would start; also return its path where it has what decodes records."""
    variable = next((name for name in NAMED_BY if environ.get(name)), None)
    named = UNNAMED if variable is None else environ[variable]
    by = "PYSPARK_PYTHON is not set" if variable is None else f"by {variable}"
    path = shutil.which(named, path=environ.get("PATH"))

    def unfit(value: str, what: str) -> tuple[Check, None]:
        mend = f"set PYSPARK_PYTHON={sys.executable} where Spark is started, or install kcoord[spark] for that one"
        why = f"Spark would start it ({by}), and it {what}: {mend}"
        return Check("spark-python", "warn" if variable is None else "fail", value, why), None

    if path is None:
        return unfit(named, "is not there")
    try:
        with tempfile.TemporaryDirectory(prefix="kcoord-doctor-") as empty:
            found = msgspec.json.decode(said_by([path, "-c", _LOOK], Path(empty)), type=SparksPython)
    except (UnansweredError, msgspec.DecodeError) as error:
        return unfit(path, f"runs no Python ({error})")
    value = f"{'.'.join(map(str, found.version))} {found.executable}"
    if found.version < MINIMUM_PYTHON:
        return unfit(value, f"is older than {'.'.join(map(str, MINIMUM_PYTHON))}")
    if not OURS.isdisjoint(found.lacks):
        return unfit(value, "does not find kcoord")
    if found.lacks:
        return unfit(value, f"lacks {', '.join(found.lacks)}")
    ours = _installed("kcoord") or "none"
    if found.kcoord != ours:
        why = f"{by}; it finds kcoord {found.kcoord or 'without a version'}, while this is {ours}"
        return Check("spark-python", "warn", value, why), path
    return Check("spark-python", "ok", value, f"{by}; it finds kcoord {found.kcoord}"), path


def home_version(environ: Mapping[str, str]) -> str | None:
    """Return the version of the Spark that SPARK_HOME names; None where it names none that has Python."""
    home = environ.get("SPARK_HOME")
    if not home:
        return None
    try:
        told = _VERSION.search((Path(home) / "python" / "pyspark" / "version.py").read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError):
        return None
    return told[1] if told is not None else None


def _installed(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None
