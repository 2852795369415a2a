"""The decisions of operators about a group that stand: pauses, drained members and pending resets.

Hard state, changed by replay alone. A pause takes nothing out of the target: a paused partition keeps its place there
and is held by nobody until it is resumed (decision 0004).
"""

from dataclasses import dataclass, field
from typing import Final

from coordinator.core.groups.partitions.no_entries import NO_ENTRIES
from coordinator.core.groups.partitions.partition_table import TopicPartition


@dataclass(frozen=True, slots=True)
class Decree:
    """The author of a decision, the reason, and the time on the wall clock."""

    who: str
    why: str
    at_ms: int

    def said(self) -> str:
        """Say who and why, for a reason that people read."""
        return say_by(self.who, self.why)


@dataclass(frozen=True, slots=True)
class PendingReset:
    """An offset that is to be committed once nobody owns the partition.

    With `releases_claims` a running claim whose owner is gone does not keep it waiting.
    """

    topic_id: str
    offset: int
    leader_epoch: int | None
    releases_claims: bool
    decree: Decree


@dataclass(slots=True)
class Controls:
    """The decisions of operators about one group that stand."""

    group_pause: Decree | None = None
    paused: dict[TopicPartition, Decree] = field(default_factory=dict)
    """Partitions paused by themselves, whether or not the group is."""
    drained: dict[str, Decree] = field(default_factory=dict)
    """Members that are to have no partitions; forgotten when the member is gone."""
    resets: dict[TopicPartition, PendingReset] = field(default_factory=dict)
    bytes: int = 0
    """Bytes of all of that in the group's account; see `account`."""

    @property
    def holds_back(self) -> bool:
        """True when there are partitions that nobody may hold now, whatever the target says."""
        return bool(self.group_pause or self.paused or self.resets)

    def pause_of(self, partition: TopicPartition) -> Decree | None:
        """Return why nobody may hold a partition, if it is paused, by itself or with its group."""
        return self.paused.get(partition) or self.group_pause


NO_CONTROLS: Final = Controls(paused=NO_ENTRIES, drained=NO_ENTRIES, resets=NO_ENTRIES)
"""The controls of groups about which no operator has decided anything, to read."""


def say_by(who: str, why: str) -> str:
    """Write who did something and, when a reason was given, why."""
    return f"by {who}: {why}" if why else f"by {who}"
