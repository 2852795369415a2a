"""The file that `--command-config` names: how coordinators are spoken to by the verb that follows."""

from contextvars import ContextVar
from pathlib import Path
from typing import Annotated, Final

import typer

_named: Final[ContextVar[Path | None]] = ContextVar("command-config", default=None)
"""It is a variable of ours: Typer's contexts are not those of click."""

CommandConfig = Annotated[
    Path | None,
    typer.Option(
        "--command-config",
        envvar="KCOORD_COMMAND_CONFIG",
        metavar="FILE",
        help="Lines NAME=VALUE that say how coordinators are spoken to, such as kcoord.security.protocol=SSL.",
    ),
]


def take_command_config(path: Path | None) -> None:
    """Keep the file that was named for the verb that follows."""
    _named.set(path)


def command_config_in_force() -> Path | None:
    """Return the file that was named, None for none."""
    return _named.get()
