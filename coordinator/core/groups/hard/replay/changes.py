"""The small changes of which replay is made: an offset written, a claim closed, a partition let go, an index kept."""

from collections.abc import Hashable, Iterable, Sequence
from typing import TypeVar

from msgspec.structs import replace

from coordinator.core.groups.hard.facts_index import NO_FACTS
from coordinator.core.groups.hard.records import CommittedPart
from coordinator.core.groups.hard.state import Grant, GroupState
from coordinator.core.groups.hard.tables.claim_table import NO_CLAIMS
from coordinator.core.groups.hard.tables.committed_table import Together
from coordinator.core.groups.partitions.no_entries import NO_ENTRIES
from coordinator.core.groups.partitions.partition_set import NOTHING, PartitionSet
from coordinator.core.groups.partitions.partition_table import NO_PARTITIONS, TopicPartition, numbers_by_topic

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


def commit(group: GroupState, parts: Iterable[CommittedPart]) -> None:
    """Write committed offsets."""
    for part in parts:
        group.offsets.write(part)


def start_by_policy(group: GroupState, partitions: Iterable[TopicPartition]) -> None:
    """Have partitions start by the policy alone."""
    marked = group.by_policy.copy()
    for topic, numbers in numbers_by_topic(partitions).items():
        marked.add_all(topic, sorted(set(numbers)))
    group.by_policy = marked


def start_as_usual(group: GroupState, topic: str, numbers: Sequence[int]) -> None:
    """Have partitions of a topic start by the policy alone no longer, as far as they were to."""
    if group.by_policy.numbers(topic):
        marked = group.by_policy.copy()
        marked.discard_all(topic, numbers)
        group.by_policy = marked or NOTHING


def release(group: GroupState, partition: TopicPartition) -> None:
    """End the grant of a partition and whatever hangs on it."""
    owner = group.grants.pop(partition).member_id
    group.claims.close(partition)
    _own_no_longer(group, owner, partition[0], partition[1:])


def release_together(group: GroupState, topic: str, numbers: Sequence[int]) -> None:
    """End the grants of partitions of a topic, whoever has them."""
    rows = group.grants.rows_to_fill(topic)
    by_owner: dict[str, list[int]] = {}
    for number in numbers:
        by_owner.setdefault(rows.pop(number).member_id, []).append(number)
    if not rows:
        group.grants.drop(topic)
    group.claims.close_all(topic, numbers)
    for owner, theirs in by_owner.items():
        _own_no_longer(group, owner, topic, theirs)


def release_each(group: GroupState, partitions: Iterable[TopicPartition]) -> None:
    """End the grants of partitions of any topics, whoever has them."""
    for topic, numbers in numbers_by_topic(partitions).items():
        release_together(group, topic, numbers)


def own(group: GroupState, member_id: str, topic: str, numbers: Sequence[int]) -> None:
    """Keep the index of what owners have, when a member is granted partitions of a topic, which ascend."""
    owned = group.owned.get(member_id)
    if owned is None:
        if group.owned is NO_ENTRIES:
            group.owned = {}
        owned = group.owned[member_id] = PartitionSet()
    owned.add_all(topic, numbers)


def _own_no_longer(group: GroupState, owner: str, topic: str, numbers: Sequence[int]) -> None:
    """Keep the indexes of what owners have and have to let go of, when their grants are over."""
    owned = group.owned.get(owner)
    if owned is not None:
        owned.discard_all(topic, numbers)
        if not owned:
            del group.owned[owner]
    if owner in group.stopping:
        for number in numbers:
            discard(group.stopping, owner, (topic, number))
    if owner not in group.members and owner not in group.owned:
        await_no_longer(group, owner)
        share_again(group)


def share_again(group: GroupState) -> None:
    """Have a group without members share with others what it has nothing of any more.

    A table of grants begins with the same numbers of changes as the one before, which only sessions of members and
    claims may have remembered: there are none of either.
    """
    if group.members:
        return
    group.members, group.by_facts, group.target_owners = NO_ENTRIES, NO_FACTS, NO_PARTITIONS
    if not group.owned:
        group.owned = group.stopping = group.awaited = group.left_by = NO_ENTRIES
        group.grants, group.claims = NO_PARTITIONS, NO_CLAIMS


def release_all(group: GroupState, member_id: str, *, keeps_running_claims: bool) -> None:
    """End the grants of a member that is gone, but for running claims that are kept: those it lets go of no more."""
    stopping = group.stopping.pop(member_id, ())
    kept = PartitionSet()
    for topic, owned in group.owned.pop(member_id, NOTHING).columns():
        grants = group.grants.rows_to_fill(topic)
        ended = group.claims.idle_of(member_id, topic, owned) if keeps_running_claims else owned
        if len(ended) < len(owned):
            kept.add_all(topic, owned)
            kept.discard_all(topic, ended)
            if stopping:
                have_stop_why(grants, {one[1] for one in stopping if one[0] == topic}.difference(ended), None)
            if not ended:
                continue
            group.claims.close_all(topic, ended)
        else:
            group.claims.close_of(member_id, topic, ended)
        if len(ended) == len(grants):
            grants.clear()
        for number in ended if grants else ():
            del grants[number]
        if not grants:
            group.grants.drop(topic)
    if kept:
        group.owned[member_id] = kept  # its own: some has just been taken out
    else:
        await_no_longer(group, member_id)


def have_stop_why(grants: dict[int, Grant], numbers: Iterable[int], why: str | None) -> None:
    """Have owners let go of partitions of a topic for a reason, or for none; grants that are alike are one value."""
    changed: dict[int, tuple[Grant, Grant]] = {}
    for number in numbers:
        grant = grants[number]
        known = changed.get(id(grant))
        if known is None:
            # With the one before, whose identity is nobody else's as long as it is kept.
            known = changed[id(grant)] = (grant, replace(grant, stop_why=why))
        grants[number] = known[1]


def await_by_instance_id(group: GroupState, instance_id: str, member_id: str) -> None:
    """Note by which instance id a member that is gone would be known again."""
    if group.awaited is NO_ENTRIES:
        group.awaited = {}
    group.awaited[instance_id] = member_id


def keep_principal(group: GroupState, member_id: str, principal: str) -> None:
    """Note whose a member was that is gone and left running claims."""
    if group.left_by is NO_ENTRIES:
        group.left_by = {}
    group.left_by[member_id] = principal


def await_no_longer(group: GroupState, member_id: str) -> None:
    """Forget by which instance id a member that was gone would be known again, and whose it was."""
    if member_id in group.left_by:
        del group.left_by[member_id]
    for instance_id in [instance_id for instance_id, awaited in group.awaited.items() if awaited == member_id]:
        del group.awaited[instance_id]


def discard(index: dict[K, set[V]], key: K, value: V) -> None:
    """Take a value out of an index without leaving an empty set."""
    values = index.get(key)
    if values is not None:
        values.discard(value)
        if not values:
            del index[key]


def drop_offered(group: GroupState, member_id: str) -> None:
    """Close the claims of an owner that are offered and not running."""
    for topic, numbers in offered_to(group, member_id).items():
        group.claims.close_all(topic, numbers)


def offered_to(group: GroupState, member_id: str) -> dict[str, list[int]]:
    """Return the partitions, by topic, on which an owner has claims that do not run."""
    found: dict[str, list[int]] = {}
    for topic, numbers in group.claims.offered_to(member_id):
        found.setdefault(topic, []).extend(numbers)
    return found


def positions_of(group: GroupState, topic: str, numbers: tuple[int, ...]) -> tuple[int, ...]:
    """Return the committed offsets of partitions, which have one; those of a piece that is whole at once."""
    rows = group.offsets.rows(topic)
    offsets: list[int] = []
    at, count = 0, len(numbers)
    while at < count:
        found = rows[numbers[at]]
        if isinstance(found, Together):
            commit = found.commit
            end = at + len(commit.partitions)
            if found.is_whole and commit.partitions == numbers[at:end]:
                offsets += commit.offsets
                at = end
                continue
        offsets.append(found.position_of(numbers[at])[0])
        at += 1
    return tuple(offsets)
