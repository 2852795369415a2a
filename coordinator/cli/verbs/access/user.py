"""`kcoord user add|remove|list`: who may log in to a node by a password or a token.

A password comes from a prompt, a file or standard input and never from the command line, where every user of the
machine reads it. It is written as what checks it, and a token as its hash.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Final

import typer

from coordinator.cli.verbs.serve import ConfigFile, Set, errors_as_lines, flags_of

app = typer.Typer(help="Users that log in by a password or a token.", no_args_is_help=True)

_STANDARD_INPUT: Final = "-"

Name = Annotated[str, typer.Argument(metavar="NAME", help="The user; its principal is User:NAME.")]
UsersFile = Annotated[
    Path | None,
    typer.Option("--users", metavar="FILE", help="The users file (authentication.users_file).", dir_okay=False),
]


@app.callback()
def user() -> None:
    """Users that log in by a password or a token."""


@app.command()
def add(
    name: Name,
    users: UsersFile = None,
    config: ConfigFile = None,
    settings: Set = None,
    *,
    token: Annotated[
        bool, typer.Option("--token", help="Draw a token and print it, in place of asking for a password.")
    ] = False,
    password_file: Annotated[
        str | None,
        typer.Option(
            "--password-file", metavar="FILE", help="Read the password from its first line; - is standard input."
        ),
    ] = None,
    mechanism: Annotated[
        list[str] | None,
        typer.Option("--mechanism", help="SCRAM-SHA-256 or SCRAM-SHA-512; may be given twice. Both without it."),
    ] = None,
    iterations: Annotated[
        int | None, typer.Option("--iterations", help="How often the password is hashed, at least 4096.")
    ] = None,
) -> None:
    """Add a user, or give one another password or one more token; nodes see it within moments."""
    with _errors_as_lines():
        from coordinator.core.security.users import DEFAULT_ITERATIONS, LEAST_ITERATIONS, MOST_ITERATIONS
        from coordinator.core.security.users import SCRAM_MECHANISMS as KNOWN
        from coordinator.runtime.security.users_store import UserError, add_password, add_token

        path = _path_of(users, config, settings)
        if token:
            if password_file or mechanism or iterations:
                raise UserError("--token goes without --password-file, --mechanism and --iterations")
            sys.stdout.write(add_token(path, name) + "\n")
            return
        for each in mechanism or ():
            if each not in KNOWN:
                raise UserError(f"{each!r} is none of {', '.join(KNOWN)}")
        rounds = DEFAULT_ITERATIONS if iterations is None else iterations
        if not LEAST_ITERATIONS <= rounds <= MOST_ITERATIONS:
            raise UserError(f"--iterations is {rounds}, not from {LEAST_ITERATIONS} to {MOST_ITERATIONS}")
        is_new = add_password(path, name, _password_from(password_file), tuple(mechanism or KNOWN), rounds)
    sys.stdout.write(f"{name}: {'added' if is_new else 'has another password now'}\n")


@app.command()
def remove(name: Name, users: UsersFile = None, config: ConfigFile = None, settings: Set = None) -> None:
    """Take a user off, with its password and all its tokens; connections that it has go on."""
    with _errors_as_lines():
        from coordinator.runtime.security.users_store import remove_user

        remove_user(_path_of(users, config, settings), name)
    sys.stdout.write(f"{name}: removed\n")


@app.command("list")
def list_users(users: UsersFile = None, config: ConfigFile = None, settings: Set = None) -> None:
    """List the users, with the ways in which each may log in."""
    with _errors_as_lines():
        from coordinator.runtime.security.users_store import kept_users

        found = kept_users(_path_of(users, config, settings))
    for name in found.names:
        sys.stdout.write(f"{name}\t{','.join(found.proofs_of(name))}\n")


def _path_of(users: Path | None, config: Path | None, settings: list[str] | None) -> Path:
    from coordinator.config import ConfigError, load_settings

    if users is not None:
        return users
    named = load_settings(config, flags_of(settings=settings)).authentication.users_file
    if not named:
        raise ConfigError(["authentication.users_file is not set; name the file by --users"])
    return Path(named)


def _password_from(password_file: str | None) -> str:
    """Return the password of the file's first line, or of a prompt that asks twice."""
    from coordinator.runtime.security.users_store import UserError

    if password_file is None:
        if not _is_terminal():
            raise UserError(
                "there is no terminal to ask for the password: name a file by --password-file, or - for input"
            )
        asked: str = typer.prompt("Password", hide_input=True, confirmation_prompt=True, err=True)
        return asked
    if password_file == _STANDARD_INPUT:
        if sys.stdin is None:
            raise UserError("standard input is closed: there is no password to read")
        return sys.stdin.readline().rstrip("\r\n")
    try:
        with Path(password_file).open(encoding="utf-8") as file:
            return file.readline().rstrip("\r\n")
    except OSError as error:
        raise UserError(f"{password_file} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise UserError(f"{password_file} is no text") from None


def _is_terminal() -> bool:
    return sys.stdin is not None and sys.stdin.isatty()


@contextmanager
def _errors_as_lines() -> Iterator[None]:
    """Show what cannot be done as a line on standard error and exit with code 2."""
    from coordinator.config import ConfigError
    from coordinator.runtime.security.reread import FileError
    from coordinator.runtime.security.users_store import UserError

    with errors_as_lines():
        try:
            yield
        except (UserError, FileError) as error:
            raise ConfigError([str(error)]) from error
