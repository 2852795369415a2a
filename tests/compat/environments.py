"""Python environments with a Spark of each version: made once from the package registries, kept in the user's cache.

An environment has kcoord's dependencies and no kcoord, which is found in the source tree by `PYTHONPATH`; so it serves
every state of the tree that asks for the same packages. It is used when it is whole; one process at a time makes it.
"""

import fcntl
import hashlib
import os
import shutil
import subprocess
import tomllib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from coordinator.local.java.jars import cache_directory

ROOT = Path(__file__).resolve().parents[2]
PYTHONS = ("3.11", "3.12", "3.13", "3.14")
_COMPLETE = ".complete"
_INSTALL_TIMEOUT_S = 1_800.0
_LOOK_TIMEOUT_S = 30.0


class EnvironmentMissingError(Exception):
    """An environment could not be made; the text says why and what to do."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """An environment: a version of Spark, and the interpreter that it is made with."""

    spark: str
    python: str
    interpreter: Path


def find_python(version: str) -> Path | None:
    """Return an interpreter of a version, such as 3.12, from pyenv or from the PATH; None where none runs."""
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv") / "versions"
    on_path = shutil.which(f"python{version}")
    for python in [*sorted(pyenv.glob(f"{version}.*/bin/python{version}")), *([Path(on_path)] if on_path else [])]:
        if _is_python(python, version):
            return python
    return None


def _is_python(python: Path, version: str) -> bool:
    try:
        told = subprocess.run([python, "--version"], capture_output=True, timeout=_LOOK_TIMEOUT_S, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return told.returncode == 0 and told.stdout.startswith(f"Python {version}.".encode())


def environment(wanted: Wanted) -> Path:
    """Return the Python of an environment, after making it if the cache does not have it; raises if it cannot."""
    packages = _packages(wanted.spark)
    digest = hashlib.sha256("\n".join([wanted.python, *packages]).encode()).hexdigest()[:12]
    cache = cache_directory() / "sparks"
    home = cache / f"spark-{wanted.spark}-python-{wanted.python}-{digest}"
    if not (home / _COMPLETE).exists():
        cache.mkdir(parents=True, exist_ok=True)
        with _one_at_a_time(cache / "lock"):
            if not (home / _COMPLETE).exists():
                _make(home, wanted.interpreter, packages)
    return home / "bin" / "python"


def _packages(spark: str) -> list[str]:
    """Return what the project asks for, with this version of Spark and what its client for Connect needs."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extra = [package for package in project["optional-dependencies"]["spark"] if not package.startswith("pyspark")]
    return [*project["dependencies"], *extra, "pandas<3", f"pyspark[connect]=={spark}"]


def _make(home: Path, interpreter: Path, packages: Sequence[str]) -> None:
    if home.exists():
        shutil.rmtree(home)
    uv = _find_uv()
    _run([uv, "venv", "--quiet", "--no-python-downloads", "--python", str(interpreter), str(home)])
    _run([uv, "pip", "install", "--quiet", "--python", str(home / "bin" / "python"), *packages])
    (home / _COMPLETE).touch()


def _run(command: Sequence[str]) -> None:
    environ = {name: text for name, text in os.environ.items() if name not in {"VIRTUAL_ENV", "PYTHONPATH"}}
    told = subprocess.run(command, capture_output=True, text=True, timeout=_INSTALL_TIMEOUT_S, check=False, env=environ)
    if told.returncode != 0:
        raise EnvironmentMissingError(f"`{' '.join(command)}` failed: {told.stderr.strip()[-2000:]}")


def _find_uv() -> str:
    on_path = shutil.which("uv")
    if on_path is not None:
        return on_path
    for own in sorted((ROOT / ".tools").glob("uv-*/bin/uv"), reverse=True):
        return str(own)
    raise EnvironmentMissingError("There is no uv, on the PATH or in .tools: run `make setup`.")


@contextmanager
def _one_at_a_time(path: Path) -> Iterator[None]:
    with path.open("ab") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
