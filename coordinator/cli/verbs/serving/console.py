"""`kcoord console`: pages and a REST API about groups and the cluster, in a process of its own."""

import sys
from typing import Annotated

import typer

from coordinator.cli.parts.asking import Coordinator, Timeout, coordinators_of, parse_timeout
from coordinator.cli.parts.deciding import who_asks
from coordinator.cli.parts.exits import ExitCode, notes
from coordinator.protocol.text.addresses import parse_address

_LISTEN = "127.0.0.1:7480"
_LONGEST_NAME = 238
"""The characters of a name that leave room for its ending: 250 are allowed."""


def console(
    coordinator: Coordinator,
    listen: Annotated[
        str, typer.Option("--listen", metavar="HOST:PORT", help="Address of the console; port 0 takes a free one.")
    ] = _LISTEN,
    allow_changes: Annotated[
        bool, typer.Option("--allow-changes", help="Let whoever reaches the console change groups.")
    ] = False,
    refresh: Annotated[
        float,
        typer.Option(
            "--refresh",
            parser=parse_timeout,
            metavar="DURATION",
            help="How often coordinators are asked, at most, such as 2s; a number is seconds.",
        ),
    ] = 2.0,
    timeout: Timeout = 10.0,
) -> None:
    """Run the console until SIGTERM or Ctrl-C; it prints its address when it answers."""
    from coordinator.console.settings import ConsoleSettings, why_not_listen

    try:
        address = parse_address(listen, lowest_port=0)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--listen") from error
    why = why_not_listen(address)
    if why is not None:
        raise typer.BadParameter(why, param_hint="--listen")
    settings = ConsoleSettings(
        coordinators_of(coordinator),
        address,
        allow_changes,
        refresh,
        timeout,
        f"{who_asks()[:_LONGEST_NAME]} by console",
    )
    try:
        from coordinator.console.server import ConsoleError, run
    except ModuleNotFoundError as error:
        notes.print(
            f"error: the console needs the package {error.name}, which is not installed: "
            "`pip install 'kcoord[console]'`"
        )
        raise typer.Exit(ExitCode.ERROR) from None

    def say_ready(url: str) -> None:
        sys.stdout.write(f"kcoord: console on {url}\n")
        sys.stdout.flush()

    try:
        run(settings, say_ready)
    except ConsoleError as error:
        notes.print(f"error: {error}")
        raise typer.Exit(ExitCode.ERROR) from None
