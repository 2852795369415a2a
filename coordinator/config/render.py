"""The settings as the text of a configuration file: the defaults, or those that a node would run with."""

import json
from collections.abc import Callable

from pydantic import SecretStr
from pydantic.fields import FieldInfo

from coordinator.config.section import section_of, unit_of
from coordinator.config.sections import Settings


def default_file() -> str:
    """Return the text of a configuration file that holds every key with its default, unit and reason."""
    return _file("its default", lambda _section, _key, setting: setting.default)


def config_file(settings: Settings) -> str:
    """Return the text of a file that holds every key with its value in these settings, unit and reason."""
    return _file("the value in use", lambda section, key, _setting: getattr(getattr(settings, section), key))


def _file(what: str, value_of: Callable[[str, str, FieldInfo], object]) -> str:
    lines = [
        f"# Every setting of a kcoord node with {what}. A flag (--set section.key=value) goes before the",
        '# environment (KCOORD_SECTION_KEY), and that before this file. A time may be written as "15m" or "PT15M" too.',
    ]
    for section, field in Settings.model_fields.items():
        lines += ["", f"# {section_of(field).__doc__}", f"[{section}]"]
        for key, setting in section_of(field).model_fields.items():
            lines += ["", f"# {setting.description}"]
            limits = _limits_of(setting)
            if limits:
                lines.append(f"# {limits}")
            value = value_of(section, key, setting)
            if isinstance(value, SecretStr):
                if value.get_secret_value():
                    lines.append("# It is set, and not shown.")
                value = ""
            lines.append(f"{key} = {_toml_of(value)}")
    return "\n".join(lines) + "\n"


def _limits_of(setting: FieldInfo) -> str:
    choices = getattr(setting.annotation, "__args__", ())
    if all(isinstance(choice, str) for choice in choices) and choices:
        return "One of: " + ", ".join(f'"{choice}"' for choice in choices)
    lowest = next((limit.ge for limit in setting.metadata if hasattr(limit, "ge")), None)
    highest = next((limit.le for limit in setting.metadata if hasattr(limit, "le")), None)
    return f"Unit: {unit_of(setting)}" + ("" if lowest is None else f"; {lowest} to {highest}")


def _toml_of(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, tuple):
        return "[" + ", ".join(_toml_of(part) for part in value) + "]"
    return json.dumps(str(value), ensure_ascii=False)
