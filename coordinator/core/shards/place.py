"""The shard of a group, by its name alone: whoever knows how many there are, knows it. Pure."""

import google_crc32c


def shard_of(shards: int, group_id: str) -> int:
    """Return the shard of a group, of so many: crc32c of its UTF-8, modulo their number."""
    return int(google_crc32c.value(group_id.encode())) % shards
