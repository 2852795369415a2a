"""Topic patterns: RE2's regular expressions where spark-sql-kafka has Java's, and the differences told by position.

RE2 takes time linear in the name, so no pattern can hang a Spark driver or a coordinator. What Java has and RE2 has not
(lookaround, back-references, possessive and atomic groups) is refused with its position, and so is what both can read
but mean differently (`&&` and nested sets in brackets). A pattern matches whole names, and never Kafka's internal
topics. RE2 is loaded by the first pattern only, since executors need none.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator
from typing import Any, Final

__all__ = ["MAX_PATTERN_LENGTH", "matching_topics", "why_bad_pattern"]

MAX_PATTERN_LENGTH: Final = 1_000
"""Longest pattern, in characters; the coordinator's limit too."""

_PROGRAM_BYTES: Final = 1 << 20
_HINTS: Final = (
    (re.compile(r"\(\?<?[=!]"), "lookaround is not supported; 'kcoord.exclude' leaves topics out"),
    (re.compile(r"\\[1-9]|\\k"), "back-references are not supported"),
    (re.compile(r"[*+?]\+|\{\d*,?\d*\}\+"), "possessive quantifiers are not supported; leave the second '+' out"),
    (re.compile(r"\(\?>"), "atomic groups are not supported; use '(?:'"),
)


def why_bad_pattern(pattern: str) -> str | None:
    """Say what is wrong with a pattern and at which position, counted from 0, or return None."""
    if len(pattern) > MAX_PATTERN_LENGTH:
        return f"it has {len(pattern)} characters and at most {MAX_PATTERN_LENGTH} are allowed"
    import re2

    try:
        _compile(pattern)
    except re2.error as error:
        return _explain(pattern, error.args[0] if error.args else "it cannot be read")
    return _why_not_as_in_java(pattern)


def matching_topics(pattern: str, exclusions: Collection[str], names: Iterable[str]) -> tuple[str, ...]:
    """Return the names that a pattern matches whole and that are not excluded, sorted."""
    compiled = _compile(pattern)
    return tuple(sorted(name for name in names if name not in exclusions and compiled.fullmatch(name)))


def _compile(pattern: str) -> Any:
    import re2

    options = re2.Options()
    options.log_errors = False
    options.max_mem = _PROGRAM_BYTES
    return re2.compile(pattern, options)


def _explain(pattern: str, said: bytes | str) -> str:
    why = said.decode(errors="replace") if isinstance(said, bytes) else said
    what, _, part = why.rpartition(": ")
    at = next((start for start, _ in _pieces(pattern) if pattern.startswith(part, start)), None) if part else None
    if what == "unexpected )" and at is not None:
        at += len(part) - 1
    where = "" if at is None or (what == "missing )" and part == pattern) else f" at position {at}"
    hint = next((f"; {hint}" for form, hint in _HINTS if form.fullmatch(part)), "")
    return f"{why}{where}{hint}"


def _why_not_as_in_java(pattern: str) -> str | None:
    """Refuse what RE2 reads as plain characters inside brackets and Java as an operation on sets."""
    set_start: int | None = None
    for start, piece in _pieces(pattern):
        if set_start is None:
            set_start = start if piece == "[" else None
        elif piece == "]" and pattern[set_start + 1 : start] not in ("", "^"):
            set_start = None
        elif piece == "[" and not pattern.startswith("[:", start):
            return f"a set within a set at position {start} means something else in Java; write one set"
        elif piece == "&" and pattern.startswith("&&", start):
            return f"'&&' at position {start} means an intersection in Java, which is not supported; write one set"
    return None


def _pieces(pattern: str) -> Iterator[tuple[int, str]]:
    """Yield each character with its position, an escaped one with its backslash; what `\\Q` quotes is left out."""
    at = 0
    while at < len(pattern):
        piece = pattern[at : at + 2] if pattern[at] == "\\" else pattern[at]
        yield at, piece
        at += len(piece)
        if piece == "\\Q":
            end = pattern.find("\\E", at)
            at = len(pattern) if end < 0 else end + 2
