"""The command line: what people type. `verbs` has one file a group of verbs, `parts` what they share.

Data goes to standard output, notes to standard error. A `LocalServiceError` is shown as its text with exit
code 1. A verb is imported when it is asked for, and imports what it runs when it runs: every verb starts quickly.
"""

from typing import Annotated, Final

import typer

from coordinator.cli.loading import group_of
from coordinator.cli.parts.addressing.command_config import CommandConfig, take_command_config
from coordinator.cli.parts.addressing.contexts import ContextName, take_context
from coordinator.cli.parts.exits import output_errors_as_text
from coordinator.runtime.process.starting import leave_out_of_rounds

_VERBS: Final = "coordinator.cli.verbs"

PLACES: Final = {
    "serve": f"{_VERBS}.serve:serve",
    "check-config": f"{_VERBS}.serve:check_config",
    "version": f"{_VERBS}.serve:version",
    "export": f"{_VERBS}.moving.exports:export",
    "completion": f"{_VERBS}.installing.completion:completion",
    "explain": f"{_VERBS}.looking.explain:explain",
    "console": f"{_VERBS}.serving.console:console",
    "demo": f"{_VERBS}.demo:demo",
    "doctor": f"{_VERBS}.doctor:doctor",
    "dev": f"{_VERBS}.dev:app",
    "top": f"{_VERBS}.top.top:top",
    "group": f"{_VERBS}.groups:app",
    "cluster": f"{_VERBS}.cluster:clusters",
    "node": f"{_VERBS}.cluster:nodes",
    "shard": f"{_VERBS}.shards.looking:app",
    "acl": f"{_VERBS}.access.acl:app",
    "user": f"{_VERBS}.access.user:app",
    "import": f"{_VERBS}.moving.imports:app",
    "assets": f"{_VERBS}.installing.assets:app",
    "context": f"{_VERBS}.installing.contexts:app",
}
"""The verbs by name, in the order of `kcoord --help`."""

app = typer.Typer(
    name="kcoord",
    cls=group_of(PLACES),
    help="Consumer groups for Spark: the coordinator and its tools.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)


def _say_version(*, is_asked: bool) -> None:
    if is_asked:
        from coordinator.cli.verbs.serve import version

        version()
        raise typer.Exit


@app.callback()
def kcoord(
    context: typer.Context,
    command_config: CommandConfig = None,
    context_name: ContextName = None,
    *,
    version: Annotated[
        bool,
        typer.Option("--version", callback=_say_version, is_eager=True, help="Print what `kcoord version` prints."),
    ] = False,
) -> None:
    """Consumer groups for Spark: the coordinator and its tools."""
    del version  # its callback has said it
    take_command_config(command_config)
    take_context(context, context_name)


def main() -> None:
    """Run the command line, as a process of its own."""
    try:
        with output_errors_as_text():
            leave_out_of_rounds()
            app()
    finally:
        leave_out_of_rounds()  # what the verb has imported


__all__ = ["app", "main"]
