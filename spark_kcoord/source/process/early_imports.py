"""Imports that a thread makes while the process waits for Spark's next call.

Spark asks the process of a source how much it wants to read at once, and for offsets only when it has read the
checkpoint. To answer that takes Kafka's client, the coordinator's protocol and the planner, which are a third of a
second of processor time to import. Whoever needs them waits for the thread, so that no module is imported by two
threads at once. Knows nothing of what it imports.
"""

from __future__ import annotations

import threading
from contextlib import suppress
from importlib import import_module

__all__ = ["EarlyImports"]


class EarlyImports:
    """Modules to import in a thread, once; used by one thread."""

    def __init__(self, *names: str) -> None:
        self._names = names
        self._thread: threading.Thread | None = None

    def begin(self) -> None:
        """Start to import, unless that has been done."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._import, name="kcoord-early-imports")
            self._thread.start()

    def wait(self) -> None:
        """Wait until what was begun is done; a module that is not there is told to whoever needs it."""
        if self._thread is not None:
            self._thread.join()

    def _import(self) -> None:
        for name in self._names:
            with suppress(ImportError):
                import_module(name)
