"""Reads a group's timeline: a sentence an event for people, and the figures of the hand-over. Pure.

The kinds of event are the coordinator's; one that is not known here is shown as it is, so that a newer coordinator
hides nothing.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from coordinator.protocol.parts import GroupEvent
from coordinator.protocol.vocabulary import EventKind

_SENTENCES: Final[Mapping[str, str]] = {
    EventKind.MEMBER_JOINED: "{member} joined",
    EventKind.MEMBER_RETURNED: "{member} came back",
    EventKind.MEMBER_LEFT: "{member} left",
    EventKind.MEMBER_EXPIRED: "{member} is gone",
    EventKind.MEMBER_REPLACED: "{member} was replaced",
    EventKind.REBALANCE: "rebalance (group epoch {epoch})",
    EventKind.STABLE: "the group is stable (group epoch {epoch})",
    EventKind.GRANTED: "{member} gets {partitions}",
    EventKind.RELEASED: "{member} let go of {partitions}",
    EventKind.TAKEN_OVER: "{partitions} taken over by {member}",
    EventKind.TAKEN_LATE: "{partitions} taken from {member}",
    EventKind.CLAIM_SKIPPED: "a claim on {partitions} was skipped",
    EventKind.START_RESOLVED: "start of {partitions} resolved",
    EventKind.TOPIC_GROWN: "the topic has grown: {partitions}",
    EventKind.TOPIC_RECREATED: "the topic was made again: {partitions}",
}


@dataclass(frozen=True, slots=True)
class Handover:
    """The timeline's entries about partitions that lost their owner by its death."""

    partitions: frozenset[int]
    claimed: frozenset[int]
    """Those that were being read: their claim was taken over, after the grace."""
    last_grant_ms: int
    """Wall-clock time of the last of their grants to the survivor."""


def describe_event(event: GroupEvent, names: Mapping[str, str]) -> str:
    """Return one line that says what happened, to whom and why; `names` are the members' readable names."""
    template = _SENTENCES.get(event.kind, "{kind} {member} {partitions}")
    text = template.format(
        kind=event.kind,
        member=names.get(event.member_id, event.member_id) or "the group",
        partitions=name_partitions([partition for _topic, partition in event.partitions]),
        epoch=event.group_epoch,
    ).strip()
    why = event.why
    for member_id, name in names.items():
        if member_id:
            why = why.replace(member_id, name)
    took = f" ({event.duration_ms} ms)" if event.duration_ms is not None else ""
    return f"{text}{took}" if why in text else f"{text}: {why}{took}"


def name_partitions(partitions: Sequence[int]) -> str:
    """Return `partition 3` or `partitions 0-2, 5`; empty for none."""
    if not partitions:
        return ""
    ordered = sorted(set(partitions))
    runs: list[list[int]] = []
    for partition in ordered:
        if runs and partition == runs[-1][-1] + 1:
            runs[-1].append(partition)
        else:
            runs.append([partition])
    text = ", ".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs)
    return f"partition {text}" if len(ordered) == 1 else f"partitions {text}"


def granted_to(events: Iterable[GroupEvent], member_id: str) -> frozenset[int]:
    """Return every partition that the member was granted in these events."""
    return frozenset(
        partition
        for event in events
        if event.kind == EventKind.GRANTED and event.member_id == member_id
        for _topic, partition in event.partitions
    )


def find_handover(events: Iterable[GroupEvent], survivor: str, lost: frozenset[int]) -> Handover | None:
    """Return the hand-over of the `lost` partitions to the survivor, or None while one of them is not granted yet.

    `events` are those since the owner's death.
    """
    granted: dict[int, int] = {}
    claimed: set[int] = set()
    for event in events:
        partitions = {partition for _topic, partition in event.partitions} & lost
        if event.kind == EventKind.TAKEN_OVER:
            claimed |= partitions
        elif event.kind == EventKind.GRANTED and event.member_id == survivor:
            granted = dict.fromkeys(partitions, event.at_ms) | granted
    if not lost or granted.keys() != lost:
        return None
    return Handover(lost, frozenset(claimed), max(granted.values()))
