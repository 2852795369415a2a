"""`kcoord context list`: the clusters that this user has named."""

import typer

from coordinator.cli.parts.addressing.contexts import contexts_in_file
from coordinator.cli.parts.asking import Output
from coordinator.cli.parts.exits import ExitCode, notes
from coordinator.cli.parts.notes import DocCode
from coordinator.cli.parts.tables import OutputFormat, write_rows
from coordinator.client.security import SecurityError

app = typer.Typer(help="Clusters by name, in ~/.config/kcoord/config.toml.", no_args_is_help=True)
_PROTOCOL = "kcoord.security.protocol"


@app.callback()
def contexts() -> None:
    """Clusters by name, in ~/.config/kcoord/config.toml."""


@app.command("list")
def list_contexts(output: Output = OutputFormat.TABLE) -> None:
    """List them, with an asterisk at the one that counts where none is named; no setting is shown but the protocol."""
    try:
        found = contexts_in_file()
    except SecurityError as error:
        notes.error(str(error), DocCode.FILE)
        raise typer.Exit(ExitCode.USAGE) from None
    rows = [
        ("*" if each.name == found.current else None, each.name, each.coordinator, each.settings.get(_PROTOCOL))
        for each in found.known.values()
    ]
    write_rows(output, ("CURRENT", "CONTEXT", "COORDINATOR", "PROTOCOL"), rows)
    if not rows:
        notes.print(f"There are no contexts in {found.path}.")
