"""Calls that block, made beside the program's thread: each on a thread of its own, which nobody has to wait for.

The threads are daemons: the end of a program would wait for those of an executor until Kafka has answered.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from spark_kcoord.threads import Reply

__all__ = ["beside"]


def beside(work: Callable[[], Any], ring: Callable[[], None]) -> Future[Any]:
    """Begin a call and return the future of what comes of it; `ring` is called when that is there."""
    reply: Reply[Any] = Reply()
    threading.Thread(target=_settle, args=(reply, work, ring), name="kcoord-calls", daemon=True).start()
    return reply


def _settle(reply: Reply[Any], work: Callable[[], Any], ring: Callable[[], None]) -> None:
    try:
        result = work()
    except BaseException as error:  # noqa: BLE001 - raised where it is waited for
        reply.set_exception(error)
    else:
        reply.set_result(result)
    ring()
