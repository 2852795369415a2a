"""Numbers and texts that nodes say to each other, with their ranges.

A value out of its range is no message at all: reading it fails, which costs the connection it came on. So nobody who
takes a message has to ask whether a number fits. The ranges are those of logs and of what is in ZooKeeper.
"""

from typing import Annotated, Final, TypeAlias, TypeVar

import msgspec

MAX_NODE_ID: Final = 2**31 - 1
MAX_COUNT: Final = 2**62
MAX_LEADER_EPOCH: Final = 2**32 - 1
"""As a frame of a log has it."""
MAX_OFFSET: Final = 2**48 - 1
"""Likewise."""
MAX_ITEMS: Final = 100_000
"""Most items of one list: as many as a cluster may have shards."""
MAX_TEXT: Final = 4_096
"""Longest text, in characters."""
MAX_WHY: Final = 500
"""Longest reason, in characters; whoever says one cuts it there."""

_Item = TypeVar("_Item")

Shard: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=MAX_ITEMS - 1)]
NodeId: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=MAX_NODE_ID)]
Count: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=MAX_COUNT)]
"""Epochs of nodes and controllers, versions in ZooKeeper, and everything that a node counts by itself."""
LeaderEpoch: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=MAX_LEADER_EPOCH)]
LastEpoch: TypeAlias = Annotated[int, msgspec.Meta(ge=-1, le=MAX_LEADER_EPOCH)]
"""The leader epoch of a log's last record, -1 of a log that never had one."""
Offset: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=MAX_OFFSET)]
"""An offset of a shard's log, or the end of one."""
Record: TypeAlias = Annotated[bytes, msgspec.Meta(min_length=1)]
Text: TypeAlias = Annotated[str, msgspec.Meta(max_length=MAX_TEXT)]
Why: TypeAlias = Annotated[str, msgspec.Meta(max_length=MAX_WHY)]
Listed: TypeAlias = Annotated[tuple[_Item, ...], msgspec.Meta(max_length=MAX_ITEMS)]


class Part(msgspec.Struct, frozen=True, array_like=True):
    """A piece of a message; as with messages, a new field comes last and has a default."""
