"""A missing library is told with the name of the extra that brings it, not as a module that nobody has heard of.

A coordinator alone is installed without Spark's libraries; what needs them says so where it is imported. Stdlib only.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

__all__ = ["naming_the_extra"]

_OF_EXTRAS: Final = frozenset({"pyspark", "py4j", "pyarrow", "numpy", "opentelemetry"})


@contextmanager
def naming_the_extra(what: str, extra: str = "spark") -> Iterator[None]:
    """Say in the error of an import that `what` needs an extra, where a library that extras bring is missing."""
    try:
        yield
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        if missing not in _OF_EXTRAS:
            raise
        raise ModuleNotFoundError(
            f"{what} needs {missing}, which is not installed for {sys.executable}: kcoord was installed without its "
            f"extra `{extra}`. Run: pip install 'kcoord[{extra}]'",
            name=error.name,
        ) from None
