"""Words and times that people and programs give for what they ask of groups, each refused with the nearest. Pure."""

import difflib
from collections.abc import Iterable, Iterator, Sequence
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import TypeVar

from coordinator.client.times import parse_time_ms
from coordinator.protocol.text.durations import parse_duration_ms
from coordinator.protocol.text.escaping import one_line
from coordinator.protocol.vocabulary import EventKind

_Word = TypeVar("_Word", bound=StrEnum)


def nearest(text: str, words: Iterable[str]) -> str:
    """Return the end of a sentence about a word that there is not: the nearest one, else all there are."""
    known = [str(word) for word in words]
    near = difflib.get_close_matches(text, known, 1, 0.4)
    return f"is '{near[0]}' meant?" if near else f"known: {', '.join(known)}"


def parse_word(text: str, words: type[_Word], what: str) -> _Word:
    """Return the one of these words that a text is, whatever its case; raises ValueError with the nearest."""
    wanted = text.strip().lower()
    found = next((word for word in words if word.lower() == wanted), None)
    if found is None:
        raise ValueError(f"there {what} '{one_line(text)}'; {nearest(text.strip(), words)}")
    return found


def parse_kind(text: str) -> EventKind:
    """Return the kind of events that a text names; raises ValueError with the nearest."""
    return parse_word(text, EventKind, "are no events of kind")


def parse_since(text: str, now_ms: int) -> int:
    """Read `15m`, `PT15M` or a time of ISO 8601, in UTC unless it names a zone, as milliseconds since 1970.

    Raises ValueError.
    """
    try:
        return max(0, now_ms - parse_duration_ms(text))
    except ValueError:
        try:
            return parse_time_ms(text)
        except ValueError as error:
            raise ValueError(
                f"'{one_line(text)}' is neither a duration such as 15m nor a time such as 2026-01-31T06:30:00Z"
            ) from error


def parse_timeout_s(text: str | float) -> float:
    """Read a time-out of 0.1 s to 10 m in seconds, which a number without a unit is; raises ValueError."""
    seconds = parse_duration_ms(str(text), bare_unit="s") / 1000
    if not 0.1 <= seconds <= 600:
        raise ValueError(f"'{text}' is not from 0.1 s to 10 m")
    return seconds


def filter_groups(group_ids: Sequence[str], match: str | None) -> Iterator[str]:
    """Yield the ids that a glob matches; all of them without one."""
    return (group_id for group_id in group_ids if match is None or fnmatchcase(group_id, match))
