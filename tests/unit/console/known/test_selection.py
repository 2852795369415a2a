"""Which rows are shown, in which order, and what is said of a query that cannot be answered."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator.console.known.selection import BadQueryError, Chosen, Selection, Table

ROWS = [("b", 3, "x"), ("A", None, "y"), ("c", 7, "x"), ("ab", 0, "y")]
TABLE: Table[tuple[str, int | None, str]] = Table(
    searched=lambda row: row[0],
    keys={"name": lambda row: row[0], "lag": lambda row: row[1]},
    fields={"kind": lambda row: row[2], "name": lambda row: row[0]},
    words={"kind": frozenset({"x", "y"})},
)


def shown(query: dict[str, str]) -> list[str]:
    return [row[0] for row in TABLE.choose(ROWS, TABLE.read(query.items())).rows]


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ({}, ["b", "A", "c", "ab"]),
        ({"search": "A"}, ["A", "ab"]),
        ({"kind": "X"}, ["b", "c"]),
        ({"kind": ""}, ["b", "A", "c", "ab"]),
        ({"sort": "lag"}, ["ab", "b", "c", "A"]),
        ({"sort": "lag", "order": "desc"}, ["c", "b", "ab", "A"]),
        ({"per_page": "3"}, ["b", "A", "c"]),
        ({"per_page": "3", "page": "2"}, ["ab"]),
        ({"per_page": "3", "page": "9"}, []),
        ({"name": "c", "kind": "y"}, []),
    ],
)
def test_rows_are_searched_filtered_sorted_with_the_unknown_last_and_paged(
    query: dict[str, str], names: list[str]
) -> None:
    assert shown(query) == names


def test_several_words_of_one_field_let_each_through() -> None:
    assert TABLE.read([("kind", "x"), ("kind", "y")]).among == (("kind", frozenset({"x", "y"})),)


@pytest.mark.parametrize(
    ("query", "sentence"),
    [
        ([("serch", "a")], "there is no parameter 'serch'; is 'search' meant?"),
        (
            [("zz\u202e", "a")],
            "there is no parameter 'zz\\u202e'; known: search, sort, order, page, per_page, kind, name",
        ),
        ([("sort", "lagg")], "rows are not sorted by 'lagg'; is 'lag' meant?"),
        ([("order", "up")], "'order' is 'up' and has to be asc or desc"),
        ([("page", "0")], "'page' is '0' and has to be a number from 1 to 10000000"),
        ([("page", "-1")], "'page' is '-1' and has to be a number from 1 to 10000000"),
        ([("page", "²")], "'page' is '²' and has to be a number from 1 to 10000000"),
        ([("per_page", "1001")], "'per_page' is '1001' and has to be a number from 1 to 1000"),
        ([("page", "1"), ("page", "2")], "'page' is given twice"),
        ([("kind", "z")], "'kind' is never 'z'; known: x, y"),
        ([("search", "a" * 251)], "'search' has 251 characters and at most 250 are allowed"),
    ],
)
def test_a_query_that_cannot_be_answered_is_refused_with_what_is_known(
    query: list[tuple[str, str]], sentence: str
) -> None:
    with pytest.raises(BadQueryError) as refused:
        TABLE.read(query)
    assert str(refused.value) == sentence


@given(st.integers(0, 40), st.integers(1, 10), st.booleans())
def test_the_pages_of_a_selection_are_all_of_its_rows_once(count: int, per_page: int, is_descending: bool) -> None:
    rows = [(f"{number}", None if number % 3 == 0 else number % 5, "x") for number in range(count)]
    pages = -(-count // per_page) or 1
    found = []
    for page in range(1, pages + 1):
        chosen: Chosen[tuple[str, int | None, str]] = TABLE.choose(
            rows, Selection(sort="lag", is_descending=is_descending, page=page, per_page=per_page)
        )
        assert (chosen.total, chosen.pages) == (count, pages)
        found += chosen.rows
    assert sorted(found, key=lambda row: int(row[0])) == rows


@given(st.integers(1, 9), st.integers(0, 40), st.integers(1, 10), st.integers(1, 50))
def test_newest_page_of_numbered_rows_is_the_one_that_all_of_them_would_give(
    first: int, count: int, per_page: int, page: int
) -> None:
    rows = [(str(number), number, "x") for number in range(first, first + count)]
    selection = Selection(page=page, per_page=per_page)
    whole: Chosen[tuple[str, int, str]] = TABLE.choose(reversed(rows), selection)
    newest = selection.newest(first, first + count - 1)
    there = [row for row in reversed(rows) if newest.after < row[1] <= newest.up_to]
    assert (there, newest.total, newest.page) == (list(whole.rows), whole.total, whole.page)
