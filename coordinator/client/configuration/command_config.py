"""A file of lines `NAME=VALUE` that says how coordinators, or brokers, are spoken to, as Kafka's tools take one.

A secret is never given on a command line, where every user of the machine reads it. A file with a secret in it that
others may read is refused, and no error shows a value.
"""

import stat
from collections.abc import Collection, Container
from pathlib import Path
from typing import Final

from coordinator.client.security import FILE_SUFFIX, SECURITY_SETTINGS, SecurityError

_SECRETS: Final = tuple(setting.name for setting in SECURITY_SETTINGS if setting.is_secret)


def read_command_config(path: Path) -> dict[str, str]:
    """Return the settings of a file; raises SecurityError, which names the line and not its value."""
    return read_named_values(path, _SECRETS, FILE_SUFFIX)


def read_named_values(path: Path, secrets: Collection[str], file_suffix: str = "") -> dict[str, str]:
    """Return the values of a file by their names in lower case; raises SecurityError, which shows no value.

    A file that has one of the secrets and may be read by others is refused. With `file_suffix` behind its name a secret
    may be the path of a file instead.
    """
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
        mode = path.stat().st_mode
    except OSError as error:
        raise SecurityError(f"{path} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise SecurityError(f"{path} is no text") from None
    given: dict[str, str] = {}
    for number, line in enumerate(lines, 1):
        name, equals, value = line.partition("=")
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        if not equals:
            raise SecurityError(f"{path}, line {number}: is not NAME=VALUE")
        if name.strip().lower() in given:
            raise SecurityError(f"{path}, line {number}: {name.strip()} is given twice")
        given[name.strip().lower()] = value.strip()
    refuse_if_others_read(path, mode, given, secrets, file_suffix)
    return given


def refuse_if_others_read(
    path: Path, mode: int, given: Container[str], secrets: Collection[str] = _SECRETS, file_suffix: str = FILE_SUFFIX
) -> None:
    """Raise SecurityError if a file of this mode has one of the secrets among what is given and others may read it.

    With `file_suffix` behind its name a secret may be the path of a file instead, which the error says.
    """
    found = [name for name in secrets if name in given]
    if found and mode & (stat.S_IRWXG | stat.S_IRWXO):
        names = ", ".join(name + file_suffix for name in found)
        instead = f", or name {'a file' if len(found) == 1 else 'files'} with {names}" if file_suffix else ""
        raise SecurityError(f"{path} holds {', '.join(found)} and may be read by others: `chmod 600 {path}`{instead}")
