"""Packs what a cluster's Spark executors need into one archive: ``python -m spark_kcoord.deploy.ship kcoord.tar.gz``.

Executors run the rooms that fetch, kafka-python and the libraries of codecs and checksums; pyspark, pyarrow and numpy
they have from the cluster. Give the archive to spark-submit:

    spark-submit --archives kcoord.tar.gz#kcoord --conf spark.executorEnv.PYTHONPATH=kcoord …

It holds compiled modules, so the executors' Python and platform must be those it was made with. With ``--with-driver``
it also holds what the Spark driver needs, for a driver that runs in the cluster too. Stdlib only.
"""

from __future__ import annotations

import argparse
import gzip
import importlib.metadata
import importlib.util
import io
import platform
import sys
import sysconfig
import tarfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

__all__ = ["DRIVER_LIBRARIES", "EXECUTOR_LIBRARIES", "main", "ship"]

EXECUTOR_LIBRARIES: Final = ("kafka-python", "cramjam", "google-crc32c")
DRIVER_LIBRARIES: Final = ("msgspec", "google-re2", "scramp", "asn1crypto")
_NOT_SHIPPED: Final = frozenset({"__pycache__", "INSTALLER", "REQUESTED", "RECORD", "direct_url.json"})
_NOTE: Final = "kcoord-shipped.txt"


def ship(output: Path, *, with_driver: bool = False) -> int:
    """Write the archive and return how many files it holds.

    Raises ModuleNotFoundError or importlib.metadata.PackageNotFoundError for what is not installed here.
    """
    libraries = (*EXECUTOR_LIBRARIES, *(DRIVER_LIBRARIES if with_driver else ()))
    files = dict(_package("spark_kcoord"))
    if with_driver:
        files |= dict(_package("coordinator.protocol"))
        files |= dict(_package("coordinator.client"))
        files["coordinator/__init__.py"] = _origin("coordinator")
        files["pyspark_kcoord.py"] = _origin("pyspark_kcoord")
    for library in libraries:
        files |= dict(_library(library))
    output.parent.mkdir(parents=True, exist_ok=True)
    # The same files make the same archive: no times, no owners, one order.
    with (
        output.open("wb") as raw,
        gzip.GzipFile("", "wb", compresslevel=4, fileobj=raw, mtime=0) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as archive,
    ):
        note = _note(libraries).encode()
        archive.addfile(_entry(_NOTE, len(note)), io.BytesIO(note))
        for name in sorted(files):
            data = files[name].read_bytes()
            archive.addfile(_entry(name, len(data)), io.BytesIO(data))
    return len(files) + 1


def _origin(module: str) -> Path:
    spec = importlib.util.find_spec(module)
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError(f"{module} is not installed in {sys.executable}")
    return Path(spec.origin)


def _package(module: str) -> Iterator[tuple[str, Path]]:
    folder = _origin(module).parent
    for path in folder.rglob("*"):
        if path.is_file() and _NOT_SHIPPED.isdisjoint(path.parts):
            yield f"{module.replace('.', '/')}/{path.relative_to(folder).as_posix()}", path


def _library(name: str) -> Iterator[tuple[str, Path]]:
    distribution = importlib.metadata.distribution(name)
    for listed in distribution.files or ():
        path = Path(str(distribution.locate_file(listed)))
        is_inside = not listed.is_absolute() and ".." not in listed.parts
        if is_inside and _NOT_SHIPPED.isdisjoint(listed.parts) and path.is_file():
            yield listed.as_posix(), path


def _note(libraries: Sequence[str]) -> str:
    lines = [f"Python {platform.python_version()} on {sysconfig.get_platform()}"]
    lines += [f"{name} {importlib.metadata.version(name)}" for name in ("kcoord", *libraries)]
    return "\n".join(lines) + "\n"


def _entry(name: str, size: int) -> tarfile.TarInfo:
    entry = tarfile.TarInfo(name)
    entry.size = size
    entry.mode = 0o644
    return entry


def main(given: Sequence[str] | None = None) -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m spark_kcoord.deploy.ship",
        description="Pack what the executors of a cluster need into one archive.",
    )
    parser.add_argument("output", type=Path, help="the archive to write, such as kcoord.tar.gz")
    parser.add_argument("--with-driver", action="store_true", help="pack what the Spark driver needs too")
    arguments = parser.parse_args(given)
    files = ship(arguments.output, with_driver=arguments.with_driver)
    size_mb = arguments.output.stat().st_size / 1e6
    sys.stdout.write(
        f"ship: OK files={files} mb={size_mb:.1f} archive={arguments.output}\n"
        f"Use it with: spark-submit --archives {arguments.output}#kcoord "
        "--conf spark.executorEnv.PYTHONPATH=kcoord …\n"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
