"""The start or end of a read: a word, a time, or JSON with a position or a time for each topic or partition.

Positions are Kafka's: an offset is the next one to read (starting) or the first not to read (ending); -2 is earliest
and -1 latest. Times are ms since 1970 and stand for the first offset at or after them. The forms are spark-sql-kafka's:
``earliest``, ``latest``, ``{"topic": {"0": 23, "1": -1}}`` and, for a whole topic, ``{"topic": "latest"}``; a time for
a whole topic and ``committed`` are kcoord's own. Which words are allowed where is the caller's to say. Pure.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Final, TypeGuard

from spark_kcoord.errors import OptionError
from spark_kcoord.options.kinds import parse_json

__all__ = [
    "COMMITTED",
    "EARLIEST",
    "EARLIEST_LOCAL_POSITION",
    "EARLIEST_POSITION",
    "LATEST",
    "LATEST_POSITION",
    "OffsetSpec",
    "parse_offset_spec",
    "parse_time_spec",
]

EARLIEST_POSITION: Final = -2
LATEST_POSITION: Final = -1
EARLIEST_LOCAL_POSITION: Final = -4
"""The beginning of the part of a log on its leader's own disk; older records are in a remote tier (KIP-405)."""
EARLIEST: Final = "earliest"
LATEST: Final = "latest"
COMMITTED: Final = "committed"

_WORD_POSITIONS: Final = {EARLIEST: EARLIEST_POSITION, LATEST: LATEST_POSITION}
_PARTITION: Final = re.compile(r"0|[1-9][0-9]{0,9}")
"""A number without leading zeros, so that no partition has two names."""
_TIME_FORM: Final = 'JSON such as {"topic": {"0": 1790000000000}} or {"topic": 1790000000000} (ms since 1970)'


@dataclass(frozen=True, slots=True)
class OffsetSpec:
    """A start or end: ``word`` or ``time_ms`` for every partition, or else values by topic and partition.

    ``partitions`` holds (topic, partition, value), ``topics`` holds (topic, value) for whole topics, each in order; the
    values are positions, or times in ms when ``is_by_time``. ``option`` is the name of the option it was given by.
    """

    word: str | None = None
    time_ms: int | None = None
    topics: tuple[tuple[str, int], ...] = ()
    partitions: tuple[tuple[str, int, int], ...] = ()
    is_by_time: bool = False
    option: str = field(default="", compare=False)

    @property
    def is_for_all(self) -> bool:
        """True if it says the same of every partition, so that it names none."""
        return self.word is not None or self.time_ms is not None

    def position(self, topic: str, partition: int) -> int | None:
        """Return the partition's position (-2 earliest, -1 latest); None when the spec has none or a time."""
        if self.word is not None:
            return _WORD_POSITIONS.get(self.word)
        return None if self.is_by_time else self._named(topic, partition)

    def time_of(self, topic: str, partition: int) -> int | None:
        """Return the partition's time in ms; None when the spec has none for it."""
        if self.time_ms is not None:
            return self.time_ms
        return self._named(topic, partition) if self.is_by_time else None

    def names(self, topic: str, partition: int) -> bool:
        """Return whether the spec says anything of a partition."""
        return self.is_for_all or self._named(topic, partition) is not None

    def named_topics(self) -> frozenset[str]:
        """Return the topics the JSON names (none for a word or a time)."""
        return frozenset([name for name, _ in self.topics] + [name for name, _, _ in self.partitions])

    def named_partitions(self, topic: str) -> frozenset[int]:
        """Return the partitions of ``topic`` that the JSON names one by one."""
        return frozenset(partition for name, partition, _ in self.partitions if name == topic)

    def _named(self, topic: str, partition: int) -> int | None:
        at = bisect_left(self.partitions, (topic, partition))
        if at < len(self.partitions) and self.partitions[at][:2] == (topic, partition):
            return self.partitions[at][2]
        at = bisect_left(self.topics, (topic,))
        return self.topics[at][1] if at < len(self.topics) and self.topics[at][0] == topic else None


def parse_offset_spec(option: str, text: str, *, words: Iterable[str], positions: Iterable[int]) -> OffsetSpec:
    """Parse an option's text; ``words`` and the special ``positions`` (-2, -1) are those allowed for it.

    Raises OptionError naming the option, the offending part and what is allowed.
    """
    allowed_words = tuple(words)
    allowed_positions = tuple(positions)
    stripped = text.strip()
    if stripped.lower() in allowed_words:
        return OffsetSpec(word=stripped.lower(), option=option)
    allowed = (
        f"{', '.join(repr(word) for word in allowed_words)} or JSON such as "
        '{"topic": {"0": 23, "1": -1}} or {"topic": "latest"}'
    )
    if not stripped.startswith("{"):
        raise OptionError(f"Option '{option}' is {text!r}, which is not an offset specification. Use {allowed}.")

    def read_topic(topic: str, value: object) -> int | None:
        if not isinstance(value, str):
            return None
        position = _WORD_POSITIONS.get(value.lower())
        if position is None or position not in allowed_positions:
            raise OptionError(f"Option '{option}' says {value!r} for topic '{topic}'. Use {allowed}.")
        return position

    def read_partition(where: str, raw: object) -> int:
        if _is_whole(raw) and (raw in allowed_positions or 0 <= raw < 2**63):
            return int(raw)
        special = {EARLIEST_POSITION: "-2 (earliest)", LATEST_POSITION: "-1 (latest)"}
        names = ", ".join(special[position] for position in allowed_positions)
        raise OptionError(f"Option '{option}' gives {where} the offset {raw!r}. Use an offset from 0, or {names}.")

    return _parse_named(option, stripped, allowed, read_topic, read_partition, is_by_time=False)


def parse_time_spec(option: str, text: str) -> OffsetSpec:
    """Parse JSON with a time in ms for each topic or partition; raises OptionError as `parse_offset_spec` does."""

    def read_topic(topic: str, value: object) -> int | None:
        return read_partition(f"topic '{topic}'", value) if _is_whole(value) else None

    def read_partition(where: str, raw: object) -> int:
        if _is_whole(raw) and 0 <= raw < 2**63:
            return int(raw)
        raise OptionError(f"Option '{option}' gives {where} the time {raw!r}. Use ms since 1970, from 0.")

    return _parse_named(option, text.strip(), _TIME_FORM, read_topic, read_partition, is_by_time=True)


def _parse_named(
    option: str,
    text: str,
    allowed: str,
    read_topic: Callable[[str, object], int | None],
    read_partition: Callable[[str, object], int],
    *,
    is_by_time: bool,
) -> OffsetSpec:
    """Read JSON by topic: ``read_topic`` returns the value of a whole topic or None where partitions must follow."""
    try:
        document: Any = parse_json(text)
    except ValueError as error:
        raise OptionError(f"Option '{option}' is not valid JSON: {error}. Use {allowed}.") from error
    if not isinstance(document, dict) or not document:
        raise OptionError(f"Option '{option}' names no topic. Use {allowed}.")
    topics: list[tuple[str, int]] = []
    partitions: list[tuple[str, int, int]] = []
    for topic, value in document.items():
        whole = read_topic(topic, value)
        if whole is not None:
            topics.append((topic, whole))
        elif isinstance(value, dict) and value:
            partitions.extend(
                (topic, _partition(option, topic, key), read_partition(f"topic '{topic}' partition {key}", raw))
                for key, raw in value.items()
            )
        else:
            raise OptionError(f"Option '{option}' gives topic '{topic}' no partitions. Use {allowed}.")
    return OffsetSpec(
        topics=tuple(sorted(topics)), partitions=tuple(sorted(partitions)), is_by_time=is_by_time, option=option
    )


def _partition(option: str, topic: str, key: str) -> int:
    if _PARTITION.fullmatch(key) and int(key) <= 2**31 - 1:
        return int(key)
    raise OptionError(f"Option '{option}' names partition {key!r} of topic '{topic}'. A partition is a number from 0.")


def _is_whole(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool)
