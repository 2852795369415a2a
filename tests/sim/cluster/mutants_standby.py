"""Mistakes in what the standbys of followed shards replay, and in the snapshots that are made of them."""

from dataclasses import replace
from typing import Any

from coordinator.core.cluster_node.standby.feeds import Feed
from coordinator.core.groups.hard import snapshot
from coordinator.core.groups.hard.snapshot import GrowingSnapshot

Patches = list[tuple[Any, str, Any]]


def applies_uncommitted() -> Patches:
    """What is on the disk is replayed, committed or not."""
    return [(Feed, "committed", property(lambda feed: feed.log.durable_end))]


def keeps_what_is_cut() -> Patches:
    """Records in memory stay there when the log is cut, before those that come in their place."""
    return [(Feed, "forget_tail", lambda feed, end: 0)]


def snapshot_past_its_state() -> Patches:
    """A snapshot says that it stands for one record more than were replayed."""
    rightly = GrowingSnapshot.__init__
    return [(GrowingSnapshot, "__init__", lambda growing, state, end: rightly(growing, state, end + 1))]


def snapshot_shares_what_changes() -> Patches:
    """A group that changes before its turn comes in a snapshot is kept as it was in name only: its tables go on."""
    return [(snapshot, "_copy_of", lambda group: replace(group))]
