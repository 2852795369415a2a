"""A node as a process, standalone or of a cluster: start, run, stop, and a clear sentence when it cannot.

Kafka need not be there at the start.
"""

import asyncio
import sys

from coordinator.config import Settings
from coordinator.runtime.process.logs import Journal
from coordinator.runtime.process.loop import LoopError, loop_factory
from coordinator.runtime.process.signals import Signals
from coordinator.runtime.process.starting import leave_out_of_rounds
from coordinator.service.lifecycle import READY_LINE, StartError

__all__ = ["READY_LINE", "StartError", "run"]

_SWITCH_INTERVAL_S = 0.0005
"""The time that the event loop's thread keeps the interpreter while the log's writer waits, and the other way."""


def run(settings: Settings) -> int:
    """Run a node until it is told to stop or must; return the exit code. Raises StartError."""
    if settings.node.mode == "cluster":
        from coordinator.service.cluster import serve
    else:
        from coordinator.service.standalone import serve  # a standalone node loads nothing of a cluster's

    try:
        name, new_loop = loop_factory(settings.node.event_loop)
    except LoopError as error:
        raise StartError(str(error)) from error
    leave_out_of_rounds()
    journal = Journal(settings.log.format, settings.log.level, settings.log.most_per_minute)
    log = journal.log
    sys.setswitchinterval(_SWITCH_INTERVAL_S)
    signals = Signals(log)
    try:
        log.info("starting", event_loop=name)
        with signals.handled(), asyncio.Runner(loop_factory=new_loop) as runner:
            stopped = runner.run(serve(settings, journal, signals))
        (log.error if stopped.is_failure else log.info)("stopped", why=stopped.why)
    finally:
        journal.close()
    return 1 if stopped.is_failure else 0
