"""Text of others on its way to people and programs: what cannot be printed is written as an escape.

Group, client and topic names, reasons and refusals come from members and brokers. A terminal obeys escape sequences, a
new line begins a line that says something else, marks of direction turn a line around, and a spreadsheet runs a cell
that begins with `=`. Everything that leaves the process for people, and the data that programs read, passes here once.
Letters of every script stay as they are.
"""

import re
from typing import Final

_FORMULA: Final = ("=", "+", "-", "@")
"""Beginnings of a cell that spreadsheets take for a formula."""
_PERHAPS_UNPRINTABLE: Final = re.compile(r"[^\x20-\x7e\n\t\r]")
"""A document has tens of millions of letters, nearly all of which can be seen to be printable."""


def one_line(text: str) -> str:
    r"""Return text as a single line of printable characters; others are written as `\n`, `\x1b` or `\u202e`."""
    if text.isprintable():
        return text
    return "".join(letter if letter.isprintable() else _escaped(letter) for letter in text)


def lines(text: str) -> str:
    """Return text in its lines, each as `one_line` would write it; for what is meant to have several."""
    return "\n".join(one_line(line) for line in text.split("\n"))


def csv_cell(text: str) -> str:
    """Return text for a cell of a CSV: a single line, with an apostrophe before what a spreadsheet would run."""
    shown = one_line(text)
    return f"'{shown}" if shown.startswith(_FORMULA) else shown


def json_document(document: str) -> str:
    r"""Return a JSON document that means the same, with `\u` escapes for what cannot be printed in its strings."""
    return _PERHAPS_UNPRINTABLE.sub(_seen_in_json, document)


def _escaped(letter: str) -> str:
    return letter.encode("unicode_escape").decode("ascii")


def _seen_in_json(found: re.Match[str]) -> str:
    letter = found[0]
    return letter if letter.isprintable() else _in_json(ord(letter))


def _in_json(code: int) -> str:
    if code < 0x10000:
        return f"\\u{code:04x}"
    code -= 0x10000
    return f"\\u{0xD800 + (code >> 10):04x}\\u{0xDC00 + (code & 0x3FF):04x}"
