"""`kcoord console`: pages and a REST API about groups and the cluster, in a process of its own."""

from typing import Annotated

import typer

from coordinator.cli.parts.asking import Coordinator, Timeout, coordinators_of, parse_timeout
from coordinator.cli.parts.exits import ExitCode, notes
from coordinator.cli.parts.notes import DocCode
from coordinator.client.operating.author import who_asks
from coordinator.protocol.text.addresses import parse_address
from coordinator.runtime.process.ready_line import say_ready

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
    log_in: Annotated[
        bool,
        typer.Option("--log-in", help="Have people log in as to the coordinators; beyond loopback they always do."),
    ] = False,
    tls_certificate: Annotated[
        str, typer.Option("--tls-certificate", metavar="FILE", help="Speak TLS by this certificate, as PEM.")
    ] = "",
    tls_key: Annotated[
        str, typer.Option("--tls-key", metavar="FILE", help="Its key, as PEM; without it the same file has it.")
    ] = "",
    tls_key_password_file: Annotated[
        str, typer.Option("--tls-key-password-file", metavar="FILE", help="Holds the password of that key.")
    ] = "",
    host: Annotated[
        list[str] | None,
        typer.Option("--host", metavar="NAME", help="A name under which it answers, besides the certificate's own."),
    ] = None,
) -> None:
    """Run the console until SIGTERM or Ctrl-C; it prints its address when it answers."""
    from coordinator.console.settings import ConsoleSettings, why_not
    from coordinator.runtime.process.starting import without_rounds
    from coordinator.runtime.security.tls_files import TlsFiles

    try:
        address = parse_address(listen, lowest_port=0)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--listen") from error
    if not tls_certificate and (tls_key or tls_key_password_file):
        raise typer.BadParameter("there is no TLS without --tls-certificate", param_hint="--tls-key")
    settings = ConsoleSettings(
        coordinators_of(coordinator),
        address,
        allow_changes,
        refresh,
        timeout,
        f"{who_asks()[:_LONGEST_NAME]} by console",
        log_in,
        TlsFiles("--tls", tls_certificate, tls_key, tls_key_password_file) if tls_certificate else None,
        tuple(_host_name(name) for name in host or ()),
    )
    why = why_not(settings)
    if why is not None:
        raise typer.BadParameter(why, param_hint="--host" if why.startswith("--host") else "--listen")
    try:
        with without_rounds():
            from coordinator.console.server import ConsoleError, run
    except ModuleNotFoundError as error:
        notes.print(
            f"error: the console needs the package {error.name}, which is not installed: "
            "`pip install 'kcoord[console]'`"
        )
        raise typer.Exit(ExitCode.ERROR) from None

    try:
        run(settings, lambda url: say_ready(f"kcoord: console on {url}"))
    except ConsoleError as error:
        notes.error(str(error), DocCode.SERVICE)
        raise typer.Exit(ExitCode.ERROR) from None


def _host_name(name: str) -> str:
    """Return the name of a host as browsers say it; raises typer.BadParameter for what is none."""
    from coordinator.console.port.hosts import name_in

    if not name or name_in(name) != name.lower():
        raise typer.BadParameter(f"'{name}' is not the name of a host, which has no port", param_hint="--host")
    return name.lower()
