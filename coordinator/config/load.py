"""The settings of a node from where they may be set: flags, the environment, a file, their defaults.

A flag goes before the environment (KCOORD_SECTION_KEY), the environment before the file, the file before the default.
An unknown key and a bad value are refused wherever they stand, each with one line that names the place and, for an
unknown one, the nearest key there is.
"""

import difflib
import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from pydantic import ValidationError
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource
from pydantic_settings.exceptions import SettingsError
from pydantic_settings.sources import InitSettingsSource

from coordinator.config.section import ConfigError, is_secret
from coordinator.config.sections import ENVIRONMENT_PREFIX, Settings, every_setting

_OF_TOOLS: Final = frozenset({("kafka", "config")})
"""By section and key as they would be settings: KCOORD_KAFKA_CONFIG is `--kafka-config` of `kcoord import`."""


def load_settings(file: Path | None = None, flags: Mapping[str, object] | None = None) -> Settings:
    """Read the settings; `flags` are by dotted key. Raises ConfigError with a line for every error."""
    _refuse_secrets(flags or {})
    from_flags = _nested(flags or {})
    from_file = _read_file(file) if file is not None else {}
    from_environment: dict[str, Any] = {}
    _refuse_near_sections(os.environ)

    class Loaded(Settings):
        @classmethod
        def settings_customise_sources(
            cls,
            settings_cls: type[BaseSettings],
            init_settings: PydanticBaseSettingsSource,
            env_settings: PydanticBaseSettingsSource,
            dotenv_settings: PydanticBaseSettingsSource,
            file_secret_settings: PydanticBaseSettingsSource,
        ) -> tuple[PydanticBaseSettingsSource, ...]:
            del dotenv_settings, file_secret_settings
            from_environment.update(_without_those_of_tools(env_settings()))
            of_environment = InitSettingsSource(settings_cls, from_environment)
            return init_settings, of_environment, InitSettingsSource(settings_cls, from_file)

    def place_of(location: tuple[str | int, ...]) -> str:
        key = ".".join(str(part) for part in location[:2])
        if not key:
            return "settings"
        if _holds(from_flags, location):
            return f"--set {key}"
        if _holds(from_environment, location):
            return ENVIRONMENT_PREFIX + key.upper().replace(".", "_")
        return f"{file}: {key}" if file is not None and _holds(from_file, location) else key

    try:
        return Loaded(**from_flags)
    except ValidationError as error:
        raise ConfigError(
            [f"{place_of(fault['loc'])}: {_say(fault)}" for fault in error.errors(include_url=False)]
        ) from None
    except SettingsError as error:
        raise ConfigError([f"environment: {error}; a section is set by its keys, as in KCOORD_LOG_LEVEL"]) from None


def _refuse_secrets(flags: Mapping[str, object]) -> None:
    """Refuse a secret as a flag: every user of the machine could read it in the list of processes."""
    known = every_setting()
    for key in flags:
        if key in known and is_secret(known[key]):
            variable = ENVIRONMENT_PREFIX + key.upper().replace(".", "_")
            raise ConfigError(
                [f"--set {key}: a secret on the command line can be read by others: use {key}_file or {variable}"]
            )


def _refuse_near_sections(environment: Mapping[str, str]) -> None:
    """Refuse a variable of a section that there is not, where one that is spelled nearly so has such a key.

    Others than nodes have variables that begin as ours do, and so has Kubernetes: they are left alone.
    """
    known = every_setting()
    bad = []
    for variable in environment:
        if not variable.upper().startswith(ENVIRONMENT_PREFIX):
            continue
        section, _, key = variable[len(ENVIRONMENT_PREFIX) :].lower().partition("_")
        near = [] if section in Settings.model_fields else difflib.get_close_matches(section, Settings.model_fields)
        meant = next((f"{each}.{key}" for each in near if f"{each}.{key}" in known), None)
        if meant is not None:
            bad.append(f"{variable}: there is no such setting; the nearest is {meant}")
    if bad:
        raise ConfigError(bad)


def _without_those_of_tools(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the environment gives without variables of `kcoord`'s own that have the name of a setting."""
    return {
        section: {key: value for key, value in values.items() if (section, key) not in _OF_TOOLS}
        if isinstance(values, Mapping)
        else values
        for section, values in given.items()
    }


def _read_file(file: Path) -> dict[str, Any]:
    try:
        with file.open("rb") as stream:
            return tomllib.load(stream)
    except OSError as error:
        raise ConfigError([f"{file}: cannot be read: {error.strerror}"]) from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError([f"{file}: is not TOML: {error}"]) from None


def _nested(flags: Mapping[str, object]) -> dict[str, Any]:
    nested: dict[str, Any] = {}
    for key, value in flags.items():
        section, _, name = key.partition(".")
        if name:
            nested.setdefault(section, {})[name] = value
        else:
            nested[section] = value
    return nested


def _holds(values: object, location: tuple[str | int, ...]) -> bool:
    for part in location[:2]:
        if not isinstance(values, Mapping) or part not in values:
            return False
        values = values[part]
    return True


def _say(fault: Any) -> str:
    key = ".".join(str(part) for part in fault["loc"])
    if fault["type"] == "extra_forbidden":
        known = list(every_setting()) if "." in key else list(Settings.model_fields)
        near = difflib.get_close_matches(key, known, n=1, cutoff=0.4)
        return "there is no such setting" + (f"; the nearest is {near[0]}" if near else "")
    said = str(fault["msg"]).removeprefix("Value error, ")
    setting = every_setting().get(key)
    if isinstance(fault["input"], Mapping) or (setting is not None and is_secret(setting)):
        return f"{said[:1].lower()}{said[1:]}"  # what was given has or is a secret
    shown = repr(fault["input"])
    return f"{said[:1].lower()}{said[1:]}, not {shown}" if "not" not in said and shown not in said else said
