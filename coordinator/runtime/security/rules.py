"""The rules file of a node: read when it starts, and anew when it has changed.

A text with a mistake names its line; at the start it is an error, later the rules that were read before count on.
"""

from collections.abc import Callable
from pathlib import Path

from structlog.typing import FilteringBoundLogger

from coordinator.config import AuthorizationSettings
from coordinator.core.events import RulesChanged
from coordinator.core.security.acl import Acl
from coordinator.core.security.acl_file import MOST_BYTES, RulesError, parse_rules
from coordinator.core.security.principal import Principal
from coordinator.runtime.security.reread import FileError, Reread, read_file


def read_rules(settings: AuthorizationSettings) -> Acl:
    """Return the rules that the settings name, with the superusers; raises FileError, which names the line."""
    path = Path(settings.rules_file)
    try:
        rules = parse_rules(read_file(path, MOST_BYTES + 1).decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise FileError(f"{path}: is not UTF-8: {error.reason} at byte {error.start}") from error
    except RulesError as error:
        raise FileError(f"{path}: {error}") from error
    return Acl(rules, frozenset(Principal.parse(name) for name in settings.superusers))


class Rules(Reread[Acl]):
    """The rules in force; `on_change` is told of others by an event, on the thread that has read them."""

    def __init__(
        self, settings: AuthorizationSettings, log: FilteringBoundLogger, on_change: Callable[[RulesChanged], None]
    ) -> None:
        super().__init__("rules of who may do what", [Path(settings.rules_file)], lambda: read_rules(settings), log)
        self._on_change = on_change

    def look(self, *, in_any_case: bool = False) -> bool:
        """Read the rules anew if they have changed, or `in_any_case`, and tell of them; say whether that was done."""
        is_read = super().look(in_any_case=in_any_case)
        if is_read:
            self._on_change(RulesChanged(self.value))
        return is_read


def rules_of(
    settings: AuthorizationSettings, log: FilteringBoundLogger, on_change: Callable[[RulesChanged], None]
) -> Rules | None:
    """Return the rules that are asked on this node, None where nobody is; raises ConfigError."""
    return Rules(settings, log, on_change) if settings.rules_file else None
