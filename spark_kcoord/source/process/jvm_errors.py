"""The errors with which a JVM answers that is not as it should be, or gone.

There are none where pyspark has no JVM: the client of Spark Connect (the package pyspark-client) comes without Py4J.
"""

from __future__ import annotations

from typing import Final

__all__ = ["JVM_ERRORS"]


def _errors() -> tuple[type[Exception], ...]:
    try:
        from py4j.protocol import Py4JError
    except ImportError:
        return ()
    return (Py4JError,)


JVM_ERRORS: Final = _errors()
"""To be named in an `except`."""
