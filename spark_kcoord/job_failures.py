"""What a job tells its user when Spark says that it failed.

Spark wraps a Python source's error into a trace of Python and Java calls and a query plan, which its own log has
already; the user needs the sentence inside. Stdlib only.
"""

from __future__ import annotations

import re
from typing import Final

__all__ = ["failure_cause"]

_OURS: Final = re.compile(r"^spark_kcoord\.errors\.\w+: (.+)$", re.MULTILINE)


def failure_cause(error: Exception) -> str:
    """Return kcoord's own sentence if the error holds one, and else the whole of it."""
    sentences = _OURS.findall(str(error))
    return sentences[-1] if sentences else str(error)
