"""The index of a group's members by what they said of themselves: its programs, topics, assignors.

Kept by replay alone. A group without members has nothing of it, and groups without members are many: they share one.
"""

from dataclasses import dataclass, field
from typing import Final

from coordinator.core.groups.partitions.no_entries import NO_ENTRIES
from coordinator.core.groups.partitions.partition_table import TopicPartition


@dataclass(slots=True)
class FactsIndex:
    """The members of one group, by what each said of itself."""

    instances: dict[str, str] = field(default_factory=dict)
    """The member of each instance id."""
    applications: dict[str, set[str]] = field(default_factory=dict)
    """The members of each program that names itself; no empty sets."""
    readers: set[str] = field(default_factory=set)
    """The members that commit nothing."""
    explicit: dict[TopicPartition, str] = field(default_factory=dict)
    """The member that names a partition for itself."""
    patterns: dict[str, int] = field(default_factory=dict)
    """The number of members that subscribe by a pattern; no zeros."""
    subscribers: dict[str, int] = field(default_factory=dict)
    """The number of members that subscribe to a topic; no zeros."""
    assignor_supporters: dict[str, int] = field(default_factory=dict)
    """The number of members that name an assignor; no zeros."""
    assignor_favourites: dict[str, int] = field(default_factory=dict)
    """The number of members that name an assignor first; no zeros."""


NO_FACTS: Final = FactsIndex(
    instances=NO_ENTRIES,
    applications=NO_ENTRIES,
    explicit=NO_ENTRIES,
    patterns=NO_ENTRIES,
    subscribers=NO_ENTRIES,
    assignor_supporters=NO_ENTRIES,
    assignor_favourites=NO_ENTRIES,
)
"""The index of groups without members, to read."""
