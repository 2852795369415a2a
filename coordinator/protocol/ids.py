"""Names of things that are said on the wire, and the rule that keeps bad names out.

Group, member and instance ids are text of 1 to 250 characters without control characters, so that an id can stand in
a log line, a metric label or a table without being escaped. Nothing here knows what an id is used for.
"""

from typing import Final

MAX_ID_LENGTH: Final = 250
"""Longest group, member or instance id, in characters."""

MAX_METADATA_BYTES: Final = 4096
"""Largest metadata of one committed offset, in bytes of UTF-8."""

MAX_LIST_ITEMS: Final = 20_000
"""Most items in any one list of a request, so that a frame of tiny items cannot become a heap of objects."""

MAX_TOPIC_LENGTH: Final = 249
"""Longest name of a topic, in characters; it is Kafka's."""

EARLIEST: Final = -2
"""Stands for the first offset of a partition where an offset is asked for (Kafka's ListOffsets number)."""

LATEST: Final = -1
"""Stands for the end of a partition where an offset is asked for (Kafka's ListOffsets number)."""


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
