"""The kinds of value an option can have: how each is read from text and what a wrong one is told.

A kind turns text into a Python value or raises ``ValueError``; ``Kind.read`` turns that into the one error a
user sees, which names the option, the value (never a secret's) and what is allowed. Pure, stdlib only.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final

from spark_kcoord.errors import OptionError

__all__ = [
    "BOOLEAN",
    "METADATA_TTL",
    "PATTERN",
    "PUSHED_FILTERS",
    "SERVERS",
    "TEXT",
    "TIME_MS",
    "TOPICS",
    "Kind",
    "byte_count",
    "choice",
    "chosen_names",
    "duration_ms",
    "identifier",
    "integer",
    "names",
    "parse_json",
    "parse_topic",
    "spark_duration_ms",
]

_BYTES: Final = re.compile(r"(\d{1,15})\s*([kmgt]?)i?b?")
_BYTE_UNITS: Final = {"": 1, "k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40}
_TOPIC: Final = re.compile(r"[A-Za-z0-9._-]{1,249}")


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of value: its name in the docs, what is allowed, and the function that reads it."""

    name: str
    allowed: str
    parse: Callable[[str], Any]
    is_secret: bool = False

    def read(self, option: str, text: str) -> Any:
        """Return the value of ``text``; raises OptionError naming the option, the value and what is allowed."""
        try:
            return self.parse(text)
        except ValueError as error:
            shown = "the given value" if self.is_secret else repr(text)
            because = f" ({error})" if str(error) and not self.is_secret else ""
            message = f"Option '{option}' cannot be {shown}{because}. Allowed: {self.allowed}."
            raise OptionError(message) from None

    def as_secret(self) -> Kind:
        """Return this kind with its values kept out of error messages."""
        return Kind(self.name, self.allowed, self.parse, is_secret=True)


def _parse_boolean(text: str) -> bool:
    word = text.strip().lower()
    if word not in ("true", "false"):
        raise ValueError
    return word == "true"


def _parse_text(text: str) -> str:
    if not text.strip():
        raise ValueError("it is empty")
    return text.strip()


def _parse_pattern(text: str) -> str:
    from spark_kcoord.options.topic_patterns import why_bad_pattern

    pattern = _parse_text(text)
    why = why_bad_pattern(pattern)
    if why is not None:
        raise ValueError(why)
    return pattern


def _split(text: str) -> tuple[str, ...]:
    parts = tuple(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))
    if not parts:
        raise ValueError("it is empty")
    return parts


def _parse_server(text: str) -> str:
    # Options are read on the Spark driver; executors load this file too, and have no coordinator package.
    from coordinator.protocol.text.addresses import format_address, parse_address

    return format_address(parse_address(text))


def parse_topic(text: str) -> str:
    """Return a topic name as it is; raises ValueError when Kafka would have no topic of that name."""
    if not _TOPIC.fullmatch(text) or text in (".", ".."):
        raise ValueError(f"{text!r} is not a topic name")
    return text


def parse_json(text: str) -> Any:
    """Return the JSON document in a text; raises ValueError also when an object names a key twice."""
    try:
        return json.loads(text, object_pairs_hook=_reject_duplicates)
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error


def _reject_duplicates(pairs: list[tuple[str, object]]) -> dict[str, object]:
    document = dict(pairs)
    if len(document) != len(pairs):
        names = [name for name, _ in pairs]
        twice = sorted({name for name in names if names.count(name) > 1})
        raise ValueError(f"{', '.join(twice)} is given twice")
    return document


BOOLEAN: Final = Kind("boolean", "true or false", _parse_boolean)
TEXT: Final = Kind("text", "any text that is not empty", _parse_text)
PATTERN: Final = Kind("pattern", "a regular expression of RE2 (github.com/google/re2/wiki/Syntax)", _parse_pattern)
SERVERS: Final = Kind(
    "servers",
    "a comma-separated list of host:port (IPv6 addresses in brackets)",
    lambda text: tuple(_parse_server(part) for part in _split(text)),
)
TOPICS: Final = Kind(
    "topics",
    "a comma-separated list of topic names (letters, digits, '.', '_', '-'; at most 249)",
    lambda text: tuple(parse_topic(part) for part in _split(text)),
)


def integer(low: int, high: int = 2**63 - 1) -> Kind:
    """Return the kind of whole numbers from ``low`` to ``high``."""

    def parse(text: str) -> int:
        stripped = text.strip()
        if not re.fullmatch(r"[+-]?\d{1,19}", stripped, re.ASCII) or not low <= int(stripped) <= high:
            raise ValueError
        return int(stripped)

    upper = "" if high == 2**63 - 1 else f" to {high}"
    return Kind("integer", f"a whole number from {low}{upper}", parse)


def _to_ms(text: str, bare_unit: str | None = None) -> int:
    from coordinator.protocol.text.durations import parse_duration_ms  # not at the top: executors load this file too

    return parse_duration_ms(text, bare_unit=bare_unit)


def duration_ms(low: str, high: str) -> Kind:
    """Return the kind of durations with a unit, such as ``10s``, read as milliseconds, from ``low`` to ``high``."""

    def parse(text: str) -> int:
        value = _to_ms(text)
        if not _to_ms(low) <= value <= _to_ms(high):
            raise ValueError
        return value

    return Kind("duration", f"a number with a unit (ms, s, m, h) from {low} to {high}, such as 10s or PT10S", parse)


def _parse_pushed_filters(text: str) -> bool:
    word = text.strip().lower()
    if word == "true":
        raise ValueError(
            "Spark shares what it plans for the filter of one scan among all scans of a load(), so that every other "
            "one would read wrong rows without an error; give 'one-scan' where each load() is read by one scan alone, "
            "and call load() anew for another filter or another use"
        )
    if word not in ("one-scan", "false"):
        raise ValueError
    return word == "one-scan"


PUSHED_FILTERS: Final = Kind("choice", "one-scan, false", _parse_pushed_filters)


def _parse_metadata_ttl(text: str) -> int:
    value = integer(-1).parse(text)
    if value == 0:
        raise ValueError
    return int(value)


TIME_MS: Final = Kind("time", "ms since 1970, a whole number from 0", integer(0).parse)
METADATA_TTL: Final = Kind("integer", "-1 or a whole number from 1", _parse_metadata_ttl)


def spark_duration_ms(high: str) -> Kind:
    """Return the kind of durations as Spark writes them, read as milliseconds: without a unit they are milliseconds."""

    def parse(text: str) -> int:
        value = _to_ms(text, "ms")
        if value > _to_ms(high):
            raise ValueError
        return value

    return Kind("duration", f"milliseconds, or a number with a unit (us, ms, s, m, h, d), up to {high}", parse)


def byte_count(low: int) -> Kind:
    """Return the kind of sizes in bytes, such as ``64m``, from ``low``."""

    def parse(text: str) -> int:
        match = _BYTES.fullmatch(text.strip().lower())
        value = int(match[1]) * _BYTE_UNITS[match[2]] if match else -1
        if not low <= value < 2**63:
            raise ValueError
        return value

    return Kind("bytes", f"a whole number of bytes from {low}, or with a unit (k, m, g), such as 64m", parse)


def choice(values: Iterable[str], *, upper: bool = False) -> Kind:
    """Return the kind of one word of ``values``, in any case of letters."""
    words = tuple(values)

    def parse(text: str) -> str:
        word = text.strip().upper() if upper else text.strip().lower()
        if word not in words:
            raise ValueError
        return word

    return Kind("choice", ", ".join(word or "an empty text" for word in words), parse)


def identifier(limit: int) -> Kind:
    """Return the kind of ids of 1 to ``limit`` characters, none of them a control character."""

    def parse(text: str) -> str:
        if not 0 < len(text.strip()) <= limit or not text.strip().isprintable():
            raise ValueError
        return text.strip()

    return Kind("id", f"1 to {limit} printable characters", parse)


def names() -> Kind:
    """Return the kind of comma-separated names."""
    return Kind("names", "a comma-separated list of names", _split)


def chosen_names(values: Iterable[str]) -> Kind:
    """Return the kind of some of ``values``, separated by commas in any case and order, read in the order of these."""
    words = tuple(values)
    by_lower = {word.lower(): word for word in words}

    def parse(text: str) -> tuple[str, ...]:
        chosen = set()
        for name in _split(text):
            if name.lower() not in by_lower:
                raise ValueError(f"{name!r} is none of them")
            chosen.add(by_lower[name.lower()])
        return tuple(word for word in words if word in chosen)

    return Kind("names", f"some of {', '.join(words)}, separated by commas", parse)
