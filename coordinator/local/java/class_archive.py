"""Keeps the JVM's archive of loaded classes, so that a service is up in about half the time.

The first run that has no archive writes one when it ends cleanly; later runs map it. The JVM itself checks
that an archive fits its version and jars and goes on without it if not, so a stale one costs time only.
"""

import contextlib
import os
import shutil
from pathlib import Path

from coordinator.local.java.jars import JarSet, cache_directory
from coordinator.local.java.runtime import Java

_QUIET = "-Xlog:cds*=off"  # it warns of every class that it leaves out


class ClassArchive:
    """The archive of one set of jars; `scratch` is where a run of this service may write a new one."""

    def __init__(self, jar_set: JarSet, scratch: Path) -> None:
        self._jar_set = jar_set
        self._scratch = scratch
        self._wanted: Path | None = None

    def start_options(self, java: Java) -> list[str]:
        """Return the JVM options that use the archive, or else those that write one at a clean end."""
        used = self.use_options(java)
        self._wanted = None if used else self._place(java)
        if used:
            return used
        self._scratch.unlink(missing_ok=True)
        return [_QUIET, f"-XX:ArchiveClassesAtExit={self._scratch}"]

    def use_options(self, java: Java) -> list[str]:
        """Return the JVM options that use the archive, none where there is none yet: for a tool of the same jars."""
        archive = self._place(java)
        return [_QUIET, f"-XX:SharedArchiveFile={archive}"] if archive.exists() else []

    def keep(self) -> None:
        """Move what the run has written into the cache; nothing happens if it was killed before.

        A cache that does not take it costs the next run time, and this one nothing.
        """
        if self._wanted is None or not self._scratch.exists():
            return
        beside = self._wanted.with_suffix(f".{os.getpid()}")
        try:
            self._wanted.parent.mkdir(parents=True, exist_ok=True)
            shutil.move(self._scratch, beside)
            beside.replace(self._wanted)
        except OSError:
            with contextlib.suppress(OSError):
                beside.unlink()  # a part of it, where the disk is full
        self._wanted = None

    def _place(self, java: Java) -> Path:
        return cache_directory() / "classes" / f"{self._jar_set.directory_name}-java-{java.version}.jsa"
