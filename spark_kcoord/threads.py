"""Threads that are begun by calls which a signal may end, or come into the middle of."""

from __future__ import annotations

import threading

__all__ = ["start_once"]


def start_once(thread: threading.Thread) -> None:
    """Start a thread unless it was: one that Ctrl-C came before is started by the next call, and not twice by two."""
    if thread.ident is not None:
        return
    try:
        thread.start()
    except RuntimeError:
        if thread.ident is None:
            raise  # no thread is to be had
