"""The command line: what people type. `verbs` has one file a group of verbs, `parts` what they share.

Data goes to standard output, notes to standard error. A `LocalServiceError` is shown as its text with exit
code 1. Verbs import what they run when they run, so that every verb starts quickly.
"""

from typing import Annotated

import typer

from coordinator.cli.parts.addressing.contexts import ContextName, take_context
from coordinator.cli.parts.asking import CommandConfig, take_command_config
from coordinator.cli.verbs import cluster, demo, dev, dev_topics, doctor, groups, serve
from coordinator.cli.verbs.access import acl, user
from coordinator.cli.verbs.installing import assets, completion, contexts
from coordinator.cli.verbs.moving import backups, exports, imports
from coordinator.cli.verbs.serving import console
from coordinator.cli.verbs.shards import looking, moving

app = typer.Typer(
    name="kcoord",
    help="Consumer groups for Spark: the coordinator and its tools.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
serve.add_verbs(app)
dev_topics.add_verbs(dev.app)
app.add_typer(dev.app, name="dev")
app.add_typer(groups.app, name="group")
backups.add_verbs(cluster.clusters)
app.add_typer(cluster.clusters, name="cluster")
app.add_typer(cluster.nodes, name="node")
app.add_typer(looking.app, name="shard")
moving.add_verbs(looking.app, cluster.nodes)
app.add_typer(acl.app, name="acl")
app.add_typer(user.app, name="user")
app.add_typer(imports.app, name="import")
app.command("export")(exports.export)
app.add_typer(assets.app, name="assets")
app.add_typer(contexts.app, name="context")
app.command("completion")(completion.completion)
app.command("console")(console.console)
app.command("demo")(demo.demo)
app.command("doctor")(doctor.doctor)


def _say_version(*, is_asked: bool) -> None:
    if is_asked:
        serve.version()
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
    """Run the command line; this is the console script `kcoord`."""
    app()


__all__ = ["app", "main"]
