"""Groups made by hand, in states that no short story leads to."""

from collections.abc import Collection, Mapping, Sequence

from coordinator.core.groups.hard.records import CommittedPart, TopicCommit
from coordinator.core.groups.hard.replay.changes import own
from coordinator.core.groups.hard.state import Grant, GroupState
from coordinator.core.groups.hard.tables.claim_table import ClaimTable, OpenClaims, Owner
from coordinator.core.groups.partitions.partition_table import PartitionTable, TopicPartition

ALL: tuple[TopicPartition, ...] = (*[("t", number) for number in range(5)], ("u", 0), ("u", 1))
MINE = Grant("m1", "id", 7)


def group_of(
    others: Mapping[TopicPartition, Grant | None],
    apart: Collection[TopicPartition],
    unclaimed: Collection[TopicPartition],
    committed: Mapping[TopicPartition, int | None],
    *,
    is_running: bool,
) -> GroupState:
    """Return a group of which m1 has all but `others`, committed at 10 and claimed up to 15 but for what is named.

    Claims that are `apart` were made one by one and do otherwise than the rest.
    """
    group = GroupState("g", grants=PartitionTable(), claims=ClaimTable())
    for topic, numbers in (("t", range(5)), ("u", range(2))):
        group.offsets.write_together(TopicCommit(topic, "id", 1, tuple(numbers), (10,) * len(numbers)))
        claimed: dict[Grant, list[int]] = {}
        for number in numbers:
            grant = others.get((topic, number), MINE)
            if grant is not None and (topic, number) not in unclaimed:
                claimed.setdefault(grant, []).append(number)
        for grant, whole in claimed.items():
            _open(group, topic, whole, grant, is_running=is_running)
            for number in whole:
                if (topic, number) in apart:
                    _open(group, topic, [number], grant, is_running=not is_running)
    for partition in ALL:
        grant = others.get(partition, MINE)
        if grant is not None:
            group.grants[partition] = grant
            own(group, grant.member_id, partition[0], partition[1:])
        offset = committed.get(partition, 10)
        if offset is None:
            del group.offsets[partition]
        elif offset != 10:
            group.offsets.write(CommittedPart(partition[0], "id", partition[1], offset, None, "", 1, 7))
    return group


def _open(group: GroupState, topic: str, numbers: Sequence[int], grant: Grant, *, is_running: bool) -> None:
    count = len(numbers)
    claims = OpenClaims(tuple(numbers), (10,) * count, (15,) * count, is_running)
    owner = Owner(group.grants.changes, grant.member_id, grant.topic_id, (grant.owner_epoch,) * count)
    group.claims.open(topic, claims, owner)
