"""The rules file of a node: read when it starts, and anew when it has changed.

A text with a mistake names its line; at the start it is an error, later the rules that were read before count on.
"""

import contextlib
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

from structlog.typing import FilteringBoundLogger

from coordinator.config import AuthorizationSettings
from coordinator.core.events import RulesChanged
from coordinator.core.security.acl import Acl
from coordinator.core.security.acl_file import MOST_BYTES, RulesError, parse_rules
from coordinator.core.security.principal import Principal
from coordinator.runtime.security.reread import FileError, Reread, Watch


def read_rules(settings: AuthorizationSettings) -> Acl:
    """Return the rules that the settings name, with the superusers; raises FileError, which names the line."""
    path = Path(settings.rules_file)
    try:
        with path.open("rb") as file:
            text = file.read(MOST_BYTES + 1).decode()
        rules = parse_rules(text)
    except OSError as error:
        raise FileError(f"{path}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise FileError(f"{path}: is not UTF-8: {error.reason} at byte {error.start}") from error
    except RulesError as error:
        raise FileError(f"{path}: {error}") from error
    return Acl(rules, frozenset(Principal.parse(name) for name in settings.superusers))


class Rules(Reread[Acl]):
    """The rules in force; `on_change` is told of others by an event, from any thread."""

    def __init__(self, settings: AuthorizationSettings, log: FilteringBoundLogger) -> None:
        self.on_change: Callable[[RulesChanged], None] | None = None

        def load() -> Acl:
            acl = read_rules(settings)
            if self.on_change is not None:
                self.on_change(RulesChanged(acl))
            return acl

        super().__init__("rules of who may do what", [Path(settings.rules_file)], load, log)


def rules_of(settings: AuthorizationSettings, log: FilteringBoundLogger) -> Rules | None:
    """Return the rules that are asked on this node, None where nobody is; raises ConfigError."""
    return Rules(settings, log) if settings.rules_file else None


@contextlib.asynccontextmanager
async def rules_watched(
    rules: Rules | None, settings: AuthorizationSettings, on_change: Callable[[RulesChanged], None]
) -> AsyncIterator[None]:
    """Within the block, look now and then whether there are other rules, and tell of them."""
    if rules is None:
        yield
        return
    rules.on_change = on_change
    watched: list[Reread[Any]] = [rules]
    watch = Watch(watched, settings.look_ms)
    watch.start()
    try:
        yield
    finally:
        await watch.stop()
