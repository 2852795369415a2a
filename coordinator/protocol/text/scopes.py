"""Partitions as people name them, in Kafka's words: `topic`, or `topic:0,1`."""

import re
from typing import Final

_SCOPE: Final = re.compile(r"(?P<topic>[a-zA-Z0-9._-]{1,249})(?::(?P<numbers>\d{1,9}(?:,\d{1,9})*))?", re.ASCII)


def parse_scope(text: str) -> tuple[str, tuple[int, ...] | None]:
    """Read `topic` or `topic:0,1`; raises ValueError with the reason."""
    match = _SCOPE.fullmatch(text)
    if match is None:
        raise ValueError(f"'{text}' is not TOPIC or TOPIC:0,1,2")
    numbers = match["numbers"]
    return match["topic"], tuple(int(number) for number in numbers.split(",")) if numbers else None
