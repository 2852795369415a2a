"""What an assignor is: a pure function from members and partitions to who reads what.

An assignor sees names and numbers only. It knows nothing of epochs, of connections or of what is being stopped: it
says where partitions belong, and reconciliation brings them there.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

import msgspec

TopicPartition: TypeAlias = tuple[str, int]


class AssignorMember(msgspec.Struct, frozen=True, gc=False):
    """One member: what it subscribes to, and its capacity in streams (less than one counts as one)."""

    member_id: str
    topics: frozenset[str]
    streams: int

    @property
    def weight(self) -> int:
        """The share of the work this member takes, relative to the others."""
        return max(1, self.streams)


@dataclass(frozen=True, slots=True)
class AssignorInput:
    """All that an assignment is made from.

    `partitions` maps a topic to its number of partitions; a topic that is missing has none. `current` is who has what
    now; it may name members that are gone and partitions that do not exist, which are passed over.
    """

    members: tuple[AssignorMember, ...]
    partitions: Mapping[str, int]
    current: Mapping[str, frozenset[TopicPartition]]


Assignor: TypeAlias = Callable[[AssignorInput], Mapping[str, frozenset[TopicPartition]]]
"""Answers with an entry for every member, which may be empty.

Every assignor gives each partition of a subscribed topic to exactly one member that subscribes to it, and answers equal
inputs alike, whatever the order of members and mappings and whatever the hash seed.
"""
