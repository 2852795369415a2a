"""`kcoord demo`: the main job on real flights, from start to end, with one line at the end that says how it went."""

import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.text import Text

from coordinator.cli.parts.exits import ExitCode
from coordinator.cli.verbs.dev import ending_when_asked, jar_progress
from coordinator.protocol.text.durations import parse_duration_ms

if TYPE_CHECKING:
    from coordinator.demo.settings import DemoSettings
    from coordinator.demo.story import Ending

_ALL_FLIGHTS = 336_776

_Port = Annotated[int, typer.Option(help="Port on 127.0.0.1; 0 takes a free one.", min=0, max=65535)]


def parse_over(text: str | float) -> float:
    """Read a duration of 1 s to 1 h in seconds, which a number without a unit is; raises typer.BadParameter."""
    try:
        seconds = parse_duration_ms(str(text), bare_unit="s") / 1000
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error
    if not 1 <= seconds <= 3600:
        raise typer.BadParameter(f"'{text}' is not from 1 s to 1 h")
    return seconds


def demo(
    over: Annotated[
        float,
        typer.Option(
            parser=parse_over, metavar="DURATION", help="Time over which the flights are produced; a number is seconds."
        ),
    ] = 60.0,
    flights: Annotated[int, typer.Option(help="How many flights.", min=1000, max=_ALL_FLIGHTS)] = _ALL_FLIGHTS,
    kafka_port: _Port = 0,
    coordinator_port: _Port = 0,
    nodes: Annotated[
        int,
        typer.Option(
            help="Coordinator nodes: 1 is standalone; of 3 and more, the one that leads the group is killed as well.",
            min=1,
            max=9,
        ),
    ] = 1,
    keep: Annotated[bool, typer.Option("--keep", help="Keep the data and the logs, and say where.")] = False,
) -> None:
    """Run the main job on 336,776 real flights: Kafka, the coordinator and two Spark applications, one of them killed.

    Ends with `demo: OK …`, or with `demo: FAILED …` and exit code 1. Takes about two minutes.
    """
    from coordinator.demo.errors import DemoError
    from coordinator.demo.outcome import failure_line, final_line
    from coordinator.demo.settings import DemoSettings

    if nodes == 2:
        raise typer.BadParameter("a cluster of 2 stops when one of them does: take 1, or 3", param_hint="--nodes")
    settings = DemoSettings(flights, over, kafka_port, coordinator_port, nodes)
    console = Console(highlight=False)
    ending: Ending | None = None
    failure = "it was stopped before its end"
    exit_code: int = ExitCode.INTERRUPTED
    with ending_when_asked():
        try:
            ending = _run(settings, console, keep=keep)
        except DemoError as error:
            exit_code = 1
            failure = str(error)
            sys.stderr.write(f"\n{error.details}\n\n" if error.details else "")
            sys.stderr.flush()
    if ending is None:
        _print(console, failure_line(failure), "bold red")
        raise typer.Exit(exit_code)
    _summarise(console, ending)
    _print(console, final_line(ending.outcome), "bold green")


def _run(settings: "DemoSettings", console: Console, *, keep: bool) -> "Ending":
    from coordinator.demo.run import run_demo
    from coordinator.demo.screen.view import PlainView, TerminalView

    view = TerminalView(console) if console.is_terminal else PlainView(console)
    with ExitStack() as stack:
        if keep:
            directory = Path(tempfile.mkdtemp(prefix="kcoord-demo-"))
            stack.callback(_print, console, f"data and logs are kept in {directory}")
        else:
            directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="kcoord-demo-")))
        report = stack.enter_context(jar_progress())
        stack.enter_context(view)
        return run_demo(settings, directory, view, report)


def _summarise(console: Console, ending: "Ending") -> None:
    from coordinator.demo.screen.view import partition_table
    from coordinator.demo.settings import GROUP

    console.print(Text(f"\ngroup {GROUP} at the coordinator, at the end:", style="bold"))
    console.print(partition_table(ending.picture.partitions, {}))
    console.print()
    for sentence in ending.sentences:
        console.print(Text(sentence), soft_wrap=not console.is_terminal)


def _print(console: Console, text: str, style: str = "") -> None:
    console.print(Text(text, style=style), soft_wrap=True)
