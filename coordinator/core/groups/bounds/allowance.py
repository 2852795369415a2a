"""The room for what a request would add to the state: in its group, for its principal and on the node.

The account is `account`'s. Every request that lets state grow is asked about before a record of it is made, and is
refused with the limit that it would pass, how much is in use, the setting that raises it and the verbs that free some.
A request that frees state, or takes no more than before, is never refused, nor is a member that is back as it was: it
may have been away for a moment only. One that was removed meanwhile has left room which others may have taken since: a
part of each limit is kept for members that bring their group nothing new, and for operators, who else could not stop
what fills a node. State that grows because Kafka's topics do is counted and not refused, so a group can be above its
limit: it then takes nothing more.
"""

from collections.abc import Iterable, Sequence
from typing import Final

from msgspec.structs import replace

from coordinator.core.groups.desk import Desk
from coordinator.core.groups.hard.account import (
    ANONYMOUS,
    GROUP_BYTES,
    TARGET_BYTES,
    TOPIC_BYTES,
    bytes_of,
    bytes_of_decree,
    bytes_of_facts,
    principal_of,
)
from coordinator.core.groups.hard.controls import Decree
from coordinator.core.groups.hard.records import CommittedPart, MemberFacts
from coordinator.core.groups.hard.state import GroupState
from coordinator.core.groups.hard.tables.committed_table import OFFSET_BYTES, bytes_of_metadata
from coordinator.core.groups.soft.sessions import Connection
from coordinator.core.node_wide import GROUPS_OF_PRINCIPAL
from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.messages.operators import ResetOffsets

Refused = tuple[ErrorCode, str]

_RESERVE: Final = 16
"""One part in so many of each limit, above it, is kept for members that bring nothing new and for operators."""


def why_no_more_groups(desk: Desk, connection: Connection) -> Refused | None:
    """Say why no new group is made for a connection, or return None."""
    limits, owner = desk.limits, connection.owner
    if len(desk.journal.state.groups) >= limits.groups_max:
        why = f"this node has {limits.groups_max} groups in one shard and takes no more; use another group"
        setting = "group.groups_max"
    elif desk.usage.groups_of(owner) >= limits.principal_max_groups:
        why = (
            f"{owner} has made {limits.principal_max_groups} groups on this node and may have no more; delete groups "
            "that nobody needs (`kcoord group delete`), or raise group.principal_max_groups"
        )
        setting = GROUPS_OF_PRINCIPAL
    else:
        return None
    desk.note_reached(setting, connection, why)
    return ErrorCode.GROUP_MAX_SIZE_REACHED, why


def why_no_room(
    desk: Desk, group: GroupState | None, more: int, *, may_use_reserve: bool = False, owner: str = ANONYMOUS
) -> Refused | None:
    """Say why a group, or a new one of `owner`, may not take so many bytes more; None when it may, and for no more."""
    if more <= 0:
        return None
    limits = desk.limits
    principal = principal_of(group) if group is not None else owner
    used_by_group = bytes_of(group) if group is not None else 0
    used_by_principal, used = desk.usage.of(principal)
    parts = _RESERVE + may_use_reserve
    if used_by_group + more > limits.group_max_bytes * parts // _RESERVE:
        what, taken, most, setting = "the group takes", used_by_group, limits.group_max_bytes, "group_max_bytes"
    elif used_by_principal + more > limits.principal_max_bytes * parts // _RESERVE:
        what, taken = f"all groups of principal {principal} take", used_by_principal
        most, setting = limits.principal_max_bytes, "principal_max_bytes"
    elif used + more > limits.node_max_bytes * parts // _RESERVE:
        what, taken, most, setting = "all groups of this node take", used, limits.node_max_bytes, "node_max_bytes"
    else:
        return None
    desk.node_wide.reached[f"group.{setting}"] += 1
    why = (
        f"this would take {more} bytes of state more, {what} {taken} already, and the limit is {most}; delete offsets "
        "or groups that nobody needs (`kcoord group delete-offsets`, `kcoord group delete`), commit less metadata, or "
        f"raise group.{setting}"
    )
    return ErrorCode.STATE_LIMIT_REACHED, why


def growth_of_offsets(group: GroupState, parts: Iterable[CommittedPart]) -> int:
    """Return how many bytes more a group takes once these offsets are written."""
    more = 0
    for part in parts:
        before = group.offsets.get((part.topic, part.partition))
        more += bytes_of_metadata(part.metadata)
        more += OFFSET_BYTES if before is None else -bytes_of_metadata(before.metadata)
    return more


def offsets_with_room(
    desk: Desk, group: GroupState, parts: Sequence[CommittedPart], more: int = 0, *, is_new_group: bool = False
) -> tuple[tuple[CommittedPart, ...], dict[tuple[str, int], Refused]]:
    """Return the offsets for which there is room, one after the other, and why there is none for the others.

    `more` bytes are about to be added besides.
    """
    known = None if is_new_group else group
    more += GROUP_BYTES + len(group.group_id) if is_new_group else 0
    growth = growth_of_offsets(group, parts)
    owner = principal_of(group)
    if growth <= 0 or why_no_room(desk, known, more + growth, owner=owner) is None:
        return tuple(parts), {}
    taken: list[CommittedPart] = []
    refused: dict[tuple[str, int], Refused] = {}
    for part in parts:
        growth = growth_of_offsets(group, (part,))
        why = why_no_room(desk, known, more + growth, owner=owner) if growth > 0 else None
        if why is None:
            taken.append(part)
            more += growth
        else:
            refused[part.topic, part.partition] = why
    return tuple(taken), refused


def why_no_room_for_resets(desk: Desk, group: GroupState | None, request: ResetOffsets, owner: str) -> Refused | None:
    """Say why a group, or a new one of `owner`, may not take the resets that a request asks for; None when it may."""
    more = growth_of_resets(group or GroupState(request.group_id), request)
    more += GROUP_BYTES + len(request.group_id) if group is None else 0
    return why_no_room(desk, group, more, may_use_reserve=True, owner=owner)


def growth_of_resets(group: GroupState, request: ResetOffsets) -> int:
    """Return how many bytes more a group takes with resets that are pending, and once they are done."""
    decree = Decree(request.who, request.why, 0)
    resets, offsets = group.controls.resets, group.offsets
    more_of = {topic: bytes_of_decree(topic, decree) for topic in {target.topic for target in request.targets}}
    more = 0
    for target in request.targets:
        partition = (target.topic, target.partition)
        more += more_of[target.topic]
        if resets and (before := resets.get(partition)) is not None:
            more -= bytes_of_decree(target.topic, before.decree)
        if partition not in offsets:
            more += OFFSET_BYTES
    return more


def without_metadata_that_has_no_room(
    desk: Desk, group: GroupState, parts: tuple[CommittedPart, ...]
) -> tuple[CommittedPart, ...]:
    """Return final offsets as they are written: what is let go of is never refused, so metadata is left out of it."""
    if not any(part.metadata for part in parts) or why_no_room(desk, group, growth_of_offsets(group, parts)) is None:
        return parts
    return tuple(replace(part, metadata="") for part in parts)


def is_as_it_was(old: MemberFacts, facts: MemberFacts) -> bool:
    """True when a member that is back, perhaps as another process, asks for what it asked for before.

    It shows where it has come to since; and what its pattern matches by now is Kafka's doing.
    """
    topics = facts.topics if facts.pattern is None else old.topics
    told = replace(
        facts,
        topics=topics,
        hints=old.hints,
        incarnation=old.incarnation,
        client_id=old.client_id,
        host=old.host,
        pid=old.pid,
        principal=old.principal,
    )
    return told == old


def brings_nothing_new(group: GroupState | None, facts: MemberFacts) -> bool:
    """True when a group that is known has all topics that a member names; what a pattern matches is Kafka's doing."""
    return group is not None and (facts.pattern is not None or group.topics.keys() >= set(facts.topics))


def growth_of_member(
    desk: Desk, group: GroupState | None, old: MemberFacts | None, facts: MemberFacts, group_id: str
) -> int:
    """Return how many bytes more there are once a member has registered and has what it may be given."""
    more = bytes_of_facts(facts) - (bytes_of_facts(old) if old is not None else 0)
    if group is None:
        more += GROUP_BYTES + len(group_id)
    a_partition = TARGET_BYTES + (OFFSET_BYTES if facts.commits else 0)
    for topic in facts.topics:
        if group is None or topic not in group.topics:
            known = desk.catalog.topic(topic)
            more += TOPIC_BYTES + len(topic) + a_partition * (known.partitions if known is not None else 0)
    return more
