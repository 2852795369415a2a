"""Waiting on a condition, bounded, with the reason in the failure."""

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql.streaming import StreamingQuery


def wait_until(
    condition: Callable[[], bool], *, timeout_s: float = 60, query: "StreamingQuery | None" = None, what: str = ""
) -> float:
    """Wait until the condition holds and return the seconds it took; a query that has failed ends the wait at once."""
    started = time.monotonic()
    while not condition():
        if query is not None and query.exception() is not None:
            raise AssertionError(f"the query failed: {query.exception()}")
        if time.monotonic() - started > timeout_s:
            raise AssertionError(f"not within {timeout_s} s: {what or 'the awaited condition'}")
        time.sleep(pause_s(time.monotonic() - started))
    return time.monotonic() - started


def pause_s(waited_s: float) -> float:
    """Return how long to wait until a condition is asked again: a fiftieth of what was waited, and 20 to 100 ms.

    What is asked every 20 ms takes a tenth of a processor, of the node that answers and of the test that asks.
    """
    return min(0.1, max(0.02, waited_s / 50))
