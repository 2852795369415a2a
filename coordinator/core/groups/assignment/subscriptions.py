"""The topics that a subscription stands for: by name, by pattern or as explicit partitions, less the exclusions.

Patterns are RE2's, matched against the whole name: an engine whose time is at most the length of the name times the
instructions that it makes of the pattern, which have a bound. It has therefore no lookaround and no back-references,
which are refused with their position. Explicit partitions are their member's alone and are never rebalanced.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Final

import re2

from coordinator.core.groups.hard.held_claims import awaited_owners, is_held, say_awaited
from coordinator.core.groups.hard.state import GroupState
from coordinator.core.groups.partitions.partition_table import TopicPartition
from coordinator.core.limits import Limits
from coordinator.core.matching import compiled
from coordinator.protocol.ids import MAX_PARTITION, why_bad_partition, why_bad_topic
from coordinator.protocol.parts import Subscription

MAX_PATTERN_LENGTH: Final = 1_000
"""Longest pattern, in characters."""
MAX_PATTERN_SIZE: Final = 2_500
"""Most instructions that RE2 may make of a pattern. An alternation of a thousand characters takes about as many, and
`.{0,249}` 2,245; the costliest pattern of this size takes 1.3 ms for a name of 249 characters, 0.2 ms for one of 40."""


def why_bad_pattern(pattern: str) -> str | None:
    """Say what is wrong with a pattern and where, or return None."""
    if len(pattern) > MAX_PATTERN_LENGTH:
        return f"it has {len(pattern)} characters and at most {MAX_PATTERN_LENGTH} are allowed"
    if not pattern:
        return "it is empty; '.*' matches every topic"
    try:
        compiled(pattern)
    except re2.error as error:
        said = error.args[0] if error.args else ""
        why = said.decode(errors="replace") if isinstance(said, bytes) else str(said)
        part = why.rpartition(": ")[2]
        at = pattern.find(part)
        where = f" at position {at}" if at >= 0 and part != pattern else ""
        hint = "; lookaround is not supported" if part in {"(?=", "(?!", "(?<", "(?<=", "(?<!"} else ""
        if re.fullmatch(r"\\[1-9]", part) or part == "(?P":
            hint = "; back-references are not supported"
        return f"{why}{where}{hint}"
    return None


def why_costly_pattern(pattern: str) -> str | None:
    """Say that matching a good pattern takes too long, and what to do, or return None."""
    size = compiled(pattern).programsize
    if size <= MAX_PATTERN_SIZE:
        return None
    return (
        f"the pattern {pattern[:100]!r} is not allowed: RE2 makes {size} instructions of it and at most "
        f"{MAX_PATTERN_SIZE} are allowed, since each name takes time for all of them; every repetition counts as often "
        "as it may occur, so write '*' in place of a large number, and ranges like [a-z0-9] in place of \\p{...}"
    )


def named_topics(subscription: Subscription) -> tuple[str, ...]:
    """Return the topics that a subscription names, less the exclusions, sorted; none for a pattern."""
    names = {*subscription.topics, *{topic for topic, _ in subscription.partitions}}
    return tuple(sorted(names.difference(subscription.exclusions)))


def why_bad_subscription(subscription: Subscription, limits: Limits) -> str | None:
    """Say what is wrong with a subscription whatever its group, or return None."""
    kinds = [bool(subscription.topics), subscription.pattern is not None, bool(subscription.partitions)]
    if not any(kinds):
        return "the subscription names no topic; name topics, a pattern or partitions"
    if sum(kinds) > 1:
        return "a subscription is by topics, by a pattern or by partitions; choose one"
    if subscription.pattern is not None and (why := why_bad_pattern(subscription.pattern)):
        return f"the pattern {subscription.pattern[:100]!r} is not allowed: {why}"
    if subscription.partitions and subscription.exclusions:
        return "exclusions belong to topics or a pattern, not to partitions; leave those partitions out"
    named = {*subscription.topics, *subscription.exclusions, *{topic for topic, _ in subscription.partitions}}
    if len(named) > limits.subscription_max_topics:
        return (
            f"the subscription names {len(named)} topics and at most {limits.subscription_max_topics} are allowed; "
            "subscribe by a pattern"
        )
    for topic in sorted(named):
        if why := why_bad_topic(topic):
            return why
    if subscription.topics and not named_topics(subscription):
        return "the subscription excludes every topic it names; name at least one that it does not"
    numbers = [number for _, number in subscription.partitions]  # the names are good
    if numbers and (min(numbers) < 0 or max(numbers) > MAX_PARTITION):
        bad = next(one for one in subscription.partitions if not 0 <= one[1] <= MAX_PARTITION)
        return why_bad_partition(*bad)
    return None


def why_owned(group: GroupState, member_id: str, partitions: Iterable[TopicPartition]) -> str | None:
    """Say whose an explicit partition is already, if it is somebody else's."""
    named, may_be_held = group.by_facts.explicit, any(owner != member_id for owner in awaited_owners(group))
    for partition in partitions:
        owner = named.get(partition)
        if owner is not None and owner != member_id:
            name = f"{partition[0]}-{partition[1]}"
            return (
                f"partition {name} is owned by member {owner}, which named it first; choose another, or stop that one"
            )
        if may_be_held and is_held(group, partition) and group.grants[partition].member_id != member_id:
            name, whose = f"{partition[0]}-{partition[1]}", say_awaited(group, group.grants[partition].member_id)
            return f"partition {name} is owned by {whose}, who is away and left a running claim on it; release it first"
    return None


def why_no_such_partition(sizes: Mapping[str, int], partitions: Iterable[TopicPartition]) -> str | None:
    """Say which explicit partition does not exist in a topic of known size, or return None."""
    for topic, partition in sorted(partitions):
        if topic in sizes and partition >= sizes[topic]:
            return f"topic {topic} has {sizes[topic]} partitions and no partition {partition}; name one that it has"
    return None


def explicit_target(sizes: Mapping[str, int], partitions: Iterable[TopicPartition]) -> frozenset[TopicPartition]:
    """Return which of the partitions that a member names exist in topics of known size; others have none."""
    return frozenset([partition for partition in partitions if partition[1] < sizes.get(partition[0], 0)])
