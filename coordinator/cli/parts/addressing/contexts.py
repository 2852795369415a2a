"""The context in force: where coordinators are when nobody says so, and how they are spoken to.

`--coordinator` and `--context` go before the environment. A context that nobody names counts only where no addresses
are given: its secrets are for its own coordinators. Named by `--context`, its settings are also for the addresses that
are given. Nothing is asked of the command line library that it does not hand over: it may be one of several copies.
"""

import os
from collections.abc import Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Annotated, Any, Final

import typer

from coordinator.cli.parts.exits import ExitCode, notes
from coordinator.cli.parts.notes import DocCode
from coordinator.client.configuration.contexts import ADDRESSES, Context, Contexts, contexts_of_user, contexts_path
from coordinator.client.security import SecurityError

VARIABLE: Final = "KCOORD_CONTEXT"


@dataclass(frozen=True, slots=True)
class _Chosen:
    context: Context
    is_by_flag: bool


_in_force: Final[ContextVar[_Chosen | None]] = ContextVar("context in force", default=None)


def _complete(incomplete: str) -> list[str]:
    """Return the names that begin so, none where the file cannot be used."""
    try:
        return [name for name in contexts_in_file().known if name.startswith(incomplete)]
    except SecurityError:
        return []


ContextName = Annotated[
    str | None,
    typer.Option(
        "--context",
        envvar=VARIABLE,
        metavar="NAME",
        autocompletion=_complete,
        help="A cluster by its name in ~/.config/kcoord/config.toml; `kcoord context list` shows them.",
    ),
]


def contexts_in_file() -> Contexts:
    """Return the contexts of this user; raises SecurityError."""
    return contexts_of_user(os.environ)


def take_context(context: typer.Context, name: str | None) -> None:
    """Have the verb that follows use a context: the one named, else that of the file; ends with a usage error."""
    _in_force.set(None)
    if name == "":  # as an unset variable of a script leaves it; the verb is meant for one cluster and not for another
        notes.error("--context is empty: name a cluster, or leave --context out for the one of the file", DocCode.INPUT)
        raise typer.Exit(ExitCode.USAGE)
    if name is None and contexts_path(os.environ) is None:
        return
    try:
        contexts = contexts_in_file()
        if not (name or contexts.current):
            return
        found = contexts.named(name or contexts.current)
    except SecurityError as error:
        if name is None:
            notes.print(f"warning: no context is used: {error}")
            return
        notes.error(str(error), DocCode.FILE)
        raise typer.Exit(ExitCode.USAGE) from None
    _in_force.set(_Chosen(found, is_by_flag=_source(context, "context_name") == "COMMANDLINE"))
    context.default_map = _defaults(context.command, found.coordinator)


def addresses_in_force(context: typer.Context, parameter: typer.CallbackParam, given: str | None) -> str | None:
    """Return addresses: those of the context that was named on the command line go before those of the environment."""
    chosen = _in_force.get()
    if chosen is not None and chosen.is_by_flag and _source(context, parameter.name or "") == "ENVIRONMENT":
        return chosen.context.coordinator
    return given


def settings_in_force(addresses: str) -> Mapping[str, str]:
    """Return the settings by which these addresses are spoken to, as far as the context in force says."""
    chosen = _in_force.get()
    if chosen is None or not (chosen.is_by_flag or addresses == chosen.context.coordinator):
        return {}
    return chosen.context.settings


def _source(context: typer.Context, name: str) -> str:
    """Return where a value comes from, by the library's name for it."""
    source = context.get_parameter_source(name)
    return "" if source is None else source.name


def _defaults(command: Any, addresses: str) -> dict[str, Any]:
    """Return the addresses as the default of every verb below a command."""
    below: Mapping[str, Any] = getattr(command, "commands", {})
    return {ADDRESSES: addresses, **{name: _defaults(verb, addresses) for name, verb in below.items()}}
