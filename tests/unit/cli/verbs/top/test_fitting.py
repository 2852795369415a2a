"""Columns on a narrow screen: what is left out, and how names are cut."""

import io

import pytest
from rich.cells import cell_len
from rich.console import Console

from coordinator.cli.verbs.top import screen
from coordinator.cli.verbs.top.fitting import LEFT_OUT_FIRST, cut_in_the_middle
from coordinator.cli.verbs.top.pace import Way
from coordinator.cli.verbs.top.seen import Row, Seen, Sorting
from coordinator.cli.verbs.top.text import COLUMNS

LONG = "team-orders-of-the-warehouse-in-production"
ROWS = tuple(
    Row(f"{LONG}-{end}", "Stable", 3, 12, 12_345, 0, 90.0, 229.0, 546.0, Way("falls behind"), "WARN")
    for end in ("eu", "us")
)


def lines_of(width: int, sorting: Sorting = Sorting.LAG) -> tuple[list[str], list[str]]:
    """Return the columns of a screen of this width, and the lines below them."""
    console = Console(file=io.StringIO(), force_terminal=True, color_system=None, width=width, height=24)
    console.print(screen.screen(Seen(0, None, ROWS), sorting, console, None))
    assert isinstance(console.file, io.StringIO)
    lines = [line.rstrip() for line in console.file.getvalue().splitlines()]
    begin = next(place for place, line in enumerate(lines) if line.startswith("GROUP"))
    return lines[begin].split(), lines[begin + 1 : begin + 1 + len(ROWS)]


def test_wide_screen_has_all_columns_and_whole_names() -> None:
    columns, rows = lines_of(160)
    assert columns == list(COLUMNS)
    assert [row.split()[0] for row in rows] == [row.group for row in ROWS]


@pytest.mark.parametrize("width", range(36, 161))
def test_columns_are_left_out_in_their_order_and_no_other_is_cut(width: int) -> None:
    columns, rows = lines_of(width)
    left_out = [name for name in LEFT_OUT_FIRST if name not in columns]
    assert left_out == list(LEFT_OUT_FIRST[: len(left_out)])
    assert columns == [name for name in COLUMNS if name not in left_out]
    for row, end in zip(rows, ("eu", "us"), strict=True):
        assert cell_len(row) <= width
        assert row.startswith("team-o")
        assert row.split()[0].endswith(f"-{end}")
        assert row.endswith("WARN")
        assert "12345" in row.split()


def test_column_by_which_rows_are_sorted_stays_for_longest() -> None:
    assert lines_of(55, Sorting.MEMBERS)[0] == ["GROUP", "MEMBERS", "LAG", "STATUS"]
    assert "COMMITTED/S" in lines_of(60, Sorting.RATE)[0]


@pytest.mark.parametrize(
    ("width", "shown"),
    [(30, "orders-production-eu"), (20, "orders-production-eu"), (12, "orders…on-eu"), (4, "or…u"), (1, "…")],
)
def test_name_is_cut_in_the_middle(width: int, shown: str) -> None:
    assert cut_in_the_middle("orders-production-eu", width) == shown


def test_wide_letters_are_not_cut_in_two() -> None:
    assert cut_in_the_middle("订单订单订单", 8) == "订单…单"
    assert cell_len(cut_in_the_middle("订单订单订单", 8)) <= 8
