"""The form of a section: its settings, each declared with its unit, its limits, its default and the reason it is there.

A time is named by its milliseconds and may also be written as a duration, `15m` or `PT15M`.
"""

import ipaddress
import socket
from collections.abc import Sequence
from typing import Annotated, Any, TypeAlias, cast

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    SecretStr,
    ValidationInfo,
    field_validator,
)
from pydantic.fields import FieldInfo
from pydantic_settings import NoDecode

from coordinator.protocol.text.addresses import parse_address
from coordinator.protocol.text.durations import parse_duration_ms

LONGEST_MS = 24 * 60 * 60 * 1000


class ConfigError(Exception):
    """Settings that cannot be used; `lines` holds one sentence an error."""

    def __init__(self, lines: Sequence[str]) -> None:
        super().__init__("\n".join(lines))
        self.lines = tuple(lines)


def is_loopback(host: str) -> bool:
    """Say whether a host is this machine under an address that no other one reaches; a name is not looked up."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def _split_at_commas(value: object) -> object:
    return [part.strip() for part in value.split(",") if part.strip()] if isinstance(value, str) else value


def _refuse_other_than_addresses(value: tuple[str, ...]) -> tuple[str, ...]:
    for address in value:
        parse_address(address)
    return value


def _refuse_what_is_no_address(value: str) -> str:
    if value:
        parse_address(value, lowest_port=0)
    return value


def is_every_address(host: str) -> bool:
    """Say whether a host stands for every address of a machine, so that nobody else could be told it.

    Systems read `0` and `0.0` as `0.0.0.0`. A name is not looked up.
    """
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host == "" or _is_zero(host)
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return (mapped or address).is_unspecified


def _is_zero(host: str) -> bool:
    try:
        return socket.inet_aton(host) == bytes(4)
    except (OSError, ValueError):
        return False


def _refuse_every_address(value: str) -> str:
    if value and is_every_address(parse_address(value, lowest_port=0)[0]):
        raise ValueError(f"{value} is every address of this machine, and others are to be told one that they reach")
    return value


def _refuse_nothing(value: str) -> str:
    if not value:
        raise ValueError("must not be empty")
    return value


Addresses: TypeAlias = Annotated[
    tuple[str, ...],
    NoDecode,
    BeforeValidator(_split_at_commas),
    AfterValidator(_refuse_other_than_addresses),
]
"""Several HOST:PORT to connect to; in a flag or the environment with commas between."""
Names: TypeAlias = Annotated[tuple[str, ...], NoDecode, BeforeValidator(_split_at_commas)]
"""Several names; in a flag or the environment with commas between."""
OwnAddress: TypeAlias = Annotated[str, AfterValidator(_refuse_what_is_no_address)]
"""HOST:PORT of this node, port 0 for any, or nothing."""
ToldAddress: TypeAlias = Annotated[OwnAddress, AfterValidator(_refuse_every_address)]
"""HOST:PORT of this node that others are told, port 0 for any, or nothing."""
ListenAddress: TypeAlias = Annotated[OwnAddress, AfterValidator(_refuse_nothing)]
"""HOST:PORT of this node, port 0 for any."""


def setting(default: Any, unit: str, why: str, **limits: Any) -> Any:
    """Declare a setting."""
    return Field(default, description=why, json_schema_extra={"unit": unit}, **limits)


class Section(BaseModel):
    """A section of the settings."""

    model_config = ConfigDict(extra="forbid", frozen=True, validate_default=True)

    @field_validator("*", mode="before")
    @classmethod
    def _read_duration(cls, value: object, info: ValidationInfo) -> object:
        assert info.field_name is not None
        is_time = unit_of(cls.model_fields[info.field_name]) == "ms"
        return parse_duration_ms(value, bare_unit="ms") if is_time and isinstance(value, str) else value


def section_of(field: FieldInfo) -> type[BaseModel]:
    """Return the section that a field of the settings holds."""
    return cast(type[BaseModel], field.annotation)


def is_secret(setting: FieldInfo) -> bool:
    """Say whether the value of a setting is shown to nobody."""
    return setting.annotation is SecretStr


def unit_of(setting: FieldInfo) -> str:
    """Return the unit that a setting is declared with, empty for none."""
    extra = setting.json_schema_extra
    return str(extra.get("unit") or "") if isinstance(extra, dict) else ""
