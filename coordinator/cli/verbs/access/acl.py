"""`kcoord acl check`: which line of the rules decides about a principal, a verb and a resource."""

import sys
from typing import Annotated

import typer

from coordinator.cli.verbs.serve import ConfigFile, Set, errors_as_lines, flags_of

app = typer.Typer(help="Rules of who may do what.", no_args_is_help=True)

_DENIED = 1


@app.callback()
def acl() -> None:
    """Rules of who may do what."""


@app.command()
def check(
    principal: Annotated[str, typer.Argument(help="User:NAME.")],
    verb: Annotated[str, typer.Argument(help="read, describe, alter or delete; or a message, such as ResetOffsets.")],
    resource: Annotated[str, typer.Argument(help="group:NAME, topic:NAME or cluster.")],
    config: ConfigFile = None,
    rules: Annotated[
        str | None, typer.Option("--rules", metavar="FILE", help="The rules (authorization.rules_file).")
    ] = None,
    settings: Set = None,
) -> None:
    """Say whether a principal may do something, and which line decides; exit code 1 when it may not."""
    with errors_as_lines():
        from coordinator.config import ConfigError, load_settings
        from coordinator.core.security.acl import CLUSTER_NAME, Operation, ResourceKind
        from coordinator.core.security.principal import Principal
        from coordinator.core.security.rights import operations_of
        from coordinator.runtime.security.reread import FileError
        from coordinator.runtime.security.rules import read_rules

        flags = flags_of(settings=settings) | ({"authorization.rules_file": rules} if rules is not None else {})
        loaded = load_settings(config, flags).authorization
        if not loaded.rules_file:
            raise ConfigError(
                ["authorization.rules_file is not set, so nobody is asked for rights; name it by --rules"]
            )
        kind, _, name = resource.partition(":")
        if kind not in set(ResourceKind) or bool(name) == (kind == ResourceKind.CLUSTER):
            raise ConfigError([f"{resource!r} is no resource: group:NAME, topic:NAME or cluster"])
        operations = operations_of(verb, ResourceKind(kind))
        if not operations:
            known = ", ".join(each for each in Operation if each is not Operation.ALL)
            raise ConfigError([f"{verb!r} is no verb: {known}, or the name of a message that asks for a right"])
        try:
            who = Principal.parse(principal)
            acl = read_rules(loaded)
        except (ValueError, FileError) as error:
            raise ConfigError([str(error)]) from error
        for operation in operations:
            decision = acl.decide(who, operation, ResourceKind(kind), name or CLUSTER_NAME)
            if not decision.is_allowed:
                break
    sys.stdout.write(
        f"{'allowed' if decision.is_allowed else 'denied'}: {who} {operation} {resource}: {decision.why}\n"
    )
    if not decision.is_allowed:
        raise typer.Exit(_DENIED)
