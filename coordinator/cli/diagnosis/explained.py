"""The page of error codes as it comes with kcoord: docs/ERRORS.md in a clone, the same file in a wheel."""

import difflib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_HERE: Final = Path(__file__).parent
_HEADING: Final = re.compile(r"^## (KC-\d{4}) (.+)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Explained:
    """One code: its title, which is the error's name where it has one, and the paragraphs below it."""

    code: str
    title: str
    text: str


def page() -> str:
    """Return the page; raises FileNotFoundError where an install has none."""
    in_wheel, clone = _HERE / "ERRORS.md", _HERE.parents[2] / "docs" / "ERRORS.md"
    return (in_wheel if in_wheel.is_file() else clone).read_text(encoding="utf-8")


def explained(text: str) -> list[Explained]:
    """Return the codes of a page, in its order."""
    found = list(_HEADING.finditer(text))
    ends = [one.start() for one in found[1:]] + [len(text)]
    return [Explained(one[1], one[2], text[one.end() : end].strip()) for one, end in zip(found, ends, strict=True)]


def named(wanted: str, codes: Sequence[Explained]) -> Explained | None:
    """Return what a code or an error's name means, however it is written: KC-0025, kc-25, unknown_member_id."""
    word = wanted.strip().strip("[]()").casefold()
    digits = word.removeprefix("kc-").removeprefix("kc")
    if digits.isascii() and digits.isdigit():
        word = f"kc-{int(digits):04d}"
    return next((each for each in codes if word in (each.code.casefold(), each.title.casefold())), None)


def nearest(wanted: str, codes: Sequence[Explained]) -> str | None:
    """Return the code or name that is most like a word that is none of them."""
    names = {name.casefold(): name for each in codes for name in (each.code, each.title)}
    found = difflib.get_close_matches(wanted.strip().casefold(), names, n=1)
    return names[found[0]] if found else None
