"""The command line: what people type, one file a group of verbs.

Data goes to standard output, notes to standard error. A `LocalServiceError` is shown as its text with exit
code 1. Verbs import what they run when they run, so that every verb starts quickly.
"""

import typer

from coordinator.cli import demo, dev, doctor, groups, serve

app = typer.Typer(
    name="kcoord",
    help="Consumer groups for Spark: the coordinator and its tools.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
serve.add_verbs(app)
app.add_typer(dev.app, name="dev")
app.add_typer(groups.app, name="group")
app.command("demo")(demo.demo)
app.command("doctor")(doctor.doctor)


@app.callback()
def kcoord() -> None:
    """Consumer groups for Spark: the coordinator and its tools."""


def main() -> None:
    """Run the command line; this is the console script `kcoord`."""
    app()


__all__ = ["app", "main"]
