"""The sentence that a job tells its user when Spark says that it failed.

Spark wraps a Python source's error into a trace of Python and Java calls and a query plan, which its own log has
already; the user needs the sentence inside. An error of Java's own, such as a directory that cannot be written, comes
with the trace alone; one of Python's that is not kcoord's, such as a module that an executor lacks, with both. Stdlib
only.
"""

from __future__ import annotations

import re
from typing import Final

__all__ = ["failure_cause"]

_OURS: Final = re.compile(r"\bspark_kcoord\.errors\.\w+: (.+)$", re.MULTILINE)
_JAVAS: Final = re.compile(r"^(?:Caused by)?: (.+)$", re.MULTILINE)
_PYTHONS: Final = re.compile(r"Traceback \(most recent call last\):\n(?:[ \t]+.*\n)+(\S.*)$", re.MULTILINE)
_TRACE: Final = "\n\tat "


def failure_cause(error: Exception) -> str:
    """Return kcoord's own sentence if the error holds one, else the last cause in a trace, else all of it.

    Of a trace of Java that holds one of Python, the cause is Python's.
    """
    text = str(error)
    sentences = _OURS.findall(text)
    if not sentences and _TRACE in text:
        sentences = _PYTHONS.findall(text) or _JAVAS.findall(text)
    return sentences[-1] if sentences else text
