"""The columns of `kcoord top` that a screen has room for, and names of groups that are cut to it. Pure.

A column that there is no room for is left out whole: one that is cut says something else. GROUP, LAG and STATUS stay.
"""

from collections.abc import Sequence
from typing import Final

from rich.cells import cell_len

from coordinator.cli.verbs.top.text import COLUMNS

GAP: Final = 2
"""Cells between two columns."""
LEFT_OUT_FIRST: Final = ("PARTITIONS", "MEMBERS", "ARRIVING/S", "COMMITTED/S", "WAY", "STATE", "LAG-TIME")
"""The columns that are left out, in this order; the one by which rows are sorted is the last."""
GROUP_WIDTH: Final = 24
"""Cells of a group's name for which other columns give way."""
_CUT: Final = "…"


def fit(rows: Sequence[Sequence[str]], width: int, sorted_by: str) -> tuple[Sequence[int], int]:
    """Return the places of the columns that fit into so many cells, and the cells that a group's name may have."""
    widths = [max(map(cell_len, (name, *(row[place] for row in rows)))) for place, name in enumerate(COLUMNS)]
    places = list(range(len(COLUMNS)))

    def left_for_group() -> int:
        return width - sum(widths[place] + GAP for place in places if place != 0)

    for name in sorted(LEFT_OUT_FIRST, key=lambda name: name == sorted_by):
        if left_for_group() >= min(widths[0], GROUP_WIDTH):
            break
        places.remove(COLUMNS.index(name))
    return places, max(1, left_for_group())


def cut_in_the_middle(name: str, width: int) -> str:
    """Return a name of at most so many cells: names of a kind begin alike, and differ at their ends."""
    if cell_len(name) <= width:
        return name
    end = _first_cells(name[::-1], (width - 1) // 2)[::-1]
    return f"{_first_cells(name, width - 1 - cell_len(end))}{_CUT}{end}"


def _first_cells(text: str, width: int) -> str:
    used = 0
    for place, letter in enumerate(text):
        used += cell_len(letter)
        if used > width:
            return text[:place]
    return text
