"""The values of ``startingOffsets`` and ``endingOffsets``: a word, or JSON with a position a topic or
partition.

Positions are Kafka's: an offset is the next one to read (starting) or the first not to read (ending); -2 is
earliest and -1 latest. The forms are spark-sql-kafka's: ``earliest``, ``latest``, ``{"topic": {"0": 23, "1":
-1}}`` and, for a whole topic, ``{"topic": "latest"}``; ``committed`` is kcoord's own. Which words are allowed
where is the caller's to say. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from spark_kcoord.errors import OptionError
from spark_kcoord.option_kinds import parse_json

__all__ = [
    "COMMITTED",
    "EARLIEST",
    "EARLIEST_POSITION",
    "LATEST",
    "LATEST_POSITION",
    "OffsetSpec",
    "parse_offset_spec",
]

EARLIEST_POSITION: Final = -2
LATEST_POSITION: Final = -1
EARLIEST: Final = "earliest"
LATEST: Final = "latest"
COMMITTED: Final = "committed"

_WORD_POSITIONS: Final = {EARLIEST: EARLIEST_POSITION, LATEST: LATEST_POSITION}


@dataclass(frozen=True, slots=True)
class OffsetSpec:
    """Where to start or end: ``word`` for every partition, or (when it is None) positions by topic and
    partition.

    ``partitions`` holds (topic, partition, position), ``topics`` holds (topic, position) for whole topics.
    """

    word: str | None = None
    topics: tuple[tuple[str, int], ...] = ()
    partitions: tuple[tuple[str, int, int], ...] = ()

    def position(self, topic: str, partition: int) -> int | None:
        """Return the partition's position (-2 earliest, -1 latest), or None when the spec does not name it."""
        if self.word is not None:
            return _WORD_POSITIONS.get(self.word)
        for named_topic, named_partition, position in self.partitions:
            if (named_topic, named_partition) == (topic, partition):
                return position
        return dict(self.topics).get(topic)

    def named_topics(self) -> frozenset[str]:
        """Return the topics the JSON names (none for a word)."""
        return frozenset([name for name, _ in self.topics] + [name for name, _, _ in self.partitions])

    def named_partitions(self, topic: str) -> frozenset[int]:
        """Return the partitions of ``topic`` that the JSON names one by one."""
        return frozenset(partition for name, partition, _ in self.partitions if name == topic)


def parse_offset_spec(option: str, text: str, *, words: Iterable[str], positions: Iterable[int]) -> OffsetSpec:
    """Parse an option's text; ``words`` and the special ``positions`` (-2, -1) are those allowed for it.

    Raises OptionError naming the option, the offending part and what is allowed.
    """
    allowed_words = tuple(words)
    allowed_positions = tuple(positions)
    stripped = text.strip()
    if stripped.lower() in allowed_words:
        return OffsetSpec(word=stripped.lower())
    allowed = (
        f"{', '.join(repr(word) for word in allowed_words)} or JSON such as "
        '{"topic": {"0": 23, "1": -1}} or {"topic": "latest"}'
    )
    if not stripped.startswith("{"):
        raise OptionError(f"Option '{option}' is {text!r}, which is not an offset specification. Use {allowed}.")
    try:
        document = parse_json(stripped)
    except ValueError as error:
        raise OptionError(f"Option '{option}' is not valid JSON: {error}. Use {allowed}.") from error
    if not document:
        raise OptionError(f"Option '{option}' names no topic. Use {allowed}.")
    topics: list[tuple[str, int]] = []
    partitions: list[tuple[str, int, int]] = []
    for topic, value in document.items():
        if isinstance(value, str):
            position = _WORD_POSITIONS.get(value.lower())
            if position is None or position not in allowed_positions:
                raise OptionError(f"Option '{option}' says {value!r} for topic '{topic}'. Use {allowed}.")
            topics.append((topic, position))
        elif isinstance(value, dict) and value:
            partitions.extend(
                (topic, _partition(option, topic, key), _position(option, topic, key, raw, allowed_positions))
                for key, raw in value.items()
            )
        else:
            raise OptionError(f"Option '{option}' gives topic '{topic}' no partitions. Use {allowed}.")
    return OffsetSpec(topics=tuple(sorted(topics)), partitions=tuple(sorted(partitions)))


def _partition(option: str, topic: str, key: str) -> int:
    if key.isascii() and key.isdigit() and int(key) <= 2**31 - 1:
        return int(key)
    raise OptionError(f"Option '{option}' names partition {key!r} of topic '{topic}'. A partition is a number from 0.")


def _position(option: str, topic: str, key: str, raw: object, allowed: tuple[int, ...]) -> int:
    is_offset = isinstance(raw, int) and not isinstance(raw, bool)
    if is_offset and (raw in allowed or 0 <= raw < 2**63):  # type: ignore[operator]
        return int(raw)  # type: ignore[call-overload,no-any-return]
    special = {EARLIEST_POSITION: "-2 (earliest)", LATEST_POSITION: "-1 (latest)"}
    names = ", ".join(special[position] for position in allowed)
    raise OptionError(
        f"Option '{option}' gives topic '{topic}' partition {key} the offset {raw!r}. Use an offset from 0, or {names}."
    )
