"""Changes of the users file: a user added, or taken off, with the file whole at every moment and its owner's alone.

A password is hashed here and forgotten; a token is drawn here and told once. Two who change the file at the same time
take turns.
"""

import fcntl
import os
import secrets
import stat
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Final

from scramp import ScramException, ScramMechanism
from scramp.utils import saslprep

from coordinator.core.security.principal import USER
from coordinator.core.security.users import (
    SALT_BYTES,
    Users,
    Verifier,
    hash_of_token,
)
from coordinator.core.security.users_file import UsersError, must_be_a_name, parse_users, users_text
from coordinator.runtime.security.log_ins import read_users
from coordinator.runtime.security.reread import FileError

_SECRET_BYTES: Final = 32
_TOKEN_BYTES: Final = 32
TOKEN_PREFIX: Final = "kcoord_"  # noqa: S105 - by which scanners for leaked secrets know one


class UserError(Exception):
    """A user that cannot be added or taken off; the text says why and shows no secret."""


def add_password(path: Path, name: str, password: str, mechanisms: Sequence[str], iterations: int) -> bool:
    """Give a user this password in place of any that it had; return whether it is a new user.

    Raises UserError, and FileError for a file that cannot be used.
    """
    if not password:
        raise UserError("the password is empty")
    _must_be_a_name(name)
    try:
        made = {
            (mechanism, name): Verifier(iterations, *_keys_of(mechanism, password, iterations))
            for mechanism in mechanisms
        }
    except ScramException as error:
        raise UserError(f"the password cannot be used: {str(error).partition(':')[0]}") from None
    with _changing(path) as users:
        is_new = name not in users.names
        kept = {key: verifier for key, verifier in users.verifiers.items() if key[1] != name}
        _write(path, replace(users, verifiers=kept | made))
    return is_new


def add_token(path: Path, name: str) -> str:
    """Give a user a token in place of none, beside those that it has; return it, which is written nowhere.

    Raises UserError, and FileError for a file that cannot be used.
    """
    _must_be_a_name(name)
    token = TOKEN_PREFIX + secrets.token_urlsafe(_TOKEN_BYTES)
    with _changing(path) as users:
        _write(path, replace(users, tokens=dict(users.tokens) | {hash_of_token(token): name}))
    return token


def remove_user(path: Path, name: str) -> None:
    """Take a user off, with its password and its tokens; raises UserError when there is none, and FileError."""
    with _changing(path) as users:
        if name not in users.names:
            raise UserError(f"{name!r} is no user in {path}")
        verifiers = {key: verifier for key, verifier in users.verifiers.items() if key[1] != name}
        tokens = {kept: owner for kept, owner in users.tokens.items() if owner != name}
        _write(path, replace(users, verifiers=verifiers, tokens=tokens))


def _keys_of(mechanism: str, password: str, iterations: int) -> tuple[bytes, bytes, bytes]:
    salt, stored_key, server_key, _ = ScramMechanism(mechanism).make_auth_info(
        password, iteration_count=iterations, salt=secrets.token_bytes(SALT_BYTES)
    )
    return salt, stored_key, server_key


def _must_be_a_name(name: str) -> None:
    kind, colon, rest = name.partition(":")
    if colon and kind == USER:
        raise UserError(f"{name!r} is no user: that is the principal of the user {rest!r}")
    try:
        must_be_a_name(name)
        known_as = saslprep(name)
    except (ValueError, ScramException) as error:
        raise UserError(str(error)) from None
    if known_as != name:
        raise UserError(f"{name!r} is no user: SCRAM knows it by another form, {known_as!r}")


def kept_users(path: Path, secret: bytes = b"") -> Users:
    """Return the users of a file; raises FileError also for an empty one, which nodes take for one that was cut off."""
    users = read_users(path, secret)
    if path.stat().st_size == 0:
        raise FileError(
            f"{path} is empty: it was cut off, as by a full disk, and nodes go on with what they read before; put its "
            "copy back, or delete it to begin anew"
        )
    return users


@contextmanager
def _changing(path: Path) -> Iterator[Users]:
    """Return the users as they are, and keep others from changing them; a file that is not there has none.

    Where the file has no secret one is drawn: that of an empty file would be known to everybody.
    """
    secret = secrets.token_bytes(_SECRET_BYTES)
    path = _behind_links(path)
    try:
        lock = os.open(path.parent, os.O_RDONLY)
    except OSError as error:
        raise FileError(f"{path.parent} cannot be read: {error.strerror}") from error
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield kept_users(path, secret) if path.exists() else Users(secret=secret)
    finally:
        os.close(lock)


def _write(path: Path, users: Users) -> None:
    """Replace the file by a rename; nobody reads it but its owner, and its group where that could before.

    Raises UserError for users that nobody could read again: nodes would refuse all of them, and so would this.
    """
    path = _behind_links(path)
    text = users_text(users)
    try:
        parse_users(text)
    except UsersError as error:
        raise UserError(f"{path} is full and stays as it is: {error}; take off users and tokens of no use") from None
    try:
        with tempfile.NamedTemporaryFile("w", dir=path.parent, prefix=f".{path.name}.", delete=False) as file:
            try:
                os.fchmod(file.fileno(), 0o600)
                file.write(text)
                file.flush()
                _keep_owner(path, file.fileno())
                os.fsync(file.fileno())
                Path(file.name).replace(path)
            except BaseException:
                Path(file.name).unlink(missing_ok=True)
                raise
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
    except OSError as error:
        raise FileError(f"{path} cannot be written: {error.strerror}") from error


def _behind_links(path: Path) -> Path:
    """Return the file that a link leads to, which is replaced in place of the link; a loop of links as it is."""
    return Path(os.path.realpath(path))


def _keep_owner(path: Path, descriptor: int) -> None:
    """Leave the file to its owner and its group, where root changes it for a node that runs as another user."""
    try:
        found = path.stat()
    except OSError:
        return
    if os.geteuid() == 0:
        os.fchown(descriptor, found.st_uid, found.st_gid)
    if os.fstat(descriptor).st_gid == found.st_gid:
        os.fchmod(descriptor, 0o600 | (found.st_mode & stat.S_IRGRP))
