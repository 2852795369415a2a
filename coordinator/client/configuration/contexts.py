"""The file of contexts: named clusters, each with its addresses and the way in which it is spoken to.

It is TOML, by default `~/.config/kcoord/config.toml`. A table `contexts.NAME` has `coordinator` and settings by the
names that a command configuration has, such as `kcoord.security.protocol`; `context` on top names the one that counts
where none is asked for. As for a command configuration, a file with a secret that others may read is refused, and no
error shows a value.
"""

import difflib
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from coordinator.client.configuration.command_config import refuse_if_others_read
from coordinator.client.security import SECURITY_NAMES, SecurityError
from coordinator.protocol.text.addresses import parse_addresses

ADDRESSES: Final = "coordinator"


@dataclass(frozen=True, slots=True)
class Context:
    """One cluster under a name: the addresses of coordinators, and settings that may be secrets."""

    name: str
    coordinator: str
    settings: Mapping[str, str] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True)
class Contexts:
    """Every context of a file by its name, and the name of the one that counts where none is asked for."""

    path: Path
    known: Mapping[str, Context] = field(default_factory=dict)
    current: str = ""

    def named(self, name: str) -> Context:
        """Return a context; raises SecurityError, which names the nearest there is."""
        found = self.known.get(name)
        if found is None:
            near = difflib.get_close_matches(name, self.known, 1)
            there = f"; the nearest is '{near[0]}'" if near else f"; there are: {', '.join(self.known) or 'none'}"
            raise SecurityError(f"{self.path} has no context '{name}'{there}")
        return found


def contexts_path(environment: Mapping[str, str]) -> Path | None:
    """Return where the file is: below XDG_CONFIG_HOME, else `~/.config`; None for a user without a home."""
    base, home = environment.get("XDG_CONFIG_HOME", ""), environment.get("HOME", "")
    if not base and not home:
        return None
    return (Path(base) if base else Path(home) / ".config") / "kcoord" / "config.toml"


def contexts_of_user(environment: Mapping[str, str]) -> Contexts:
    """Return the contexts of the user of this process; raises SecurityError."""
    path = contexts_path(environment)
    if path is None:
        raise SecurityError("there is no file of contexts: neither HOME nor XDG_CONFIG_HOME is set")
    return read_contexts(path)


def read_contexts(path: Path) -> Contexts:
    """Return the contexts of a file, none where there is no file; raises SecurityError."""
    try:
        mode, text = path.stat().st_mode, path.read_text(encoding="utf-8")
        document = tomllib.loads(text)
    except FileNotFoundError:
        return Contexts(path)
    except OSError as error:
        raise SecurityError(f"{path} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise SecurityError(f"{path} is no text") from None
    except tomllib.TOMLDecodeError as error:
        raise SecurityError(f"{path} is not TOML: {error}") from None
    unknown = document.keys() - {"context", "contexts"}
    if unknown:
        raise SecurityError(f"{path}: '{min(unknown)}' is unknown; known: context, contexts")
    tables, current = document.get("contexts", {}), document.get("context", "")
    if not isinstance(tables, dict) or not isinstance(current, str):
        raise SecurityError(f"{path}: 'context' is a name, and each context a table [contexts.NAME]")
    known = {name: _context(path, name, table) for name, table in tables.items()}
    refuse_if_others_read(path, mode, {key for context in known.values() for key in context.settings})
    contexts = Contexts(path, known, current)
    if current:
        contexts.named(current)
    return contexts


def _context(path: Path, name: str, table: object) -> Context:
    where = f"{path}: context '{name}'"
    if not isinstance(table, dict):
        raise SecurityError(f"{where} is no table")
    values = dict(_flat(where, table))
    addresses = values.pop(ADDRESSES, "")
    if not addresses:
        raise SecurityError(f"{where} has no 'coordinator', HOST:PORT[,...]")
    try:
        parse_addresses(addresses)
    except ValueError as error:
        raise SecurityError(f"{where}: 'coordinator': {error}") from None
    for key in values:
        if key not in SECURITY_NAMES:
            near = difflib.get_close_matches(key, (ADDRESSES, *SECURITY_NAMES), 1)
            raise SecurityError(f"{where}: '{key}' is unknown" + (f"; the nearest is '{near[0]}'" if near else ""))
    return Context(name, addresses, values)


def _flat(where: str, table: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, str]]:
    """Yield the values of a table by dotted names: TOML makes tables of `kcoord.security.protocol`."""
    for key, value in table.items():
        name = f"{before}{key}"
        if isinstance(value, dict):
            yield from _flat(where, value, f"{name}.")
        elif isinstance(value, str):
            yield name.lower(), value
        else:
            raise SecurityError(f"{where}: '{name}' is no text; write it in quotes")
