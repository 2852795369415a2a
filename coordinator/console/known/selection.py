"""Rows that are asked for: which are let through, in which order, and the page of them. Pure.

A value that is not known comes last, whichever the direction. A parameter that there is not, or that cannot be used,
is a `BadQueryError` whose text says what is known.
"""

import difflib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

from coordinator.protocol.text.escaping import one_line

PER_PAGE: Final = 100
MOST_PER_PAGE: Final = 1_000
LONGEST_SEARCH: Final = 250
LAST_PAGE: Final = 10_000_000

_Row = TypeVar("_Row")


class BadQueryError(ValueError):
    """A query that cannot be answered; the text says what is wrong with it."""


@dataclass(frozen=True, slots=True)
class NewestPage:
    """A page of rows that have numbers without gaps, the newest first: those after one number, up to another."""

    page: int
    total: int
    after: int
    up_to: int


@dataclass(frozen=True, slots=True)
class Selection:
    """The rows that are asked for; `among` are words of which a row has to have one, by field."""

    search: str = ""
    among: tuple[tuple[str, frozenset[str]], ...] = ()
    sort: str = ""
    is_descending: bool = False
    page: int = 1
    per_page: int = PER_PAGE

    def newest(self, first: int, last: int) -> NewestPage:
        """Return the page that is asked for of rows with these numbers; a page beyond the last has none."""
        up_to = max(first - 1, last - (self.page - 1) * self.per_page)
        return NewestPage(self.page, last - first + 1, max(first - 1, up_to - self.per_page), up_to)


@dataclass(frozen=True, slots=True)
class Chosen(Generic[_Row]):
    """A page of rows, and how many there are on all."""

    rows: Sequence[_Row]
    total: int
    page: int
    per_page: int

    @property
    def pages(self) -> int:
        """Count the pages; none is one page without rows."""
        return max(1, -(-self.total // self.per_page))


@dataclass(frozen=True, slots=True)
class Table(Generic[_Row]):
    """One kind of rows: the text that is searched, the keys by which it is sorted, the fields that are filtered by."""

    searched: Callable[[_Row], str]
    keys: Mapping[str, Callable[[_Row], Any]]
    fields: Mapping[str, Callable[[_Row], str]]
    words: Mapping[str, frozenset[str]]
    """The words that a field has, where there are few; others are refused."""

    def read(self, query: Iterable[tuple[str, str]]) -> Selection:
        """Read a selection from the parameters of an address; raises BadQueryError."""
        single: dict[str, str] = {}
        among: dict[str, set[str]] = {}
        for name, text in query:
            if name in self.fields:
                if text:
                    among.setdefault(name, set()).add(self._word(name, text))
            elif name not in ("search", "sort", "order", "page", "per_page"):
                known = ("search", "sort", "order", "page", "per_page", *self.fields)
                raise BadQueryError(f"there is no parameter '{one_line(name)}'; {_nearest(name, known)}")
            elif name in single:
                raise BadQueryError(f"'{name}' is given twice")
            else:
                single[name] = text
        sort, order = single.get("sort", ""), single.get("order", "asc") or "asc"
        if sort and sort not in self.keys:
            raise BadQueryError(f"rows are not sorted by '{one_line(sort)}'; {_nearest(sort, tuple(self.keys))}")
        if order not in ("asc", "desc"):
            raise BadQueryError(f"'order' is '{one_line(order)}' and has to be asc or desc")
        search = single.get("search", "")
        if len(search) > LONGEST_SEARCH:
            raise BadQueryError(f"'search' has {len(search)} characters and at most {LONGEST_SEARCH} are allowed")
        return Selection(
            search,
            tuple((name, frozenset(words)) for name, words in sorted(among.items())),
            sort,
            order == "desc",
            _number("page", single, 1, LAST_PAGE),
            _number("per_page", single, PER_PAGE, MOST_PER_PAGE),
        )

    def choose(self, rows: Iterable[_Row], selection: Selection) -> Chosen[_Row]:
        """Return the page of the rows that are asked for; a page beyond the last has none."""
        wanted = selection.search.casefold()
        found = [row for row in rows if wanted in self.searched(row).casefold()] if wanted else list(rows)
        for name, words in selection.among:
            read = self.fields[name]
            found = [row for row in found if read(row) in words]
        if selection.sort:
            key = self.keys[selection.sort]
            known = sorted((row for row in found if key(row) is not None), key=key, reverse=selection.is_descending)
            found = known + [row for row in found if key(row) is None]
        begin = (selection.page - 1) * selection.per_page
        return Chosen(found[begin : begin + selection.per_page], len(found), selection.page, selection.per_page)

    def _word(self, name: str, text: str) -> str:
        words = self.words.get(name)
        if words is None:
            return text
        for word in words:
            if word.lower() == text.lower():
                return word
        raise BadQueryError(f"'{name}' is never '{one_line(text)}'; {_nearest(text, tuple(sorted(words)))}")


def _number(name: str, given: Mapping[str, str], default: int, most: int) -> int:
    text = given.get(name, "")
    if not text:
        return default
    if not (text.isascii() and text.isdigit() and len(text) <= 9 and 1 <= int(text) <= most):
        raise BadQueryError(f"'{name}' is '{one_line(text[:40])}' and has to be a number from 1 to {most}")
    return int(text)


def _nearest(text: str, known: Sequence[str]) -> str:
    near = difflib.get_close_matches(text.lower(), known, 1)
    return f"is '{near[0]}' meant?" if near else f"known: {', '.join(known)}"
