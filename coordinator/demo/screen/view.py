"""Shows the demo: a table that lives on a terminal, plain lines now and then anywhere else.

Both show the same facts. What happened is a line that stays; how things stand is replaced.
"""

from collections.abc import Sequence
from types import TracebackType
from typing import Final, Protocol, Self

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from coordinator.demo.screen.dashboard import PartitionRow, Picture

_PLAIN_INTERVAL_S: Final = 5.0
_REFRESH_A_SECOND: Final = 8
_COLORS: Final = ("cyan", "magenta", "yellow", "green")


class View(Protocol):
    """The listener that the story tells things to; used as a context manager."""

    def __enter__(self) -> Self:
        """Begin to show."""
        ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """End, leaving the terminal as it was."""
        ...

    def say(self, elapsed_s: float, text: str, *, style: str = "") -> None:
        """Tell what happened, for good; plain text has no style."""
        ...

    def show(self, picture: Picture) -> None:
        """Show how things stand, until the next call."""
        ...


class PlainView:
    """Lines of text, for logs and pipes: what happened at once, how things stand every few seconds."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._shown_s = float("-inf")

    def __enter__(self) -> Self:
        """Begin to show."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Nothing is left to put back."""

    def say(self, elapsed_s: float, text: str, *, style: str = "") -> None:
        """Print a line."""
        del style
        self._print(_stamped(elapsed_s, text))

    def show(self, picture: Picture) -> None:
        """Print a line if the last one is a few seconds old."""
        if picture.elapsed_s - self._shown_s >= _PLAIN_INTERVAL_S:
            self._shown_s = picture.elapsed_s
            self._print(_stamped(picture.elapsed_s, progress_line(picture)))

    def _print(self, text: str) -> None:
        self._console.print(Text(text), soft_wrap=True)
        self._console.file.flush()


class TerminalView:
    """A table that is drawn again in place, below the lines that stay."""

    def __init__(self, console: Console) -> None:
        self._live = Live(console=console, refresh_per_second=_REFRESH_A_SECOND, transient=True)

    def __enter__(self) -> Self:
        """Begin to show."""
        self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Take the table away."""
        self._live.stop()

    def say(self, elapsed_s: float, text: str, *, style: str = "") -> None:
        """Print a line above the table."""
        line = Text(f"{elapsed_s:6.1f} s  ", style="dim")
        line.append(text, style=style or "not dim")
        self._live.console.print(line)

    def show(self, picture: Picture) -> None:
        """Draw the table."""
        self._live.update(draw(picture))


def progress_line(picture: Picture) -> str:
    """Return how things stand as one line of text."""
    if not picture.partitions:
        return "… the group does not exist yet"
    owners = [row.owner for row in picture.partitions if row.owner]
    shares = ", ".join(f"{name} owns {owners.count(name)}" for name in sorted(set(owners)))
    lag = "unknown" if picture.lag is None else f"{picture.lag:,}"
    return (
        f"… group {picture.group_state}{': ' + shares if shares else ''}; "
        f"produced {picture.produced:,} of {picture.total:,} ({picture.produced_rate:,.0f}/s), "
        f"committed {picture.committed:,} ({picture.committed_rate:,.0f}/s), lag {lag}"
    )


def draw(picture: Picture) -> RenderableType:
    """Return the picture as Rich draws it: what goes on, who has what, how far it is."""
    title = Text.assemble(("\n" + picture.act, "bold"), (f"   {picture.elapsed_s:.0f} s", "dim"))
    if not picture.partitions:
        return Group(title, Text("the group does not exist yet", style="dim"))
    members = Text("members  ", style="dim")
    for number, member in enumerate(picture.members):
        members.append(member.name, style=_COLORS[number % len(_COLORS)])
        link = "" if member.is_connected else ", not connected"
        members.append(f" {member.state.lower()}, {member.owned} of {member.target} partitions{link}   ", style="dim")
    members.append(f"group {picture.group_state}, epoch {picture.group_epoch}", style="dim")
    colors = {member.name: _COLORS[number % len(_COLORS)] for number, member in enumerate(picture.members)}
    return Group(title, members, partition_table(picture.partitions, colors), _progress(picture))


def partition_table(rows: Sequence[PartitionRow], colors: dict[str, str]) -> Table:
    """Return the table of partitions."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column("partition", justify="right")
    table.add_column("owner", min_width=8)
    for title in ("committed", "end", "lag"):
        table.add_column(title, justify="right", min_width=9)
    table.add_column("claim", min_width=26)
    for row in rows:
        table.add_row(
            str(row.partition),
            Text(row.owner or "nobody", style=colors.get(row.owner, "red")),
            *(_number(value) for value in (row.committed, row.end, row.lag)),
            row.activity,
        )
    return table


def _progress(picture: Picture) -> Table:
    grid = Table.grid(padding=(0, 2, 0, 0))
    for name, value, rate in (
        ("produced", picture.produced, picture.produced_rate),
        ("committed", picture.committed, picture.committed_rate),
    ):
        grid.add_row(
            Text(name, style="dim"),
            ProgressBar(total=picture.total, completed=value, width=40),
            Text(f"{value:,}", justify="right"),
            Text(f"{rate:,.0f}/s", style="dim", justify="right"),
        )
    return grid


def _number(value: int | None) -> str:
    return "-" if value is None else f"{value:,}"


def _stamped(elapsed_s: float, text: str) -> str:
    return f"{elapsed_s:6.1f} s  {text}"
