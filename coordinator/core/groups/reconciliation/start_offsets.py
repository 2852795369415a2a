"""The start of a partition: decided once, from what is known, or by a question to Kafka.

In this order: the group's committed offset for this very topic; the end that a member's checkpoint shows; an option of
a member; the group's policy. Partitions that came after the group first saw the topic start at its beginning instead of
by policy or option; so do all of a topic that somebody brought who had been in the group before, since others may have
read of it what nobody here knows. Partitions whose offset was taken from them start by the policy alone. What is
unknown is never taken for offset 0.
"""

from collections.abc import Iterable
from functools import lru_cache
from typing import Final, TypeAlias

import msgspec

from coordinator.core.groups.hard.state import GroupState, TopicState
from coordinator.core.groups.partitions.partition_table import TopicPartition, is_same_topic
from coordinator.core.groups.soft.hints import Hints
from coordinator.protocol.ids import EARLIEST, LATEST
from coordinator.protocol.parts import ResetPolicy, StartHint
from coordinator.protocol.vocabulary import PolicyKind

DEFAULT_POLICY: Final = ResetPolicy(PolicyKind.LATEST)
"""The policy of a group none of whose members names one."""


class KnownStart(msgspec.Struct, frozen=True, gc=False):
    """The start is known and becomes the committed offset, for the reason given."""

    offset: int
    why: str


class AskedStart(msgspec.Struct, frozen=True, gc=False):
    """Kafka has to say where EARLIEST, LATEST or a timestamp is."""

    timestamp_ms: int
    why: str


class NoStart(msgspec.Struct, frozen=True, gc=False):
    """Nobody says where to start; the partition is not granted until an offset is committed for it."""

    why: str


Start: TypeAlias = KnownStart | AskedStart | NoStart

_BEGINNING_OF_A_LATER_PARTITION: Final = AskedStart(
    EARLIEST, "earliest, because the partition is newer than the group's first look at the topic"
)


def _best(hints: Iterable[StartHint], topic_id: str, *, needs_exact_id: bool) -> StartHint | None:
    """Return the hint that counts: a checkpoint's before an option's, then the newest grant's, then the smallest.

    Who was granted the partition last knows best how far it is; who had it before may have it at less or, since an
    operator can set it back, at more.
    """
    fitting = [
        hint
        for hint in hints
        if (hint.topic_id == topic_id if needs_exact_id else is_same_topic(hint.topic_id, topic_id))
    ]
    return min(fitting, key=_rank) if fitting else None


def _rank(hint: StartHint) -> tuple[bool, int, int]:
    return not hint.from_checkpoint, -1 if hint.owner_epoch is None else -hint.owner_epoch - 2, hint.offset


def start_of(
    group: GroupState, partition: TopicPartition, topic: TopicState, hints: Hints, policy: ResetPolicy | None = None
) -> Start:
    """Decide where a partition starts of which the group has no committed offset; without a policy by the group's."""
    policy = policy or group.reset_policy
    if partition in group.by_policy:
        return policy_start(policy)
    came_later = partition[1] >= topic.first_partitions
    given = hints.get(partition)
    hint = _best(given, topic.topic_id, needs_exact_id=came_later) if given else None
    if hint is not None and (hint.from_checkpoint or not topic.earliest_why):
        source = "a checkpoint" if hint.from_checkpoint else "an option"
        if hint.offset in {EARLIEST, LATEST}:
            return AskedStart(hint.offset, f"{_name(hint.offset)}, by {source} of a member")
        return KnownStart(hint.offset, f"offset {hint.offset}, by {source} of a member")
    if came_later:
        return _BEGINNING_OF_A_LATER_PARTITION
    usual = policy_start(policy)
    if topic.earliest_why and isinstance(usual, AskedStart):
        return _beginning(topic.earliest_why)
    return usual


@lru_cache(maxsize=10)
def _beginning(why: str) -> Start:
    return AskedStart(EARLIEST, f"earliest, because {why}")


def usual_start(group: GroupState) -> Start:
    """Decide where partitions start that the group saw when it first saw the topic, and of which nobody says more."""
    return policy_start(group.reset_policy)


def policy_start(policy: ResetPolicy | None) -> Start:
    """Decide where partitions start by a policy, or by that of groups none of whose members names one."""
    return _by_policy(policy or DEFAULT_POLICY)


@lru_cache(maxsize=1_000)
def _by_policy(policy: ResetPolicy) -> Start:
    if policy.kind == PolicyKind.EARLIEST:
        return AskedStart(EARLIEST, "earliest, by the group's policy")
    if policy.kind == PolicyKind.TIMESTAMP:
        assert policy.timestamp_ms is not None, "a timestamp policy without a timestamp is refused at registration"
        return AskedStart(policy.timestamp_ms, f"timestamp {policy.timestamp_ms}, by the group's policy")
    if policy.kind == PolicyKind.NONE:
        return NoStart("the group has no offset and its policy is none; commit an offset for it")
    return AskedStart(LATEST, "latest, by the group's policy")


def _name(offset: int) -> str:
    return PolicyKind.EARLIEST if offset == EARLIEST else PolicyKind.LATEST
