"""What a job tells its user when Spark says that it failed.

Spark wraps a Python source's error into a trace of Python and Java calls and a query plan, which its own log has
already; the user needs the sentence inside. An error of Java's own, such as a directory that cannot be written, comes
with the trace alone. Stdlib only.
"""

from __future__ import annotations

import re
from typing import Final

__all__ = ["failure_cause"]

_OURS: Final = re.compile(r"^spark_kcoord\.errors\.\w+: (.+)$", re.MULTILINE)
_JAVAS: Final = re.compile(r"^(?:Caused by)?: (.+)$", re.MULTILINE)
_TRACE: Final = "\n\tat "


def failure_cause(error: Exception) -> str:
    """Return kcoord's own sentence if the error holds one, else the last cause in a trace of Java, else all of it."""
    text = str(error)
    sentences = _OURS.findall(text) or (_JAVAS.findall(text) if _TRACE in text else [])
    return sentences[-1] if sentences else text
