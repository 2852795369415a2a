"""Names of things that are said on the wire, and the rule that keeps bad names out.

Group, member and instance ids are text of 1 to 250 characters without control characters, so that an id can stand in
a log line, a metric label or a table without being escaped. Nothing here knows what an id is used for.
"""

import re
from typing import Final, TypeAlias

TopicPartition: TypeAlias = tuple[str, int]
"""The name of a topic and the number of one of its partitions."""

MAX_ID_LENGTH: Final = 250
"""Longest group, member or instance id, in characters."""

MAX_METADATA_BYTES: Final = 4096
"""Largest metadata of one committed offset, in bytes of UTF-8."""

MAX_LIST_ITEMS: Final = 20_000
"""Most items in any one list of a request, so that a frame of tiny items cannot become a heap of objects."""

MAX_NAMED: Final = 2_000
"""Most partitions that a list of a request names which is decided in one step: an operator's, or a member's but for
what it shows before it registers."""

MAX_TOPIC_LENGTH: Final = 249
"""Longest name of a topic, in characters; it is Kafka's."""

MAX_PARTITION: Final = 2**31 - 1
"""Largest number of a partition, and largest leader epoch; it is Kafka's."""

MAX_OFFSET: Final = 2**63 - 1
"""Largest offset, and largest time in milliseconds since 1970; it is Kafka's."""

MAX_INCARNATION_LENGTH: Final = 64
"""Longest name of an incarnation of a log, in characters."""

EARLIEST: Final = -2
"""Stands for the first offset of a partition where an offset is asked for (Kafka's ListOffsets number)."""

LATEST: Final = -1
"""Stands for the end of a partition where an offset is asked for (Kafka's ListOffsets number)."""


_TOPIC: Final = re.compile(rf"[a-zA-Z0-9._-]{{1,{MAX_TOPIC_LENGTH}}}")


def why_bad_topic(name: str) -> str | None:
    """Say why Kafka can have no topic of this name, or return None."""
    if _TOPIC.fullmatch(name) and name not in {".", ".."}:
        return None
    return f"{name[:250]!r} is no name of a Kafka topic: 1 to {MAX_TOPIC_LENGTH} of a-z A-Z 0-9 . _ - are allowed"


def why_bad_partition(topic: str, number: int) -> str | None:
    """Say why Kafka can have no such partition, or return None."""
    if why := why_bad_topic(topic):
        return why
    if number < 0:
        return f"partition {number} of {topic} is negative"
    if number > MAX_PARTITION:
        return f"partition {number} of {topic} is more than Kafka can number; {MAX_PARTITION} is the last"
    return None


def why_bad_time(timestamp_ms: int) -> str | None:
    """Say why Kafka cannot be asked about a time, or return None."""
    if timestamp_ms < 0:
        return f"the timestamp {timestamp_ms} is negative"
    if timestamp_ms > MAX_OFFSET:
        return f"the timestamp {timestamp_ms} is later than Kafka can say; {MAX_OFFSET} is the last, in milliseconds"
    return None


def why_bad_topic_id(text: str) -> str | None:
    """Say why a text cannot be Kafka's id of a topic, or return None; an empty one stands for an unknown id."""
    if len(text) > MAX_ID_LENGTH or not text.isprintable():
        return f"the id of a topic has at most {MAX_ID_LENGTH} characters, which can be printed"
    return None


def why_bad_id(text: str) -> str | None:
    """Say what is wrong with an id, or return None when it is a good one."""
    if not text:
        return "it is empty"
    if len(text) > MAX_ID_LENGTH:
        return f"it has {len(text)} characters and at most {MAX_ID_LENGTH} are allowed"
    if text != text.strip():
        return "it begins or ends with a space"
    if not text.isprintable():
        return "it contains a control or other unprintable character"
    if text in {".", ".."} or "/" in text or "\\" in text:
        return "it is or contains a path separator or a dot name"
    return None
