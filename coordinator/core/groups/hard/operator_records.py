"""The records of what operators did: each says who, why and when.

They are part of a shard's log like those of `records`, which reads and writes them all. Their numbers are 60 to 79.
"""

from typing import TypeAlias

import msgspec


class PlannedReset(msgspec.Struct, frozen=True, array_like=True):
    """The offset that a partition is to be set to once nobody owns it."""

    topic: str
    topic_id: str
    partition: int
    offset: int
    leader_epoch: int | None
    releases_claims: bool


class _Record(msgspec.Struct, frozen=True, array_like=True, tag_field="type"):
    """A record; each class names its number as its tag."""


class PauseChanged(_Record, frozen=True, tag=60):
    """Partitions, or the group itself when none are named, are paused or may run again."""

    group_id: str
    partitions: tuple[tuple[str, int], ...] | None
    is_paused: bool
    who: str
    why: str
    at_ms: int


class DrainChanged(_Record, frozen=True, tag=61):
    """A member is to have no partitions, or may have some again."""

    group_id: str
    member_id: str
    is_drained: bool
    who: str
    why: str
    at_ms: int


class ResetsPlanned(_Record, frozen=True, tag=62):
    """Offsets are to be set once nobody owns the partitions; a reset that was planned before is replaced."""

    group_id: str
    resets: tuple[PlannedReset, ...]
    who: str
    why: str
    at_ms: int


class ResetApplied(_Record, frozen=True, tag=63):
    """A planned reset is done: the grant before it and its claim are over, the offset is committed.

    With a member id the partition is that member's from now on, and the owner epoch is that of this place in the log.
    """

    group_id: str
    topic: str
    topic_id: str
    partition: int
    offset: int
    leader_epoch: int | None
    at_ms: int
    member_id: str | None = None
    owner_epoch: int | None = None


class ResetsCancelled(_Record, frozen=True, tag=64):
    """Planned resets will not be done."""

    group_id: str
    partitions: tuple[tuple[str, int], ...]
    who: str
    why: str
    at_ms: int


class OffsetsDeleted(_Record, frozen=True, tag=65):
    """The committed offsets of partitions that nobody owned are gone."""

    group_id: str
    partitions: tuple[tuple[str, int], ...]
    who: str
    why: str
    at_ms: int


class GroupDeleted(_Record, frozen=True, tag=66):
    """A group without members is gone, with its offsets and all else that was known of it."""

    group_id: str
    who: str
    why: str
    at_ms: int


class ClaimsReleased(_Record, frozen=True, tag=67):
    """The claims on partitions whose owner is gone are closed without a commit, and the partitions are nobody's."""

    group_id: str
    partitions: tuple[tuple[str, int], ...]
    who: str
    why: str
    at_ms: int


OperatorRecord: TypeAlias = (
    PauseChanged
    | DrainChanged
    | ResetsPlanned
    | ResetApplied
    | ResetsCancelled
    | OffsetsDeleted
    | GroupDeleted
    | ClaimsReleased
)
