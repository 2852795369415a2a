"""The settings of a node that say what principals may do.

How somebody proves to be a principal is set elsewhere.
"""

from typing import Annotated, TypeAlias

from pydantic import AfterValidator, BeforeValidator
from pydantic_settings import NoDecode

from coordinator.config.section import Section, setting
from coordinator.core.security.principal import Principal


def _split(value: object) -> object:
    return [part.strip() for part in value.split(";") if part.strip()] if isinstance(value, str) else value


def _refuse_other_than_principals(value: tuple[str, ...]) -> tuple[str, ...]:
    for name in value:
        Principal.parse(name)
    return value


Principals: TypeAlias = Annotated[
    tuple[str, ...], NoDecode, BeforeValidator(_split), AfterValidator(_refuse_other_than_principals)
]
"""Several User:NAME; in a flag or the environment with semicolons between, for a name may have commas."""


class AuthorizationSettings(Section):
    """Rights of principals. Without a file of rules nobody is asked for any."""

    rules_file: str = setting(
        "", "file", "Rules of who may do what, a line each; what no rule allows is denied. Empty: everybody may do all."
    )
    superusers: Principals = setting((), "User:NAME; ...", "Principals that may do everything, whatever the rules say.")
