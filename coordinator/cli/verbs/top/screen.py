"""Looks on a terminal: one screen that is redrawn in place, on the terminal's other screen, and as large as it is now.

Whoever leaves it finds the terminal as it was. A look is made by a thread, so that keys and a new size count meanwhile.
"""

import queue
import signal
import threading
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import Final

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from coordinator.cli.verbs.top.fitting import GAP, cut_in_the_middle, fit
from coordinator.cli.verbs.top.keys import Keys
from coordinator.cli.verbs.top.seen import Row, Seen, Sorting, shown
from coordinator.cli.verbs.top.text import COLUMNS, NUMBERS, cells, head_lines, trouble_lines

_TICK_S: Final = 0.2
_QUIT: Final = "qQ"
_SORT: Final = "sS"
_TERMINATED: Final = 128 + signal.SIGTERM
_STATUS_STYLES: Final = {"OK": "green", "WARN": "yellow", "ERR": "bold red"}

Look = Callable[[Collection[str]], Seen]
"""Looks once, given the groups that are shown."""


class _Pending:
    """A look that a thread makes; a mistake in it is raised where its outcome is taken."""

    def __init__(self, look: Look, groups: Collection[str]) -> None:
        self._outcome: queue.SimpleQueue[Seen | BaseException] = queue.SimpleQueue()
        threading.Thread(target=self._run, args=(look, groups), name="kcoord-top-look", daemon=True).start()

    def _run(self, look: Look, groups: Collection[str]) -> None:
        try:
            self._outcome.put(look(groups))
        except BaseException as error:  # noqa: BLE001 - raised again in `taken`
            self._outcome.put(error)

    def taken(self) -> Seen | None:
        """Return what was seen, None while the look goes on."""
        try:
            outcome = self._outcome.get_nowait()
        except queue.Empty:
            return None
        if isinstance(outcome, BaseException):
            raise outcome
        return outcome


def run(
    console: Console,
    look: Look,
    first: Seen,
    sorting: Sorting,
    *,
    limit: int | None,
    every_s: float,
    times: int | None,
) -> tuple[Seen, Sorting]:
    """Show looks until `q`, Ctrl-C or so many of them; return the last one and how it was sorted.

    `first` is the look that was made before the terminal was taken.
    """
    seen, looks = first, 1
    with _noted_signals() as signals, Keys() as keys, Live(console=console, screen=True, auto_refresh=False) as live:
        pending: _Pending | None = None
        due_s = time.monotonic() + every_s
        drawn: object = None
        while not signals and (looks != times or pending is not None):
            if pending is None and time.monotonic() >= due_s:
                pending, began_s = _Pending(look, _names(console, seen, sorting, limit)), time.monotonic()
            if pending is not None and (found := pending.taken()) is not None:
                seen, pending, looks = found, None, looks + 1
                now_s = time.monotonic()
                due_s = max(began_s + every_s, now_s + min(every_s, now_s - began_s))
            if drawn != (looks, sorting, console.size):
                drawn = (looks, sorting, console.size)
                live.update(screen(seen, sorting, console, limit), refresh=True)
            for key in keys.wait(_TICK_S if pending is not None else min(_TICK_S, due_s - time.monotonic())):
                if key in _QUIT:
                    return seen, sorting
                if key in _SORT:
                    sorting = sorting.next()
    return seen, sorting


def screen(seen: Seen, sorting: Sorting, console: Console, limit: int | None) -> Group:
    """Return a look as it fits on the screen."""
    lines = [_line(line) for line in head_lines(seen)]
    lines += [_line(line, "bold red") for line in trouble_lines(seen.troubles)]
    rows = _fitting(console, seen, sorting, limit)
    left = len(seen.rows) - len(rows)
    more = f"  {left} more groups" if left else ""
    return Group(
        *lines, Text(""), _table(rows, sorting, console.size.width), _line(f"q quit  s sort: {sorting}{more}", "dim")
    )


def _names(console: Console, seen: Seen, sorting: Sorting, limit: int | None) -> frozenset[str]:
    return frozenset(row.group for row in _fitting(console, seen, sorting, limit))


def _fitting(console: Console, seen: Seen, sorting: Sorting, limit: int | None) -> Sequence[Row]:
    used = len(head_lines(seen)) + len(trouble_lines(seen.troubles)) + 3
    room = max(0, console.size.height - used)
    return shown(seen.rows, sorting, room if limit is None else min(limit, room))


def _table(rows: Sequence[Row], sorting: Sorting, width: int) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, GAP, 0, 0), header_style="bold")
    sorted_by = "COMMITTED/S" if sorting is Sorting.RATE else sorting.upper()
    texts = [cells(row) for row in rows]
    places, group_width = fit(texts, width, sorted_by)
    for column in [COLUMNS[place] for place in places]:
        is_sorted = column == sorted_by
        table.add_column(
            Text(column, style="reverse" if is_sorted else ""),
            justify="right" if column in NUMBERS else "left",
            no_wrap=True,
            overflow="ellipsis",
            min_width=len(column) if column in NUMBERS else None,
        )
    for row, (group, *others) in zip(rows, texts, strict=True):
        whole = (cut_in_the_middle(group, group_width), *others)
        found = [Text(whole[place]) for place in places]
        if row.is_old:
            table.add_row(*found, style="dim")
        else:
            found[-1].stylize(_STATUS_STYLES.get(row.status or "", ""))
            table.add_row(*found)
    return table


def _line(text: str, style: str = "") -> Text:
    return Text(text, style=style, no_wrap=True, overflow="ellipsis")


@contextmanager
def _noted_signals() -> Iterator[Sequence[int]]:
    """Note Ctrl-C and SIGTERM in the list that is given; after SIGTERM the program ends with its exit code.

    One that is raised as an exception at once is lost where it meets the end of some object's life, and leaves a screen
    half drawn. The second one is raised all the same: nothing is drawn on a terminal that has stopped its output.
    """
    noted: list[int] = []

    def note(number: int, _: FrameType | None) -> None:
        noted.append(number)
        if len(noted) > 1:
            raise SystemExit(_TERMINATED) if signal.SIGTERM in noted else KeyboardInterrupt

    if threading.current_thread() is not threading.main_thread():
        yield noted
        return
    before = {number: signal.signal(number, note) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield noted
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    if signal.SIGTERM in noted:
        raise SystemExit(_TERMINATED)
